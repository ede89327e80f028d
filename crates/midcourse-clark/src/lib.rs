//! A plugin for the agent loop of [`clark_agent`].
//!
//! The plugin is [`Midcourse`]. It stores every run of the loop and analyses it while it runs. If
//! the agent is in trouble, the plugin adds a message: feedback to the result of a tool call, where
//! it stays, or guidance as an additional last message of a single model request.
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
//! - **Attach the plugin last.** A plugin that is attached later could change or remove the
//!   messages that this plugin adds.
//! - **Give runs an identity.** A run without an identity gets a generated id. If the identity has
//!   a deadline, messages tell the agent how much time is left.
//! - **Give each child run its own plugin**: attach [`Midcourse::child`] to the builder that
//!   `child_builder` returns. When the loop calls a plugin, it does not say for which run. So one
//!   plugin cannot serve a parent and its child at the same time, and children do not inherit it.
//! - **The plugin never disturbs the agent.** On an error or a panic, results and messages stay
//!   unchanged. An event that cannot be stored is dropped and counted (see
//!   [`midcourse::OnFailure`]).
//!
//! A program that wants to keep clark-agent's own recorder, without messages, can give that
//! recorder a [`DurableTrajectorySink`]. Exported records can be parsed with the types of either
//! crate, except those of kinds that only midcourse has; [`to_clark`] and [`from_clark`] convert
//! records in memory.

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
