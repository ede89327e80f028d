//! Deliveries: the messages of one step of the engine, and the text that a host shows to the agent.

use crate::message::{Assignment, DecisionPoint, Feedback, GuidanceDelivered, format_guidance};
use crate::record::{CallId, TrajectoryPayload};
use crate::why::Why;

/// First line of every text for the agent. It lets the agent tell midcourse's messages apart from
/// the words of its user and from the output of its tools.
pub const LABEL: &str = "[midcourse run monitor]";

/// A message for the agent, and where in its turn the agent gets it.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivery {
    /// Feedback, delivered with the result of a tool call.
    Feedback {
        /// The texts from the provider, with the cause that they are about.
        feedback: Feedback,
        /// Id of the call to whose result the feedback is attached; `None` if the id is unknown.
        tool_call_id: Option<CallId>,
    },
    /// Guidance, which includes the decision point at which it is delivered.
    Guidance(GuidanceDelivered),
}

impl Delivery {
    /// Where in its turn the agent receives the message; for feedback, always after a tool result.
    pub const fn decision_point(&self) -> DecisionPoint {
        match self {
            Self::Feedback { .. } => DecisionPoint::PostToolResult,
            Self::Guidance(guidance) => guidance.decision_point,
        }
    }

    /// Id of the call to whose result feedback is attached; `None` for guidance, or if the id is
    /// unknown.
    pub const fn tool_call_id(&self) -> Option<&CallId> {
        match self {
            Self::Feedback { tool_call_id, .. } => tool_call_id.as_ref(),
            Self::Guidance(_) => None,
        }
    }

    /// Name of the provider that made the message.
    pub fn provider(&self) -> &str {
        match self {
            Self::Feedback { feedback, .. } => feedback.provider_name(),
            Self::Guidance(guidance) => &guidance.provider_name,
        }
    }

    /// What the message is about, with evidence; `None` if the provider gave no cause.
    pub const fn why(&self) -> Option<&Why> {
        match self {
            Self::Feedback { feedback, .. } => feedback.why(),
            Self::Guidance(guidance) => guidance.injection.why(),
        }
    }

    /// The text of this message alone, without the label line.
    pub fn text(&self) -> String {
        match self {
            Self::Feedback { feedback, .. } => feedback.render(),
            Self::Guidance(guidance) => guidance.injection.content().to_owned(),
        }
    }

    /// Several messages as one text that a host shows to the agent: the label line, then feedback,
    /// then guidance. `None` if there are no messages.
    pub fn labelled_text<'a>(deliveries: impl IntoIterator<Item = &'a Self>) -> Option<String> {
        let (mut blocks, mut guidance) = (Vec::new(), Vec::new());
        for delivery in deliveries {
            match delivery {
                Self::Feedback { feedback, .. } => blocks.push(feedback.render()),
                Self::Guidance(piece) => guidance.push(&piece.injection),
            }
        }
        if !guidance.is_empty() {
            blocks.push(format_guidance(guidance));
        }
        (!blocks.is_empty()).then(|| format!("{LABEL}\n{}", blocks.join("\n\n")))
    }

    pub(super) fn into_payload(
        self,
        shadow: bool,
        assignment: Option<Assignment>,
    ) -> TrajectoryPayload {
        match self {
            Self::Feedback { feedback, tool_call_id } => TrajectoryPayload::FeedbackDelivered {
                text: feedback.render(),
                feedback,
                tool_call_id,
                shadow,
                assignment,
            },
            Self::Guidance(guidance) => {
                TrajectoryPayload::GuidanceDelivered { guidance, shadow, assignment }
            }
        }
    }
}

impl From<Feedback> for Delivery {
    fn from(feedback: Feedback) -> Self {
        Self::Feedback { feedback, tool_call_id: None }
    }
}

impl From<GuidanceDelivered> for Delivery {
    fn from(guidance: GuidanceDelivered) -> Self {
        Self::Guidance(guidance)
    }
}
