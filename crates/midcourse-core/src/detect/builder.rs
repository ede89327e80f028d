//! The analysis of a run together with its detectors: each record updates the analysis, then the
//! detectors examine the analysis.
//!
//! A detector is identified by its number: its index in the list of all detectors, which begins
//! with the built-in detectors, followed by the custom ones.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::{BuiltIn, Detection, PatternDetector, SavedDetector};
use crate::analysis::{TrajectoryAnalysis, TrajectoryAnalysisConfig, TrajectoryPattern};
use crate::fault::{Fault, guard_mut};
use crate::record::TrajectoryRecord;

/// The maximum number of custom detectors. It is limited because the number of a detector is stored
/// in one byte.
const MAX_CUSTOM_DETECTORS: usize = 128;

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

impl TrajectoryBuilder {
    /// Starts the analysis of a run, with the built-in detectors.
    pub fn new(config: TrajectoryAnalysisConfig) -> Self {
        Self {
            analysis: TrajectoryAnalysis::new(Arc::new(config)),
            built_in: BuiltIn::default(),
            custom: Vec::new(),
        }
    }

    /// Runs a custom detector after every record, in addition to the built-in ones. At most 128
    /// custom detectors run; further ones are ignored.
    #[must_use]
    pub fn with_detector(mut self, detector: impl PatternDetector + 'static) -> Self {
        if self.custom.len() < MAX_CUSTOM_DETECTORS {
            self.custom.push(Box::new(detector));
        }
        self
    }

    /// Applies one record. Returns the patterns that are new: absent before this record, or present
    /// with another cause.
    pub fn push(&mut self, record: &TrajectoryRecord) -> Vec<TrajectoryPattern> {
        self.apply(record, 0).0
    }

    /// The analysis of all records so far.
    pub const fn analysis(&self) -> &TrajectoryAnalysis {
        &self.analysis
    }

    /// The shortest cycle of at least `min_len` calls that the agent has just made at least
    /// `threshold` times in a row; `None` if there is none. The two arguments are used in place of
    /// the configured thresholds.
    pub(crate) fn cycle(
        &self,
        threshold: NonZeroU32,
        min_len: NonZeroU32,
    ) -> Option<TrajectoryPattern> {
        self.built_in.cycle(&self.analysis, threshold, min_len)
    }

    pub(crate) fn analysis_mut(&mut self) -> &mut TrajectoryAnalysis {
        &mut self.analysis
    }

    /// Applies one record; `prompt` is the number of the prompt that the agent currently works
    /// with. Returns the new patterns, and the failures of detectors.
    pub(crate) fn apply(
        &mut self,
        record: &TrajectoryRecord,
        prompt: u8,
    ) -> (Vec<TrajectoryPattern>, Vec<Fault>) {
        self.analysis.apply(record, prompt);
        self.run_detectors(record)
    }

    /// Runs the detectors on the analysis after a record. Built-in detectors only run after tool
    /// calls, messages of the user and responses of the model; custom detectors run after every
    /// record.
    pub(crate) fn run_detectors(
        &mut self,
        record: &TrajectoryRecord,
    ) -> (Vec<TrajectoryPattern>, Vec<Fault>) {
        let Self { analysis, built_in, custom } = self;
        let (mut patterns, mut faults) = (Vec::new(), Vec::new());
        let runs_built_in = analysis.latest_is_call_or_message();
        if !runs_built_in && custom.is_empty() {
            return (patterns, faults);
        }
        let custom = custom.iter_mut().map(|boxed| -> &mut dyn PatternDetector { &mut **boxed });
        let detectors = built_in.each().into_iter().chain(custom);
        for (number, detector) in (0_u8..).zip(detectors) {
            if usize::from(number) < BuiltIn::COUNT && !runs_built_in {
                continue;
            }
            match guard_mut(|| detector.detect(analysis, record)) {
                Ok(Detection::Unchanged) => {}
                Ok(Detection::Absent) => analysis.remove_pattern(number),
                Ok(Detection::Present(pattern)) => {
                    patterns.extend(analysis.set_pattern(number, pattern));
                }
                Err(failure) => {
                    faults.push(failure.of(detector.name()));
                    // The detector panicked and may have left its state half-changed. If the reset
                    // panics as well, that is ignored, and the detector runs again after the next
                    // record.
                    let _ = guard_mut(|| detector.reset());
                    analysis.remove_pattern(number);
                }
            }
        }
        (patterns, faults)
    }

    pub(crate) fn save(&self) -> (&TrajectoryAnalysis, &BuiltIn, Vec<SavedDetector>) {
        let custom = self.custom.iter().map(|detector| SavedDetector::of(&**detector)).collect();
        (&self.analysis, &self.built_in, custom)
    }

    /// Restores the state that [`Self::save`] returned, but keeps the configuration of this
    /// builder.
    pub(crate) fn restore(
        &mut self,
        analysis: TrajectoryAnalysis,
        built_in: BuiltIn,
        custom: &[SavedDetector],
    ) {
        self.analysis = analysis.with_config_of(&self.analysis);
        self.built_in = built_in;
        // A saved pattern refers to its detector by number. If the list of custom detectors has
        // changed since the state was saved, these numbers are wrong from the first difference on,
        // so the patterns of those detectors are removed.
        let is_same = |(at, saved): (usize, &SavedDetector)| {
            self.custom.get(at).is_some_and(|detector| saved.is_of(&**detector))
        };
        let same = custom.iter().enumerate().take_while(|saved| is_same(*saved)).count();
        let known = BuiltIn::COUNT + same;
        self.analysis.remove_patterns_from(known);
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
