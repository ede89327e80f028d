//! A plugin for the loop of [`clark_agent`]: durable records, feedback and guidance.
//!
//! [`Midcourse`] is a plugin. It records and analyses every run of the loop, adds feedback to the
//! result of a tool, and adds guidance to the last message of one request:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use clark_agent::{AgentBuilder, AgentContext, RunIdentity};
//! use midcourse::{DataDir, Monitor};
//! use midcourse_clark::Midcourse;
//!
//! # async fn wiring(transport: Arc<dyn clark_agent::StreamFn>, prompts: Vec<clark_agent::AgentMessage>)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let monitor = Monitor::open(&DataDir::of_user()?)?;
//! let midcourse = Arc::new(Midcourse::with_monitor(monitor));
//! let config = midcourse.attach(AgentBuilder::new().stream(transport)).build()?;
//!
//! let mut context = AgentContext::new("You fix builds.");
//! context.identity = Some(RunIdentity::root());
//! let result = clark_agent::run(prompts, context, &config, Default::default()).await;
//! if let Err(error) = &result {
//!     midcourse.failed(error).await;
//! }
//! # Ok(()) }
//! ```
//!
//! - **Attach it last.** It sees results and messages as the plugins before it left them; a plugin
//!   after it could remove its messages.
//! - **Give runs an identity.** A run without one gets a generated id. If the identity has a deadline,
//!   the agent is told how much time is left.
//! - **Give each child run its own plugin**: attach [`Midcourse::child`] to the builder that
//!   `child_builder` returns. The loop's hooks do not say which run they belong to, so a child
//!   inherits nothing.
//! - **The agent comes first.** Errors and panics leave results and messages unchanged. An event that
//!   the store does not take is dropped and counted (see [`midcourse::OnFailure`]).
//!
//! To keep clark-agent's own recorder, give it a [`DurableTrajectorySink`]. Stored runs can be read
//! with the types of either crate; [`to_clark`] and [`from_clark`] convert in memory.

mod calls;
mod convert;
mod guard;
mod plugin;
mod run;
mod setup;
mod sink;
mod trouble;

pub use convert::{from_clark, payload_of, to_clark};
pub use plugin::Midcourse;
pub use sink::DurableTrajectorySink;
pub use trouble::Trouble;
