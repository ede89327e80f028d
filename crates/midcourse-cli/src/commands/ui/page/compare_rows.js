// @ts-check
// What the comparison lists: rows of two aligned steps, with long equal stretches folded, and where
// the differences begin.

/** @import {CompareRow} from "./types.js" */

/** @typedef {{row: CompareRow, fold: null} | {row: null, fold: {from: number, count: number}}} Item */

const CONTEXT = 2;
const MIN_FOLD = 4;

/**
 * @param {CompareRow[]} rows @param {Set<number>} unfolded first rows of the stretches that were unfolded
 * @returns {Item[]}
 */
export function itemsOf(rows, unfolded) {
  /** @type {Item[]} */
  const items = [];
  let from = 0;
  while (from < rows.length) {
    let until = from;
    while (until < rows.length && rows[until]?.state === "same") until += 1;
    // Some equal rows stay visible next to a difference, as context.
    const start = from === 0 ? 0 : from + CONTEXT;
    const end = until === rows.length ? until : until - CONTEXT;
    for (let index = from; index < until; index += 1) {
      if (index === start && end - start >= MIN_FOLD && !unfolded.has(start)) {
        items.push({ row: null, fold: { from: start, count: end - start } });
        index = end - 1;
      } else add(items, rows[index]);
    }
    for (from = until; from < rows.length && rows[from]?.state !== "same"; from += 1) add(items, rows[from]);
  }
  return items;
}

/** @param {Item[]} items @param {CompareRow | undefined} row */
function add(items, row) {
  if (row) items.push({ row, fold: null });
}

/** Whether a difference begins at an item: it differs, and the item before it does not. @param {Item[]} items @param {number} index */
export function isStartOfDifference(items, index) {
  const isDifferent = (/** @type {Item | undefined} */ item) => item?.row !== null && item?.row !== undefined && item.row.state !== "same";
  return isDifferent(items[index]) && !isDifferent(items[index - 1]);
}
