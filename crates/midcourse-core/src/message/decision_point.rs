//! Decision points: where in its turn an agent can receive guidance.

use serde::{Deserialize, Serialize};

/// A point in an agent's turn at which it can receive guidance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionPoint {
    /// Before the prompt is rendered.
    PreRender,
    /// Before the model selects tools.
    PreToolSelection,
    /// After the model selected tools, before they run.
    PreToolExecution,
    /// After a tool has returned its result.
    PostToolResult,
    /// Before the model's final response.
    PreResponse,
}

impl DecisionPoint {
    /// All decision points, in the order of a turn.
    pub const ALL: [Self; 5] = [
        Self::PreRender,
        Self::PreToolSelection,
        Self::PreToolExecution,
        Self::PostToolResult,
        Self::PreResponse,
    ];

    /// The name of the decision point in records and in configuration files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreRender => "pre_render",
            Self::PreToolSelection => "pre_tool_selection",
            Self::PreToolExecution => "pre_tool_execution",
            Self::PostToolResult => "post_tool_result",
            Self::PreResponse => "pre_response",
        }
    }

    /// The decision point with this name in records or configuration files; `None` if no decision
    /// point has this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.as_str() == name)
    }

    /// Where guidance for this decision point is injected.
    pub const fn injection_position(self) -> InjectionPosition {
        match self {
            Self::PreRender => InjectionPosition::RenderContext,
            Self::PreToolSelection => InjectionPosition::EndOfMessages,
            Self::PreToolExecution => InjectionPosition::BeforeToolExecution,
            Self::PostToolResult => InjectionPosition::EndOfToolResult,
            Self::PreResponse => InjectionPosition::BeforeResponse,
        }
    }
}

/// Where guidance is inserted into the conversation with the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectionPosition {
    /// In the prompt, whose sections can use the guidance as the variable `guidance`.
    RenderContext,
    /// After the last message of the request to the model.
    EndOfMessages,
    /// After the model has selected a tool, before the tool runs.
    BeforeToolExecution,
    /// After the tool's result.
    EndOfToolResult,
    /// Directly before the model's final response.
    BeforeResponse,
}

/// A set of decision points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionPoints(u8);

impl DecisionPoints {
    /// Every decision point.
    pub const ALL: Self = Self(0b1_1111);

    /// The set of these decision points.
    pub fn of(points: impl IntoIterator<Item = DecisionPoint>) -> Self {
        Self(points.into_iter().fold(0, |bits, point| bits | 1 << point as u8))
    }

    /// The decision points in the set, in the order of a turn.
    pub fn iter(self) -> impl Iterator<Item = DecisionPoint> {
        DecisionPoint::ALL.into_iter().filter(move |point| self.contains(*point))
    }

    /// Whether a decision point is in the set.
    pub const fn contains(self, point: DecisionPoint) -> bool {
        self.0 & (1 << point as u8) != 0
    }
}
