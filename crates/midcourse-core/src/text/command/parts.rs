//! Splits a command line into the programs that it runs, and each program into its words. Honours
//! quotes and backslashes.

/// Whether the current byte of a command line is in quotes or after a backslash.
#[derive(Debug, Clone, Copy, Default)]
struct Quotes {
    open: Option<u8>,
    is_escaped: bool,
}

impl Quotes {
    /// Processes the next byte of the command line. Returns whether this byte is outside quotes and
    /// not after a backslash.
    fn is_plain(&mut self, byte: u8) -> bool {
        if std::mem::take(&mut self.is_escaped) {
            return false;
        }
        match (self.open, byte) {
            (Some(b'\''), b'\'') => self.open = None,
            (Some(b'\''), _) => {}
            (_, b'\\') => self.is_escaped = true,
            (Some(open), _) if byte == open => self.open = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => self.open = Some(byte),
            (None, _) => return true,
        }
        false
    }
}

/// One program of a command line, with its arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    text: &'a str,
    pub(super) is_piped: bool,
}

impl<'a> Part<'a> {
    /// The length of this part in bytes.
    pub(super) const fn len(&self) -> usize {
        self.text.len()
    }

    /// The words of this part; a quoted text is one word.
    pub(super) fn words(&self) -> Vec<&'a str> {
        let (mut words, mut start, mut quotes) = (Vec::new(), None, Quotes::default());
        for (at, byte) in self.text.bytes().enumerate() {
            if quotes.is_plain(byte) && byte.is_ascii_whitespace() {
                words.extend(start.take().and_then(|from| self.text.get(from..at)));
            } else {
                start.get_or_insert(at);
            }
        }
        words.extend(start.and_then(|from| self.text.get(from..)));
        words
    }

    /// Whether the output is redirected to a file.
    pub(super) fn writes_a_file(&self) -> bool {
        let (bytes, mut quotes) = (self.text.as_bytes(), Quotes::default());
        bytes.iter().enumerate().any(|(at, byte)| {
            if !quotes.is_plain(*byte) || *byte != b'>' {
                return false;
            }
            let before = at.checked_sub(1).and_then(|before| bytes.get(before));
            if matches!(before, Some(b'>' | b'-' | b'=' | b'<')) {
                return false;
            }
            let after = self.text.get(at + 1..).unwrap_or_default().trim_start_matches('>');
            let target = after.trim_start();
            !target.is_empty()
                && !target.starts_with(['&', '=', '('])
                && !target.starts_with("/dev/")
        })
    }
}

/// Iterates over the programs of a command line. They are separated by `;`, `&`, `|` and line ends.
pub(super) struct Parts<'a> {
    rest: Option<&'a str>,
    is_piped: bool,
}

impl<'a> Parts<'a> {
    /// Splits a command. The lines of a here-document (`<<`) are not part of the command, so
    /// everything after the line with the `<<` is ignored.
    pub(super) fn of(command: &'a str) -> Self {
        let document = command.find("<<");
        let end = document.and_then(|at| command.get(at..)?.find('\n').map(|line| at + line));
        Self { rest: command.get(..end.unwrap_or(command.len())), is_piped: false }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let rest = self.rest?;
        let is_piped = self.is_piped;
        let (mut quotes, bytes) = (Quotes::default(), rest.as_bytes());
        for (at, byte) in bytes.iter().enumerate() {
            if !quotes.is_plain(*byte) {
                continue;
            }
            let next = bytes.get(at + 1);
            let before = at.checked_sub(1).and_then(|before| bytes.get(before));
            // The `&` in `2>&1` and `&>` is a redirection, not a separator.
            let is_end = match byte {
                b';' | b'\n' | b'|' => true,
                b'&' => !matches!(before, Some(b'>' | b'<')) && next != Some(&b'>'),
                _ => false,
            };
            if is_end {
                let text = rest.get(..at).unwrap_or_default();
                self.is_piped = *byte == b'|' && next != Some(&b'|');
                let is_double = matches!((byte, next), (b'|', Some(b'|')) | (b'&', Some(b'&')));
                self.rest = rest.get(at + 1 + usize::from(is_double)..);
                return Some(Part { text, is_piped });
            }
        }
        self.rest = None;
        Some(Part { text: rest, is_piped })
    }
}
