//! Random texts for the files that benchmarks generate.

use std::fmt::Write as _;

/// A small random number generator with a fixed seed, so that generated files are the same everywhere.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % sides
    }

    /// A random length of a tool result, distributed as in real runs of coding agents: half are
    /// below 700 bytes, a tenth above 4 KB.
    fn length(&mut self) -> usize {
        let sizes = [60, 180, 320, 480, 700, 1_100, 1_700, 2_600, 4_000, 7_000];
        let size = sizes[usize::try_from(self.roll(10)).unwrap_or(0)];
        size + usize::try_from(self.roll(100)).unwrap_or(0)
    }
}

/// A text that looks like the output of tools.
pub(crate) fn text(dice: &mut Dice, prefix: &str) -> String {
    let length = dice.length();
    let mut text = prefix.to_owned();
    while text.len() < length {
        let (a, b) = (dice.roll(10_000), dice.roll(300));
        let _ = match dice.roll(4) {
            0 => writeln!(text, "    let value_{a} = items.get({b}).map(|item| item.name());"),
            1 => writeln!(text, "src/module_{b}.rs:{a}:9: warning: unused variable `x{a}`"),
            2 => {
                writeln!(text, "-rw-r--r-- 1 agent agent {a} Nov  3 08:{:02} file_{b}.txt", b % 60)
            }
            _ => writeln!(text, "2026-11-03T08:{:02}:07Z INFO worker {b} took {a} ms", b % 60),
        };
    }
    text
}
