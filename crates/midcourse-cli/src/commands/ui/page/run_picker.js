// @ts-check
// A dialog in which somebody chooses the run to compare with.

import { fetchRuns } from "./api.js";
import { comparePath } from "./address.js";
import { el, fill } from "./dom.js";
import { dayAndTime } from "./format.js";
import { foreign } from "./foreign.js";
import { outcomeTag, runTitle } from "./run_words.js";

/** @import {Run} from "./types.js" */

/** @param {Run} run the other side of the comparison @param {(path: string) => void} navigate */
export function chooseRun(run, navigate) {
  const results = el("ul", { class: "choices" });
  const field = el("input", { type: "search", placeholder: "Task, folder, model or id", "aria-label": "Find a run to compare with", autocomplete: "off" });
  const dialog = el("dialog", { class: "picker", "aria-label": "Compare with another run" },
    el("form", { method: "dialog", class: "dialog-head" }, el("h2", null, "Compare with another run"), el("button", { "aria-label": "Close", class: "close" }, "×")), field, results);
  let controller = new AbortController();
  const find = async () => {
    controller.abort();
    controller = new AbortController();
    const { signal } = controller;
    try {
      // Runs of the same task are the likely ones; without a text the latest runs are offered.
      const { runs } = await fetchRuns({ text: field.value, count: 30 }, signal);
      const others = runs.filter((other) => other.run_id !== run.run_id);
      fill(results, others.length > 0 ? others.map((other) => el("li", null, el("button", {
        type: "button", class: "choice",
        onclick: () => {
          dialog.close();
          navigate(comparePath(run.run_id, other.run_id));
        },
      }, runTitle(other, "choice-name"), el("span", { class: "quiet" }, `${dayAndTime(Date.parse(other.started))} · `, foreign(other.host), " "), outcomeTag(other)))) : el("li", { class: "quiet" }, "No run matches."));
    } catch (error) {
      if (!signal.aborted) fill(results, el("li", { class: "error", role: "alert" }, error instanceof Error ? error.message : "Loading failed."));
    }
  };
  field.addEventListener("input", () => void find());
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") results.querySelector("button")?.click();
    if (event.key !== "Escape") return;
    // The browser would clear the field first.
    event.preventDefault();
    dialog.close();
  });
  dialog.addEventListener("close", () => {
    controller.abort();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  field.focus();
  void find();
}
