//! Tests of the detector `doom_loop`.

use super::super::check::check;

#[test]
fn the_same_call_three_times_is_a_loop() {
    check(
        "3x bash make !! error: missing separator",
        &["call 3: doom_loop of 1, 3 times", "call 3: repeated_error of kind syntax, 3 times"],
    );
    check("2x bash make !! error: missing separator", &[]);
}

#[test]
fn a_loop_is_reported_once() {
    check("9x bash ls -> a.txt and b.txt and c.txt", &["call 3: doom_loop of 1, 3 times"]);
}

#[test]
fn a_cycle_of_three_calls_is_reported_once() {
    check(
        "
        3x {
            read a.rs -> fn a() {} and so on and on
            read b.rs -> fn b() {} and so on and on
            bash make test -> 3 tests are red, 4 are green
        }
        ",
        &["call 9: doom_loop of 3, 3 times"],
    );
}

#[test]
fn a_long_cycle_is_reported_before_its_third_round_is_complete() {
    let files = ["a", "b", "c", "d", "e", "f"];
    let round = files.map(|name| format!("read {name}.rs -> fn {name}() {{}} and so on\n"));
    check(&round.concat().repeat(3), &["call 14: doom_loop of 6, 2 times"]);
}

#[test]
fn nearly_equal_arguments_with_the_same_result_are_a_loop() {
    check(
        "
        bash cargo test --all --no-fail-fast -- first_case  !! error: linker not found
        bash cargo test --all --no-fail-fast -- first_case1 !! error: linker not found
        bash cargo test --all --no-fail-fast -- first_case2 !! error: linker not found
        ",
        &["call 3: doom_loop of 1, 3 times"],
    );
}

#[test]
fn an_empty_inbox_is_not_a_loop_while_an_answer_may_arrive() {
    let look = "search_mail {\"query\": \"from:beate\"} -> 0 messages\n";
    let mail = "send_mail {\"to\": \"beate\", \"body\": \"May I?\"} -> sent\n";
    check(&format!("{mail}{}", look.repeat(5)), &[]);
    check(&format!("{mail}{}", look.repeat(6)), &["call 7: doom_loop of 1, 6 times"]);
    check(&look.repeat(3), &["call 3: doom_loop of 1, 3 times"]);
}

#[test]
fn polling_what_does_not_move_for_long_is_a_loop() {
    let look = "+12m bash tail -1 run.log -> epoch 19/40 done, loss 0.42\n";
    let message = ["call 2: waiting for 2 polls", "call 4: doom_loop of 1, 4 times"];
    check(&look.repeat(4), &[&message[0].replace("call 2", "call 3"), message[1]]);
    let moving: String =
        (1..9).map(|n| format!("+12m bash tail -1 run.log -> epoch {n}/40 done\n")).collect();
    check(&moving, &["call 3: waiting for 2 polls"]);
}

#[test]
fn making_the_same_change_again_and_again_is_a_loop() {
    let round = |n: u32| {
        format!(
            "call_service {{\"service\": \"climate.set_temperature\", \"value\": 19}} -> set to 19\n\
             +1m get_state {{\"id\": \"bedroom\"}} -> set to 17, now {n} degrees\n"
        )
    };
    let rounds = (0..6).map(round).collect::<String>();
    check(&rounds, &["call 6: waiting for 2 polls", "call 11: doom_loop of 1, 5 times"]);
    check(&format!("user: set it to 19 twenty times\n{rounds}"), &["call 6: waiting for 2 polls"]);
    let item = |n: u32| {
        format!(
            "browser_open {{\"url\":\"https://a.example/p/{n}\"}} -> Product {n}: VAT 7 percent\n\
             browser_fill {{\"selector\":\"#vat\",\"value\":\"19\"}} -> ok\n"
        )
    };
    check(&(0..9).map(item).collect::<String>(), &[]);
}

#[test]
fn the_references_of_elements_are_new_after_each_load_of_a_page() {
    let round = |n: u32| {
        format!(
            "browser_navigate {{\"url\": \"https://a.example\"}} -> \"- checkbox \\\"I am human\\\" [ref=e{n}7]\"\n\
             browser_click {{\"element\": \"I am human\", \"ref\": \"e{n}7\"}} -> \"- dialog \\\"Choose all bicycles in these pictures, then confirm it\\\" [ref=e{n}9]\"\n"
        )
    };
    check(&(1..4).map(round).collect::<String>(), &["call 6: doom_loop of 2, 3 times"]);
}

#[test]
fn new_results_of_the_same_call_are_not_a_loop() {
    check(
        "
        bash tail log -> step 1 of 9, warming up the cache
        bash tail log -> step 2 of 9, reading all the files
        bash tail log -> step 3 of 9, building the index
        bash tail log -> step 4 of 9, writing the index
        ",
        &[],
    );
}

#[test]
fn results_that_differ_only_in_a_clock_time_are_the_same() {
    check(
        "
        bash status -> 2026-11-15T08:00:01Z nothing to do for anybody
        bash status -> 2026-11-15T08:00:02Z nothing to do for anybody
        bash status -> 2026-11-15T08:00:03Z nothing to do for anybody
        ",
        &["call 3: doom_loop of 1, 3 times"],
    );
}

#[test]
fn different_searches_that_find_nothing_are_not_a_loop() {
    check(
        r#"
        Grep {"path":"/home/agent/project/src","pattern":"alpha"} -> No matches found
        Grep {"path":"/home/agent/project/src","pattern":"bravo"} -> No matches found
        Grep {"path":"/home/agent/project/src","pattern":"charlie"} -> No matches found
        "#,
        &[],
    );
}

#[test]
fn the_same_command_on_different_ids_is_not_a_loop() {
    check(
        "
        bash docker rm 3f2a1b9c8d7e -> 3f2a1b9c8d7e
        bash docker rm 8c7d6e5f4a3b -> 8c7d6e5f4a3b
        bash docker rm 1b2c3d4e5f60 -> 1b2c3d4e5f60
        bash docker rm 9a8b7c6d5e4f -> 9a8b7c6d5e4f
        ",
        &[],
    );
}

#[test]
fn a_cycle_of_two_errors_is_one_loop() {
    let round = |n: u32| {
        format!(
            "bash make !! error: x failed after 0.{n}s\n\
             bash lint !! error: y failed after 0.{n}1s\n"
        )
    };
    check(
        &(1..8).map(round).collect::<String>(),
        &["call 5: repeated_error of kind other, 3 times", "call 6: doom_loop of 2, 3 times"],
    );
}

#[test]
fn equal_calls_in_one_turn_count_once() {
    check(
        "
        bash ls -> a.txt and b.txt and c.txt
        & bash ls -> a.txt and b.txt and c.txt
        & bash ls -> a.txt and b.txt and c.txt
        & bash ls -> a.txt and b.txt and c.txt
        ",
        &[],
    );
}

#[test]
fn a_user_message_resets_the_count() {
    check(
        "
        2x bash ls -> a.txt and b.txt and c.txt
        user: again, please
        2x bash ls -> a.txt and b.txt and c.txt
        ",
        &[],
    );
}

#[test]
fn looking_again_at_a_job_that_has_ended_is_a_loop() {
    check(
        r#"
        pipeline {"id": 90114} -> {"status": "running"}
        +3m pipeline {"id": 90114} -> {"status": "running"}
        +3m pipeline {"id": 90114} -> {"status": "failed"}
        +3m pipeline {"id": 90114} -> {"status": "failed"}
        +3m pipeline {"id": 90114} -> {"status": "failed"}
        "#,
        &["call 3: waiting for 2 polls", "call 5: doom_loop of 1, 3 times"],
    );
}

#[test]
fn looking_again_at_what_has_ended_between_sleeps_is_a_loop() {
    check(
        r#"
        3x {
        agent_status {"id": "a-31"} -> completed. Result: 1890 EUR, 4 weeks
        wait {"seconds": 20} -> waited 20 s
        }
        "#,
        &["call 3: waiting for 2 polls", "call 5: doom_loop of 1, 3 times"],
    );
    check(
        "
        bash tail -3 build.log -> FAILED: page.o, error: no member named profile
        ~4m bash sleep 240; tail -3 build.log -> FAILED: page.o, error: no member named profile
        ~5m bash sleep 280; tail -3 build.log -> FAILED: page.o, error: no member named profile
        ",
        &["call 3: waiting for 2 polls", "call 3: doom_loop of 1, 3 times"],
    );
}

#[test]
fn calls_about_objects_with_different_ids_are_not_a_loop() {
    let ids = ["550e8400-e29b-41d4-a716-446655440000", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"];
    let ids = ids.into_iter().chain(["6ba7b811-9dad-11d1-80b4-00c04fd430c8", "77aa31e9"]);
    let look = |id: &str| {
        format!(
            "get_user {{\"user_id\": \"{id}\"}} -> status active, plan basic, country DE\n\
             bash curl -s https://ci/builds/{id} -> state kept, with three artifacts\n"
        )
    };
    check(&ids.map(look).collect::<String>(), &[]);
}

#[test]
fn the_id_of_a_request_does_not_make_a_call_another_one() {
    let call = |n: u32| {
        format!(
            "get_user {{\"name\": \"jo\", \"request_id\": \"r-{n}\", \"attempt\": {n}}} \
             -> status active, plan basic\n"
        )
    };
    check(&(1..4).map(call).collect::<String>(), &["call 3: doom_loop of 1, 3 times"]);
}
