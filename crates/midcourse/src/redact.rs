//! Taking secrets out of a text before anything is stored.
//!
//! Whoever writes a record asks here first. One pass over the text leaps from anchor to anchor,
//! three bytes with which a secret or its label may begin, and a rule looks at each. Pure: nothing
//! is built at start-up, nothing fails, and time is linear in the text, whoever wrote it: a rule
//! that finds nothing has looked at a bounded stretch, or at one that no other rule looks at again.

mod anchor;
mod header;
mod known;
mod label;
mod labelled;
mod parts;
mod pem;
mod shape;
mod shell;
mod sight;
mod url;
mod value;
mod words;

#[cfg(test)]
mod check;
#[cfg(test)]
mod field;
#[cfg(test)]
mod properties;

use anchor::{Anchors, KNOWN_ANCHORS, Progress};
use sight::{Secret, Sight, in_token};

pub use shape::{SecretShape, SecretShapes};

/// What stands before and behind a shape's name where a secret stood.
const OPEN: &str = "[redacted:";
const CLOSE: &str = "]";

/// The shortest prefix that a person may call their own.
const OWN_PREFIX_MIN: usize = 4;

/// Which secret shapes are taken out.
#[derive(Debug, Clone)]
pub struct Redaction {
    shapes: SecretShapes,
    prefixes: Vec<String>,
    /// The known anchors and those of `prefixes`, if there are any.
    anchors: Option<Box<Anchors>>,
}

impl Default for Redaction {
    fn default() -> Self {
        Self { shapes: SecretShapes::ALL, ..Self::off() }
    }
}

impl Redaction {
    /// Leaves everything.
    pub const fn off() -> Self {
        Self { shapes: SecretShapes::NONE, prefixes: Vec::new(), anchors: None }
    }

    /// Leaves this shape.
    #[must_use]
    pub fn without(self, shape: SecretShape) -> Self {
        Self { shapes: self.shapes.without(shape), ..self }
    }

    /// Also takes out tokens that begin with `prefix` and go on for eight bytes or more.
    ///
    /// # Errors
    ///
    /// If the prefix is shorter than four bytes, or holds a byte that is not a letter, a digit,
    /// `_` or `-`.
    pub fn with_prefix(mut self, prefix: &str) -> Result<Self, InvalidPrefix> {
        if prefix.len() < OWN_PREFIX_MIN || !prefix.bytes().all(in_token) {
            return Err(InvalidPrefix { prefix: prefix.to_owned() });
        }
        let anchors = self.anchors.get_or_insert_with(|| Box::new(KNOWN_ANCHORS.clone()));
        anchors.add_own(prefix.as_bytes());
        self.prefixes.push(prefix.to_owned());
        self.shapes = self.shapes.with(SecretShape::OwnPrefix);
        Ok(self)
    }

    /// The text without its secrets; `None`, and nothing allocated, if there are none.
    pub fn redact(&self, text: &str) -> Option<Redacted> {
        if self.shapes.is_empty() {
            return None;
        }
        let search = Search { redaction: self, text, floor: 0, progress: Progress::default() };
        replace(text, search)
    }

    /// The same for the value of a field: its name may say that all of it is a secret.
    ///
    /// A name says what a label in a text does, and the value is judged as one there.
    pub fn redact_field(&self, name: &str, text: &str) -> Option<Redacted> {
        self.redact(text).or_else(|| {
            let secret = labelled::find_field(name, text)?;
            // Of what has been redacted before, everything that is left may stay.
            let is_secret = self.shapes.contains(secret.shape) && !text.contains(OPEN);
            replace(text, is_secret.then_some(secret))
        })
    }
}

/// The text with shapes' names in place of the secrets; `None` if there are none.
fn replace(text: &str, secrets: impl IntoIterator<Item = Secret>) -> Option<Redacted> {
    let mut redacted: Option<Redacted> = None;
    let mut written = 0;
    for secret in secrets {
        let redacted = redacted.get_or_insert_with(|| Redacted {
            text: String::with_capacity(text.len()),
            count: 0,
            shapes: SecretShapes::NONE,
        });
        redacted.text.push_str(text.get(written..secret.start).unwrap_or_default());
        for part in [OPEN, secret.shape.name(), CLOSE] {
            redacted.text.push_str(part);
        }
        redacted.count = redacted.count.saturating_add(1);
        redacted.shapes = redacted.shapes.with(secret.shape);
        written = secret.end;
    }
    redacted.map(|mut redacted| {
        redacted.text.push_str(text.get(written..).unwrap_or_default());
        redacted
    })
}

/// A text without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The text, with `[redacted:shape]` where a secret stood.
    pub text: String,
    /// How many secrets were taken out.
    pub count: u32,
    /// Of which shapes they were.
    pub shapes: SecretShapes,
}

/// A prefix that would take out ordinary words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the prefix {prefix:?} cannot be told from a word: give 4 or more letters, digits, _ or -")]
pub struct InvalidPrefix {
    /// What was given.
    pub prefix: String,
}

/// The secrets of a text, one after the other.
struct Search<'a> {
    redaction: &'a Redaction,
    text: &'a str,
    /// Where the last secret ended.
    floor: usize,
    progress: Progress,
}

impl Iterator for Search<'_> {
    type Item = Secret;

    fn next(&mut self) -> Option<Secret> {
        let anchors = self.redaction.anchors.as_deref().unwrap_or(&KNOWN_ANCHORS);
        loop {
            let (at, bits) = anchors.next(self.text.as_bytes(), &mut self.progress)?;
            if bits & (1 << anchor::PLACEHOLDER) != 0
                && let Some(end) = end_of_placeholder(self.text, at - 2)
            {
                self.pass(end);
            } else if let Some(secret) = self.look(at, bits) {
                self.pass(secret.end);
                return Some(secret);
            }
        }
    }
}

impl Search<'_> {
    /// The secret that one of the anchors leads to.
    fn look(&self, at: usize, mut bits: u64) -> Option<Secret> {
        let sight = Sight::new(self.text.as_bytes(), self.floor);
        let start = at.saturating_sub(2);
        // All of these begin a token.
        if bits & anchor::TOKENS != 0 && !sight.is_boundary(start) {
            bits &= !anchor::TOKENS;
        }
        while bits != 0 {
            let bit = bits.trailing_zeros();
            bits &= bits - 1;
            let secret = match bit {
                anchor::SENDGRID => parts::find_sendgrid(sight, start),
                anchor::OWN => known::find_own(sight, start, &self.redaction.prefixes),
                anchor::OPERATOR => labelled::find_labelled(sight, at),
                anchor::COLON => parts::find_telegram(sight, at.saturating_sub(1))
                    .or_else(|| url::find_password(sight, at.saturating_sub(1)))
                    .or_else(|| shell::find_login(sight, at.saturating_sub(1))),
                anchor::FLAG if sight.byte(at) == Some(b'p') => shell::find_short_flag(sight, at),
                anchor::FLAG => labelled::find_flag(sight, at),
                anchor::NETRC => shell::find_netrc(sight, at),
                anchor::PEM => pem::find_block(sight, start),
                anchor::JWT => parts::find_jwt(sight, start),
                anchor::DISCORD => parts::find_discord(sight, start),
                known => known::find_known(sight, start, known as usize),
            };
            let is_wanted = |secret: &Secret| self.redaction.shapes.contains(secret.shape);
            if let Some(secret) = secret.filter(is_wanted) {
                return Some(secret);
            }
        }
        None
    }

    /// Goes on behind a secret, or behind what stands for one.
    fn pass(&mut self, end: usize) {
        self.floor = end;
        self.progress = Progress::from(end);
    }
}

/// The end of `[redacted:shape]`, if that is at `start`.
fn end_of_placeholder(text: &str, start: usize) -> Option<usize> {
    let name = text.get(start..)?.strip_prefix(OPEN)?;
    let shape = SecretShape::ALL.into_iter().find(|shape| {
        name.strip_prefix(shape.name()).is_some_and(|rest| rest.starts_with(CLOSE))
    })?;
    Some(start + OPEN.len() + shape.name().len() + CLOSE.len())
}

#[cfg(test)]
mod tests {
    use super::check::{gone, stays};
    use super::*;

    #[test]
    fn a_secret_is_counted_and_named() {
        let key = concat!("AKIA", "IOSFODNN7QRSTUVW");
        let text = format!("id {key}, again {key}, and x-api-key: a8Kd0f3Lq9Zx");
        let redacted = Redaction::default().redact(&text).unwrap();
        assert_eq!(redacted.count, 3);
        let shapes: Vec<_> = redacted.shapes.iter().map(|shape| shape.name()).collect();
        assert_eq!(shapes, ["aws_access_key", "api_key_header"]);
        assert_eq!(
            redacted.text,
            "id [redacted:aws_access_key], again [redacted:aws_access_key], \
             and x-api-key: [redacted:api_key_header]"
        );
    }

    #[test]
    fn what_is_not_wanted_stays() {
        let text = concat!("id AKIA", "IOSFODNN7QRSTUVW");
        let without = Redaction::default().without(SecretShape::AwsAccessKey);
        assert_eq!(without.redact(text), None);
        assert_eq!(Redaction::off().redact(text), None);
        assert!(Redaction::default().redact(text).is_some());
    }

    #[test]
    fn an_own_prefix_is_a_shape() {
        let redaction = Redaction::off().with_prefix("acme_live_").unwrap();
        let redacted = redaction.redact("use acme_live_12345678, not acme_live_1234567").unwrap();
        assert_eq!(redacted.text, "use [redacted:own_prefix], not acme_live_1234567");
        assert_eq!(redaction.redact("xacme_live_12345678"), None);
        // A prefix of what stands for a secret takes nothing from it.
        let redaction = Redaction::default().with_prefix("gith").unwrap();
        assert_eq!(redaction.redact("a [redacted:github_token] b"), None);
    }

    #[test]
    fn a_prefix_is_no_word() {
        for prefix in ["", "abc", "a b c", "äöüß", "sk_\n"] {
            assert!(Redaction::off().with_prefix(prefix).is_err(), "{prefix:?}");
        }
    }

    #[test]
    fn ordinary_text_stays() {
        for text in [
            "task-force, risk-averse, disk-usage, sk-learn",
            "commit 3f786850e387550fdab836ed7e6dc881de23001b",
            "550e8400-e29b-41d4-a716-446655440000",
            "TWFuIGlzIGRpc3Rpbmd1aXNoZWQsIG5vdCBvbmx5IGJ5IGhpcyByZWFzb24=",
            "hf_model_name_or_path npm_config_user_agent npm_lifecycle_script",
            "@types/node@18.0.0 npm:react-dom@18",
            "MAKIAVELLIAN AKIASHORT",
            "[redacted:jwt] token=[redacted:labelled_secret]",
            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ] {
            stays(text);
        }
    }

    #[test]
    fn secrets_side_by_side_all_go() {
        let key = concat!("AKIA", "IOSFODNN7QRSTUVW");
        assert_eq!(
            gone(&format!("{key}:{key}@{key}")),
            "[redacted:aws_access_key]:[redacted:aws_access_key]@[redacted:aws_access_key]"
        );
    }
}
