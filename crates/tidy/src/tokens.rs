//! A tokenizer that is just good enough to find paths: identifiers, `::` and punctuation.
//!
//! Comments, lifetimes, and string and character literals are skipped, so that a path in a doc
//! comment or a string does not count as an import.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

struct Reader<'a> {
    source: &'a str,
    at: usize,
    line: usize,
}

/// The tokens of a source file.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut reader = Reader { source, at: 0, line: 1 };
    let mut tokens = Vec::new();
    while let Some(token) = reader.next_token() {
        tokens.push(token);
    }
    tokens
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self, bytes: usize) -> &'a str {
        let end = self.source.ceil_char_boundary((self.at + bytes).min(self.source.len()));
        let skipped = self.source.get(self.at..end).unwrap_or_default();
        self.line += skipped.matches('\n').count();
        self.at = end;
        skipped
    }

    /// Skips everything up to and including `end`, or the rest if it does not occur.
    fn skip_past(&mut self, end: &str) {
        let bytes = self.rest().find(end).map_or(self.rest().len(), |at| at + end.len());
        self.skip(bytes);
    }

    fn next_token(&mut self) -> Option<Token<'a>> {
        loop {
            let rest = self.rest();
            let first = rest.chars().next()?;
            if first.is_whitespace() {
                self.skip(first.len_utf8());
            } else if rest.starts_with("//") {
                self.skip_past("\n");
            } else if rest.starts_with("/*") {
                self.skip_block_comment();
            } else if first == '"' {
                self.skip_string();
            } else if first == '\'' {
                self.skip_quote();
            } else if let Some(hashes) = raw_string(rest) {
                self.skip_past("\"");
                self.skip_past(&format!("\"{}", "#".repeat(hashes)));
            } else {
                return Some(self.token(first));
            }
        }
    }

    fn token(&mut self, first: char) -> Token<'a> {
        let (line, rest) = (self.line, self.rest());
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let length = if is_name(first) {
            rest.find(|c| !is_name(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        Token { text: self.skip(length), line }
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            if self.rest().starts_with("/*") {
                depth += 1;
                self.skip(2);
            } else if self.rest().starts_with("*/") {
                depth -= 1;
                self.skip(2);
            } else if self.skip(1).is_empty() {
                return;
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn skip_string(&mut self) {
        self.skip(1);
        loop {
            match self.skip(1) {
                "\\" => drop(self.skip(1)),
                "\"" | "" => return,
                _ => {}
            }
        }
    }

    /// Skips a character literal such as `'a'` or `'\n'`, or the quote of a lifetime.
    fn skip_quote(&mut self) {
        let mut chars = self.rest().chars().skip(1);
        match (chars.next(), chars.next()) {
            (Some('\\'), _) => {
                self.skip(3);
                self.skip_past("'");
            }
            (Some(_), Some('\'')) => {
                self.skip(1);
                self.skip_past("'");
            }
            _ => drop(self.skip(1)),
        }
    }
}

/// The number of hashes if a raw string begins here; `None` otherwise.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
    after.get(hashes..)?.starts_with('"').then_some(hashes)
}

#[cfg(test)]
mod tests {
    use super::tokens;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_strings_characters_and_lifetimes_are_skipped() {
        let source = r##"
            // crate::a
            /* crate::b /* crate::c */ crate::d */
            fn f<'a>(x: &'a str) { g("crate::e \" x", 'c', '\'', b"y", r#"crate::"f" "#, 'ü') }
        "##;
        let expected = "fn f < a > ( x : & a str ) { g ( , , , b , , ) }";
        assert_eq!(texts(source).join(" "), expected);
    }

    #[test]
    fn a_token_knows_its_line() {
        let lines: Vec<_> =
            tokens("a\n\"x\ny\" b\n/* \n */ c::d").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 3, 5, 5, 5]);
    }
}
