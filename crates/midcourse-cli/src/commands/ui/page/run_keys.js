// @ts-check
// The keys of the view of a run.

import { announce } from "./dom.js";

/** @import {RunView} from "./run.js" */
/** @import {KeyMap} from "./keys.js" */

/** @param {RunView} view @returns {KeyMap} */
export function runKeys(view) {
  const timeline = () => view.panel?.timeline;
  return {
    j: () => void view.steps?.step(1),
    k: () => void view.steps?.step(-1),
    e: () => view.nextFailed(1),
    E: () => view.nextFailed(-1),
    m: () => view.nextMessage(1),
    M: () => view.nextMessage(-1),
    p: () => view.nextProblem(1),
    P: () => view.nextProblem(-1),
    w: () => view.whySelected(),
    t: () => timeline()?.host.focus(),
    s: () => view.toSummary(),
    "+": () => timeline()?.zoomBy(0.625),
    "=": () => timeline()?.zoomBy(0.625),
    "-": () => timeline()?.zoomBy(1.6),
    "0": () => timeline()?.show(0, Infinity),
    g: () => {
      view.steps?.select(0, { align: "start" });
      window.scrollTo(0, 0);
    },
    G: () => view.toEnd(),
    y: () => void copyAddress(location.origin + view.address()),
    Enter: (event) => {
      const { target } = event;
      // Buttons, links and open parts of a step handle the key themselves.
      if (target instanceof Element && target.closest("a, button, summary, input, [role=region]")) return false;
      if (!view.steps || view.steps.selected < 0) return false;
      view.steps.toggle(view.steps.selected);
      return true;
    },
    Escape: () => {
      if (!view.closeTop()) view.context.back();
    },
  };
}

/** @param {string} address */
async function copyAddress(address) {
  try {
    await navigator.clipboard.writeText(address);
    announce("The link of this step is copied.");
  } catch {
    announce("The browser does not allow copying; the link is in the address bar.");
  }
}
