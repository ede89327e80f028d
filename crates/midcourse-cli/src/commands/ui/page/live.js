// @ts-check
// The stream of changes. The browser reconnects by itself when the connection drops; this module
// opens a new stream where it does not (an error status, for instance while the server restarts).

import { eventsAddress } from "./api.js";

/** @import {OutlinePage, Run} from "./types.js" */

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;

/**
 * @typedef {object} LiveHandlers
 * @property {(page: OutlinePage) => void} [outline]
 * @property {(run: Run) => void} run
 * @property {(isConnected: boolean) => void} state
 */

/**
 * Follows a run, or the table if `runId` is null. Returns a function that ends it.
 * @param {string | null} runId @param {string | null} cursor @param {LiveHandlers} handlers
 */
export function follow(runId, cursor, handlers) {
  let latest = cursor;
  let wait = FIRST_WAIT_MS;
  let isOver = false;
  /** @type {EventSource | null} */
  let source = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  const open = () => {
    const stream = new EventSource(eventsAddress(runId, latest));
    source = stream;
    stream.addEventListener("open", () => {
      wait = FIRST_WAIT_MS;
      handlers.state(true);
    });
    stream.addEventListener("ready", (event) => {
      latest = event.lastEventId || latest;
    });
    stream.addEventListener("outline", (event) => {
      latest = event.lastEventId || latest;
      handlers.outline?.(JSON.parse(event.data));
    });
    stream.addEventListener("run", (event) => {
      latest = event.lastEventId || latest;
      handlers.run(JSON.parse(event.data));
    });
    stream.addEventListener("error", () => {
      if (isOver) return;
      handlers.state(false);
      if (stream.readyState !== EventSource.CLOSED) return;
      clearTimeout(timer);
      timer = setTimeout(open, wait);
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    });
  };
  // A browser opens six connections to a server at most, for all its tabs together. So a tab that
  // nobody sees has none, and catches up when it is shown again.
  const showOrHide = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
    if (!document.hidden) open();
  };
  document.addEventListener("visibilitychange", showOrHide);
  showOrHide();
  return () => {
    isOver = true;
    document.removeEventListener("visibilitychange", showOrHide);
    clearTimeout(timer);
    source?.close();
  };
}
