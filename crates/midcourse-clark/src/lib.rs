//! midcourse in the loop of [`clark_agent`]: durable trajectories, feedback and guidance.
//!
//! [`Midcourse`] is a plugin. It records every run of the loop into a store, watches it, puts
//! feedback behind the result of a tool, and guidance behind the last message of one request:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use clark_agent::{AgentBuilder, AgentContext, RunIdentity};
//! use midcourse::{DataDir, StoreSettings, StoreWriter};
//! use midcourse_clark::Midcourse;
//!
//! # async fn wiring(transport: Arc<dyn clark_agent::StreamFn>, prompts: Vec<clark_agent::AgentMessage>)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! let store = StoreWriter::open(&DataDir::of_user()?, StoreSettings::default())?;
//! let midcourse = Arc::new(Midcourse::new(Arc::new(store)));
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
//! - **Attach it last.** It sees results and messages as the plugins before it left them, and the
//!   ones behind it could drop its words.
//! - **Give runs an identity.** One without is recorded under a name of its own. A deadline in the
//!   identity is one the agent is told about.
//! - **A child run needs a plugin of its own**: [`Midcourse::child`], attached to the builder that
//!   `child_builder` gives. The loop's hooks do not say whose they are, so nothing is inherited.
//! - **The agent comes first.** Errors and panics leave results and messages as they were. An event
//!   that the store does not take is dropped and counted (see [`midcourse::OnFailure`]).
//!
//! Whoever keeps clark-agent's own recorder hands it a [`DurableTrajectorySink`] and changes nothing
//! else. Stored runs read with the types of either side; [`to_clark`] and [`from_clark`] convert in
//! memory.

mod calls;
mod convert;
mod guard;
mod plugin;
mod run;
mod sink;
mod trouble;

pub use convert::{from_clark, payload_of, to_clark};
pub use plugin::Midcourse;
pub use sink::DurableTrajectorySink;
pub use trouble::Trouble;
