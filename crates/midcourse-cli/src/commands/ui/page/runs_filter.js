// @ts-check
// The filters of the table of runs. They are kept in the address, so that going back shows the same.

import { HOME } from "./address.js";
import { el } from "./dom.js";

const STATES = [["", "All"], ["failed", "Failed"], ["said", "midcourse spoke"], ["running", "Running"]];
const SINCE = [["", "Any time"], ["1", "Last 24 hours"], ["7", "Last 7 days"], ["30", "Last 30 days"]];
const DAY_MS = 86_400_000;
const TYPING_MS = 150;

/** @typedef {{text: string, state: string, host: string, since: string, sort: string, order: string}} Values */

/** @type {Values} */
const DEFAULTS = { text: "", state: "", host: "", since: "", sort: "started", order: "desc" };

export class RunsFilter {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.values = readAddress();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.text = el("input", { type: "search", class: "filter-text", placeholder: "Filter by task, folder, model or id", "aria-label": "Filter runs", value: this.values.text, autocomplete: "off", spellcheck: false });
    this.text.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.set({ text: this.text.value.trim() }), TYPING_MS);
    });
    this.states = STATES.map(([value, name]) => el("button", { type: "button", "data-value": value, onclick: () => this.set({ state: value ?? "" }) }, name));
    this.host = el("select", { "aria-label": "Agent", onchange: () => this.set({ host: this.host.value }) });
    this.since = el("select", { "aria-label": "Started", onchange: () => this.set({ since: this.since.value }) }, SINCE.map(([value, name]) => el("option", { value }, name)));
    this.setHosts(this.values.host ? [this.values.host] : []);
    this.element = el("div", { class: "filters", role: "search", "aria-label": "Filter the table" }, this.text,
      el("div", { class: "group segments", role: "group", "aria-label": "State" }, this.states), this.host, this.since);
    this.#show();
  }

  /** @param {string[]} hosts */
  setHosts(hosts) {
    const wanted = ["", ...hosts];
    const known = [...this.host.options].map((option) => option.value);
    if (wanted.join("\n") !== known.join("\n")) this.host.replaceChildren(...wanted.map((host) => el("option", { value: host }, host || "All agents")));
    this.host.value = this.values.host;
  }

  /** @param {Partial<Values>} values */
  set(values) {
    this.values = { ...this.values, ...values };
    this.#show();
    writeAddress(this.values);
    this.changed();
  }

  clear() {
    this.text.value = "";
    this.set({ ...DEFAULTS, sort: this.values.sort, order: this.values.order });
    this.text.focus();
  }

  isActive() {
    const { text, state, host, since } = this.values;
    return [text, state, host, since].some((value) => value !== "");
  }

  /** The filters as the server wants them. @returns {Record<string, string | number | null>} */
  query() {
    const { since, ...values } = this.values;
    return { ...values, since: since ? Date.now() - Number(since) * DAY_MS : null };
  }

  #show() {
    for (const button of this.states) button.setAttribute("aria-pressed", String(button.dataset["value"] === this.values.state));
    this.since.value = this.values.since;
    this.host.value = this.values.host;
  }
}

/** @returns {Values} */
function readAddress() {
  const given = new URLSearchParams(location.search);
  const values = { ...DEFAULTS };
  for (const name of /** @type {(keyof Values)[]} */ (Object.keys(DEFAULTS))) values[name] = given.get(name) ?? DEFAULTS[name];
  return values;
}

/** @param {Values} values */
function writeAddress(values) {
  const given = new URLSearchParams();
  for (const name of /** @type {(keyof Values)[]} */ (Object.keys(DEFAULTS))) if (values[name] !== DEFAULTS[name]) given.set(name, values[name]);
  const text = given.toString();
  history.replaceState(history.state, "", text ? `${HOME}?${text}` : HOME);
}
