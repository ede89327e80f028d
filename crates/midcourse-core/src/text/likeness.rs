//! How alike two short texts are, by the pairs of neighbouring bytes they share.

/// Bits in a sketch: several times the pairs an excerpt can hold, so that few collide.
const WORDS: usize = 32;

struct Sketch([u64; WORDS]);

impl Sketch {
    fn of(text: &[u8]) -> Self {
        let mut bits = [0_u64; WORDS];
        for pair in text.windows(2) {
            let [a, b] = pair else { continue };
            // Fibonacci hashing of the pair; the top bits are the well-mixed ones.
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

/// The likeness of two texts where they differ: from the first word that is not the same to the
/// last one.
///
/// Arguments share their keys and paths, which says nothing; what counts is how alike the words
/// are that were changed.
pub(crate) fn likeness_of_change(a: &str, b: &str) -> f64 {
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
    likeness_of_bytes(a, b)
}

/// The likeness of two texts: 1 for equal ones, 0 for texts without a pair of bytes in common.
pub fn likeness(a: &str, b: &str) -> f64 {
    if a == b {
        return 1.0;
    }
    likeness_of_bytes(a.as_bytes(), b.as_bytes())
}

fn likeness_of_bytes(a: &[u8], b: &[u8]) -> f64 {
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
    fn only_what_was_changed_counts() {
        let grep = |pattern: &str| {
            format!(
                "{{\"output_mode\":\"content\",\"path\":\"/a/long/path\",\"pattern\":\"{pattern}\"}}"
            )
        };
        assert!(likeness(&grep("alpha"), &grep("bravo")) > 0.85);
        assert!(likeness_of_change(&grep("alpha"), &grep("bravo")) < 0.3);
        assert!(likeness_of_change(&grep("first_case1"), &grep("first_case2")) > 0.85);
        assert!(likeness_of_change("limit 200", "limit 300") < 0.85);
        assert!((likeness_of_change("same", "same") - 1.0).abs() < f64::EPSILON);
        assert!(likeness_of_change("", "x") < f64::EPSILON);
        assert!(likeness_of_change("abc", "abcabc") > 0.5);
    }

    #[test]
    fn alike_texts_are_alike() {
        assert!(likeness("cargo test --all -- --nocapture", "cargo test --all") > 0.6);
        assert!(likeness("grep -rn foo src/", "grep -rn fooo src/") > 0.85);
        assert!(likeness("cargo build", "ls -la /etc") < 0.3);
        assert!((likeness("", "") - 1.0).abs() < f64::EPSILON);
        assert!(likeness("", "x") < f64::EPSILON);
    }
}
