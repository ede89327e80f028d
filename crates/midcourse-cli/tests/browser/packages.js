// The npm packages of the tests. `install` keeps them outside of the source tree, where `import`
// would not find them.

import { createRequire } from "node:module";
import { join } from "node:path";

const folder = process.env.MIDCOURSE_BROWSER_PACKAGES;
if (!folder) throw new Error("start the tests with crates/midcourse-cli/tests/browser/run");
const require = createRequire(join(folder, "package.json"));

export const { chromium } = require("playwright-core");
export const axeFile = require.resolve("axe-core/axe.min.js");
