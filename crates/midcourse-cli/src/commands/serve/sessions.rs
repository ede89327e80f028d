//! The sessions of people who have signed in. They are in memory only: a restart ends them.
//!
//! A session names a person and the token of that moment. It counts only as long as the people file
//! has this person with this token, so removing or replacing an entry ends its sessions.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::people::{People, Person};
use super::token::random;

/// How long a person stays signed in.
pub(super) const SESSION_TIME: Duration = Duration::from_secs(12 * 60 * 60);

/// How many sessions a person has at most: browsers that were never signed out. Of more, the oldest
/// one ends.
const MAX_PER_PERSON: usize = 20;

/// Finds a session: the hash of the value of its cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SessionKey(blake3::Hash);

impl SessionKey {
    pub(super) fn of(cookie_value: &str) -> Self {
        Self(blake3::hash(cookie_value.as_bytes()))
    }
}

#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<SessionKey, Session>>);

struct Session {
    person: String,
    token: blake3::Hash,
    begun: Instant,
}

impl Session {
    fn is_over(&self) -> bool {
        self.begun.elapsed() >= SESSION_TIME
    }
}

impl Sessions {
    /// Begins a session, and returns the value of its cookie.
    pub(super) fn begin(&self, person: &Person) -> Result<String> {
        let value = random()?;
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| !session.is_over());
        let own = sessions.iter().filter(|(_, session)| session.person == person.name);
        let own: Vec<(Instant, SessionKey)> =
            own.map(|(key, session)| (session.begun, *key)).collect();
        if own.len() >= MAX_PER_PERSON
            && let Some((_, oldest)) = own.into_iter().min_by_key(|(begun, _)| *begun)
        {
            sessions.remove(&oldest);
        }
        let session =
            Session { person: person.name.clone(), token: person.token, begun: Instant::now() };
        sessions.insert(SessionKey::of(&value), session);
        Ok(value)
    }

    /// The person of a session, as the people file has the entry now.
    pub(super) fn person(&self, key: SessionKey, people: &People) -> Option<Person> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get(&key).filter(|session| !session.is_over())?;
        let person = people.get(&session.person)?;
        (person.token == session.token && !person.is_expired()).then(|| person.clone())
    }

    pub(super) fn end(&self, key: SessionKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::super::people::tests::person;
    use super::*;

    #[test]
    fn a_session_ends_with_its_entry() {
        let (ada, _) = person("ada", &["a"]);
        let mut people = People::default();
        people.insert(ada.clone());
        let sessions = Sessions::default();
        let key = SessionKey::of(&sessions.begin(&ada).unwrap());
        assert_eq!(sessions.person(key, &people), Some(ada.clone()));
        assert_eq!(sessions.person(SessionKey::of("other"), &people), None);

        // The projects are those that the people file has now.
        let mut wider = people.clone();
        wider.insert(Person { projects: vec!["b".to_owned()], ..ada.clone() });
        assert!(sessions.person(key, &wider).unwrap().may_see("b"));

        let mut without = people.clone();
        without.remove("ada");
        assert_eq!(sessions.person(key, &without), None);
        let mut replaced = people.clone();
        replaced.insert(person("ada", &["a"]).0);
        assert_eq!(sessions.person(key, &replaced), None, "another token");

        sessions.end(key);
        assert_eq!(sessions.person(key, &people), None);
    }

    #[test]
    fn a_person_has_a_limited_number_of_sessions() {
        let (ada, bob) = (person("ada", &["a"]).0, person("bob", &["a"]).0);
        let mut people = People::default();
        people.insert(ada.clone());
        people.insert(bob.clone());
        let sessions = Sessions::default();
        let bobs = SessionKey::of(&sessions.begin(&bob).unwrap());
        let keys: Vec<SessionKey> =
            (0..=MAX_PER_PERSON).map(|_| SessionKey::of(&sessions.begin(&ada).unwrap())).collect();
        let (first, rest) = keys.split_first().unwrap();
        assert_eq!(sessions.person(*first, &people), None);
        assert!(rest.iter().all(|key| sessions.person(*key, &people).is_some()));
        assert!(sessions.person(bobs, &people).is_some());
    }
}
