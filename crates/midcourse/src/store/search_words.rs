//! The words of a search: where they are in a text, and the part of the text around them.
//!
//! A word is a sequence of letters and digits, as in the search index. A word matches only whole
//! words; upper and lower case do not matter.

use std::ops::Range;

/// The words of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchWords(Vec<String>);

impl SearchWords {
    /// The words in a text. Other characters separate words.
    pub fn of(text: &str) -> Self {
        Self(words(text).map(|(_, word)| word.to_lowercase()).collect())
    }

    /// Whether there is no word.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the text contains all the words, in any order.
    pub fn are_in(&self, text: &str) -> bool {
        let mut missing: Vec<&str> = self.0.iter().map(String::as_str).collect();
        for (_, word) in words(text) {
            missing.retain(|wanted| !is_equal(word, wanted));
            if missing.is_empty() {
                return true;
            }
        }
        missing.is_empty()
    }

    /// The places of the words in the text, in order.
    pub fn places(&self, text: &str) -> Vec<Range<usize>> {
        let is_wanted = |word: &str| self.0.iter().any(|wanted| is_equal(word, wanted));
        words(text).filter(|(_, word)| is_wanted(word)).map(|(place, _)| place).collect()
    }

    /// The line of the text with most of the words, and of these the first. Lines without any of
    /// the words are not considered; if there is no other, returns the first line that is not empty.
    pub fn best_line<'a>(&self, text: &'a str) -> &'a str {
        let mut best = (0, text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default());
        for line in text.lines() {
            let found =
                self.0.iter().filter(|wanted| words(line).any(|(_, word)| is_equal(word, wanted)));
            let count = found.count();
            if count > best.0 {
                best = (count, line);
            }
        }
        best.1
    }

    /// A part of a line with at most `max_chars` characters and whole words, around the first of the
    /// search words. An ellipsis marks what was left out.
    pub fn excerpt(&self, line: &str, max_chars: usize) -> String {
        let line = line.trim();
        if line.chars().count() <= max_chars {
            return line.to_owned();
        }
        let first = self.places(line).first().map_or(0, |place| place.start);
        // A third of the space for what comes before the word.
        let mut start = line
            .get(..first)
            .and_then(|before| before.char_indices().rev().nth((max_chars / 3).saturating_sub(1)))
            .map_or(0, |(at, _)| at);
        if start > 0 {
            // Begin with a whole word, if there is one before the search word.
            let rest = line.get(start..first).unwrap_or_default();
            start = rest.find(char::is_whitespace).map_or(start, |at| start.saturating_add(at));
        }
        let rest = line.get(start..).unwrap_or_default().trim_start();
        let before = if start > 0 { "…" } else { "" };
        let space = max_chars.saturating_sub(before.chars().count());
        if rest.chars().count() <= space {
            return format!("{before}{rest}");
        }
        let end = rest.char_indices().nth(space.saturating_sub(1)).map_or(rest.len(), |(at, _)| at);
        let cut = rest.get(..end).unwrap_or_default();
        let is_inside_word =
            rest.get(end..).is_some_and(|more| !more.starts_with(char::is_whitespace));
        let cut = match cut.rfind(char::is_whitespace).filter(|at| *at > cut.len() / 2) {
            Some(at) if is_inside_word => cut.get(..at).unwrap_or_default(),
            _ => cut,
        };
        format!("{before}{}…", cut.trim_end())
    }
}

fn is_equal(word: &str, wanted: &str) -> bool {
    word.chars().flat_map(char::to_lowercase).eq(wanted.chars())
}

/// The words of a text, with their places.
fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    let mut from = 0_usize;
    std::iter::from_fn(move || {
        let rest = text.get(from..)?;
        let start = from.saturating_add(rest.find(char::is_alphanumeric)?);
        let word = text.get(start..)?;
        let length = word.find(|c: char| !c.is_alphanumeric()).unwrap_or(word.len());
        from = start.saturating_add(length);
        Some((start..from, word.get(..length)?))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::SearchWords;

    #[test]
    fn only_whole_words_match() {
        let words = SearchWords::of("Make rule");
        assert!(words.are_in("no RULE to make x"));
        assert!(!words.are_in("no rules in the makefile"));
        assert_eq!(words.places("make the makefile make"), [0..4, 18..22]);
        let places = SearchWords::of("grün").places("sehr GRÜN!");
        assert_eq!(places.first(), Some(&(5..10)));
        assert_eq!(places.len(), 1);
        assert!(SearchWords::of("?!").is_empty());
    }

    #[test]
    fn the_line_with_most_words_is_the_best() {
        let words = SearchWords::of("error rule");
        assert_eq!(
            words.best_line("\nmake\nerror: x\nerror: no rule\nerror: no rule 2"),
            "error: no rule"
        );
        assert_eq!(words.best_line("\n \nfirst\nsecond"), "first");
    }

    #[test]
    fn an_excerpt_has_whole_words() {
        let words = SearchWords::of("needle");
        let line = "one two three four five six needle seven eight nine ten eleven";
        assert_eq!(words.excerpt(line, 30), "…five six needle seven eight…");
        assert_eq!(words.excerpt(line, 80), line);
        assert_eq!(words.excerpt("needle in a haystack of straw", 16), "needle in a…");
    }

    proptest! {
        #[test]
        fn an_excerpt_is_never_too_long_and_has_the_word(
            before in "[a-zü ]{0,80}", after in "[a-zü ]{0,80}", max in 12_usize..60,
        ) {
            let words = SearchWords::of("Needle7");
            let excerpt = words.excerpt(&format!("{before} needle7 {after}"), max);
            prop_assert!(excerpt.chars().count() <= max, "{excerpt}");
            prop_assert!(excerpt.contains("needle7"), "{excerpt}");
        }
    }
}
