//! Names of attributes: those of the GenAI semantic conventions of OpenTelemetry, and our own.

pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const PROVIDER: &str = "gen_ai.provider.name";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(super) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(super) const CACHE_CREATION_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(super) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(super) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(super) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(super) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(super) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(super) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(super) const TOOL_RESULT: &str = "gen_ai.tool.call.result";
pub(super) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(super) const AGENT_VERSION: &str = "gen_ai.agent.version";
pub(super) const CONVERSATION_ID: &str = "gen_ai.conversation.id";
pub(super) const ERROR_TYPE: &str = "error.type";

/// Attributes of OpenInference, without which Phoenix shows no input and output of an agent.
pub(super) const INPUT_VALUE: &str = "input.value";
pub(super) const OUTPUT_VALUE: &str = "output.value";

/// The run that a span belongs to.
pub(super) const RUN_ID: &str = "midcourse.run_id";
/// Seqs of the records in a span.
pub(super) const SEQS: &str = "midcourse.seqs";
/// The records in a span: a JSON array.
pub(super) const RECORDS: &str = "midcourse.records";
/// Which parts of these records are in other attributes: a JSON object, see `packed`.
pub(super) const ELIDED: &str = "midcourse.elided";
/// The record in an event: a JSON object.
pub(super) const RECORD: &str = "midcourse.record";
