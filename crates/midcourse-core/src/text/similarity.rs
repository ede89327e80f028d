//! Similarity of two short texts, by the pairs of adjacent bytes (bigrams) that they share.
//!
//! The bigrams of a text are hashed into a fixed bit set, so comparing costs the same for any two
//! texts and allocates nothing.

/// Length of a bit set in `u64` words. It has several times more bits than an excerpt has pairs of
/// adjacent bytes, so that few pairs share a bit.
const SKETCH_WORDS: usize = 32;

struct Sketch([u64; SKETCH_WORDS]);

impl Sketch {
    fn of(text: &[u8]) -> Self {
        let mut bits = [0_u64; SKETCH_WORDS];
        for pair in text.windows(2) {
            let [a, b] = pair else { continue };
            // Fibonacci hashing of the two bytes; the top bits are the best mixed.
            let mixed = (u32::from(*a) << 8 | u32::from(*b)).wrapping_mul(0x9E37_79B1) >> 21;
            if let Some(word) = bits.get_mut(mixed as usize / 64) {
                *word |= 1 << (mixed % 64);
            }
        }
        Self(bits)
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    fn shared(&self, other: &Self) -> u32 {
        self.0.iter().zip(&other.0).map(|(a, b)| (a & b).count_ones()).sum()
    }
}

/// The similarity of the parts in which two texts differ: from the first word that is different to
/// the last.
///
/// The arguments of two calls often share keys and paths, so comparing the whole arguments would
/// overstate their similarity.
pub(crate) fn similarity_of_change(a: &str, b: &str) -> f64 {
    if a == b {
        return 1.0;
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    let shared = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let word = a.iter().take(shared).rev().take_while(|byte| is_word(byte)).count();
    let (a, b) = (a.split_at(shared - word).1, b.split_at(shared - word).1);
    let shared = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let word = a.iter().rev().take(shared).rev().take_while(|byte| is_word(byte)).count();
    let (a, b) = (a.split_at(a.len() - (shared - word)).0, b.split_at(b.len() - (shared - word)).0);
    similarity_of_bytes(a, b)
}

/// The similarity of two texts: 0 if they have no pair of adjacent bytes in common, 1 if they are
/// equal.
pub fn similarity(a: &str, b: &str) -> f64 {
    if a == b {
        return 1.0;
    }
    similarity_of_bytes(a.as_bytes(), b.as_bytes())
}

fn similarity_of_bytes(a: &[u8], b: &[u8]) -> f64 {
    let (a, b) = (Sketch::of(a), Sketch::of(b));
    let both = a.count() + b.count();
    if both == 0 {
        return 0.0;
    }
    f64::from(2 * a.shared(&b)) / f64::from(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_of_change_ignores_the_common_beginning_and_end() {
        let grep = |pattern: &str| {
            format!(
                "{{\"output_mode\":\"content\",\"path\":\"/a/long/path\",\"pattern\":\"{pattern}\"}}"
            )
        };
        assert!(similarity(&grep("alpha"), &grep("bravo")) > 0.85);
        assert!(similarity_of_change(&grep("alpha"), &grep("bravo")) < 0.3);
        assert!(similarity_of_change(&grep("first_case1"), &grep("first_case2")) > 0.85);
        assert!(similarity_of_change("limit 200", "limit 300") < 0.85);
        assert!((similarity_of_change("same", "same") - 1.0).abs() < f64::EPSILON);
        assert!(similarity_of_change("", "x") < f64::EPSILON);
        assert!(similarity_of_change("abc", "abcabc") > 0.5);
    }

    #[test]
    fn similar_texts_score_high_and_different_texts_low() {
        assert!(similarity("cargo test --all -- --nocapture", "cargo test --all") > 0.6);
        assert!(similarity("grep -rn foo src/", "grep -rn fooo src/") > 0.85);
        assert!(similarity("cargo build", "ls -la /etc") < 0.3);
        assert!((similarity("", "") - 1.0).abs() < f64::EPSILON);
        assert!(similarity("", "x") < f64::EPSILON);
    }
}
