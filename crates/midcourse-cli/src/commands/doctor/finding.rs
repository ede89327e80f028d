//! What `midcourse doctor` finds: one statement per check, with what to do unless all is well.

use serde::Serialize;

/// How serious a finding is. Only problems count for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    /// Worth knowing.
    Note,
    /// Works, but not as well as it could, or may fail later.
    Warning,
    /// Does not work.
    Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// What was checked. The names are stable, for programs that read them.
    pub(super) check: &'static str,
    pub(super) state: State,
    pub(super) detail: String,
    /// What to do; `None` if the state is `Ok`.
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, state: State::Ok, detail: detail.into(), remedy: None }
    }

    pub(super) fn note(
        check: &'static str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(State::Note, check, detail.into(), remedy.into())
    }

    pub(super) fn warning(
        check: &'static str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(State::Warning, check, detail.into(), remedy.into())
    }

    pub(super) fn problem(
        check: &'static str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(State::Problem, check, detail.into(), remedy.into())
    }

    fn new(state: State, check: &'static str, detail: String, remedy: String) -> Self {
        Self { check, state, detail, remedy: Some(remedy) }
    }
}

/// The findings about one thing: a host, a store, a configuration.
#[derive(Debug)]
pub(super) struct Area {
    /// The name for programs.
    pub(super) name: &'static str,
    /// The name for people.
    pub(super) title: String,
    pub(super) findings: Vec<Finding>,
}

impl Area {
    pub(super) fn new(
        name: &'static str,
        title: impl Into<String>,
        findings: Vec<Finding>,
    ) -> Self {
        Self { name, title: title.into(), findings }
    }

    pub(super) fn problem_count(&self) -> usize {
        self.findings.iter().filter(|finding| finding.state == State::Problem).count()
    }
}
