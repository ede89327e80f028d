//! The random numbers of one crash state.
//!
//! The same seed always gives the same state. The shares of changes that survive and of writes
//! that are torn differ between states.

/// A SplitMix64 generator.
pub(super) struct CrashRng {
    state: u64,
    /// How many of eight changes that are not durable survive, on average.
    kept_of_eight: u64,
    /// How many of eight writes that are not durable are written only in part, on average.
    torn_of_eight: u64,
}

impl CrashRng {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Self { state: seed, kept_of_eight: 0, torn_of_eight: 0 };
        // Some states keep nearly everything and some nearly nothing. With equal odds, a state in
        // which a single write is lost, or a single one kept, would be very rare.
        rng.kept_of_eight = [1, 4, 7, 7][rng.below(4)];
        rng.torn_of_eight = [0, 2, 4][rng.below(3)];
        rng
    }

    pub(super) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random number less than `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap();
        usize::try_from(self.next_u64() % bound).unwrap()
    }

    /// True with a probability of 1 in `bound`.
    pub(super) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub(super) fn is_kept(&mut self) -> bool {
        self.next_u64() % 8 < self.kept_of_eight
    }

    pub(super) fn is_torn(&mut self) -> bool {
        self.next_u64() % 8 < self.torn_of_eight
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.next_u64().to_le_bytes()[0]
    }
}
