// @ts-check
// Loads the contents of the steps that are looked at, in windows, and keeps the latest ones.

import { fetchEntries } from "./api.js";

/** @import {Entry} from "./types.js" */
/** @import {Outline} from "./outline.js" */

const WINDOW = 60;
const MAX_KEPT = 3000;
const SETTLE_MS = 40;

export class EntryCache {
  /**
   * @param {Outline} outline
   * @param {(indices: number[]) => void} loaded called with the positions of steps that arrived
   * @param {(error: unknown) => void} failed
   */
  constructor(outline, loaded, failed) {
    this.outline = outline;
    this.loaded = loaded;
    this.failed = failed;
    /** @type {Map<number, Entry>} by seq, the least recently used first */
    this.entries = new Map();
    /** @type {Set<number>} seqs whose content changed after it was loaded */
    this.stale = new Set();
    this.controller = new AbortController();
    this.isLoading = false;
    /** @type {[number, number]} */
    this.wanted = [0, -1];
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  destroy() {
    clearTimeout(this.timer);
    this.controller.abort();
  }

  /** @param {number} index @returns {Entry | undefined} */
  get(index) {
    return this.entries.get(this.outline.seq[index] ?? -1);
  }

  /** Loads one step, for instance to name it in a tooltip. @param {number} index @returns {Promise<Entry | undefined>} */
  async loadOne(index) {
    const seq = this.outline.seq[index] ?? -1;
    if (!this.entries.has(seq)) {
      const { entries } = await fetchEntries(this.outline.runId, seq, 1, this.controller.signal);
      const entry = entries[0];
      if (entry?.seq === seq) this.entries.set(seq, entry);
    }
    return this.entries.get(seq);
  }

  /** Marks a step whose record changed. @param {number} seq */
  invalidate(seq) {
    if (this.entries.has(seq)) this.stale.add(seq);
  }

  /**
   * Says which steps are in the window. While somebody scrolls fast, windows that were only passed
   * by are not loaded.
   * @param {number} first @param {number} last
   */
  want(first, last) {
    this.wanted = [first, last];
    if (this.#missing() < 0) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#load(), this.entries.size === 0 ? 0 : SETTLE_MS);
  }

  /** The first step in the window that is not loaded, or -1. */
  #missing() {
    const [first, last] = this.wanted;
    for (let index = first; index <= last && index < this.outline.count; index += 1) {
      const seq = this.outline.seq[index] ?? -1;
      if (!this.entries.has(seq) || this.stale.has(seq)) return index;
    }
    return -1;
  }

  async #load() {
    if (this.isLoading) return;
    const missing = this.#missing();
    if (missing < 0) return;
    this.isLoading = true;
    // Reading upwards: begin earlier, so that the next screen is there as well.
    const isUpwards = missing === this.wanted[0] && this.entries.has(this.outline.seq[missing + WINDOW] ?? -1);
    const from = isUpwards ? Math.max(0, missing - WINDOW / 2) : missing;
    try {
      await this.#fetch(from);
    } catch (error) {
      if (!this.controller.signal.aborted) this.failed(error);
      this.isLoading = false;
      return;
    }
    this.isLoading = false;
    if (this.#missing() >= 0) void this.#load();
  }

  /** @param {number} from position of the first step */
  async #fetch(from) {
    const seq = this.outline.seq[from] ?? 0;
    const { entries, next } = await fetchEntries(this.outline.runId, seq, WINDOW, this.controller.signal);
    /** @type {number[]} */
    const arrived = [];
    for (const entry of entries) {
      this.entries.delete(entry.seq);
      this.entries.set(entry.seq, entry);
      this.stale.delete(entry.seq);
      const index = this.outline.lowerBound(entry.seq);
      if (this.outline.seq[index] === entry.seq) arrived.push(index);
    }
    // A step of the outline for which the server has no entry would be asked for without end.
    const until = next === null ? this.outline.count : this.outline.lowerBound(next);
    for (let index = from; index < Math.min(until, from + WINDOW); index += 1) {
      const expected = this.outline.seq[index] ?? 0;
      if (this.stale.delete(expected) || this.entries.has(expected)) continue;
      this.entries.set(expected, this.#empty(index));
      arrived.push(index);
    }
    for (const old of this.entries.keys()) {
      if (this.entries.size <= MAX_KEPT) break;
      this.entries.delete(old);
    }
    this.loaded(arrived);
  }

  /** @param {number} index @returns {Entry} */
  #empty(index) {
    const { outline } = this;
    return {
      seq: outline.seq[index] ?? 0, at: outline.at[index] ?? 0, kind: outline.kindName(index), tool: outline.toolName(index),
      title: "(this record cannot be shown)", state: outline.state[index] ?? 0, end_seq: null, end_at: null, source: "",
      decision_point: null, redactions: 0, blocks: [], message: null,
    };
  }
}
