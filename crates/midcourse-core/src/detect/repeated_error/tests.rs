//! Tests of the detector `repeated_error`.

use super::super::check::check;

#[test]
fn an_error_that_survives_several_edits_is_repeated() {
    check(
        r#"
        bash make          !! error: undefined reference to main
        edit {"path":"a.c","old":"1","new":"2"} -> ok
        bash make all      !! error: undefined reference to main
        edit {"path":"b.c","old":"3","new":"4"} -> ok
        bash cc -o a a.c   !! error: undefined reference to main
        edit {"path":"b.c","old":"5","new":"6"} -> ok
        bash make          !! error: undefined reference to main
        "#,
        &["call 7: repeated_error of kind other, 4 times"],
    );
}

#[test]
fn the_same_error_from_different_commands_is_repeated() {
    check(
        "
        bash make          !! error: undefined reference to main
        read a.c           -> int mian() and so on
        bash make all      !! error: undefined reference to main
        bash cc -o a a.c   !! error: undefined reference to main
        bash cc a.c        !! error: undefined reference to main
        ",
        &["call 5: repeated_error of kind other, 4 times"],
    );
}

#[test]
fn the_third_different_call_may_be_the_one_that_works() {
    check(
        r#"
        get_order {"order_id": "77O19"} !! Error: order not found
        get_order {"order_id": "77019"} !! Error: order not found
        get_order {"order_id": "W7701"} !! Error: order not found
        get_order {"order_id": "7701"} -> shipped on Monday
        "#,
        &[],
    );
}

#[test]
fn commands_between_the_failures_may_be_attempts() {
    let round = |n: u32| {
        format!(
            "bash python sort.py --mode {n} -> moved 460 files\nbash python verify.py !! FAIL: one well is missing\n"
        )
    };
    check(&(0..3).map(round).collect::<String>(), &[]);
    let message = "call 8: repeated_error of kind check, 4 times";
    check(&(0..4).map(round).collect::<String>(), &[&message.replace("check", "other")]);
}

#[test]
fn the_answer_no_of_a_pipeline_is_not_a_failure() {
    check(
        "
        bash git log -S KEY --oneline | grep . !! Exit code 1
        bash ls -la | grep key !! Exit code 1
        bash test -f key.pem !! Exit code 1
        bash pgrep -f keyd !! Exit code 1
        bash diff a.txt b.txt !! \"Exit code 1\\n1c1\\n< a\\n---\\n> b\"
        bash diff a.txt c.txt !! \"Exit code 1\\n1c1\\n< a\\n---\\n> c\"
        ",
        &[],
    );
    check(
        "4x bash grep -q key missing.txt !! grep: missing.txt: No such file or directory\n",
        &["call 3: doom_loop of 1, 3 times", "call 3: repeated_error of kind not_found, 3 times"],
    );
}

#[test]
fn the_same_error_about_four_different_files_is_repeated() {
    let guess =
        |name: &str| format!("read {name} !! ENOENT: no such file or directory, open '{name}'\n");
    let guesses: String = ["HOWTO.md", "guide.md", "docs.md", "intro.md"].map(guess).concat();
    check(&guesses, &["call 4: repeated_error of kind not_found, 4 times"]);
}

#[test]
fn a_third_refusal_of_the_same_call_is_repeated() {
    check(
        "
        read notes.txt -> some notes about the release
        bash git push xx the user said no
        bash git push xx the user said no
        bash git push xx the user said no
        ",
        &["call 4: doom_loop of 1, 3 times", "call 4: repeated_error of kind permission, 3 times"],
    );
}

#[test]
fn an_error_fixed_for_each_target_is_not_repeated() {
    let target = |name: &str| {
        format!(
            "bash lint {name} !! error: version is required\n\
             edit {{\"path\":\"{name}\",\"old\":\"a\",\"new\":\"{name}\"}} -> ok\n\
             bash lint {name} -> all of it is fine now\n"
        )
    };
    check(&["a", "b", "c", "d", "e"].map(target).concat(), &[]);
}

#[test]
fn retries_with_growing_pauses_are_a_wait() {
    check(
        "
        bash sync !! error: the mirror is busy
        +10s bash sync !! error: the mirror is busy
        +40s bash sync !! error: the mirror is busy
        +2m bash sync -> synced 1204 objects
        ",
        &["call 4: waiting for 2 polls"],
    );
}

#[test]
fn an_error_that_changes_is_progress() {
    check(
        r#"
        bash make          !! error: 12 errors
        edit {"path":"a.c","old":"1","new":"2"} -> ok
        bash make          !! error: 9 errors
        edit {"path":"a.c","old":"2","new":"3"} -> ok
        bash make          !! error: 7 errors
        edit {"path":"a.c","old":"3","new":"4"} -> ok
        bash make          !! error: 2 errors
        "#,
        &[],
    );
}

#[test]
fn failures_in_one_turn_count_once() {
    check(
        "
        read /a !! EACCES: permission denied
        & read /b !! EACCES: permission denied
        & read /c !! EACCES: permission denied
        ",
        &[],
    );
}

#[test]
fn a_success_of_the_failed_call_ends_the_pattern() {
    check(
        "
        bash make !! error: x
        bash make -> built everything from scratch
        bash make !! error: x
        bash make -> built everything from scratch
        bash make !! error: x
        ",
        &[],
    );
}

#[test]
fn failures_that_the_user_asked_for_are_not_trouble() {
    let probes: String = (1..13)
        .map(|n| format!("bash nc -vz redis-{n} 6379 !! nc: connect to redis-{n} timed out\n"))
        .collect();
    check(&format!("user: verify that none of the 12 hosts is reachable\n{probes}"), &[]);
    check(
        &format!("user: connect the app to redis\n{probes}"),
        &["call 4: repeated_error of kind other, 4 times"],
    );
}

#[test]
fn what_failed_may_be_in_the_line_after_a_colon() {
    let round = |what: &str, n: u32| {
        format!(
            "bash mix test !! \"failed with generated values (after 31 runs):\\n   {what}\"\n\
             edit {{\"path\":\"a.ex\",\"old\":\"{n}\",\"new\":\"x{n}\"}} -> ok\n"
        )
    };
    let bugs = ["add loses 1", "union overlaps", "delete loses 4", "size is 6", "order is wrong"];
    check(&bugs.iter().zip(1..).map(|(what, n)| round(what, n)).collect::<String>(), &[]);
    check(
        &(1..6).map(|n| round("add loses 1", n)).collect::<String>(),
        &["call 7: repeated_error of kind other, 4 times"],
    );
}

#[test]
fn searches_without_output_have_not_failed() {
    check(
        "
        bash rg -n compact src !! (no output)
        bash rg -n debounce src !! (no output)
        bash rg -n flatten src -> src/walk.ts:2:import { flatten }
        bash rg -n identity src !! (no output)
        bash rg -n invert src !! (no output)
        ",
        &[],
    );
}

#[test]
fn a_command_that_waits_says_not_yet_by_a_timeout() {
    check(
        "3x ~2m bash kubectl rollout status deploy/api !! error: timed out waiting\n",
        &["call 2: waiting for 2 polls", "call 3: doom_loop of 1, 3 times"],
    );
}

#[test]
fn an_error_that_a_tool_reports_as_a_text_only_is_an_error() {
    let tries: String = (1..5)
        .map(|n| {
            format!("update_booking {{\"flight\": \"HAT{n}\"}} -> Error: balance is not enough\n")
        })
        .collect();
    check(&tries, &["call 4: repeated_error of kind other, 4 times"]);
}

#[test]
fn equal_failures_of_the_objects_of_a_list_are_results() {
    let probes: String = (1..9)
        .map(|n| format!("probe {{\"host\": \"db-{n}\"}} !! timed out after 2 s\n"))
        .collect();
    check(&format!("user: check which of these hosts answer\n{probes}"), &[]);
}

#[test]
fn timeouts_of_different_commands_are_one_problem() {
    check(
        "
        ~2m bash pytest tests/api !! command timed out after 120 s
        bash ls tests -> api db web and more
        ~2m bash pytest tests/db !! Error: request timed out while copying
        bash grep -rn slow tests -> tests/db/test_copy.py:3: # slow
        ~2m bash python load.py !! TimeoutError: no answer from the worker
        bash wc -l load.py -> 88 load.py
        ~2m bash make bench-all !! Error: operation timed out
        ",
        &["call 7: repeated_error of kind timeout, 4 times"],
    );
}

#[test]
fn aborting_a_failed_merge_is_an_attempt_at_it() {
    check(
        "
        bash git rebase main !! error: could not apply 1e8bf20
        bash git rebase --abort -> (no output)
        bash git rebase main !! error: could not apply 1e8bf20
        bash git diff -> ++<<<<<<< HEAD and more
        bash git rebase --abort -> (no output)
        bash git rebase -Xpatience main !! error: could not apply 1e8bf20
        bash git rebase --abort -> (no output)
        bash git rebase main !! error: could not apply 1e8bf20
        ",
        &["call 8: repeated_error of kind other, 4 times"],
    );
}

#[test]
fn guessing_one_name_after_the_other_at_one_line_is_one_error() {
    let round = |name: &str| {
        format!(
            "bash zig build !! src/tar.zig:40:22: error: struct 'fs' has no member named '{name}'\n\
             edit {{\"path\":\"src/tar.zig\",\"old\":\"{name}\",\"new\":\"other\"}} -> ok\n"
        )
    };
    let names = ["walkPath", "walk", "openWalker", "walkDir", "dirWalker", "listDir"];
    let run: String = names.iter().map(|name| round(name)).collect();
    check(&run, &["call 9: repeated_error of kind check, 5 times"]);
}

#[test]
fn the_number_of_an_object_does_not_make_an_error_new() {
    let run: String = (1..6)
        .map(|n| {
            format!(
                "bash MEM={n}g ./submit.sh !! Job aborted: task 117 failed, executor {} was lost\n\
                 bash tail -1 executor.log -> out of memory, attempt {n}\n",
                n * 7
            )
        })
        .collect();
    check(&run, &["call 9: repeated_error of kind other, 5 times"]);
}

#[test]
fn two_errors_that_replace_each_other_are_reported_without_delay() {
    let round = |error: &str, n: u32| {
        format!(
            "edit {{\"path\":\"a.py\",\"old\":\"{n}\",\"new\":\"x{n}\"}} -> ok\n\
             bash pytest -q !! FAILED {error}\n"
        )
    };
    let run: String = (0..6)
        .map(|n| round(if n % 2 == 0 { "test_add: 3 is not 4" } else { "test_sub: is 1" }, n))
        .collect();
    check(&run, &["call 10: repeated_error of kind other, 3 times"]);
}

#[test]
fn a_bisection_over_a_number_is_not_a_repeated_error() {
    let ping = |size: u32| {
        let end = if size > 1372 { "!! 1 sent, 100% loss" } else { "-> 1 received" };
        format!("bash ping -c 1 -s {size} gw {end}\n")
    };
    let run: String = [1472, 1200, 1404, 1300, 1387, 1378, 1374, 1372, 1373].map(ping).concat();
    check(&run, &[]);
    let all: String = [1472, 1440, 1404, 1400].map(ping).concat();
    check(&all, &["call 4: repeated_error of kind other, 4 times"]);
}
