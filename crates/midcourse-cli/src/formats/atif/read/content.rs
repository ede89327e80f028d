//! Contents of messages and results in ATIF: a text or a list of parts.

use midcourse::{ImageContent, TextContent, ToolResultBlock, UserBlock, UserContent};
use serde_json::Value;

/// Maximum number of parts of a content. Further parts are left out.
const MAX_PARTS: usize = 10_000;

pub(super) enum Part {
    Text(String),
    Image(ImageContent),
}

/// The parts of a content. A part of an unknown type is kept as its JSON.
pub(super) fn parts(content: Option<&Value>) -> Vec<Part> {
    match content {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(parts)) => parts.iter().take(MAX_PARTS).map(part).collect(),
        Some(other) => vec![Part::Text(text_of(other))],
    }
}

fn part(part: &Value) -> Part {
    let of_source = |name: &str| part.get("source")?.get(name)?.as_str().map(ToOwned::to_owned);
    match (part.get("type").and_then(Value::as_str), of_source("path")) {
        (Some("text"), _) => Part::Text(part.get("text").map(text_of).unwrap_or_default()),
        (Some("image"), Some(source)) => {
            let media_type = of_source("media_type");
            Part::Image(ImageContent { source, media_type, alt: None })
        }
        (Some("audio"), Some(source)) => {
            let media_type = of_source("media_type").unwrap_or_else(|| "audio".to_owned());
            Part::Text(format!("[{media_type}: {source}]"))
        }
        _ => Part::Text(text_of(part)),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// All texts, one per line; images are left out.
pub(super) fn plain_text(content: Option<&Value>) -> String {
    let texts = parts(content).into_iter().filter_map(|part| match part {
        Part::Text(text) => Some(text),
        Part::Image(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

pub(super) fn of_user(content: Option<&Value>) -> UserContent {
    if let Some(Value::String(text)) = content {
        return UserContent::Text(text.clone());
    }
    let block = |part| match part {
        Part::Text(text) => UserBlock::Text(TextContent { text }),
        Part::Image(image) => UserBlock::Image(image),
    };
    UserContent::Blocks(parts(content).into_iter().map(block).collect())
}

pub(super) fn of_result(content: Option<&Value>) -> Vec<ToolResultBlock> {
    let block = |part| match part {
        Part::Text(text) => ToolResultBlock::Text(TextContent { text }),
        Part::Image(image) => ToolResultBlock::Image(image),
    };
    parts(content).into_iter().map(block).collect()
}
