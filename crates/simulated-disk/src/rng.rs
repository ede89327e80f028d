//! The random numbers that decide what one simulated power cut keeps.
//!
//! The same seed always gives the same numbers. The seed also decides two probabilities: that an
//! unsynced change survives, and that a write is torn (only some of its sectors reach the disk).

/// A random number generator that uses the SplitMix64 algorithm.
pub(super) struct CrashRng {
    state: u64,
    /// On average, this many of eight unsynced changes survive.
    kept_of_eight: u64,
    /// On average, this many of eight unsynced writes are written only in part.
    torn_of_eight: u64,
}

impl CrashRng {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Self { state: seed, kept_of_eight: 0, torn_of_eight: 0 };
        // Some power cuts keep nearly every change, some nearly none. If each change always
        // survived with probability 1/2, a power cut that loses only one of many changes, or keeps
        // only one, would almost never be tested.
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
