//! Converts tool results that arrive as a JSON list of content blocks, such as texts and images.
//!
//! Model APIs and hosts (coding agents) use the same block format, so modules `apis` and `hosts`
//! share this conversion. It never fails: a block of an unknown type is kept as its JSON text.

use midcourse::{ImageContent, TextContent, ToolResult, ToolResultBlock as Block};
use serde_json::Value;

pub(crate) fn result_from_blocks(blocks: Vec<Value>) -> ToolResult {
    ToolResult { content: blocks.into_iter().map(block).collect(), ..ToolResult::default() }
}

fn block(item: Value) -> Block {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match item.get("type").and_then(Value::as_str) {
        Some("text") => {
            Block::Text(TextContent { text: item.get("text").map(text).unwrap_or_default() })
        }
        Some("image") if item.pointer("/source/data").is_some() => {
            let media_type = item.pointer("/source/media_type").map(text);
            let data = item.pointer("/source/data").map(text).unwrap_or_default();
            let kind = media_type.as_deref().unwrap_or("image");
            let source = format!("data:{kind};base64,{data}");
            Block::Image(ImageContent { source, media_type, alt: None })
        }
        _ => Block::Text(TextContent {
            text: item.as_str().map_or_else(|| item.to_string(), str::to_owned),
        }),
    }
}
