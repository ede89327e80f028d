//! Detects changes that have no effect: the agent changes something and checks the result, again
//! and again, and the result stays the same.
//!
//! A *look* is a call that reports a state, such as a test, a measurement, a query or a rendered
//! page, and that the agent makes again after a change. Reading a file does not count, because the
//! changes may be in other files. Good results do not count either: tests that pass after every
//! edit are the goal. The detector reports nothing if the user asked to keep the behaviour. If a
//! look fails each time, another detector reports a `repeated_error`.

use serde::{Deserialize, Serialize};

use super::{Detection, PatternDetector};
use crate::analysis::{
    PatternDetail, PatternType, ToolInvoked, TrajectoryAnalysis, TrajectoryPattern,
};
use crate::cause::Cause;
use crate::confidence::Confidence;
use crate::digest::Digest;
use crate::record::TrajectoryRecord;

/// If this many looks have the same result, with a change before each except the first, the pattern
/// is present. A few changes without effect are normal: the agent has to find out what matters.
const MIN_EQUAL_LOOKS: u32 = 5;

/// Used in place of `MIN_EQUAL_LOOKS` for a measurement, whose results are never quite equal.
const MIN_EQUAL_MEASUREMENTS: u32 = 6;

/// If the result goes back this often to the one before the last, with a change each time, the
/// pattern is present: the agent goes back and forth between two states, and neither is good.
const MIN_RETURNS: u32 = 3;

/// If the user asked to do something with each object of a list, and the latest changes, at least this
/// many, were all made to one object, the list does not explain them.
const MIN_CHANGES_OF_ONE_OBJECT: u32 = 3;

/// A result with fewer bytes than this may be the same for different calls by chance.
const MIN_RESULT_BYTES: u64 = 60;

/// Two measurements that differ by at most this fraction count as equal.
const MAX_NOISE: f32 = 0.05;

/// If there are more calls than this between two looks, the agent was doing something else, and the
/// count starts again.
const MAX_CALLS_BETWEEN_LOOKS: u64 = 7;

/// How many different looks the detector counts at the same time.
const MAX_LOOKS: usize = 4;

/// How many changed objects the detector remembers.
const MAX_CHANGED_OBJECTS: usize = 6;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct NoEffect {
    /// The latest look is at the end.
    looks: Vec<Look>,
    /// The objects that were changed last, the latest one at the end.
    changed: Vec<Digest>,
    /// How many changes in a row were made to the object that was changed before.
    same_object: u32,
}

/// A call that reports a state, and how often it reported the same state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Look {
    call: Digest,
    /// What a message calls the call.
    name: Digest,
    result: Digest,
    /// The result before this one.
    before: Option<Digest>,
    /// How often in a row a change brought back the result before the last.
    returns: u32,
    /// If the result has measurements: the digest of the text without them, the sum of their logarithms,
    /// and whether it has nothing else.
    text: Option<Digest>,
    measured: Option<f32>,
    is_measurement: bool,
    /// Number of looks with this result: the first one, and the later ones that followed a change.
    count: u32,
    /// Whether something was changed since the latest look.
    is_changed: bool,
    /// Whether a file or another object was edited since the latest look. A command may change
    /// anything, as `git bisect` does.
    is_edited: bool,
    /// Whether one of the changes was made to an object that had been changed before, or to an
    /// unknown object. If not, the agent is working through a list of objects.
    is_rework: bool,
    /// Index and seq of the latest look.
    call_index: u64,
    seq: u64,
}

impl PatternDetector for NoEffect {
    fn name(&self) -> &str {
        "no_effect"
    }

    fn detect(&mut self, trajectory: &TrajectoryAnalysis, _: &TrajectoryRecord) -> Detection {
        if trajectory.user_just_spoke() {
            self.reset();
            return Detection::Absent;
        }
        let Some(call) = trajectory.distinct_call_just_ended() else { return Detection::Unchanged };
        if is_change(call) {
            let is_rework = self.is_rework(call);
            for look in self.looks.iter_mut().filter(|look| look.call != call.call_digest()) {
                look.is_changed = true;
                look.is_edited |= !call.is_shell() || call.target().is_some();
                look.is_rework |= is_rework;
            }
        }
        if !is_look(call) {
            return self.after_other_call(trajectory, call);
        }
        let Some((before, now)) = self.add(call) else { return Detection::Absent };
        let threshold = if now.is_measurement { MIN_EQUAL_MEASUREMENTS } else { MIN_EQUAL_LOOKS };
        let is_expected = trajectory.user_asked_to_repeat()
            || trajectory.user_asked_to_preserve()
            || (trajectory.user_asked_for_each() && self.same_object < MIN_CHANGES_OF_ONE_OBJECT);
        let alternates = now.returns >= MIN_RETURNS;
        if (now.count < threshold && !alternates)
            || !now.is_rework
            || is_expected
            || trajectory.has_pattern(&PatternType::DoomLoop)
            || trajectory.has_pattern(&PatternType::WriteThrash)
        {
            return Detection::Absent;
        }
        let changes = if alternates { now.returns + 1 } else { now.count.saturating_sub(1) };
        Detection::Present(TrajectoryPattern::new(
            PatternDetail::NoEffect { changes, alternates },
            Confidence::clamped(0.65),
            Cause::new("no_effect", now.call.with(now.text.unwrap_or(now.result))),
            changes,
            [before, now.seq],
        ))
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

impl NoEffect {
    /// Whether a call changes an object that had been changed before, or an unknown object.
    /// Remembers the object.
    fn is_rework(&mut self, call: &ToolInvoked) -> bool {
        let Some(object) = call.subject().filter(|_| !call.is_shell()) else { return true };
        let is_known = self.changed.contains(&object);
        let is_latest = self.changed.last() == Some(&object);
        self.same_object = if is_latest { self.same_object.saturating_add(1) } else { 0 };
        self.changed.retain(|known| *known != object);
        if self.changed.len() == MAX_CHANGED_OBJECTS {
            self.changed.remove(0);
        }
        self.changed.push(object);
        is_known
    }

    /// Handles a call that is not a look. The pattern ends if the latest look was too many calls
    /// ago.
    fn after_other_call(&self, trajectory: &TrajectoryAnalysis, call: &ToolInvoked) -> Detection {
        let latest = self.looks.last().map_or(0, |look| look.call_index);
        let is_old = call.call_index().saturating_sub(latest) > MAX_CALLS_BETWEEN_LOOKS;
        if is_old && trajectory.has_pattern(&PatternType::NoEffect) {
            return Detection::Absent;
        }
        Detection::Unchanged
    }

    /// Adds a look. Returns the seq of the previous look with the same call, and the new look.
    /// Returns `None` if there is no recent look with this call and one of the latest two results, or
    /// if nothing was changed since then.
    fn add(&mut self, call: &ToolInvoked) -> Option<(u64, Look)> {
        let new = Look {
            call: call.call_digest(),
            name: call.name_digest(),
            result: call.result_digest(),
            text: call.measured().map(|(text, _)| text),
            is_measurement: call.is_measurement(),
            before: None,
            returns: 0,
            measured: call.measured().map(|(_, number)| number),
            count: 1,
            is_changed: false,
            is_edited: false,
            is_rework: false,
            call_index: call.call_index(),
            seq: call.ended_seq(),
        };
        // `kubectl logs deploy/web` and `kubectl logs -l app=web` show the same.
        let is_same_text = |look: &Look| {
            call.is_shell()
                && call.result_bytes() >= MIN_RESULT_BYTES
                && look.name == new.name
                && look.result == new.result
        };
        let known = self.looks.iter().position(|look| look.call == new.call);
        let known = known.or_else(|| self.looks.iter().rposition(is_same_text));
        let before = known.map(|at| self.looks.remove(at));
        let is_recent = |old: &Look| {
            new.call_index.saturating_sub(old.call_index) <= MAX_CALLS_BETWEEN_LOOKS + 1
        };
        let recent = before.filter(is_recent);
        let same = recent.filter(|old| old.is_same_result(&new));
        let now = match same {
            // Keeps the first measurement for comparison. Otherwise a slow drift would count as no
            // change.
            Some(old) => Look {
                count: old.count + u32::from(old.is_changed),
                measured: old.measured,
                is_rework: old.is_rework,
                before: old.before,
                returns: old.returns,
                ..new
            },
            None => recent.filter(Look::may_alternate).map_or(new, |old| Look {
                before: Some(old.result),
                returns: if old.before == Some(new.result) { old.returns + 1 } else { 0 },
                is_rework: old.is_rework,
                ..new
            }),
        };
        if self.looks.len() == MAX_LOOKS {
            self.looks.remove(0);
        }
        self.looks.push(now);
        recent
            .filter(|old| old.is_changed && (same.is_some() || now.returns > 0))
            .map(|old| (old.seq, now))
    }
}

impl Look {
    /// Whether the next look may show that the agent goes back and forth. Measurements differ anyway.
    fn may_alternate(&self) -> bool {
        self.is_edited && !self.is_measurement
    }

    fn is_same_result(&self, other: &Self) -> bool {
        let is_near = match (self.measured, other.measured) {
            (Some(a), Some(b)) => self.text == other.text && (a - b).abs() <= MAX_NOISE,
            _ => false,
        };
        let is_measurement = self.is_measurement || other.is_measurement;
        is_near || (self.result == other.result && !is_measurement)
    }
}

/// Whether a call may have changed what a look reports.
fn is_change(call: &ToolInvoked) -> bool {
    let changes = call.writes() || call.may_have_changed_something();
    changes && !call.is_error() && !call.is_idle()
}

/// Whether a call reports a state that the agent may be trying to change.
fn is_look(call: &ToolInvoked) -> bool {
    let says_nothing = call.is_silent() || (call.is_bare() && !call.is_shell());
    let is_well = call.is_positive() || call.found_nothing();
    let is_wait = call.waits() || call.is_pending() || call.prints_clock();
    !(call.is_error()
        || call.writes()
        || call.is_idle()
        || says_nothing
        || is_well
        || is_wait
        || call.orients()
        || call.shown_lines().is_some())
}

#[cfg(test)]
mod tests {
    use super::super::check::check;

    fn rounds(change: &str, look: impl Fn(u32) -> String, count: u32) -> String {
        (0..count)
            .map(|n| format!("{}\n{}\n", change.replace("{n}", &n.to_string()), look(n)))
            .collect()
    }

    const FORMULA: &str =
        r#"sheet_update {"range":"C4","formula":"=SUM(F{n}:F9)"} -> updated 1 cell"#;

    #[test]
    fn changes_after_which_a_check_reports_the_same_have_no_effect() {
        let look = |_| r##"sheet_get {"range":"B4:C4"} -> [["North", "#REF!"]]"##.to_owned();
        check(&rounds(FORMULA, look, 6), &["call 10: no_effect of 4"]);
        let df = |_| "bash ssh log-2 'df -h /var | tail -1' -> 400G 400G 0 100% /var".to_owned();
        let rm = "bash ssh log-2 'rm -rf /var/old{n}' -> (no output)";
        check(&rounds(rm, df, 6), &["call 10: no_effect of 4"]);
    }

    #[test]
    fn changes_after_which_the_result_moves_have_an_effect() {
        let look = |n| format!(r#"sheet_get {{"range":"B4:C4"}} -> [["North", {}]]"#, 4711 * n);
        check(&rounds(FORMULA, look, 8), &[]);
    }

    #[test]
    fn a_benchmark_that_moves_by_its_noise_only_does_not_move() {
        let edit = r#"edit {"path":"a.js","old":"a{n}","new":"b{n}"} -> ok"#;
        let noise = |n| format!("bash node bench.js -> big.svg: {} ms", 4110 + n % 3 * 5);
        check(&rounds(edit, noise, 7), &["call 12: no_effect of 5"]);
        let faster = |n| format!("bash node bench.js -> 10k lines: {} ms", 4110 - n * 400);
        check(&rounds(edit, faster, 7), &[]);
    }

    #[test]
    fn a_labelled_duration_is_what_was_measured() {
        let edit = r#"edit {"path":"a.sql","old":"a{n}","new":"b{n}"} -> ok"#;
        let look = |result: String| format!("bash ./time-it q.sql -> {result}");
        let faster = |n| look(format!("Execution Time: {} ms", 4100 - n * 500));
        check(&rounds(edit, faster, 7), &[]);
        let load = |n| look(format!("{}m", 210 * (n + 1)));
        check(&rounds(edit, load, 7), &[]);
        let plan = |n| {
            let noise = n % 3 * 90;
            look(format!(
                "\"Seq Scan (time={}.3 rows=38)\\nTime: {} ms\"",
                41_000 + n,
                41_300 + noise
            ))
        };
        check(&rounds(edit, plan, 6), &["call 10: no_effect of 4"]);
    }

    #[test]
    fn checks_that_stay_good_are_the_goal() {
        let edit = r#"edit {"path":"a.js","old":"a{n}","new":"b{n}"} -> ok"#;
        check(&rounds(edit, |_| "bash npm test -> 12 tests passed in 3 s".to_owned(), 8), &[]);
        let lint = |_| "bash npm run lint -> 3 warnings, the same as on main".to_owned();
        check(&format!("user: refactor a.js\n{}", rounds(edit, lint, 8)), &[]);
    }

    #[test]
    fn working_through_a_list_with_the_same_look_in_between_is_no_trouble() {
        let page = r#"write {"path":"de/page{n}.md","content":"Seite {n}"} -> ok"#;
        check(&rounds(page, |_| "bash wc -l glossary.txt -> 88 glossary.txt".to_owned(), 9), &[]);
        let file = r#"mcp_move {"from":"in/{n}.jpg","to":"out/{n}.jpg"} -> moved"#;
        let look = |_| r#"mcp_stat {"folder":"out"} -> folder, writable, owner jo"#.to_owned();
        check(&rounds(file, look, 9), &[]);
    }

    #[test]
    fn a_pod_with_a_new_name_and_the_old_problem_has_not_changed() {
        let names = ["x8k2p", "w4mz9", "q7r2d", "lh5tc", "b9n8f", "zz1kv"];
        let run: String = names
            .iter()
            .zip(2..)
            .map(|(name, age)| {
                format!(
                    "bash kubectl get pods -> worker-58c7d9b6c-{name} 0/1 ImagePullBackOff 0 {age}m\n\
                     bash kubectl delete pod worker-58c7d9b6c-{name} -> pod deleted\n"
                )
            })
            .collect();
        check(&run, &["call 9: no_effect of 4"]);
    }

    #[test]
    fn a_result_that_goes_back_and_forth_has_not_improved() {
        let move_logo = r#"slides_move {"shape":"logo_5","x":{n}} -> moved"#;
        let look = |n| {
            let hit = if n % 2 == 0 { "title" } else { "chart_2" };
            format!(r#"layout_check {{"slide": 5}} -> logo_5 overlaps {hit}"#)
        };
        check(&rounds(move_logo, look, 5), &["call 10: no_effect of 4"]);
        let bisect = "bash git bisect next{n} -> {n} revisions left";
        let test = |n| {
            let verdict = if n % 2 == 0 { "is slow, 30 minutes" } else { "is fast, 8 minutes" };
            format!("bash ./measure.sh -> this revision {verdict}")
        };
        check(&rounds(bisect, test, 8), &[]);
    }

    #[test]
    fn returning_to_the_same_form_for_each_person_is_no_trouble() {
        let fill = r#"add_person {"note":"person {n}"} -> added"#;
        let form = |_| {
            r#"browser_navigate {"url":"https://a.example/form"} -> textbox Name, button Send"#
                .to_owned()
        };
        let run = rounds(fill, form, 8);
        check(&format!("user: register the eight trainees, one registration each\n{run}"), &[]);
    }

    #[test]
    fn one_object_of_a_list_that_stays_as_it_is_is_trouble() {
        let change = r#"crm_update {"deal":"D-309","stage":"Won","note":"{n}"} -> ok"#;
        let look = |_| r#"crm_get {"deal":"D-309"} -> stage Negotiation, set by a rule"#.to_owned();
        let user = "user: move the signed deals and verify each of them\n";
        let run = format!("{user}{}", rounds(change, look, 5));
        check(&run, &["call 10: no_effect of 4"]);
    }

    #[test]
    fn two_commands_with_the_same_long_output_are_one_look() {
        let restart = "bash kubectl rollout restart deploy/api{n} -> restarted";
        let look = |n| {
            let of = if n % 2 == 0 { "deploy/api" } else { "-l app=api" };
            format!(
                "bash kubectl logs {of} -> panic: the required variable GATEWAY_URL is not set, main.go"
            )
        };
        check(&rounds(restart, look, 5), &["call 10: no_effect of 4"]);
    }
}
