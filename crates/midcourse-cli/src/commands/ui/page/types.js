// @ts-check
// The types of what the server sends, for the type checker only. The server's side of this contract
// is described in docs/ui.md.

/**
 * @typedef {{input: number, output: number, cache_read: number, cache_write: number,
 *   is_estimate?: boolean}} Tokens
 *
 * @typedef {{project: string, person: string, has_other_projects: boolean}} Session
 *
 * @typedef {object} Run
 * @property {string} run_id
 * @property {string | null} parent_run_id
 * @property {string} host
 * @property {string | null} host_version
 * @property {string | null} model
 * @property {string | null} task
 * @property {string | null} folder
 * @property {string} started
 * @property {string} latest
 * @property {string | null} ended
 * @property {string | null} outcome
 * @property {number | null} exit_code
 * @property {number} records
 * @property {number} calls
 * @property {number} errors
 * @property {number} deliveries
 * @property {number} shadow_deliveries
 * @property {number} cleared
 * @property {number} ignored
 * @property {Tokens | null} tokens
 * @property {number | null} cost_usd
 * @property {number | null} [estimated_cost_usd]
 * @property {number} [subagents]
 * @property {boolean} [running]
 * @property {number} [level]
 *
 * @typedef {{total: number, hosts: string[], runs: Run[]}} RunList
 * @typedef {{run: Run, parents: Run[], subagents: Run[]}} RunDetails
 *
 * @typedef {object} OutlinePage
 * @property {string} [run_id]
 * @property {number} base
 * @property {string[]} kinds
 * @property {string[]} tools
 * @property {number[]} seq
 * @property {number[]} at
 * @property {number[]} kind
 * @property {number[]} tool
 * @property {number[]} end
 * @property {number[]} end_seq
 * @property {number[]} state
 * @property {number[]} [gone]
 * @property {number | null} [next]
 * @property {string} [cursor]
 *
 * @typedef {object} Block
 * @property {string} label
 * @property {"text" | "json" | "diff"} type
 * @property {string} [text]
 * @property {unknown} [value]
 * @property {string | null} [path]
 * @property {[string, string][]} [lines]
 * @property {number} length
 * @property {boolean} is_cut
 * @property {string} [pointer]
 *
 * @typedef {object} MessageFacts
 * @property {boolean} shadow
 * @property {boolean} withheld
 * @property {string} provider
 * @property {string | null} pattern
 * @property {string | null} [pattern_text]
 * @property {string | null} outcome
 * @property {string | null} [outcome_text]
 *
 * @typedef {object} Entry
 * @property {number} seq
 * @property {number} at
 * @property {string} kind
 * @property {string | null} tool
 * @property {string} title
 * @property {number} state
 * @property {number | null} end_seq
 * @property {number | null} end_at
 * @property {string} source
 * @property {string | null} decision_point
 * @property {number} redactions
 * @property {string | null} [error_line]
 * @property {Block[]} blocks
 * @property {MessageFacts | null} message
 *
 * @typedef {object} Problem
 * @property {string} run_id
 * @property {number} seq
 * @property {string} at
 * @property {string} pattern
 * @property {string} sign
 * @property {string} text
 * @property {string} from
 * @property {string} until
 * @property {number} count
 * @property {number} first_seq
 *
 * @typedef {{run_id: string, seq: number, at: string, text: string, shadow: boolean, withheld: boolean,
 *   cause: string | null,
 *   outcome: {verdict: string, after_calls: number} | null}} ReportMessage
 *
 * @typedef {object} Report
 * @property {string} headline
 * @property {Problem[]} trouble
 * @property {number} message_count
 * @property {ReportMessage[]} messages
 * @property {{text: string, kind: string, refused: boolean, count: number,
 *   first?: {run_id: string, seq: number}, last: {run_id: string, seq: number}, error: string}[]} failing
 * @property {{path: string, count: number}[]} files
 * @property {{run_id: string, seq: number, at: string, text: string} | null} last_words
 * @property {Tokens} tokens
 * @property {{usd: number | null, basis: string, prices_of: string | null}} cost
 *
 * @typedef {object} Why
 * @property {number} seq
 * @property {number} at
 * @property {boolean} shadow
 * @property {boolean} withheld
 * @property {string} kind
 * @property {string} provider
 * @property {string | null} pattern
 * @property {string | null} pattern_text
 * @property {number | null} confidence
 * @property {number} number
 * @property {string} text
 * @property {{text: string, decision_point: string, seq: number | null}} landed
 * @property {{seq: number, title: string, state: number, at: number}[]} evidence
 * @property {{seq: number, verdict: string, text: string} | null} outcome
 * @property {{seq: number, at: number, number: number, text: string}[]} series
 *
 * @typedef {{number: number, text: string, is_this: boolean}} Rung
 *
 * @typedef {{run_id: string, seq: number, at: number, tool: string | null, title: string,
 *   line: string, state: number, task: string | null, host: string}} Hit
 *
 * @typedef {{seq: number, at: number, title: string, tool: string | null, state: number}} Step
 * @typedef {{state: string, a: Step | null, b: Step | null}} CompareRow
 * @typedef {{a: Run, b: Run, first_difference: number | null, rows: CompareRow[],
 *   is_cut: boolean}} Comparison
 */

export {};
