// @ts-check
// The line above the page of `midcourse serve`: the project of this tab, and who is signed in.

import { fetchSession, signOut } from "./api.js";
import { announce, byId, el } from "./dom.js";
import { foreign } from "./foreign.js";

/** Adds the line. Without a session, the view says so. */
export async function showSession() {
  const session = await fetchSession().catch(() => null);
  if (!session) return;
  const leave = el("button", { type: "button", class: "small", onclick: () => void end(leave) }, "Sign out");
  const line = el("div", { class: "session", role: "region", "aria-label": "Your session" },
    el("span", { class: "session-part" }, "Project: ", el("strong", null, foreign(session.project))),
    session.has_other_projects && el("a", { href: "/" }, "Change project"),
    el("span", { class: "session-part session-person" }, "Signed in as ", foreign(session.person)),
    leave);
  byId("top").before(line);
}

/** @param {HTMLButtonElement} button */
async function end(button) {
  button.disabled = true;
  const response = await signOut().catch(() => null);
  if (response?.ok) {
    location.assign("/sign-in");
    return;
  }
  button.disabled = false;
  announce("The server does not respond. You are still signed in.");
  button.textContent = "Sign out again";
}
