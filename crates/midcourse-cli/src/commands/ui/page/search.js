// @ts-check
// Full-text search over all runs, or over the run that is shown, in a dialog.

import { fetchHits } from "./api.js";
import { runPath } from "./address.js";
import { el, fill } from "./dom.js";
import { count, dayAndTime } from "./format.js";
import { addVisible, foreign } from "./foreign.js";

/** @import {Hit} from "./types.js" */

const TYPING_MS = 120;
const INDEXING_MS = 2000;

let latestWords = "";

/** @param {string | null} runId the run that is shown @param {(path: string) => void} navigate */
export function openSearch(runId, navigate) {
  if (document.querySelector("dialog[open]")) return;
  const status = el("p", { class: "quiet search-status", role: "status" }, "Words from prompts, texts, calls, results and messages.");
  const results = el("ol", { class: "hits" });
  const field = el("input", { type: "search", "aria-label": "Search all runs", placeholder: "Search all runs", value: latestWords, autocomplete: "off", spellcheck: false });
  const only = runId === null ? null : el("input", { type: "checkbox" });
  const dialog = el("dialog", { class: "search", "aria-label": "Search" },
    el("form", { method: "dialog", class: "dialog-head" }, field, el("button", { type: "button", "aria-label": "Close", class: "close", onclick: () => dialog.close() }, "×")),
    only ? el("label", { class: "only" }, only, " Only this run") : null, status, results);
  let controller = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  const find = async () => {
    clearTimeout(timer);
    controller.abort();
    controller = new AbortController();
    const { signal } = controller;
    latestWords = field.value.trim();
    if (!latestWords) {
      results.replaceChildren();
      status.textContent = "Words from prompts, texts, calls, results and messages.";
      return;
    }
    try {
      const { hits, unindexed } = await fetchHits(latestWords, only?.checked ? runId : null, signal);
      fill(results, hits.map((hit) => hitView(hit, latestWords)));
      const found = hits.length === 0 ? "Nothing found." : hits.length >= 100 ? "The first 100 hits." : `${count(hits.length, "hit")}.`;
      status.textContent = unindexed > 0 ? `${found} Still indexing: ${count(unindexed, "record")} cannot be searched yet.` : found;
      if (unindexed > 0) timer = setTimeout(() => void find(), INDEXING_MS);
    } catch (error) {
      if (!signal.aborted) status.textContent = error instanceof Error ? error.message : "The search failed.";
    }
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => void find(), TYPING_MS);
  });
  only?.addEventListener("change", () => void find());
  dialog.addEventListener("keydown", (event) => {
    moveFocus(event, field, results);
    if (event.key !== "Escape") return;
    // The browser would clear the field first.
    event.preventDefault();
    dialog.close();
  });
  dialog.addEventListener("submit", (event) => {
    event.preventDefault();
    results.querySelector("a")?.click();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    dialog.close();
    navigate(link.pathname);
  });
  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    controller.abort();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  field.focus();
  field.select();
  if (latestWords) void find();
}

/** @param {KeyboardEvent} event @param {HTMLElement} field @param {HTMLElement} results */
function moveFocus(event, field, results) {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  event.preventDefault();
  const links = [...results.querySelectorAll("a")];
  const now = links.findIndex((link) => link === document.activeElement);
  const next = now + (event.key === "ArrowDown" ? 1 : -1);
  (links[next] ?? (next < 0 ? field : links.at(-1)) ?? field).focus();
}

/** @param {Hit} hit @param {string} words */
function hitView(hit, words) {
  return el("li", null, el("a", { href: runPath(hit.run_id, hit.seq), class: "hit" },
    el("span", { class: "hit-head" }, foreign(hit.title, "hit-title ellipsis"), hit.state === 1 || hit.state === 2 ? el("span", { class: "tag bad" }, hit.state === 1 ? "failed" : "refused") : null),
    marked(hit.line, words),
    el("span", { class: "quiet ellipsis hit-run" }, `${dayAndTime(hit.at)} · `, foreign(hit.task ?? hit.run_id))));
}

/** The line of a hit with its words marked. @param {string} line @param {string} words */
function marked(line, words) {
  const element = el("span", { class: "hit-line foreign" });
  const wanted = words.split(/[\s"]+/u).filter((word) => word.length > 1).map((word) => word.replace(/[.*+?^${}()|[\]\\]/gu, "\\$&"));
  if (wanted.length === 0) {
    addVisible(element, line);
    return element;
  }
  for (const [index, piece] of line.slice(0, 400).split(new RegExp(`(${wanted.join("|")})`, "giu")).entries()) {
    if (!piece) continue;
    if (index % 2 === 0) addVisible(element, piece);
    else {
      const mark = el("mark");
      addVisible(mark, piece);
      element.append(mark);
    }
  }
  return element;
}
