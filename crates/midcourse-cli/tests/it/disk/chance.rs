//! The randomness of one crash state: the same seed always gives the same state.

/// A small generator (SplitMix64) with this state's inclination to keep and to tear.
pub(super) struct Chance {
    state: u64,
    /// Of eight unsettled changes, how many survive.
    kept_of_eight: u64,
    /// Of eight unsettled writes, how many are torn.
    torn_of_eight: u64,
}

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        let mut chance = Self { state: seed, kept_of_eight: 0, torn_of_eight: 0 };
        // Some states keep nearly all and some nearly nothing: one lost write among many kept
        // ones, or one kept among many lost, is what an even coin hardly ever shows.
        chance.kept_of_eight = [1, 4, 7, 7][chance.below(4)];
        chance.torn_of_eight = [0, 2, 4][chance.below(3)];
        chance
    }

    pub(super) fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number less than the bound.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap();
        usize::try_from(self.number() % bound).unwrap()
    }

    pub(super) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub(super) fn survives(&mut self) -> bool {
        self.number() % 8 < self.kept_of_eight
    }

    pub(super) fn tears(&mut self) -> bool {
        self.number() % 8 < self.torn_of_eight
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.number().to_le_bytes()[0]
    }
}
