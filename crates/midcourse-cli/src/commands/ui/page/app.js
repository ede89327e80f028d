// @ts-check
// The entry of the page: shows the view that belongs to the address, and moves between views without
// loading the page again.

import { ApiError } from "./api.js";
import { BASE, HOME, parsePath } from "./address.js";
import { byId, el, fill } from "./dom.js";
import { CompareView } from "./compare.js";
import { showHelp } from "./help.js";
import { bindKeys, listenForKeys } from "./keys.js";
import { RunView } from "./run.js";
import { RunsView } from "./runs.js";
import { openSearch } from "./search.js";
import { showSession } from "./session.js";

/**
 * @typedef {{destroy(): void}} View
 * @typedef {object} ViewContext
 * @property {(path: string) => void} navigate
 * @property {() => void} back
 * @property {(title: string) => void} setTitle
 * @property {(error: unknown) => void} fail shows an error in the place of the view
 */

/** @type {View | null} */
let view = null;

/** @type {ViewContext} */
const context = {
  navigate,
  back: () => {
    // A page that was opened by its link has nothing to go back to.
    if (history.state?.depth > 0) history.back();
    else navigate(HOME);
  },
  setTitle: (title) => {
    document.title = title ? `${title.slice(0, 80)} · midcourse` : "midcourse";
  },
  fail: showError,
};

/** @param {string} path */
function navigate(path) {
  rememberScroll();
  history.pushState({ depth: (history.state?.depth ?? 0) + 1 }, "", path);
  render();
  byId("main").focus({ preventScroll: true });
}

function rememberScroll() {
  history.replaceState({ ...history.state, scroll: window.scrollY }, "");
}

function render() {
  view?.destroy();
  view = null;
  const root = byId("main");
  const route = parsePath(location.pathname);
  document.body.dataset["view"] = route.view;
  context.setTitle("");
  window.scrollTo(0, 0);
  fill(root, el("p", { class: "quiet loading" }, "Loading…"));
  if (route.view === "runs") view = new RunsView(root, context);
  else if (route.view === "run") view = new RunView(root, route.id, route.seq, context);
  else if (route.view === "compare") view = new CompareView(root, route.a, route.b, context);
  else fill(root, notice("There is no such page.", "The list of runs is the start page."));
}

/** @param {string} title @param {string} text */
function notice(title, text) {
  return el("div", { class: "notice" }, el("h1", null, title), el("p", null, text), el("p", null, el("a", { href: HOME }, "All runs")));
}

/** @param {unknown} error */
function showError(error) {
  const text = error instanceof Error ? error.message : String(error);
  view?.destroy();
  view = null;
  const title = error instanceof ApiError && error.status === 401 ? "No session" : error instanceof ApiError && error.status === 404 ? "Not found" : "This did not work";
  const box = notice(title, text);
  box.setAttribute("role", "alert");
  box.append(el("button", { type: "button", onclick: render }, "Try again"));
  fill(byId("main"), box);
  if (!(error instanceof ApiError)) throw error;
}

/** Follows links within the page without loading it again. @param {MouseEvent} event */
function followLink(event) {
  if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (!link.pathname.startsWith(HOME) || link.pathname.startsWith(`${BASE}/api/`) || link.hash) return;
  event.preventDefault();
  navigate(link.pathname + link.search);
}

/** The run that is shown, to which a search can be limited. */
function shownRun() {
  const route = parsePath(location.pathname);
  return route.view === "run" ? route.id : null;
}

function start() {
  const search = () => openSearch(shownRun(), navigate);
  fill(byId("top"),
    el("a", { href: HOME, class: "brand" }, el("span", { class: "brand-mark", "aria-hidden": "true" }), "midcourse"),
    el("button", { type: "button", class: "search-button", onclick: search }, "Search all runs", el("kbd", null, "/")),
    el("button", { type: "button", class: "help-button", "aria-label": "Keyboard shortcuts (?)", title: "Keyboard shortcuts (?)", onclick: showHelp }, "?"));
  listenForKeys();
  bindKeys({ "/": search, "?": showHelp });
  document.addEventListener("click", followLink);
  window.addEventListener("popstate", render);
  window.addEventListener("pagehide", rememberScroll);
  history.scrollRestoration = "manual";
  // `midcourse ui` has one user and no projects.
  if (BASE) showSession();
  render();
}

start();
