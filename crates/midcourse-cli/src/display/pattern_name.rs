//! The names of patterns and other causes of messages in plain words, for people who do not know the
//! names in the configuration file.

/// What a message or a pattern is about, in plain words. `kind` is the name in the configuration,
/// such as `doom_loop`. A name that midcourse does not know, such as that of a rule of the user, is
/// returned as it is.
pub(crate) fn plain_name(kind: &str) -> &str {
    match kind {
        "doom_loop" => "the same calls over and over",
        "repeated_error" => "the same error again and again",
        "progress_stall" => "no progress for a long time",
        "churn" => "planning without doing",
        "tool_avoidance" => "announced actions, no tool call",
        "context_degradation" => "asking again for what it has already read",
        "sweep" => "one file read over and over in pieces",
        "error_cascade" => "many different failures",
        "stagnation" => "different calls with the same result",
        "write_thrash" => "a file changed back and forth",
        "no_effect" => "changes without effect",
        "waiting" => "waiting",
        "outage" => "the network or a service is down",
        "monologue" => "the same text again and again",
        "idle_talk" => "talk without work",
        "drift" => "work outside the project",
        "deadline" => "the deadline",
        "budget" => "the budget",
        "sequential_calls" => "calls that could run at the same time",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::plain_name;

    #[test]
    fn every_pattern_has_a_plain_name() {
        let page = include_str!("../../../../docs/configuration.md");
        let names = page.lines().filter_map(|line| line.strip_prefix("[patterns."));
        let names: Vec<&str> = names.filter_map(|name| name.strip_suffix(']')).collect();
        assert!(names.len() > 10, "{names:?}");
        for name in names {
            assert_ne!(plain_name(name), name);
        }
    }
}
