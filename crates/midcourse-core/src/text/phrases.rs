//! Looking for many phrases at once: one pass, no copy, whatever the case of the letters.
//!
//! A phrase is found only where a word begins, which is where the words that matter stand and most
//! bytes do not. The list is put in order by the compiler.

/// Beside a meaning: the phrase ends where a word ends.
pub(super) const WHOLE: u16 = 1 << 15;

/// Phrases with what each of them means.
pub(super) struct Phrases<const N: usize> {
    list: [(&'static str, u16); N],
    /// Where the phrases with each first byte begin in the list.
    starts: [u16; 129],
}

impl<const N: usize> Phrases<N> {
    /// The phrases, in small ASCII letters, in any order.
    pub(super) const fn new(list: [(&'static str, u16); N]) -> Self {
        let list = sorted(list);
        let mut starts = [0_u16; 129];
        let (mut byte, mut at) = (0, 0);
        while byte < starts.len() {
            #[expect(clippy::indexing_slicing, reason = "every index is below the length")]
            {
                while at < N && (list[at].0.as_bytes()[0] as usize) < byte {
                    at += 1;
                }
                #[expect(clippy::cast_possible_truncation, reason = "a list has few phrases")]
                {
                    starts[byte] = at as u16;
                }
            }
            byte += 1;
        }
        Self { list, starts }
    }

    /// The phrases that a text holds, by where each begins and what it means.
    pub(super) fn find_in<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (usize, u16)> + 'a {
        let mut is_in_word = false;
        text.iter().enumerate().flat_map(move |(at, byte)| {
            let begins = !std::mem::replace(&mut is_in_word, byte.is_ascii_alphanumeric());
            let candidates = if begins { self.beginning_with(*byte) } else { &[] };
            let here = text.get(at..).unwrap_or_default();
            let second = here.get(1).map(u8::to_ascii_lowercase);
            candidates.iter().filter_map(move |(phrase, meaning)| {
                // Two bytes tell most phrases apart.
                if phrase.as_bytes().get(1).copied() != second {
                    return None;
                }
                let (found, behind) = here.split_at_checked(phrase.len())?;
                // 429 is another number than 4290.
                let next = behind.first();
                let is_cut = found.last().is_some_and(u8::is_ascii_digit)
                    && next.is_some_and(u8::is_ascii_digit);
                let goes_on = *meaning & WHOLE != 0 && next.is_some_and(u8::is_ascii_alphanumeric);
                if is_cut || goes_on {
                    return None;
                }
                let is_it = found.eq_ignore_ascii_case(phrase.as_bytes());
                is_it.then_some((at, *meaning & !WHOLE))
            })
        })
    }

    fn beginning_with(&self, byte: u8) -> &[(&'static str, u16)] {
        let byte = usize::from(byte.to_ascii_lowercase());
        let from = self.starts.get(byte).copied().map(usize::from);
        let to = self.starts.get(byte + 1).copied().map(usize::from);
        from.zip(to).and_then(|(from, to)| self.list.get(from..to)).unwrap_or_default()
    }
}

/// In the order of the first bytes.
const fn sorted<const N: usize>(mut list: [(&'static str, u16); N]) -> [(&'static str, u16); N] {
    let mut at = 1;
    while at < N {
        let mut place = at;
        #[expect(clippy::indexing_slicing, reason = "every index is below the length")]
        while place > 0 && list[place].0.as_bytes()[0] < list[place - 1].0.as_bytes()[0] {
            let moved = list[place];
            list[place] = list[place - 1];
            list[place - 1] = moved;
            place -= 1;
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
        SOME.find_in(text).fold(0, |all, (_, meaning)| all | meaning)
    }

    static SOME: Phrases<4> =
        Phrases::new([("rate limit", 1), ("429", 2), ("connection refused", 4), ("\"ok\"", 8)]);

    #[test]
    fn phrases_are_found_where_words_begin() {
        assert_eq!(meaning_of(b"Error: Rate Limit hit (429)"), 3);
        assert_eq!(meaning_of(b"accelerate limit 1429 4290"), 0);
        assert_eq!(meaning_of(b"connection refused"), 4);
        assert_eq!(meaning_of(b"connection refuse"), 0);
        assert_eq!(SOME.find_in(b"x 429 429").collect::<Vec<_>>(), [(2, 2), (6, 2)]);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_searched(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            meaning_of(&bytes);
        }
    }
}
