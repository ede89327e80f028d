//! The line that `midcourse run` prints at the start, so that the user sees that midcourse is there.

use std::io::IsTerminal as _;

use midcourse::{Mode, Timestamp, now};

use super::summary::Observed;
use crate::display::duration;
use crate::run_settings::RunSettings;
use crate::terminal::warn;

/// Prints the line, if a person can see it: in a pipe or a log it would only be in the way.
pub(super) fn print(name: &str, observed: Observed, settings: &RunSettings) {
    if std::io::stderr().is_terminal() {
        warn(&line(name, observed, settings, now()));
    }
}

fn line(name: &str, observed: Observed, settings: &RunSettings, at: Timestamp) -> String {
    let how = match observed {
        Observed { hooks: true, proxy: true } => "with hooks and a proxy",
        Observed { hooks: true, proxy: false } => "with hooks",
        Observed { hooks: false, proxy: true } => "with a proxy",
        Observed { hooks: false, proxy: false } => {
            return format!("{name} is not recorded; --proxy=intercept would record it");
        }
    };
    let mut line = format!("recording {name} {how}");
    if let Some(deadline) = settings.deadline {
        line.push_str(&format!("; {} until its deadline", duration(deadline.since(at))));
    }
    if settings.mode() == Mode::Shadow {
        line.push_str("; messages are recorded, not delivered");
    } else if settings.config.experiment.is_on() {
        line.push_str("; an experiment withholds some messages");
    }
    line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use midcourse::Timestamp;

    use super::{Observed, line};
    use crate::run_settings::RunSettings;

    #[test]
    fn it_says_how_the_agent_is_recorded_and_how_long_it_has() {
        let at = Timestamp::from_unix_ms(1_000);
        let mut settings = RunSettings::shipped();
        let hooks = Observed { hooks: true, proxy: false };
        assert_eq!(line("claude", hooks, &settings, at), "recording claude with hooks");
        settings.deadline = Some(at.after(Duration::from_secs(7_200)));
        let text = "recording claude with hooks; 2 h 0 min until its deadline";
        assert_eq!(line("claude", hooks, &settings, at), text);
    }

    #[test]
    fn it_says_if_nothing_is_recorded() {
        let text =
            line("make", Observed::default(), &RunSettings::shipped(), Timestamp::from_unix_ms(0));
        assert_eq!(text, "make is not recorded; --proxy=intercept would record it");
    }
}
