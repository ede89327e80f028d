//! The fold with its detectors: what holds now, and what has just begun to hold.

use std::sync::Arc;

use super::{BuiltIn, Detection, PatternDetector, SavedDetector};
use crate::analysis::{TrajectoryAnalysis, TrajectoryAnalysisConfig, TrajectoryPattern};
use crate::fault::{Fault, guard_mut};
use crate::record::TrajectoryRecord;

/// The most other people's detectors: one byte numbers them together with the built-in ones.
const CUSTOM_DETECTORS_MAX: usize = 128;

/// Builds the analysis of a run, record by record.
///
/// ```
/// use midcourse_core::{TrajectoryAnalysisConfig, TrajectoryBuilder, parse_notation};
///
/// let mut builder = TrajectoryBuilder::new(TrajectoryAnalysisConfig::shipped());
/// let records = parse_notation("
///     bash make  !! error: missing separator
///     bash make  !! error: missing separator
///     bash make  !! error: missing separator
/// ")?;
/// for record in &records {
///     builder.push(record);
/// }
/// assert_eq!(builder.analysis().consecutive_errors(), 3);
/// assert_eq!(builder.analysis().patterns()[0].pattern_type().as_str(), "doom_loop");
/// # Ok::<(), midcourse_core::NotationError>(())
/// ```
pub struct TrajectoryBuilder {
    analysis: TrajectoryAnalysis,
    built_in: BuiltIn,
    custom: Vec<Box<dyn PatternDetector>>,
}

/// What one record changed.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    /// Patterns that did not hold before, or hold for another cause.
    pub(crate) begun: Vec<TrajectoryPattern>,
    /// Detectors that failed.
    pub(crate) faults: Vec<Fault>,
}

impl TrajectoryBuilder {
    /// A run that has not begun, watched by the built-in detectors.
    pub fn new(config: TrajectoryAnalysisConfig) -> Self {
        Self {
            analysis: TrajectoryAnalysis::new(Arc::new(config)),
            built_in: BuiltIn::default(),
            custom: Vec::new(),
        }
    }

    /// The same, watched by one more detector. The 129th and later ones are not asked.
    #[must_use]
    pub fn with_detector(mut self, detector: impl PatternDetector + 'static) -> Self {
        if self.custom.len() < CUSTOM_DETECTORS_MAX {
            self.custom.push(Box::new(detector));
        }
        self
    }

    /// Takes in one record and returns the patterns that begin to hold with it.
    pub fn push(&mut self, record: &TrajectoryRecord) -> Vec<TrajectoryPattern> {
        self.apply(record, 0).begun
    }

    /// The analysis so far.
    pub const fn analysis(&self) -> &TrajectoryAnalysis {
        &self.analysis
    }

    pub(crate) fn analysis_mut(&mut self) -> &mut TrajectoryAnalysis {
        &mut self.analysis
    }

    pub(crate) fn apply(&mut self, record: &TrajectoryRecord, prompt: u8) -> Noticed {
        self.analysis.apply(record, prompt);
        self.look(record)
    }

    /// Lets the detectors look at what the latest record made of the run. The built-in ones look
    /// only where somebody did or said something; others see every record.
    pub(crate) fn look(&mut self, record: &TrajectoryRecord) -> Noticed {
        let Self { analysis, built_in, custom } = self;
        let mut noticed = Noticed::default();
        let mut number = 0_u8;
        let has_news = analysis.has_news();
        if !has_news && custom.is_empty() {
            return noticed;
        }
        let custom = custom.iter_mut().map(|boxed| -> &mut dyn PatternDetector { &mut **boxed });
        let all = built_in.each().into_iter().zip(std::iter::repeat(has_news));
        for (detector, is_asked) in all.chain(custom.zip(std::iter::repeat(true))) {
            if !is_asked {
                number = number.wrapping_add(1);
                continue;
            }
            let looked = guard_mut(|| detector.detect(analysis, record));
            match looked {
                Ok(Detection::Unchanged) => {}
                Ok(Detection::Absent) => analysis.forget_pattern(number),
                Ok(Detection::Present(pattern)) => {
                    if let Some(begun) = analysis.believe(number, pattern) {
                        noticed.begun.push(begun);
                    }
                }
                Err(failure) => {
                    noticed.faults.push(failure.of(detector.name()));
                    // Its state may be half-changed. If it cannot even forget, it is asked anyway.
                    let _ = guard_mut(|| detector.reset());
                    analysis.forget_pattern(number);
                }
            }
            number = number.wrapping_add(1);
        }
        noticed
    }

    pub(crate) fn save(&self) -> (&TrajectoryAnalysis, &BuiltIn, Vec<SavedDetector>) {
        let custom = self.custom.iter().map(|detector| SavedDetector::of(&**detector)).collect();
        (&self.analysis, &self.built_in, custom)
    }

    /// Goes on from what [`Self::save`] gave, with this builder's own configuration.
    pub(crate) fn restore(
        &mut self,
        analysis: TrajectoryAnalysis,
        built_in: BuiltIn,
        custom: &[SavedDetector],
    ) {
        self.analysis = analysis.with_config_of(&self.analysis);
        self.built_in = built_in;
        // A pattern belongs to a detector by its number, which holds only for the same list.
        let is_same = |(at, saved): (usize, &SavedDetector)| {
            self.custom.get(at).is_some_and(|detector| saved.is_of(&**detector))
        };
        let same = custom.iter().enumerate().take_while(|saved| is_same(*saved)).count();
        let known = BuiltIn::COUNT + same;
        self.analysis.forget_patterns_from(known);
        for detector in &mut self.custom {
            if let Some(saved) = custom.iter().find(|saved| saved.is_of(&**detector)) {
                let restored = guard_mut(|| detector.restore(saved.state()));
                if restored.is_err() {
                    let _ = guard_mut(|| detector.reset());
                }
            }
        }
    }
}
