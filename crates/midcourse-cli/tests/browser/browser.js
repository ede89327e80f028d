// Chromium with a profile of its own, and pages that remember everything that a safe page never
// does: dialogs, requests to other hosts, violations of the content security policy, errors.

import { readFileSync } from "node:fs";

import { axeFile, chromium } from "./packages.js";

const LAUNCH = {
  executablePath: process.env.MIDCOURSE_CHROMIUM,
  args: [
    // Chromium refuses to start as root with its sandbox, and containers run as root.
    ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
    // A page that asks for another host gets no answer, so that a test needs no network.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--disable-background-networking",
  ],
};

export function launch() {
  return chromium.launch(LAUNCH);
}

/** A browser that keeps its profile, with its history, in a folder. */
export function launchWithProfile(folder) {
  return chromium.launchPersistentContext(folder, LAUNCH);
}

/**
 * Opens a window that is signed in. `server.cookie` is set once, because the link works once.
 * `page.incidents` are the things that a safe page never does.
 */
export async function openPage(browser, server, { width = 1280, height = 800, colorScheme = "light" } = {}) {
  server.cookie ??= await server.signIn();
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, acceptDownloads: true });
  const [name, ...value] = server.cookie.split("=");
  await context.addCookies([
    { name, value: value.join("="), url: server.origin, httpOnly: true, sameSite: "Strict" },
  ]);
  return watch(await context.newPage(), server.origin);
}

/** Collects in `page.incidents` what a safe page never does. */
export async function watch(page, origin) {
  page.setDefaultTimeout(15_000);
  page.incidents = [];
  const note = (text) => page.incidents.push(text);
  page.on("dialog", (dialog) => {
    note(`dialog: ${dialog.message()}`);
    dialog.dismiss().catch(() => {});
  });
  page.on("pageerror", (error) => note(`error: ${error.message}`));
  page.on("popup", (popup) => note(`popup: ${popup.url()}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !/^(data|blob|about):/.test(url)) note(`request to ${url}`);
  });
  page.on("console", (message) => {
    if (/content security policy|trusted ?(types|html|script)/i.test(message.text())) note(`console: ${message.text()}`);
  });
  await page.exposeFunction("noteIncident", note);
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => {
      window.noteIncident(`policy violated: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  return page;
}

/** Whether an attack of the hostile runs has left its mark. */
export function wasAttacked(page) {
  return page.evaluate(() => "attacked" in window);
}

/** The elements that make the page wider than the window; none if it is not. */
export function tooWide(page) {
  return page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return [];
    const sticksOut = (element) => element.getBoundingClientRect().right > clientWidth + 1;
    const innermost = [...document.querySelectorAll("body *")].filter((one) => sticksOut(one) && ![...one.children].some(sticksOut));
    return [`${scrollWidth} of ${clientWidth} pixels`, ...innermost.slice(0, 5).map((one) => `${one.tagName}.${one.className}: ${one.textContent.slice(0, 60)}`)];
  });
}

const axe = readFileSync(axeFile, "utf8");

/** Serious and critical problems that axe finds, one line each. */
export async function seriousProblems(page) {
  // Evaluated by the debugger, which the content security policy of the page does not concern.
  await page.evaluate(`${axe}; 0`);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
}

/** A short description of the focused element, and whether its focus can be seen. */
export function focused(page) {
  return page.evaluate(() => {
    let element = document.activeElement;
    const styleOf = (target) => {
      const style = getComputedStyle(target);
      return { outline: `${style.outlineStyle} ${style.outlineWidth}`, shadow: style.boxShadow, border: style.borderColor, background: style.backgroundColor };
    };
    const { outline, shadow } = styleOf(element);
    const isVisible = (!outline.startsWith("none") && !outline.endsWith(" 0px")) || shadow !== "none";
    return {
      role: element.getAttribute("role") ?? element.tagName.toLowerCase(),
      name: (element.getAttribute("aria-label") ?? element.textContent ?? "").trim().slice(0, 80),
      isBody: element === document.body,
      isVisible,
    };
  });
}
