// @ts-check
// The horizontal scale of the timeline: time in which long stretches without any record are folded
// to a fixed width. Positions on it are "units": milliseconds outside of folds.

const MIN_FOLD_MS = 120_000;
/** Share of the time with records above which a stretch without any is folded. */
const MIN_FOLD_SHARE = 0.01;
/** And how many times the usual distance between two records it has to have. */
const MIN_FOLD_TIMES = 8;
const MAX_FOLDS = 200;
/** Width of a fold, and of all folds together, as shares of the time with records. */
const FOLD_SHARE = 0.018;
const ALL_FOLDS_SHARE = 0.25;

/** @typedef {{from: number, until: number, start: number, width: number}} Fold */

export class TimeScale {
  /** @param {Float64Array} times of all records, ascending */
  constructor(times) {
    this.first = times[0] ?? 0;
    this.last = Math.max(times.at(-1) ?? 0, this.first + 1000);
    const found = longGaps(times, this.last - this.first);
    const idle = found.reduce((sum, gap) => sum + gap.until - gap.from, 0);
    const share = Math.min(FOLD_SHARE, ALL_FOLDS_SHARE / Math.max(1, found.length));
    const width = Math.max(1000, (this.last - this.first - idle) * share);
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
    let low = 0;
    let high = this.folds.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const fold = /** @type {Fold} */ (this.folds[middle]);
      if ((isTime ? fold.from : fold.start) <= value) low = middle + 1;
      else high = middle;
    }
    return this.folds[low - 1];
  }
}

/** @param {Float64Array} times @param {number} span */
function longGaps(times, span) {
  /** @type {{from: number, until: number}[]} */
  const candidates = [];
  for (let index = 1; index < times.length; index += 1) {
    const from = times[index - 1] ?? 0;
    const until = times[index] ?? 0;
    if (until - from > MIN_FOLD_MS) candidates.push({ from, until });
  }
  const active = span - candidates.reduce((sum, gap) => sum + gap.until - gap.from, 0);
  const shortest = Math.max(active * MIN_FOLD_SHARE, usualGap(times) * MIN_FOLD_TIMES);
  const gaps = candidates.filter((gap) => gap.until - gap.from > shortest);
  if (gaps.length <= MAX_FOLDS) return gaps;
  const longest = gaps.toSorted((a, b) => b.until - b.from - (a.until - a.from)).slice(0, MAX_FOLDS);
  return longest.sort((a, b) => a.from - b.from);
}

/** The distance that nine of ten neighbouring records do not exceed, from a sample. @param {Float64Array} times */
function usualGap(times) {
  const stride = Math.max(1, Math.floor(times.length / 2000));
  const gaps = [];
  for (let index = 1; index < times.length; index += stride) gaps.push((times[index] ?? 0) - (times[index - 1] ?? 0));
  gaps.sort((a, b) => a - b);
  return gaps[Math.floor(gaps.length * 0.9)] ?? 0;
}

const MAX_TIMES = 400;
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
  const shortest = Math.max(minimum, (until - from) / MAX_TIMES);
  const step = STEPS_MS.find((candidate) => candidate >= shortest) ?? 604_800_000;
  const offset = new Date(from).getTimezoneOffset() * 60_000;
  const times = [];
  for (let time = Math.ceil((from - offset) / step) * step + offset; time <= until; time += step) times.push(time);
  return { times, step };
}
