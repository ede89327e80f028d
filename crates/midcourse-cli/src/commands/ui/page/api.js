// @ts-check
// Asks the server. An error carries the sentence that the server sent, which says what to do.

import { BASE, segment } from "./address.js";

/** @import {Session, RunList, RunDetails, OutlinePage, Entry, Report, Why, Rung, Hit, Comparison} from "./types.js" */

const NO_SESSION = BASE
  ? "You are signed out. Load the page again to sign in."
  : "This page needs the link that `midcourse ui` printed. Run `midcourse ui` again.";
const NO_SERVER = BASE ? "The server does not respond." : "The server does not respond. Is `midcourse ui` still running?";

export class ApiError extends Error {
  /** @param {string} message @param {number} status */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
async function get(path, signal) {
  /** @type {Response} */
  let response;
  try {
    response = await fetch(path, { signal, credentials: "same-origin", cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(NO_SERVER, 0);
  }
  if (response.status === 401) throw new ApiError(NO_SESSION, 401);
  if (!response.ok) {
    const body = await response.json().catch(() => ({}));
    const text = typeof body.error === "string" ? body.error : `The server failed (status ${response.status}).`;
    throw new ApiError(text, response.status);
  }
  return response.json();
}

/** Who is signed in, and to which project. Only `midcourse serve` has sessions of people. @returns {Promise<Session>} */
export const fetchSession = () => get(`${BASE}/api/session`);

/** Ends the session of this browser. */
export const signOut = () => fetch("/sign-out", { method: "POST", credentials: "same-origin" });

/** @param {string} id */
const run = (id) => `${BASE}/api/runs/${segment(id)}`;

/** @param {Record<string, string | number | null | undefined>} values */
function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
}

/** @param {Record<string, string | number | null>} filter @param {AbortSignal} [signal] @returns {Promise<RunList>} */
export const fetchRuns = (filter, signal) => get(`${BASE}/api/runs?${query(filter)}`, signal);

/** @param {string} id @param {AbortSignal} [signal] @returns {Promise<RunDetails>} */
export const fetchRun = (id, signal) => get(run(id), signal);

/** @param {string} id @param {number} from @param {number} count @param {AbortSignal} [signal] @returns {Promise<OutlinePage>} */
export const fetchOutline = (id, from, count, signal) => get(`${run(id)}/outline?${query({ from, count })}`, signal);

/** @param {string} id @param {number} from @param {number} count @param {AbortSignal} [signal] @returns {Promise<{entries: Entry[], next: number | null}>} */
export const fetchEntries = (id, from, count, signal) => get(`${run(id)}/entries?${query({ from, count })}`, signal);

/** One step with its long texts. @param {string} id @param {number} seq @returns {Promise<Entry>} */
export const fetchEntry = (id, seq) => get(`${run(id)}/entries/${seq}`);

/** @param {string} id @param {AbortSignal} [signal] @returns {Promise<Report>} */
export const fetchReport = (id, signal) => get(`${run(id)}/report`, signal);

/** @param {string} id @param {number} seq @param {AbortSignal} [signal] @returns {Promise<Why>} */
export const fetchWhy = (id, seq, signal) => get(`${run(id)}/why/${seq}`, signal);

/** What the messages of the series would have said there. This may take seconds. @param {string} id @param {number} seq @param {AbortSignal} [signal] @returns {Promise<{rungs: Rung[]}>} */
export const fetchRungs = (id, seq, signal) => get(`${run(id)}/why/${seq}/rungs`, signal);

/** @param {string} words @param {string | null} runId @param {AbortSignal} [signal] @returns {Promise<{hits: Hit[], unindexed: number}>} */
export const fetchHits = (words, runId, signal) => get(`${BASE}/api/search?${query({ words, run: runId, count: 100 })}`, signal);

/** @param {string} a @param {string} b @param {AbortSignal} [signal] @returns {Promise<Comparison>} */
export const fetchComparison = (a, b, signal) => get(`${BASE}/api/compare?${query({ a, b })}`, signal);

/** Where the whole text of a block can be downloaded. @param {string} id @param {number} seq @param {string} pointer */
export const textAddress = (id, seq, pointer) => `${run(id)}/text/${seq}?${query({ pointer })}`;

/** @param {string} id */
export const exportAddress = (id) => `${run(id)}/report.html`;

/** @param {string} id @param {number} seq */
export const recordAddress = (id, seq) => `${run(id)}/records/${seq}`;

/** @param {string | null} id @param {string | null} cursor */
export const eventsAddress = (id, cursor) => `${BASE}/api/events?${query({ run: id, cursor })}`;
