// @ts-check
// The line above the page of `midcourse serve`: the project of this tab, and who is signed in.

import { fetchSession, signOut } from "./api.js";
import { announce, byId, el, fill } from "./dom.js";
import { foreign } from "./foreign.js";

/** Adds the line. Without a session it stays empty, and the view says what to do. */
export async function showSession() {
  const line = el("div", { class: "session", role: "region", "aria-label": "Your session" });
  // The line is there before its content, so the page does not move when that arrives.
  byId("top").before(line);
  const session = await fetchSession().catch(() => null);
  if (!session) return;
  const leave = el("button", { type: "button", class: "small", onclick: () => void end(leave) }, "Sign out");
  fill(line,
    el("span", null, "Project: ", el("strong", null, foreign(session.project))),
    session.has_other_projects && el("a", { href: "/" }, "Change project"),
    el("span", { class: "session-person" }, el("span", null, "Signed in as ", foreign(session.person)), leave));
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
  button.textContent = "Try again to sign out";
  announce("The server does not respond. You are still signed in.");
}
