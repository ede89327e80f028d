//! Reads untrusted text: the arguments and results of tool calls, error texts, shell commands and
//! chat messages. `analysis`, the main caller, compares the results of these functions to find
//! repetitions and errors. Names that may appear in a message to the agent are made safe here.
//!
//! The scanners are hand-written. As a hook, midcourse runs in a new process for each event, and
//! compiling regular expressions would take longer than all other work of that process. No scanner
//! can fail, whatever the input.

mod bounded;
mod byte;
mod canonical;
mod command;
mod command_result;
mod error;
mod error_words;
mod excerpt;
mod failure;
mod failure_kind;
mod message;
mod name;
mod object_name;
mod phrases;
mod request;
mod scan;
mod short_result;
mod similarity;
mod token;

pub(crate) use bounded::CutText;
pub use bounded::{InvalidText, Text};
pub(crate) use canonical::{ArgsView, write_canonical, write_without_layout};
pub(crate) use command::{CommandView, Task, host};
pub(crate) use command_result::{CommandResult, Form, is_silence};
pub use error::ErrorSignature;
pub use excerpt::{Excerpt, MAX_EXCERPT_BYTES};
pub use failure::looks_failed;
pub(crate) use failure::{is_error_line, is_error_message, names_placeholder, output_looks_failed};
pub use failure_kind::FailureKind;
pub(crate) use failure_kind::{FailedCall, ResultOf};
pub(crate) use message::{Talk, repeats_itself};
pub use name::{MAX_PROVIDER_NAME_CHARS, MAX_SAFE_NAME_CHARS, ProviderName, SafeName};
pub use object_name::{InvalidObjectName, MAX_OBJECT_CHARS, ObjectName};
pub(crate) use request::{Request, is_automatic, is_summary};
pub(crate) use scan::strip_volatile;
pub(crate) use short_result::{ShortResult, counts_done, is_empty_answer, is_negative_reply};
pub use similarity::similarity;
pub(crate) use similarity::similarity_of_change;
pub(crate) use token::is_time_unit;
