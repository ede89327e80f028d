//! Simulated fleets: experiments in which the effect of messages is known. They show how often the
//! analysis finds it, how often its intervals contain it, and how often the analysis claims an
//! effect where there is none. `docs/effect.md` has the figures, and the tests here compare.
//!
//! In a fleet, half of the runs are hard: problems recover less often. Most runs have several
//! problems, and those after the first depend on the messages before. Seeds are fixed.

use midcourse::{Assignment, Timestamp};

use super::interval::Estimate;
use super::{Case, CaseEnd, Comparison, Plan, PlanReport, Verdict, analyse};

const SIMULATIONS: u64 = 1_000;
const WITHIN_CALLS: u64 = 5;

/// SplitMix64, a generator of random numbers with a published definition.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from 0 to less than 1.
    #[expect(clippy::cast_precision_loss, reason = "a number of 53 bits is exact")]
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number of the standard normal distribution, by the method of Box and Muller.
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.unit(), std::f64::consts::TAU * self.unit());
        (-2.0 * radius.ln()).sqrt() * angle.cos()
    }
}

/// The probability that a problem recovers at each call, in easy and in hard runs.
#[derive(Clone, Copy)]
struct Recovery {
    easy: f64,
    hard: f64,
}

impl Recovery {
    /// Problems of which this share recovers within five calls. In easy runs it is more, in hard
    /// runs less, by half of what is possible.
    fn of(share: f64) -> Self {
        let per_call = |share: f64| 1.0 - (1.0 - share).powf(0.2);
        let spread = 0.5 * share.min(1.0 - share);
        Self { easy: per_call(share + spread), hard: per_call(share - spread) }
    }

    /// The true share of problems that are still there after so many calls.
    fn lasting(self, calls: i32) -> f64 {
        f64::midpoint((1.0 - self.easy).powi(calls), (1.0 - self.hard).powi(calls))
    }

    /// The true mean number of calls until recovery; problems that do not recover count as five.
    fn calls(self) -> f64 {
        (0..5).map(|calls| self.lasting(calls)).sum()
    }
}

#[derive(Clone, Copy)]
struct Fleet {
    /// Shares of problems that recover with and without a message.
    delivered: f64,
    withheld: f64,
    holdout: f64,
    cases: u64,
    /// Tokens of cases with a message over those of the others.
    token_ratio: f64,
}

impl Fleet {
    /// One experiment with this fleet.
    fn simulate(self, seed: u64) -> PlanReport {
        let plan = Plan {
            name: None,
            holdout: self.holdout,
            within_calls: WITHIN_CALLS,
            cases: self.cases,
        };
        let mut random = Random(seed);
        let mut cases = Vec::new();
        for run in 0..self.cases {
            let is_hard = random.happens(0.5);
            let mut got_message = false;
            for problem in 0..1 + random.next() % 3 {
                let assignment = match random.happens(self.holdout) {
                    true => Assignment::Withheld,
                    false => Assignment::Delivered,
                };
                // An agent that got a message before does better at the next problem.
                let helps = got_message || assignment == Assignment::Delivered;
                got_message |= assignment == Assignment::Delivered;
                let recovery = Recovery::of(if helps { self.delivered } else { self.withheld });
                let per_call = if is_hard { recovery.hard } else { recovery.easy };
                let mut calls = 1..=WITHIN_CALLS;
                let end = match calls.find(|_| random.happens(per_call)) {
                    Some(after_calls) => CaseEnd::Cleared { after_calls },
                    None => CaseEnd::NotCleared,
                };
                let ratio = if helps { self.token_ratio } else { 1.0 };
                let tokens = (10.0 + random.normal()).exp() * ratio;
                cases.push((
                    plan.clone(),
                    Case {
                        root: format!("run-{run}").into(),
                        at: Timestamp::from_unix_ms(run * 10_000 + problem),
                        pattern: "doom_loop".to_owned(),
                        host: "agent".to_owned(),
                        assignment,
                        is_shadow: false,
                        end,
                        tokens: Some(to_whole(tokens)),
                        success: None,
                    },
                ));
            }
        }
        analyse(cases).remove(0)
    }

    /// Fleets do not share their random numbers.
    fn seed(self) -> u64 {
        let shares = self.delivered.to_bits() ^ self.withheld.to_bits().rotate_left(16);
        Random(shares ^ self.holdout.to_bits().rotate_left(32) ^ self.cases).next()
    }

    fn simulate_all(self) -> Figures {
        let mut figures = Figures::default();
        let (delivered, withheld) = (Recovery::of(self.delivered), Recovery::of(self.withheld));
        for seed in 0..SIMULATIONS {
            let report = self.simulate(Random(seed ^ self.seed()).next());
            let effect = report.effect.unwrap();
            figures.recovery += covers(effect.recovery, self.delivered - self.withheld);
            figures.calls += covers(effect.calls, delivered.calls() - withheld.calls());
            figures.tokens += covers(effect.tokens, self.token_ratio);
            figures.claimed += f64::from(u8::from(effect.verdict != Verdict::NotShown));
        }
        figures
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number")]
const fn to_whole(number: f64) -> u64 {
    number as u64
}

/// 1 if the interval of a comparison contains the true value, otherwise 0.
fn covers(comparison: Comparison, truth: f64) -> f64 {
    let Estimate { low, high, .. } = comparison.difference.unwrap();
    f64::from(u8::from((low..=high).contains(&truth)))
}

/// In how many of the simulations the intervals contain the true value, and an effect is claimed.
#[derive(Default)]
struct Figures {
    recovery: f64,
    calls: f64,
    tokens: f64,
    claimed: f64,
}

fn percent(count: f64) -> f64 {
    count * 100.0 / f64::from(u32::try_from(SIMULATIONS).unwrap())
}

const fn fleet(delivered: f64, withheld: f64, holdout: f64, cases: u64, token_ratio: f64) -> Fleet {
    Fleet { delivered, withheld, holdout, cases, token_ratio }
}

/// Fleets with an effect.
const FLEETS: [Fleet; 6] = [
    fleet(0.5, 0.3, 0.2, 300, 0.7),
    fleet(0.5, 0.3, 0.5, 100, 0.5),
    fleet(0.35, 0.3, 0.2, 1_000, 0.9),
    fleet(0.9, 0.75, 0.3, 300, 0.8),
    fleet(0.12, 0.06, 0.5, 400, 1.0),
    fleet(0.3, 0.5, 0.2, 300, 1.5),
];

/// Fleets without one.
const NULL_FLEETS: [Fleet; 4] = [
    fleet(0.3, 0.3, 0.2, 300, 1.0),
    fleet(0.5, 0.5, 0.5, 100, 1.0),
    fleet(0.1, 0.1, 0.2, 500, 1.0),
    fleet(0.85, 0.85, 0.3, 300, 1.0),
];

/// The row of a fleet in the table of `docs/effect.md`.
fn row(fleet: Fleet, figures: &Figures) -> String {
    let Fleet { delivered, withheld, holdout, cases, .. } = fleet;
    format!(
        "| {:.0} % | {:.0} % | {holdout} | {cases} | {:.1} % | {:.1} % | {:.1} % | {:.1} % |",
        delivered * 100.0,
        withheld * 100.0,
        percent(figures.recovery),
        percent(figures.calls),
        percent(figures.tokens),
        percent(figures.claimed),
    )
}

/// Asserts that the page contains the lines. The error has all of them.
#[track_caller]
fn assert_on_page(lines: &[String]) {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/effect.md");
    let page = std::fs::read_to_string(page).unwrap();
    let is_there = |line: &String| page.lines().any(|known| known == line);
    assert!(lines.iter().all(is_there), "docs/effect.md has other lines:\n{}", lines.join("\n"));
}

#[test]
fn intervals_contain_the_true_effect() {
    let mut lines = Vec::new();
    for fleet in FLEETS.into_iter().chain(NULL_FLEETS) {
        let figures = fleet.simulate_all();
        let line = row(fleet, &figures);
        for covered in [figures.recovery, figures.calls, figures.tokens] {
            assert!((93.0..=97.0).contains(&percent(covered)), "{line}");
        }
        if fleet.delivered == fleet.withheld {
            assert!(percent(figures.claimed) <= 6.5, "an effect that is not there: {line}");
        }
        lines.push(line);
    }
    assert_on_page(&lines);
}

#[test]
fn a_known_effect_is_found_and_a_null_effect_is_not() {
    let effect = fleet(0.6, 0.3, 0.2, 300, 1.0).simulate(1).effect.unwrap();
    assert_eq!(effect.verdict, Verdict::Helped);
    let Estimate { low, high, .. } = effect.recovery.difference.unwrap();
    assert!(low > 0.0 && (low..=high).contains(&0.3), "{low} to {high}");
    let harm = fleet(0.3, 0.6, 0.2, 300, 1.0).simulate(1).effect.unwrap();
    assert_eq!(harm.verdict, Verdict::Hurt);
    let null = fleet(0.4, 0.4, 0.2, 300, 1.0).simulate(1).effect.unwrap();
    assert_eq!(null.verdict, Verdict::NotShown);
}

/// Cases that show a difference in four of five experiments, by the usual approximation.
fn cases_needed(delivered: f64, withheld: f64, holdout: f64) -> u64 {
    const Z_OF_TEST: f64 = 1.96;
    const Z_OF_POWER: f64 = 0.8416;
    let sides = (1.0 - holdout, holdout);
    let variance = |share: f64| share * (1.0 - share);
    let pooled = variance(sides.0 * delivered + sides.1 * withheld) / (sides.0 * sides.1);
    let separate = variance(delivered) / sides.0 + variance(withheld) / sides.1;
    let spread = Z_OF_TEST * pooled.sqrt() + Z_OF_POWER * separate.sqrt();
    let cases = (spread / (delivered - withheld)).powi(2);
    to_whole((cases / 10.0).ceil()) * 10
}

#[test]
fn the_page_says_how_many_cases_an_answer_needs() {
    const HOLDOUTS: [f64; 3] = [0.1, 0.2, 0.5];
    let mut lines = Vec::new();
    for (withheld, delivered) in
        [(0.3, 0.6), (0.3, 0.5), (0.3, 0.4), (0.3, 0.35), (0.6, 0.8), (0.6, 0.7), (0.6, 0.65)]
    {
        let cases = HOLDOUTS.map(|holdout| cases_needed(delivered, withheld, holdout).to_string());
        lines.push(format!(
            "| from {:.0} % to {:.0} % | {} |",
            withheld * 100.0,
            delivered * 100.0,
            cases.join(" | ")
        ));
    }
    // The approximation is checked by simulation where that is quick.
    for holdout in HOLDOUTS {
        let cases = cases_needed(0.5, 0.3, holdout);
        let found = percent(fleet(0.5, 0.3, holdout, cases, 1.0).simulate_all().claimed);
        assert!((76.0..=86.0).contains(&found), "holdout {holdout}: {found} %");
    }
    assert_on_page(&lines);
}
