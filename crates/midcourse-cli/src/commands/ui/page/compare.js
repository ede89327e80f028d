// @ts-check
// The view of two runs side by side.

/** @import {ViewContext} from "./app.js" */

export class CompareView {
  /** @param {HTMLElement} root @param {string} a @param {string} b @param {ViewContext} context */
  constructor(root, a, b, context) {
    root.textContent = `${a} ${b}`;
    context.setTitle("Compare");
  }

  destroy() {}
}
