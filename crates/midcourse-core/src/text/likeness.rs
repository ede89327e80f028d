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

/// The likeness of two texts: 1 for equal ones, 0 for texts without a pair of bytes in common.
pub fn likeness(a: &str, b: &str) -> f64 {
    if a == b {
        return 1.0;
    }
    let (a, b) = (Sketch::of(a.as_bytes()), Sketch::of(b.as_bytes()));
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
    fn alike_texts_are_alike() {
        assert!(likeness("cargo test --all -- --nocapture", "cargo test --all") > 0.6);
        assert!(likeness("grep -rn foo src/", "grep -rn fooo src/") > 0.85);
        assert!(likeness("cargo build", "ls -la /etc") < 0.3);
        assert!((likeness("", "") - 1.0).abs() < f64::EPSILON);
        assert!(likeness("", "x") < f64::EPSILON);
    }
}
