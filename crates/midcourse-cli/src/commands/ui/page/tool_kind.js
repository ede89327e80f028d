// @ts-check
// What a tool does, from its name. The timeline has a row for each kind.

export const RUN = 0;
export const EDIT = 1;
export const READ = 2;
export const OTHER = 3;

export const TOOL_KIND_NAMES = ["Run", "Edit", "Read", "Other"];

/** @type {[RegExp, number][]} */
const NAMES = [
  [/todo|plan|^task|agent|think/iu, OTHER],
  [/edit|write|patch|replace|create|insert|delete|rename/iu, EDIT],
  [/read|grep|glob|^ls$|list|search|find|fetch|view|cat|open|browse|get_/iu, READ],
  [/bash|shell|exec|run|command|terminal|python|process/iu, RUN],
];

/** @param {string} tool */
export function toolKind(tool) {
  for (const [pattern, kind] of NAMES) if (pattern.test(tool)) return kind;
  return OTHER;
}
