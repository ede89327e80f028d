//! A command line cut into its programs, and those into words. Quotes are honoured.

/// One program and its words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    text: &'a str,
    pub(super) is_piped: bool,
}

impl<'a> Part<'a> {
    /// Its words; what stands in quotes is one.
    pub(super) fn words(&self) -> Vec<&'a str> {
        let (mut words, mut start, mut quote) = (Vec::new(), None, None);
        for (at, byte) in self.text.bytes().enumerate() {
            match quote {
                Some(open) if byte == open => quote = None,
                Some(_) => {}
                None if matches!(byte, b'"' | b'\'') => {
                    quote = Some(byte);
                    start.get_or_insert(at);
                }
                None if byte.is_ascii_whitespace() => {
                    words.extend(start.take().and_then(|from| self.text.get(from..at)));
                }
                None => {
                    start.get_or_insert(at);
                }
            }
        }
        words.extend(start.and_then(|from| self.text.get(from..)));
        words
    }

    /// Whether its output goes into a file.
    pub(super) fn writes_a_file(&self) -> bool {
        let bytes = self.text.as_bytes();
        let mut quote = None;
        bytes.iter().enumerate().any(|(at, byte)| {
            match quote {
                Some(open) => {
                    if *byte == open {
                        quote = None;
                    }
                    return false;
                }
                None if matches!(byte, b'"' | b'\'') => {
                    quote = Some(*byte);
                    return false;
                }
                None => {}
            }
            let before = at.checked_sub(1).and_then(|before| bytes.get(before));
            if *byte != b'>' || matches!(before, Some(b'>' | b'-' | b'=' | b'<')) {
                return false;
            }
            let behind = self.text.get(at + 1..).unwrap_or_default().trim_start_matches('>');
            let target = behind.trim_start();
            !target.is_empty()
                && !target.starts_with(['&', '=', '('])
                && !target.starts_with("/dev/")
        })
    }
}

/// The parts of a command line: between `;`, `&`, `|` and line ends, up to a here-document.
pub(super) struct Parts<'a> {
    rest: Option<&'a str>,
    is_piped: bool,
}

impl<'a> Parts<'a> {
    pub(super) const fn of(command: &'a str) -> Self {
        Self { rest: Some(command), is_piped: false }
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let rest = self.rest?;
        let is_piped = self.is_piped;
        let (mut quote, bytes) = (None, rest.as_bytes());
        for (at, byte) in bytes.iter().enumerate() {
            match quote {
                Some(open) => {
                    if *byte == open {
                        quote = None;
                    }
                    continue;
                }
                None if matches!(byte, b'"' | b'\'') => {
                    quote = Some(*byte);
                    continue;
                }
                None => {}
            }
            let next = bytes.get(at + 1);
            let before = at.checked_sub(1).and_then(|before| bytes.get(before));
            let is_document = *byte == b'<' && next == Some(&b'<');
            // `2>&1` and `&>` are about output, not about two commands.
            let is_end = match byte {
                b';' | b'\n' | b'|' => true,
                b'&' => !matches!(before, Some(b'>' | b'<')) && next != Some(&b'>'),
                _ => false,
            };
            if is_document || is_end {
                let text = rest.get(..at).unwrap_or_default();
                self.is_piped = *byte == b'|' && next != Some(&b'|');
                let is_double = matches!((byte, next), (b'|', Some(b'|')) | (b'&', Some(b'&')));
                self.rest = if is_document {
                    // What follows is a script's text. Where it goes stands on its first line.
                    None
                } else {
                    rest.get(at + 1 + usize::from(is_double)..)
                };
                return Some(Part { text, is_piped });
            }
        }
        self.rest = None;
        Some(Part { text: rest, is_piped })
    }
}
