// @ts-check
// Builds elements. The page never parses HTML: everything that a run contains reaches the document
// as a text node, so it cannot become markup.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, unknown>} Properties */

/**
 * Makes an element. Properties that begin with `on` are listeners; `class`, `role`, `aria-*`,
 * `data-*` and the like become attributes; the rest is set on the element itself.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Properties | null} [properties]
 * @param {(Child | Child[])[]} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function el(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) set(element, name, value);
  append(element, children);
  return element;
}

/** @param {HTMLElement} element @param {string} name @param {unknown} value */
function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on") && typeof value === "function") {
    element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
  } else if (name in element && !name.includes("-") && name !== "role") {
    Reflect.set(element, name, value);
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** @param {Node} parent @param {(Child | Child[])[]} children */
function append(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replaces the children of an element. @param {Element} parent @param {(Child | Child[])[]} children */
export function fill(parent, ...children) {
  const fragment = document.createDocumentFragment();
  append(fragment, children);
  parent.replaceChildren(fragment);
}

/**
 * Sets the text of an element if it changed, so that a screen reader is not told the same again.
 * @param {Element} element @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element with the id ${id}`);
  return element;
}

/** Tells a screen reader something that just happened. @param {string} text */
export function announce(text) {
  setText(byId("announcer"), text);
}
