//! Records and monitors a loop of clark-agent: `cargo run --example durable`.
//!
//! The model here is a stub with one response; replace it with your transport.

use std::sync::Arc;

use async_trait::async_trait;
use clark_agent::{
    AgentBuilder, AgentContext, AgentMessage, AssistantContent, RunIdentity, StopReason,
    StreamEvent, StreamFn, StreamRequest, UserContent,
};
use futures::stream::{self, BoxStream, StreamExt};
use midcourse::{DataDir, Store, StoreSettings, StoreWriter};
use midcourse_clark::Midcourse;
use tokio_util::sync::CancellationToken;

struct Model;

#[async_trait]
impl StreamFn for Model {
    async fn stream(
        &self,
        _: StreamRequest,
        _: CancellationToken,
    ) -> BoxStream<'static, StreamEvent> {
        let message = AgentMessage::Assistant {
            content: AssistantContent::text("It builds."),
            stop_reason: StopReason::EndTurn,
            error_message: None,
            timestamp: None,
            usage: None,
        };
        stream::iter([StreamEvent::Done { message }]).boxed()
    }
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example shows something")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let home = DataDir::at(folder.path());
    let store = StoreWriter::open(&home, StoreSettings::default())?;
    let midcourse = Arc::new(Midcourse::new(Arc::new(store)));

    let builder = AgentBuilder::new().stream(Arc::new(Model));
    let config = midcourse.attach(builder).build()?;

    let in_an_hour = midcourse::now().unix_ms() + 3_600_000;
    let identity = RunIdentity::root().with_deadline_unix_ms(in_an_hour);
    let run_id = identity.run_id.clone();
    let mut context = AgentContext::new("You fix builds.");
    context.identity = Some(identity);
    let content = UserContent::Text("Fix the build.".into());
    let prompts = vec![AgentMessage::User { content, timestamp: None }];
    let result = clark_agent::run(prompts, context, &config, CancellationToken::new()).await;
    if let Err(error) = &result {
        midcourse.failed(error).await;
    }

    if let Some(store) = Store::open_read_only(&home)? {
        for record in store.trajectory(&run_id)? {
            println!("{:>3}  {}", record.seq, record.payload.kind());
        }
    }
    Ok(())
}
