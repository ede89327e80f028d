// Takes a picture of a page: screenshot.js URL FILE [TEXT[#NUMBER]]… Clicks what has each TEXT first, one after the other.

import { chromium } from "../browser/packages.js";

const [url, file, ...clicks] = process.argv.slice(2);
const args = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])];
const browser = await chromium.launch({ executablePath: process.env.MIDCOURSE_CHROMIUM, args });
const page = await browser.newPage({ viewport: { width: 1700, height: 1100 } });
page.setDefaultTimeout(120_000);
await page.goto(url, { waitUntil: "domcontentloaded" });
await page.getByText("execute_tool").first().waitFor();
for (const click of clicks) {
  const [text, number = "0"] = click.split("#");
  await page.getByText(text).nth(Number(number)).click();
}
await page.waitForTimeout(2_000);
await page.screenshot({ path: file });
await browser.close();
