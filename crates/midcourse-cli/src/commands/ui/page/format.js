// @ts-check
// Numbers, times and durations in words.

/** @import {Tokens} from "./types.js" */

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const clockWithSeconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });
const dayWithYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const grouped = new Intl.NumberFormat("en-US");

/** @param {number} at */
export const timeOfDay = (at) => clock.format(at);

/** @param {number} at */
export const timeWithSeconds = (at) => clockWithSeconds.format(at);

/** Day and time; without the day if it is today. @param {number} at */
export function dayAndTime(at) {
  const date = new Date(at);
  const now = new Date();
  if (date.toDateString() === now.toDateString()) return `today ${clock.format(at)}`;
  const format = date.getFullYear() === now.getFullYear() ? day : dayWithYear;
  return `${format.format(at).replaceAll(",", "")} ${clock.format(at)}`;
}

/** The time of something in a run: with the day if it is more than a day after the start. @param {number} at @param {number} start */
export const timeInRun = (at, start) => (Math.abs(at - start) < 86_400_000 ? clock.format(at) : dayAndTime(at));

/** @param {number} at */
export const dayOf = (at) => day.format(at).replaceAll(",", "");

/** A length of time with at most two units: `4 h 16 min`. @param {number} ms */
export function duration(ms) {
  if (ms < 0) return "0 s";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return pair(minutes, "min", seconds % 60, "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return pair(hours, "h", minutes % 60, "min");
  return pair(Math.floor(hours / 24), "d", hours % 24, "h");
}

/** @param {number} large @param {string} largeUnit @param {number} small @param {string} smallUnit */
function pair(large, largeUnit, small, smallUnit) {
  return small ? `${large} ${largeUnit} ${small} ${smallUnit}` : `${large} ${largeUnit}`;
}

/** A length of time with one unit, for narrow places: `4 h`. @param {number} ms */
export function shortDuration(ms) {
  const seconds = ms / 1000;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36_000) return `${(seconds / 3600).toFixed(1).replace(".0", "")} h`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** @param {number} value */
export const number = (value) => grouped.format(value);

/** @param {number} value @param {string} noun */
export const count = (value, noun) => `${grouped.format(value)} ${noun}${value === 1 ? "" : "s"}`;

/** A large number in short: `11.0 M`. @param {number} value */
export function compact(value) {
  if (value < 1000) return String(Math.round(value));
  if (value < 100_000) return `${(value / 1000).toFixed(1)} k`;
  if (value < 1_000_000) return `${Math.round(value / 1000)} k`;
  if (value < 1e9) return `${(value / 1e6).toFixed(1)} M`;
  return `${(value / 1e9).toFixed(1)} G`;
}

/** A length of text: `1.2 MB`, counted in characters. @param {number} characters */
export function size(characters) {
  if (characters < 1000) return `${characters} B`;
  if (characters < 1_000_000) return `${(characters / 1000).toFixed(characters < 10_000 ? 1 : 0)} kB`;
  return `${(characters / 1e6).toFixed(1)} MB`;
}

/** @param {number | null | undefined} usd */
export function cost(usd) {
  if (usd === null || usd === undefined) return "";
  return usd < 0.01 && usd > 0 ? "<$0.01" : `$${usd.toFixed(2)}`;
}

/** All tokens that a run used. @param {Tokens | null} tokens */
export function allTokens(tokens) {
  return tokens ? tokens.input + tokens.output + tokens.cache_read + tokens.cache_write : 0;
}
