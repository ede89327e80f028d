// @ts-check
// Single-key shortcuts. A view binds its keys while it is shown; the view that was opened last is
// asked first. Keys do nothing while somebody writes in a field, and can be turned off.

/** @typedef {Record<string, (event: KeyboardEvent) => void | boolean>} KeyMap */

const SETTING = "midcourse.shortcuts";

/** @type {KeyMap[]} */
const bound = [];

/** @returns {boolean} */
export function areKeysOn() {
  return localStorage.getItem(SETTING) !== "off";
}

/** @param {boolean} on */
export function setKeysOn(on) {
  localStorage.setItem(SETTING, on ? "on" : "off");
}

/**
 * Binds keys until the returned function is called. A handler that returns false leaves the key to
 * the browser and to the views below.
 * @param {KeyMap} keys @returns {() => void}
 */
export function bindKeys(keys) {
  bound.push(keys);
  return () => {
    const index = bound.indexOf(keys);
    if (index >= 0) bound.splice(index, 1);
  };
}

/** @param {EventTarget | null} target */
function isWriting(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button"].includes(target.type);
  return target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

/** @param {KeyboardEvent} event */
function handle(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (isWriting(event.target) || document.querySelector("dialog[open]")) return;
  const isSingle = event.key.length === 1;
  if (isSingle && !areKeysOn()) return;
  for (const keys of bound.toReversed()) {
    const handler = keys[event.key];
    if (handler && handler(event) !== false) {
      event.preventDefault();
      return;
    }
  }
}

/** Begins to listen; called once. */
export function listenForKeys() {
  document.addEventListener("keydown", handle);
}
