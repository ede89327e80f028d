//! Edits JSON text in place: adds, replaces and removes values, and leaves every other byte as it is.
//!
//! The text may contain comments and trailing commas. New values follow the text's own style: its
//! line ends, its indentation, or everything on one line. Each edit parses the text again, because
//! settings files are small. If an object has a key twice, the last one counts, as it does for the
//! programs that read these files.

mod layout;
#[cfg(test)]
pub(crate) mod properties;

use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::common::{Range, Ranged as _};
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};
use serde_json::Value;

use layout::Layout;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A step from a value to a value in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Why a text cannot be edited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonEditError {
    #[error("it is not valid JSON: {0}")]
    Invalid(String),
    #[error("it is not text in UTF-8")]
    NotUtf8,
    #[error("`{path}` is not {expected}")]
    Shape { path: String, expected: &'static str },
}

/// JSON text that is being edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonText {
    has_byte_order_mark: bool,
    text: String,
}

impl JsonText {
    /// Reads the bytes of a file. A file without a value, such as an empty one, is an empty object.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, JsonEditError> {
        let text = std::str::from_utf8(bytes).map_err(|_| JsonEditError::NotUtf8)?;
        let (has_byte_order_mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut json = Self { has_byte_order_mark, text: text.to_owned() };
        if parse(&json.text)?.root.is_none() {
            // A line comment at the end must not swallow the new object.
            let ends_in_comment = !text.trim().is_empty() && !text.ends_with('\n');
            json.text.push_str(if ends_in_comment { "\n{}" } else { "{}" });
        }
        Ok(json)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mark = if self.has_byte_order_mark { "\u{feff}" } else { "" };
        format!("{mark}{}", self.text).into_bytes()
    }

    /// The value at this path, without its comments; `None` if there is none.
    pub(crate) fn get(&self, path: &[Step<'_>]) -> Option<Value> {
        let parsed = parse(&self.text).ok()?;
        node_at(parsed.root.as_ref()?, path).cloned().map(Value::from)
    }

    /// The bytes of the value at this path, as they are in the text.
    pub(crate) fn raw(&self, path: &[Step<'_>]) -> Option<&str> {
        let parsed = parse(&self.text).ok()?;
        let range = node_at(parsed.root.as_ref()?, path)?.range();
        self.text.get(range.start..range.end)
    }

    pub(crate) fn has_comments(&self) -> bool {
        parse(&self.text).is_ok_and(|parsed| parsed.tokens.iter().any(is_comment))
    }

    pub(crate) fn has_trailing_commas(&self) -> bool {
        let Ok(parsed) = parse(&self.text) else { return false };
        let tokens: Vec<&Token<'_>> =
            parsed.tokens.iter().filter(|it| !is_comment(it)).map(|it| &it.token).collect();
        tokens
            .windows(2)
            .any(|pair| matches!(pair, [Token::Comma, Token::CloseBrace | Token::CloseBracket]))
    }

    /// Adds a member to the end of the object at this path. The outer `levels` of the new value are
    /// written on lines of their own, if the text has lines.
    pub(crate) fn insert(
        &mut self,
        path: &[Step<'_>],
        key: &str,
        value: &Value,
        levels: usize,
    ) -> Result<(), JsonEditError> {
        self.add(path, Some(key), value, levels)
    }

    /// Adds an element to the end of the array at this path.
    pub(crate) fn push(&mut self, path: &[Step<'_>], value: &Value) -> Result<(), JsonEditError> {
        self.add(path, None, value, 0)
    }

    /// Replaces the value at this path.
    pub(crate) fn replace(&mut self, path: &[Step<'_>], value: &Value) {
        let layout = Layout::of(&self.text);
        self.replace_raw(path, &layout.inline(value));
    }

    /// Replaces the value at this path by JSON text.
    pub(crate) fn replace_raw(&mut self, path: &[Step<'_>], json: &str) {
        let range = {
            let Ok(parsed) = parse(&self.text) else { return };
            let node = parsed.root.as_ref().and_then(|root| node_at(root, path));
            node.map(|node| node.range())
        };
        if let Some(range) = range {
            self.edit(vec![Edit { range, with: json.to_owned() }]);
        }
    }

    /// Removes the member or element at this path, with its comma and the white space before it.
    /// Comments stay.
    pub(crate) fn remove(&mut self, path: &[Step<'_>]) {
        let edits = self.removal(path).unwrap_or_default();
        self.edit(edits);
    }

    fn add(
        &mut self,
        path: &[Step<'_>],
        key: Option<&str>,
        value: &Value,
        levels: usize,
    ) -> Result<(), JsonEditError> {
        let expected = if key.is_some() { "an object" } else { "a list" };
        let wrong = || JsonEditError::Shape { path: path_text(path), expected };
        let edits = {
            let parsed = parse(&self.text)?;
            let node = parsed.root.as_ref().and_then(|root| node_at(root, path));
            let (first, last) = match (node.ok_or_else(wrong)?, key) {
                (Node::Object(object), Some(_)) => {
                    let members = &object.properties;
                    (members.first().map(|it| it.range), members.last().map(|it| it.range))
                }
                (Node::Array(array), None) => {
                    let elements = &array.elements;
                    (elements.first().map(|it| it.range()), elements.last().map(|it| it.range()))
                }
                _ => return Err(wrong()),
            };
            let container = node.ok_or_else(wrong)?.range();
            let place = Place { text: &self.text, tokens: &parsed.tokens, container };
            let children = first.zip(last);
            place.addition(children, &|layout, indent| {
                let value = layout.render(value, indent, levels);
                match key {
                    Some(key) => layout.member(key, &value),
                    None => value,
                }
            })
        };
        self.edit(edits);
        Ok(())
    }

    fn removal(&self, path: &[Step<'_>]) -> Option<Vec<Edit>> {
        let parsed = parse(&self.text).ok()?;
        let (last, above) = path.split_last()?;
        let parent = node_at(parsed.root.as_ref()?, above)?;
        let (child, is_only) = match (parent, last) {
            (Node::Object(object), Step::Key(key)) => {
                (member(object, key)?.range, object.properties.len() == 1)
            }
            (Node::Array(array), Step::Index(index)) => {
                (array.elements.get(*index)?.range(), array.elements.len() == 1)
            }
            _ => return None,
        };
        let place = Place { text: &self.text, tokens: &parsed.tokens, container: parent.range() };
        Some(place.removal(child, is_only))
    }

    /// Applies edits that do not overlap.
    fn edit(&mut self, mut edits: Vec<Edit>) {
        // From the end to the start, so that earlier positions stay valid. The sort is stable: of two
        // insertions at one place, the later one is applied first, and so comes second in the text.
        edits.sort_by_key(|edit| edit.range.start);
        for Edit { range, with } in edits.into_iter().rev() {
            self.text.replace_range(range.start..range.end, &with);
        }
    }
}

/// A range of the text, and what takes its place.
struct Edit {
    range: Range,
    with: String,
}

impl Edit {
    fn insertion(at: usize, with: String) -> Self {
        Self { range: Range::new(at, at), with }
    }

    const fn deletion(range: Range) -> Self {
        Self { range, with: String::new() }
    }
}

struct Parsed<'a> {
    root: Option<Node<'a>>,
    /// All tokens, comments included.
    tokens: Vec<TokenAndRange<'a>>,
}

fn parse(text: &str) -> Result<Parsed<'_>, JsonEditError> {
    let collect = CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &collect, &options)
        .map_err(|error| JsonEditError::Invalid(error.to_string()))?;
    Ok(Parsed { root: parsed.value, tokens: parsed.tokens.unwrap_or_default() })
}

fn node_at<'a, 'b>(root: &'b Node<'a>, path: &[Step<'_>]) -> Option<&'b Node<'a>> {
    path.iter().try_fold(root, |node, step| match (node, step) {
        (Node::Object(object), Step::Key(key)) => member(object, key).map(|found| &found.value),
        (Node::Array(array), Step::Index(index)) => array.elements.get(*index),
        _ => None,
    })
}

fn member<'a, 'b>(
    object: &'b Object<'a>,
    key: &str,
) -> Option<&'b jsonc_parser::ast::ObjectProp<'a>> {
    object.properties.iter().rev().find(|member| member.name.as_str() == key)
}

fn path_text(path: &[Step<'_>]) -> String {
    if path.is_empty() {
        return "the file".to_owned();
    }
    let steps = path.iter().map(|step| match step {
        Step::Key(key) => (*key).to_owned(),
        Step::Index(index) => index.to_string(),
    });
    steps.collect::<Vec<_>>().join(".")
}

/// An object or array in a text.
struct Place<'a> {
    text: &'a str,
    tokens: &'a [TokenAndRange<'a>],
    container: Range,
}

impl Place<'_> {
    /// Adds an item to the end. `children` are the first and the last child; `item` writes the item
    /// for a layout and an indentation.
    fn addition(
        &self,
        children: Option<(Range, Range)>,
        item: &dyn Fn(&Layout, &str) -> String,
    ) -> Vec<Edit> {
        let layout = Layout::of(self.text);
        let Some((first, last)) = children else { return self.first_item(&layout, item) };
        let has_lines =
            self.slice(self.container.start, first.start).contains('\n') && layout.has_lines();
        let comma = self.comma_after(last.end);
        let mut at = comma.map_or(last.end, |comma| comma.end);
        let mut edits = Vec::new();
        if comma.is_none() {
            edits.push(Edit::insertion(last.end, ",".to_owned()));
        }
        // A list that ends with a comma goes on to do so.
        let end = if comma.is_some() { "," } else { "" };
        let text = if has_lines {
            at = self.after_comments_of_line(at);
            let indent = layout::indent_of_line(self.text, last.start);
            format!("{}{indent}{}{end}", layout.newline(), item(&layout, indent))
        } else {
            let layout = layout.on_one_line();
            format!("{}{}{end}", layout.space(), item(&layout, ""))
        };
        edits.push(Edit::insertion(at, text));
        edits
    }

    fn first_item(&self, layout: &Layout, item: &dyn Fn(&Layout, &str) -> String) -> Vec<Edit> {
        let open = self.container.start.saturating_add(1);
        if !layout.has_lines() {
            return vec![Edit::insertion(open, item(layout, ""))];
        }
        let at = self.after_comments_of_line(open);
        let outer = layout::indent_of_line(self.text, self.container.start);
        let indent = format!("{outer}{}", layout.unit());
        let mut text = format!("{}{indent}{}", layout.newline(), item(layout, &indent));
        let close = self.container.end.saturating_sub(1);
        if !self.slice(at, close).contains('\n') {
            text.push_str(&format!("{}{outer}", layout.newline()));
        }
        vec![Edit::insertion(at, text)]
    }

    /// Removes a child, its comma and the white space before it.
    fn removal(&self, child: Range, is_only: bool) -> Vec<Edit> {
        let before = self.slice(self.container.start, child.start);
        let mut start = child.start.saturating_sub(before.len() - before.trim_end().len());
        let mut end = child.end;
        let mut edits = Vec::new();
        let comma = self.comma_after(child.end);
        if let Some(comma) = comma {
            if self.slice(end, comma.start).trim().is_empty() {
                end = comma.end;
            } else {
                edits.push(Edit::deletion(comma));
            }
        } else if let Some(comma) = self.comma_before(child.start) {
            if comma.end == start {
                start = comma.start;
            } else {
                edits.push(Edit::deletion(comma));
            }
        }
        let close = self.container.end.saturating_sub(1);
        let rest = self.slice(end, close);
        let is_after_comment = self.line_comment_ends_at(start);
        if is_only && rest.trim().is_empty() && !is_after_comment {
            end = close;
        } else if is_after_comment && !rest.trim_start_matches([' ', '\t', '\r']).starts_with('\n')
        {
            // What follows must not become part of the comment.
            start = child.start;
        }
        edits.push(Edit::deletion(Range::new(start, end)));
        edits
    }

    /// The comma between this position and the next value or the end of the container.
    fn comma_after(&self, at: usize) -> Option<Range> {
        let mut next = self.tokens.iter().filter(|token| token.range.start >= at);
        let next = next.find(|token| !is_comment(token))?;
        matches!(next.token, Token::Comma).then_some(next.range)
    }

    fn comma_before(&self, at: usize) -> Option<Range> {
        let mut before = self.tokens.iter().rev().filter(|token| token.range.end <= at);
        let before = before.find(|token| !is_comment(token))?;
        matches!(before.token, Token::Comma).then_some(before.range)
    }

    /// The position after the comments that follow in the same line.
    fn after_comments_of_line(&self, at: usize) -> usize {
        let start = at;
        let mut at = at;
        for token in self.tokens.iter().filter(|token| token.range.start >= start) {
            if !is_comment(token) || self.slice(at, token.range.start).contains('\n') {
                break;
            }
            at = token.range.end;
        }
        // A line comment ends before the line feed; the carriage return before it stays there too.
        at.saturating_sub(usize::from(self.slice(0, at).ends_with('\r')))
    }

    fn line_comment_ends_at(&self, at: usize) -> bool {
        let is_line = |token: &&TokenAndRange<'_>| matches!(token.token, Token::CommentLine(_));
        let is_before = |token: &TokenAndRange<'_>| {
            let rest = self.slice(token.range.start, at);
            token.range.start < at && !rest.contains('\n')
        };
        self.tokens.iter().filter(is_line).any(is_before)
    }

    fn slice(&self, start: usize, end: usize) -> &str {
        self.text.get(start..end).unwrap_or_default()
    }
}

const fn is_comment(token: &TokenAndRange<'_>) -> bool {
    matches!(token.token, Token::CommentLine(_) | Token::CommentBlock(_))
}
