//! Contents of messages and results as ATIF has them: a text, or a list of parts.
//!
//! In ATIF, an image part refers to a file or a URL and cannot contain the image. So an image whose
//! data is in the record becomes a text part that says so; the data stays in the record in `extra`.

use midcourse::{ImageContent, ToolResultBlock, UserBlock, UserContent};
use serde_json::{Value, json};

/// The types of images that ATIF knows.
const IMAGE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

pub(super) fn of_user(content: &UserContent) -> Value {
    match content {
        UserContent::Text(text) => text.as_str().into(),
        UserContent::Blocks(blocks) => joined(blocks.iter().map(|block| match block {
            UserBlock::Text(text) => text_part(&text.text),
            UserBlock::Image(image) => image_part(image),
        })),
    }
}

pub(super) fn of_result(blocks: &[ToolResultBlock]) -> Value {
    joined(blocks.iter().map(|block| match block {
        ToolResultBlock::Text(text) => text_part(&text.text),
        ToolResultBlock::Image(image) => image_part(image),
    }))
}

/// The parts as one text if there is at most one and it is a text, or else as a list.
fn joined(parts: impl Iterator<Item = Value>) -> Value {
    let mut parts: Vec<Value> = parts.collect();
    match parts.as_mut_slice() {
        [] => "".into(),
        [part] if part.get("text").is_some() => {
            part.get_mut("text").map(Value::take).unwrap_or_default()
        }
        _ => parts.into(),
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image_part(image: &ImageContent) -> Value {
    let media_type = image.media_type.as_deref().unwrap_or("image");
    // Harbor's validator takes anything without `://` for a path, and looks for the file.
    if IMAGE_TYPES.contains(&media_type) && image.source.contains("://") {
        let source = json!({"media_type": media_type, "path": image.source});
        return json!({"type": "image", "source": source});
    }
    text_part(&format!("[{media_type}, {} characters, not shown here]", image.source.len()))
}
