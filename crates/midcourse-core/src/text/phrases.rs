//! Searches a text for many phrases in one pass, ignoring ASCII case.
//!
//! A phrase matches only at the start of a word, so most bytes of the text are skipped. The phrases
//! are sorted into buckets by their first two bytes at compile time. An Aho-Corasick automaton
//! would be an alternative, but it has to be built at run time, which costs too much in the short
//! processes that an agent's hooks start, one for every event.

/// Flag of a phrase that matches only whole words: in the text, a word ends where the phrase ends.
pub(super) const WHOLE: u16 = 1 << 15;

/// The number of buckets. The first two bytes of a phrase determine its bucket.
const BUCKETS: usize = 512;

/// A list of phrases to search for, each with bits that say what it means.
pub(super) struct Phrases<const N: usize> {
    /// Sorted by bucket.
    list: [(&'static str, u16); N],
    /// The phrases of bucket `b` are `list[starts[b]..starts[b + 1]]`.
    starts: [u16; BUCKETS + 1],
}

impl<const N: usize> Phrases<N> {
    /// Prepares the search. The phrases must have at least two bytes, and no uppercase ASCII
    /// letters; their order does not matter.
    pub(super) const fn new(list: [(&'static str, u16); N]) -> Self {
        let list = sorted(list);
        let mut starts = [0_u16; BUCKETS + 1];
        let (mut bucket, mut at) = (0, 0);
        while bucket < starts.len() {
            #[expect(clippy::indexing_slicing, reason = "every index is below the length")]
            {
                while at < N && bucket_of(list[at].0.as_bytes()) < bucket {
                    at += 1;
                }
                #[expect(clippy::cast_possible_truncation, reason = "lists are far below 65536")]
                {
                    starts[bucket] = at as u16;
                }
            }
            bucket += 1;
        }
        Self { list, starts }
    }

    /// Finds all phrases in a text: the byte offset and the bits of each match, without [`WHOLE`].
    pub(super) fn find_in<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (usize, u16)> + 'a {
        let (mut at, mut next, mut is_in_word) = (0, 0, false);
        let mut candidates = [].iter();
        std::iter::from_fn(move || {
            loop {
                for candidate in candidates.by_ref() {
                    if let Some(meaning) = match_at(text.get(at..)?, candidate) {
                        return Some((at, meaning));
                    }
                }
                // Skip to the next word at which a phrase may begin.
                candidates = loop {
                    let begins =
                        !std::mem::replace(&mut is_in_word, is_word_byte(*text.get(next)?));
                    at = next;
                    next += 1;
                    if begins {
                        let found = self.candidates(text.get(at..)?);
                        if !found.is_empty() {
                            break found.iter();
                        }
                    }
                };
            }
        })
    }

    /// The bits, without [`WHOLE`], of each phrase that the text begins with.
    pub(super) fn at_start_of<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = u16> + 'a {
        self.candidates(text).iter().filter_map(move |candidate| match_at(text, candidate))
    }

    /// The phrases that a text may begin with.
    fn candidates(&self, text: &[u8]) -> &[(&'static str, u16)] {
        let bucket = bucket_of(text);
        let from = self.starts.get(bucket).copied().map(usize::from);
        let to = self.starts.get(bucket + 1).copied().map(usize::from);
        from.zip(to).and_then(|(from, to)| self.list.get(from..to)).unwrap_or_default()
    }
}

/// The bucket of a phrase, or of the phrases that a text may begin with. Ignores ASCII case.
const fn bucket_of(text: &[u8]) -> usize {
    match text {
        [first, second, ..] => {
            let pair =
                first.to_ascii_lowercase() as usize * 37 + second.to_ascii_lowercase() as usize;
            pair % BUCKETS
        }
        _ => 0,
    }
}

const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// The bits of a phrase, without [`WHOLE`], if the text begins with it.
fn match_at(text: &[u8], (phrase, meaning): &(&'static str, u16)) -> Option<u16> {
    let (found, after) = text.split_at_checked(phrase.len())?;
    // A phrase that ends in a digit must end the number: `429` does not match in `4290`.
    let next = after.first();
    let is_longer_number =
        found.last().is_some_and(u8::is_ascii_digit) && next.is_some_and(u8::is_ascii_digit);
    let is_longer_word = *meaning & WHOLE != 0 && next.is_some_and(u8::is_ascii_alphanumeric);
    let is_match =
        !is_longer_number && !is_longer_word && found.eq_ignore_ascii_case(phrase.as_bytes());
    is_match.then_some(*meaning & !WHOLE)
}

/// Sorts by bucket. An insertion sort, because a `const fn` cannot call `sort`.
const fn sorted<const N: usize>(mut list: [(&'static str, u16); N]) -> [(&'static str, u16); N] {
    let mut at = 1;
    while at < N {
        let mut to = at;
        #[expect(clippy::indexing_slicing, reason = "every index is below the length")]
        while to > 0 && bucket_of(list[to].0.as_bytes()) < bucket_of(list[to - 1].0.as_bytes()) {
            let moved = list[to];
            list[to] = list[to - 1];
            list[to - 1] = moved;
            to -= 1;
        }
        at += 1;
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn meaning_of(text: &[u8]) -> u16 {
        PHRASES.find_in(text).fold(0, |all, (_, meaning)| all | meaning)
    }

    static PHRASES: Phrases<4> =
        Phrases::new([("rate limit", 1), ("429", 2), ("connection refused", 4), ("\"ok\"", 8)]);

    #[test]
    fn phrases_match_only_at_the_start_of_a_word() {
        assert_eq!(meaning_of(b"Error: Rate Limit hit (429)"), 3);
        assert_eq!(meaning_of(b"accelerate limit 1429 4290"), 0);
        assert_eq!(meaning_of(b"connection refused"), 4);
        assert_eq!(meaning_of(b"connection refuse"), 0);
        assert_eq!(PHRASES.find_in(b"x 429 429").collect::<Vec<_>>(), [(2, 2), (6, 2)]);
    }

    proptest! {
        #[test]
        fn searching_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            meaning_of(&bytes);
        }
    }
}
