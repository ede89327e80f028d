//! Where guidance can be said.

use serde::{Deserialize, Serialize};

/// A moment at which the agent is about to decide something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionPoint {
    /// Before the prompt is rendered.
    PreRender,
    /// Before the model chooses tools.
    PreToolSelection,
    /// After the model chose, before the tools run.
    PreToolExecution,
    /// After a tool has returned.
    PostToolResult,
    /// Before the final response.
    PreResponse,
}

impl DecisionPoint {
    /// All of them, in the order of a turn.
    pub const ALL: [Self; 5] = [
        Self::PreRender,
        Self::PreToolSelection,
        Self::PreToolExecution,
        Self::PostToolResult,
        Self::PreResponse,
    ];

    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreRender => "pre_render",
            Self::PreToolSelection => "pre_tool_selection",
            Self::PreToolExecution => "pre_tool_execution",
            Self::PostToolResult => "post_tool_result",
            Self::PreResponse => "pre_response",
        }
    }

    /// The point with this stable name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.as_str() == name)
    }

    /// Where text of this point goes.
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

/// Where text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectionPosition {
    /// Into what the prompt's sections can see.
    RenderContext,
    /// Behind the last message.
    EndOfMessages,
    /// In front of what the tool execution gets.
    BeforeToolExecution,
    /// Behind the tool's result.
    EndOfToolResult,
    /// In front of the parsing of the response.
    BeforeResponse,
}

/// A set of decision points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionPoints(u8);

impl DecisionPoints {
    /// Every point.
    pub const ALL: Self = Self(0b1_1111);

    /// These points.
    pub fn of(points: impl IntoIterator<Item = DecisionPoint>) -> Self {
        Self(points.into_iter().fold(0, |bits, point| bits | 1 << point as u8))
    }

    /// Whether a point is in the set.
    pub const fn contains(self, point: DecisionPoint) -> bool {
        self.0 & (1 << point as u8) != 0
    }
}
