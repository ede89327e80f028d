//! Finds the secrets of a text, one after the other.
//!
//! The prefilter finds the candidates, and this module calls the rules for each. After a secret or
//! a marker, the search goes on behind it, and no rule looks back past that point.

use super::kind::SecretKind;
use super::marker::end_of_marker;
use super::prefilter::{self, Candidate, Progress};
use super::view::{SecretSpan, View};
use super::{
    Redaction, assignment, call, command_line, encoded, kubernetes, login, pem, positional,
    prefixed_tokens, recovery, structured_tokens, url,
};

/// A secret that starts at most this many bytes after its candidate is returned at once.
const MAX_GAP_LEN: usize = 4;

/// Iterates over the secrets of a text, in order and without overlaps.
pub(super) struct Search<'a> {
    redaction: &'a Redaction,
    text: &'a str,
    /// The end of the last secret or marker found. No rule looks at the text before this position.
    floor: usize,
    progress: Progress,
    /// Whether the text contains the manifest of a Kubernetes secret; `None` until that matters.
    has_secret_manifest: Option<bool>,
    /// Secrets that a rule found ahead and that the search has not reached yet, last first.
    pending: Vec<SecretSpan>,
}

impl<'a> Search<'a> {
    pub(super) fn new(redaction: &'a Redaction, text: &'a str) -> Self {
        Self {
            redaction,
            text,
            floor: 0,
            progress: Progress::default(),
            has_secret_manifest: None,
            pending: Vec::new(),
        }
    }
}

impl Iterator for Search<'_> {
    type Item = SecretSpan;

    fn next(&mut self) -> Option<SecretSpan> {
        let prefilter = self.redaction.prefilter.as_deref().unwrap_or(&prefilter::BUILT_IN);
        loop {
            let candidate = prefilter.next(self.text.as_bytes(), &mut self.progress);
            let is_due = |pending: &&SecretSpan| {
                candidate.is_none_or(|candidate| candidate.last >= pending.start)
            };
            if let Some(secret) = self.pending.last().filter(is_due).copied() {
                self.pending.pop();
                self.skip_to(secret.end);
                return Some(secret);
            }
            let candidate = candidate?;
            if candidate.rules & (1 << prefilter::MARKER) != 0
                && let Some(end) = end_of_marker(self.text, candidate.last - 2)
            {
                self.skip_to(end);
            } else if let Some(secret) = self.check(candidate) {
                self.skip_to(secret.end);
                return Some(secret);
            }
        }
    }
}

impl Search<'_> {
    /// Checks the rules of a candidate one after the other and returns the first secret found.
    fn check(&mut self, candidate: Candidate) -> Option<SecretSpan> {
        let Candidate { last, mut rules } = candidate;
        let view = View::new(self.text.as_bytes(), self.floor);
        let start = last.saturating_sub(2);
        if rules & prefilter::TOKEN_RULES != 0 && !view.is_token_boundary(start) {
            rules &= !prefilter::TOKEN_RULES;
        }
        while rules != 0 {
            let rule = rules.trailing_zeros();
            rules &= rules - 1;
            let colon = last.saturating_sub(1);
            let secret = match rule {
                prefilter::SENDGRID => structured_tokens::find_sendgrid(view, start),
                prefilter::CUSTOM_PREFIX => {
                    prefixed_tokens::find_custom_token(view, start, &self.redaction.custom_prefixes)
                }
                prefilter::ASSIGNMENT => assignment::find_assigned(view, last),
                prefilter::COLON => structured_tokens::find_telegram(view, colon)
                    .or_else(|| url::find_password(view, colon))
                    .or_else(|| command_line::find_curl_password(view, colon))
                    .or_else(|| login::find_pgpass_password(view, colon)),
                prefilter::FLAG if view.byte(last) == Some(b'-') => {
                    assignment::find_flag(view, last)
                }
                prefilter::FLAG => command_line::find_short_flag(view, last),
                prefilter::SPACED_LABEL => login::find_after_space(view, last),
                prefilter::SQL => login::find_sql_password(view, last),
                prefilter::PRIVATE_KEY => pem::find_block(view, start),
                prefilter::END_OF_KEY => pem::find_block_end(view, start),
                prefilter::JWT => structured_tokens::find_jwt(view, start)
                    .or_else(|| encoded::find_service_account(view, start)),
                prefilter::DISCORD => structured_tokens::find_discord(view, start),
                prefilter::BASE64_JSON => encoded::find_service_account(view, start),
                prefilter::BASE64_PEM => encoded::find_private_key(view, start),
                prefilter::MANIFEST_DATA => {
                    self.find_in_manifest(view, last);
                    None
                }
                prefilter::RECOVERY => {
                    self.expect(recovery::find_codes(view, start));
                    None
                }
                prefilter::AZURE_SECRET => structured_tokens::find_azure_secret(view, start),
                prefilter::MAILCHIMP => structured_tokens::find_mailchimp(view, start),
                prefilter::COMMA => call::find_after_comma(view, last),
                prefilter::CALL => call::find_argument(view, last.saturating_sub(1)),
                prefilter::PIPE => command_line::find_piped_password(view, last),
                prefix => prefixed_tokens::find_prefixed_token(view, start, prefix)
                    .or_else(|| positional::find(view, start, prefix)),
            };
            let is_redacted = |secret: &SecretSpan| self.redaction.kinds.contains(secret.kind);
            if let Some(secret) = secret.filter(is_redacted) {
                // The text before the secret may contain another one.
                if secret.start > last + MAX_GAP_LEN {
                    self.expect([secret]);
                    continue;
                }
                if secret.kind == SecretKind::AwsAccessKey {
                    self.expect(structured_tokens::find_aws_secret(view, secret.end));
                }
                return Some(secret);
            }
        }
        None
    }

    /// Finds the values after `data:`, if that is in the manifest of a Kubernetes secret. They are
    /// returned when the search has reached them.
    fn find_in_manifest(&mut self, view: View<'_>, last: usize) {
        let Some(data) = kubernetes::find_data(view, last) else { return };
        let text = self.text.as_bytes();
        let has_manifest =
            *self.has_secret_manifest.get_or_insert_with(|| kubernetes::contains_secret(text));
        self.expect(kubernetes::find_values(view, &data, has_manifest));
    }

    /// Keeps secrets that were found ahead until the search has reached them.
    fn expect(&mut self, secrets: impl IntoIterator<Item = SecretSpan>) {
        let kinds = self.redaction.kinds;
        let secrets = secrets.into_iter().filter(|secret| kinds.contains(secret.kind));
        for secret in secrets {
            let is_apart =
                |other: &SecretSpan| secret.end <= other.start || other.end <= secret.start;
            if self.pending.iter().all(is_apart) {
                let at = self.pending.partition_point(|other| other.start > secret.start);
                self.pending.insert(at, secret);
            }
        }
    }

    /// Continues the search after a secret or a marker that ends at `end`.
    fn skip_to(&mut self, end: usize) {
        while self.pending.pop_if(|pending| pending.start < end).is_some() {}
        self.floor = end;
        self.progress = Progress::from(end);
    }
}
