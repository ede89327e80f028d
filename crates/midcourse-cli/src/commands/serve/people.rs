//! The people file: who may sign in, with which token, and which projects each person sees.
//!
//! It contains hashes of tokens only. `WatchedPeople` reads it again when it changes; while it cannot
//! be read, nobody is let in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow, ensure};
use midcourse::{Timestamp, now};
use serde::{Deserialize, Serialize};

use super::private_file;
use super::token::hash_of;
use crate::terminal::warn;

/// In the list of projects of a person: every project, also those that will exist later.
pub(super) const ALL: &str = "*";

const MAX_NAME_CHARS: usize = 64;

/// A person who may sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) name: String,
    pub(super) token: blake3::Hash,
    pub(super) projects: Vec<String>,
    pub(super) expires: Option<Timestamp>,
}

impl Person {
    pub(super) fn may_see(&self, project: &str) -> bool {
        self.projects.iter().any(|allowed| allowed == ALL || allowed == project)
    }

    pub(super) fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= now())
    }
}

/// The entries of a people file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct People(BTreeMap<String, Person>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileWire {
    #[serde(default)]
    people: BTreeMap<String, PersonWire>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PersonWire {
    token_blake3: String,
    projects: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

impl People {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = private_file::read(path)?;
        Self::parse(&text).with_context(|| format!("{} is not valid", path.display()))
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        let file: FileWire = toml::from_str(text).map_err(|error| {
            // The whole error would quote the line.
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            anyhow!("line {}: {}", before.matches('\n').count() + 1, error.message())
        })?;
        let people = file.people.into_iter().map(|(name, wire)| {
            let person = person(&name, wire).with_context(|| format!("[people.{name:?}]"))?;
            Ok((name, person))
        });
        Ok(Self(people.collect::<Result<_>>()?))
    }

    /// The content of the file.
    pub(super) fn text(&self) -> Result<String> {
        let people = self.0.values().map(|person| {
            let wire = PersonWire {
                token_blake3: person.token.to_hex().to_string(),
                projects: person.projects.clone(),
                expires: person.expires.map(crate::display::rfc3339),
            };
            (person.name.clone(), wire)
        });
        let text = toml::to_string(&FileWire { people: people.collect() })?;
        Ok(format!(
            "# Who may sign in to `midcourse serve`. Change it with `midcourse serve add` and `remove`, \
             which\n# keep no comments, or by hand.\n\n{text}"
        ))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Person> {
        self.0.values()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Person> {
        self.0.get(name)
    }

    /// Adds or replaces an entry.
    pub(super) fn insert(&mut self, person: Person) {
        self.0.insert(person.name.clone(), person);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Person> {
        self.0.remove(name)
    }

    /// The person who has this token.
    pub(super) fn with_token(&self, token: &str) -> Option<&Person> {
        let hash = hash_of(token)?;
        // Two hashes are compared in constant time, and all entries are looked at.
        self.iter().filter(|person| person.token == hash).last().filter(|it| !it.is_expired())
    }
}

fn person(name: &str, wire: PersonWire) -> Result<Person> {
    check_name(name)?;
    let token = blake3::Hash::from_hex(wire.token_blake3.trim());
    let token = token.map_err(|_| anyhow!("token_blake3 has to be 64 hexadecimal digits"))?;
    ensure!(!wire.projects.is_empty(), "projects is empty; use [\"*\"] for all projects");
    let expires = wire.expires.map(|text| parse_time(&text)).transpose()?;
    Ok(Person { name: name.to_owned(), token, projects: wire.projects, expires })
}

fn parse_time(text: &str) -> Result<Timestamp> {
    let time = text.parse::<jiff::Timestamp>().ok();
    let ms = time.and_then(|time| u64::try_from(time.as_millisecond()).ok());
    let time = ms.map(Timestamp::from_unix_ms);
    time.with_context(|| format!("invalid time `{text}`; write it like 2027-01-31T12:00:00Z"))
}

/// Checks a name of a person or a project. Control characters could hide in lists.
pub(super) fn check_name(name: &str) -> Result<()> {
    let chars = name.chars().count();
    ensure!(
        (1..=MAX_NAME_CHARS).contains(&chars) && !name.chars().any(char::is_control),
        "invalid name {name:?}; a name has 1 to {MAX_NAME_CHARS} characters and no control characters"
    );
    Ok(())
}

/// A people file that is read again when it changes.
pub(super) struct WatchedPeople {
    path: PathBuf,
    latest: Mutex<Latest>,
}

struct Latest {
    version: Option<FileVersion>,
    /// `None` while the file cannot be used.
    people: Option<Arc<People>>,
}

impl WatchedPeople {
    /// Reads the file for the first time. Fails if it is missing or not valid.
    pub(super) fn open(path: PathBuf) -> Result<Self> {
        let version = FileVersion::of(&path);
        let people = Some(Arc::new(People::read(&path)?));
        Ok(Self { path, latest: Mutex::new(Latest { version, people }) })
    }

    /// The people as the file has them now; `None` while it cannot be read or is not valid.
    pub(super) fn current(&self) -> Option<Arc<People>> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken before reading: a change in between is found next time.
        let version = FileVersion::of(&self.path);
        if version.is_none() || version != latest.version {
            let people = People::read(&self.path);
            if let Err(error) = &people
                && latest.people.is_some()
            {
                warn(&format!("nobody can use the server until this is repaired: {error:#}"));
            }
            *latest = Latest { version, people: people.ok().map(Arc::new) };
        }
        latest.people.clone()
    }
}

/// Tells one version of a file from another: device, inode, length, and times of the last changes.
#[derive(PartialEq, Eq)]
struct FileVersion(u64, u64, u64, (i64, i64), (i64, i64));

impl FileVersion {
    /// `None` if there is no file, or if the system has nothing to tell versions by; then the file is
    /// read each time.
    #[cfg(unix)]
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let found = std::fs::metadata(path).ok()?;
        let (modified, changed) =
            ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
        Some(Self(found.dev(), found.ino(), found.len(), modified, changed))
    }

    #[cfg(not(unix))]
    fn of(_: &Path) -> Option<Self> {
        None
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::token::new_token;
    use super::*;

    pub(in super::super) fn person(name: &str, projects: &[&str]) -> (Person, String) {
        let token = new_token().unwrap();
        let projects = projects.iter().map(|&project| project.to_owned()).collect();
        let hash = hash_of(&token).unwrap();
        (Person { name: name.to_owned(), token: hash, projects, expires: None }, token)
    }

    #[cfg(unix)]
    pub(in super::super) fn write(path: &Path, people: impl IntoIterator<Item = Person>) {
        use std::os::unix::fs::PermissionsExt as _;
        let mut all = People::default();
        people.into_iter().for_each(|person| all.insert(person));
        let new = path.with_extension("new");
        std::fs::write(&new, all.text().unwrap()).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let (mut ada, token) = person("Ada \"L\"", &["a", "b"]);
        ada.expires = Some(Timestamp::from_unix_ms(4_000_000_000_000));
        let (bob, _) = person("bob", &[ALL]);
        let mut people = People::default();
        people.insert(ada.clone());
        people.insert(bob.clone());
        let text = people.text().unwrap();
        assert!(!text.contains(&token) && text.contains("2096-10-02"), "{text}");
        assert_eq!(People::parse(&text).unwrap(), people);
        assert_eq!(people.with_token(&token), Some(&ada));
        assert!(ada.may_see("a") && !ada.may_see("c") && !ada.may_see("*"));
        assert!(bob.may_see("c"));
    }

    #[test]
    fn a_token_that_has_expired_is_worth_nothing() {
        let (mut ada, token) = person("ada", &["a"]);
        ada.expires = Some(Timestamp::from_unix_ms(1));
        let mut people = People::default();
        people.insert(ada);
        assert_eq!(people.with_token(&token), None);
    }

    #[test]
    fn errors_name_the_place_and_quote_no_hash() {
        let hash = "ab".repeat(32);
        let parse = |text: &str| format!("{:#}", People::parse(text).unwrap_err());
        let entry = |rest: &str| format!("[people.ada]\ntoken_blake3 = \"{hash}\"\n{rest}");
        let unknown = parse(&entry("projects = [\"a\"]\ntokne = 1\n"));
        assert!(unknown.starts_with("line 4: unknown field `tokne`"), "{unknown}");
        assert!(parse(&entry("projects = []\n")).contains("[\"*\"]"));
        let time = parse(&entry("projects = [\"a\"]\nexpires = \"soon\"\n"));
        assert!(time.contains("\"ada\"") && time.contains("2027-01-31T12:00:00Z"), "{time}");
        let short = parse("[people.ada]\ntoken_blake3 = \"abc\"\nprojects = [\"a\"]\n");
        assert!(short.contains("64 hexadecimal digits"), "{short}");
        for text in [entry("projects = []\n"), entry("projects = [\n"), entry("x = 1\n")] {
            assert!(!parse(&text).contains(&hash), "{}", parse(&text));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_change_applies_at_once_and_a_broken_file_lets_nobody_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("people.toml");
        let (ada, bob) = (person("ada", &["a"]).0, person("bob", &["a"]).0);
        write(&path, [ada, bob.clone()]);
        let watched = WatchedPeople::open(path.clone()).unwrap();
        assert!(watched.current().unwrap().get("ada").is_some());
        write(&path, [bob.clone()]);
        assert!(watched.current().unwrap().get("ada").is_none());
        std::fs::write(&path, "people = 3").unwrap();
        assert!(watched.current().is_none());
        write(&path, [bob]);
        assert!(watched.current().unwrap().get("bob").is_some());
        std::fs::remove_file(&path).unwrap();
        assert!(watched.current().is_none());
    }
}
