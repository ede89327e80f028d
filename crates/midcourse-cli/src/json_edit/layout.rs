//! How a JSON text is laid out, and values written in that layout.

use serde_json::Value;

/// The layout of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// `None` if the text is one line.
    newline: Option<&'static str>,
    /// The indentation of one level.
    unit: String,
    /// Between a colon or comma and what follows in the same line.
    space: &'static str,
}

impl Layout {
    pub(super) fn of(text: &str) -> Self {
        let body = text.trim();
        let newline = match () {
            () if body.contains("\r\n") => Some("\r\n"),
            () if body.contains('\n') => Some("\n"),
            // An empty object says nothing about the style; a line end after it does.
            () if body == "{}" && text.contains("\r\n") => Some("\r\n"),
            () if body == "{}" => Some("\n"),
            () => None,
        };
        let is_dense = newline.is_none() && !body.contains("\": ") && !body.contains(", \"");
        Self { newline, unit: unit(body), space: if is_dense { "" } else { " " } }
    }

    /// The same layout without line ends.
    pub(super) fn on_one_line(&self) -> Self {
        Self { newline: None, ..self.clone() }
    }

    pub(super) const fn has_lines(&self) -> bool {
        self.newline.is_some()
    }

    pub(super) fn newline(&self) -> &'static str {
        self.newline.unwrap_or_default()
    }

    pub(super) fn unit(&self) -> &str {
        &self.unit
    }

    pub(super) const fn space(&self) -> &'static str {
        self.space
    }

    /// A member of an object, whose value is written already.
    pub(super) fn member(&self, key: &str, value: &str) -> String {
        format!("{}:{}{value}", Value::from(key), self.space)
    }

    /// Writes a value that begins in a line with this indentation. The outer `levels` of it are on
    /// lines of their own.
    pub(super) fn render(&self, value: &Value, indent: &str, levels: usize) -> String {
        let Some(inner_levels) = levels.checked_sub(1).filter(|_| self.has_lines()) else {
            return self.inline(value);
        };
        let inner = format!("{indent}{}", self.unit);
        let items: Vec<String> = match value {
            Value::Object(members) if !members.is_empty() => {
                let member = |(key, value): (&String, &Value)| {
                    self.member(key, &self.render(value, &inner, inner_levels))
                };
                members.iter().map(member).collect()
            }
            Value::Array(elements) if !elements.is_empty() => {
                elements.iter().map(|value| self.render(value, &inner, inner_levels)).collect()
            }
            _ => return self.inline(value),
        };
        let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
        let newline = self.newline();
        let items = items.join(&format!(",{newline}{inner}"));
        format!("{open}{newline}{inner}{items}{newline}{indent}{close}")
    }

    /// Writes a value on one line.
    pub(super) fn inline(&self, value: &Value) -> String {
        let separator = format!(",{}", self.space);
        match value {
            Value::Object(members) => {
                let member =
                    |(key, value): (&String, &Value)| self.member(key, &self.inline(value));
                format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(&separator))
            }
            Value::Array(elements) => {
                let elements: Vec<String> =
                    elements.iter().map(|value| self.inline(value)).collect();
                format!("[{}]", elements.join(&separator))
            }
            other => other.to_string(),
        }
    }
}

/// The indentation of one level: that of the first indented line.
fn unit(body: &str) -> String {
    let indents = body.lines().skip(1).filter(|line| !line.trim().is_empty());
    let mut indents = indents.map(|line| indent_of_line(line, 0));
    let first = indents.find(|indent| !indent.is_empty());
    first.unwrap_or("  ").to_owned()
}

/// The white space at the start of the line that contains this position.
pub(super) fn indent_of_line(text: &str, at: usize) -> &str {
    let start = text.get(..at).and_then(|before| before.rfind('\n'));
    let start = start.map_or(0, |newline| newline.saturating_add(1));
    let line = text.get(start..).unwrap_or_default();
    let len = line.len().saturating_sub(line.trim_start_matches([' ', '\t']).len());
    line.get(..len).unwrap_or_default()
}
