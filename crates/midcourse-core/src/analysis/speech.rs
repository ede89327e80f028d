//! What the model says between two calls: how often the same, how often only what it will do.

use super::{SAME_WORDS, Speech, TEXTS_MAX};
use crate::digest::Digest;
use crate::text::{Excerpt, is_announcement, repeats_itself, similarity};

impl Speech {
    /// A call was made or a person spoke: what was said before that is settled.
    pub(super) fn begin_anew(&mut self) {
        self.without_call = 0;
        self.same_text = 0;
        self.announcements = 0;
        self.recent.clear();
        self.is_chant = false;
    }

    /// Takes in a message that is not empty.
    pub(super) fn heard(&mut self, text: &str, has_calls: bool) {
        let (digest, excerpt) = (Digest::of(text.as_bytes()), Excerpt::of(text));
        let is_alike = self.text == Some(digest)
            || similarity(self.excerpt.as_str(), excerpt.as_str()) >= SAME_WORDS;
        let in_a_row = if is_alike { self.same_text.saturating_add(1) } else { 1 };
        let before = self.recent.iter().filter(|known| **known == digest).count();
        self.same_text = in_a_row.max(u32::try_from(before).unwrap_or(0) + 1);
        self.is_chant = repeats_itself(text);
        self.text = Some(digest);
        self.excerpt = excerpt;
        if self.recent.len() == TEXTS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(digest);
        if has_calls {
            return;
        }
        self.without_call = self.without_call.saturating_add(1);
        self.announcements =
            if is_announcement(text) { self.announcements.saturating_add(1) } else { 0 };
    }
}
