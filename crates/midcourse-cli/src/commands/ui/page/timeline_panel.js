// @ts-check
// The timeline with its buttons, as a control that also works with the keyboard and a screen reader:
// a slider whose value is the selected step.

import { el, fill, setText } from "./dom.js";
import { count, dayAndTime, number } from "./format.js";
import { MESSAGE, TOOL } from "./outline.js";
import { Timeline } from "./timeline.js";
import { describe, listenToTimeline } from "./timeline_input.js";

/** @import {TimelineHandlers} from "./timeline_input.js" */
/** @import {Outline} from "./outline.js" */

/**
 * @typedef {object} PanelHandlers
 * @property {(direction: 1 | -1) => void} failed
 * @property {(direction: 1 | -1) => void} message
 * @property {(direction: 1 | -1) => void} problem
 * @property {() => void} enter goes to the selected step in the list
 */

export class TimelinePanel {
  /** @param {Outline} outline @param {TimelineHandlers & PanelHandlers} handlers */
  constructor(outline, handlers) {
    this.outline = outline;
    this.handlers = handlers;
    this.timeline = new Timeline(outline);
    const tooltip = listenToTimeline(this.timeline, handlers);
    this.alternative = el("p", { class: "unseen", id: "timeline-text" });
    this.failed = jump("failed call", "e", handlers.failed);
    this.messages = jump("message", "m", handlers.message);
    this.problems = jump("problem", "p", handlers.problem);
    this.badge = el("span", { class: "badge", hidden: true });
    const zoom = el("div", { class: "group", role: "group", "aria-label": "Zoom" },
      button("−", "Zoom out (-)", () => this.timeline.zoomBy(1.6)),
      button("+", "Zoom in (+)", () => this.timeline.zoomBy(0.625)),
      button("All", "All: show the whole run (0)", () => this.timeline.show(0, Infinity)));
    const host = this.timeline.host;
    host.tabIndex = 0;
    host.setAttribute("role", "slider");
    host.setAttribute("aria-label", "Timeline");
    host.setAttribute("aria-describedby", "timeline-text");
    host.addEventListener("keydown", (event) => this.#key(event));
    this.bar = el("div", { class: "timeline-bar" }, this.badge,
      this.failed.element, this.messages.element, this.problems.element, el("span", { class: "spring" }), zoom);
    this.sticky = el("section", { class: "timeline", "aria-label": "Timeline of the run" }, this.bar, host, this.alternative, tooltip);
    this.lanes = this.timeline.subHost;
  }

  destroy() {
    this.timeline.destroy();
  }

  /** Renews figures and the text for screen readers. @param {number} problems */
  update(problems) {
    const { outline } = this;
    let calls = 0;
    let failed = 0;
    let messages = 0;
    for (let index = 0; index < outline.count; index += 1) {
      if (outline.kind[index] === TOOL) calls += 1;
      if (outline.hasFailed(index)) failed += 1;
      if (outline.kind[index] === MESSAGE) messages += 1;
    }
    this.failed.set(failed);
    this.messages.set(messages);
    this.problems.set(problems);
    if (outline.count > 0) {
      const from = dayAndTime(outline.at[0] ?? 0);
      const until = dayAndTime(outline.at[outline.count - 1] ?? 0);
      setText(this.alternative, `From ${from} to ${until}: ${count(calls, "call")}, ${number(failed)} failed or refused, ${count(messages, "message")} of midcourse, ${count(problems, "problem")}. The steps are listed below. Arrow keys select a step, plus and minus zoom.`);
    }
    this.#setValue();
    // While a long run is being loaded, its beginning is drawn at once and then all of it.
    if (outline.isComplete || !this.timeline.hasScale) this.timeline.changed();
  }

  /** @param {boolean | null} isConnected null if the run is over */
  setLive(isConnected) {
    this.badge.hidden = isConnected === null;
    if (isConnected === null) return;
    this.badge.className = isConnected ? "badge live" : "badge waiting";
    fill(this.badge, el("span", { class: "dot", "aria-hidden": "true" }), isConnected ? "Live" : "Reconnecting…");
  }

  /** @param {number} index */
  select(index) {
    this.timeline.select(index);
    this.#setValue();
  }

  #setValue() {
    const { host, selected } = this.timeline;
    const { outline } = this;
    host.setAttribute("aria-valuemin", "1");
    host.setAttribute("aria-valuemax", String(Math.max(1, outline.count)));
    host.setAttribute("aria-valuenow", String(Math.max(1, selected + 1)));
    const title = selected >= 0 ? (this.handlers.title(selected) ?? outline.toolName(selected) ?? outline.kindName(selected)) : "no step selected";
    host.setAttribute("aria-valuetext", selected >= 0 ? `Step ${selected + 1} of ${outline.count}: ${title}, ${describe(outline, selected)}` : title);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const { timeline, outline } = this;
    const move = (/** @type {number} */ to) => this.handlers.select(Math.max(0, Math.min(outline.count - 1, to)));
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowRight: () => (event.shiftKey ? timeline.pan(0.25) : move(timeline.selected + 1)),
      ArrowLeft: () => (event.shiftKey ? timeline.pan(-0.25) : move(timeline.selected - 1)),
      ArrowUp: () => move(timeline.selected - 1),
      ArrowDown: () => move(timeline.selected + 1),
      PageDown: () => move(timeline.selected + Math.max(10, Math.round(outline.count / 20))),
      PageUp: () => move(timeline.selected - Math.max(10, Math.round(outline.count / 20))),
      Home: () => move(0),
      End: () => move(outline.count - 1),
      Enter: () => this.handlers.enter(),
    };
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  }
}

/** @param {string} text @param {string} label @param {() => void} action */
function button(text, label, action) {
  return el("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
}

/** Two buttons for the previous and the next of something, with how many there are. @param {string} what @param {string} key @param {(direction: 1 | -1) => void} go */
function jump(what, key, go) {
  const figure = el("span", { class: "jump-figure" });
  const previous = button("‹", `Previous ${what} (${key.toUpperCase()})`, () => go(-1));
  const next = button("›", `Next ${what} (${key})`, () => go(1));
  const element = el("div", { class: `group jump jump-${what.replace(" ", "-")}`, role: "group", "aria-label": `${what}s` }, previous, figure, next);
  return {
    element,
    set: (/** @type {number} */ value) => {
      setText(figure, count(value, what));
      previous.disabled = next.disabled = value === 0;
    },
  };
}
