// @ts-check
// The horizontal scale of the timeline: time in which long stretches without any record are folded
// to a fixed width. Positions on it are "units": milliseconds outside of folds.

const MIN_FOLD_MS = 120_000;
const MIN_FOLD_SHARE = 0.025;
const MAX_FOLDS = 24;
const FOLD_SHARE = 0.018;

/** @typedef {{from: number, until: number, start: number, width: number}} Fold */

export class TimeScale {
  /** @param {Float64Array} times of all records, ascending */
  constructor(times) {
    this.first = times[0] ?? 0;
    this.last = Math.max(times.at(-1) ?? 0, this.first + 1000);
    const found = longGaps(times, this.last - this.first);
    const idle = found.reduce((sum, gap) => sum + gap.until - gap.from, 0);
    const width = Math.max(1000, (this.last - this.first - idle) * FOLD_SHARE);
    let removed = 0;
    /** @type {Fold[]} */
    this.folds = found.map(({ from, until }) => {
      const fold = { from, until, start: from - this.first - removed, width };
      removed += until - from - width;
      return fold;
    });
    this.total = this.last - this.first - removed;
  }

  /** The position of a time. @param {number} time */
  toUnits(time) {
    const fold = this.#lastFold(time, true);
    if (!fold) return time - this.first;
    if (time >= fold.until) return fold.start + fold.width + (time - fold.until);
    return fold.start + ((time - fold.from) / (fold.until - fold.from)) * fold.width;
  }

  /** The time at a position. @param {number} units */
  toTime(units) {
    const fold = this.#lastFold(units, false);
    if (!fold) return this.first + units;
    const inside = units - fold.start;
    if (inside >= fold.width) return fold.until + inside - fold.width;
    return fold.from + (inside / fold.width) * (fold.until - fold.from);
  }

  /** The last fold that begins at or before a time or a position. @param {number} value @param {boolean} isTime */
  #lastFold(value, isTime) {
    for (let index = this.folds.length - 1; index >= 0; index -= 1) {
      const fold = this.folds[index];
      if (fold && (isTime ? fold.from : fold.start) <= value) return fold;
    }
    return undefined;
  }
}

/** @param {Float64Array} times @param {number} span */
function longGaps(times, span) {
  const shortest = Math.max(MIN_FOLD_MS, span * MIN_FOLD_SHARE);
  /** @type {{from: number, until: number}[]} */
  const gaps = [];
  for (let index = 1; index < times.length; index += 1) {
    const from = times[index - 1] ?? 0;
    const until = times[index] ?? 0;
    if (until - from > shortest) gaps.push({ from, until });
  }
  if (gaps.length <= MAX_FOLDS) return gaps;
  const longest = gaps.toSorted((a, b) => b.until - b.from - (a.until - a.from)).slice(0, MAX_FOLDS);
  return longest.sort((a, b) => a.from - b.from);
}

const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000,
  3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000,
];

/**
 * Times for the axis: round ones between two times, at least `minimum` milliseconds apart.
 * @param {number} from @param {number} until @param {number} minimum
 * @returns {{times: number[], step: number}}
 */
export function roundTimes(from, until, minimum) {
  const step = STEPS_MS.find((candidate) => candidate >= minimum) ?? 604_800_000;
  const offset = new Date(from).getTimezoneOffset() * 60_000;
  const times = [];
  for (let time = Math.ceil((from - offset) / step) * step + offset; time <= until && times.length < 500; time += step) times.push(time);
  return { times, step };
}
