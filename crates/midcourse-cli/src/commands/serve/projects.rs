//! The projects that the server shows: a name and a viewer for each.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use axum::Router;

use super::people::Person;
use crate::commands::ui::segment;
use crate::percent_encoding::percent_decoded;

/// The projects. Whoever starts the server fills the list, also while the server runs.
#[derive(Default)]
pub(in crate::commands) struct Projects(RwLock<BTreeMap<String, Router>>);

impl Projects {
    /// Adds a project, or replaces its viewer. `viewer` is `ui::routes`, perhaps with layers of its
    /// own; it gets only requests of people who may see the project, without the project in the path.
    pub(in crate::commands) fn insert(&self, name: impl Into<String>, viewer: Router) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name.into(), viewer);
    }

    /// Whether there is a project of this name.
    #[cfg(feature = "fleet")]
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    /// The names of the projects that a person may see.
    pub(super) fn seen_by(&self, person: &Person) -> Vec<String> {
        let projects = self.0.read().unwrap_or_else(PoisonError::into_inner);
        projects.keys().filter(|name| person.may_see(name)).cloned().collect()
    }

    /// The viewer of a project, if a person may see it.
    pub(super) fn viewer(&self, name: &str, person: &Person) -> Option<Router> {
        let projects = self.0.read().unwrap_or_else(PoisonError::into_inner);
        projects.get(name).filter(|_| person.may_see(name)).cloned()
    }
}

/// The address of a project.
pub(super) fn address(name: &str) -> String {
    format!("/p/{}/", segment(name))
}

/// The project that a path names, and the rest of the path; `None` if it names none. The rest is
/// empty if the path has no `/` after the project.
pub(super) fn split(path: &str) -> Option<(String, &str)> {
    let path = path.strip_prefix("/p/")?;
    let at = path.find('/').unwrap_or(path.len());
    let (name, rest) = path.split_at_checked(at)?;
    // The same as `segment` writes.
    let name = String::from_utf8(percent_decoded(name)).ok()?;
    let name = name.strip_prefix('~').map_or(name.clone(), ToOwned::to_owned);
    Some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::super::people::tests::person;
    use super::*;

    #[test]
    fn a_person_finds_only_the_own_projects() {
        let projects = Projects::default();
        projects.insert("a", Router::new());
        projects.insert("b", Router::new());
        let (ada, all) = (person("ada", &["a", "none"]).0, person("bob", &["*"]).0);
        assert_eq!(projects.seen_by(&ada), ["a"]);
        assert_eq!(projects.seen_by(&all), ["a", "b"]);
        assert!(projects.viewer("a", &ada).is_some());
        assert!(projects.viewer("b", &ada).is_none());
        assert!(projects.viewer("none", &ada).is_none());
    }

    #[test]
    fn any_name_is_one_part_of_a_path() {
        for name in ["web", "a/b", "..", ".", "~x", "ä ?#&\"<", "100%"] {
            let address = address(name);
            assert_eq!(split(&address), Some((name.to_owned(), "/")), "{address}");
        }
        assert_eq!(split("/p/web"), Some(("web".to_owned(), "")));
        assert_eq!(split("/p/web/run/a%2Fb/3"), Some(("web".to_owned(), "/run/a%2Fb/3")));
        assert_eq!(split("/p/%ff/"), None);
        assert_eq!(split("/api/runs"), None);
    }
}
