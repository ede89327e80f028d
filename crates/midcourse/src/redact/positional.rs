//! Passwords that a command takes without a flag of their own: `htpasswd -b file user …`,
//! `net use … /user:me`, `sqlplus user/…@db`.
//!
//! The prefilter finds the name of the command. Its words are then read to the end of the line,
//! at most `MAX_LINE_LEN` bytes, and the place of the password depends on the command.

use super::bytes::{examine, prefix_len};
use super::command_line::find_argument;
use super::label::label_kind;
use super::prefilter::PREFIXED_TOKEN_BITS;
use super::value::{Expected, Syntax, looks_secret};
use super::view::{SecretSpan, View};

const MAX_LINE_LEN: usize = 256;

/// The most words of a command that are read.
const MAX_WORDS: usize = 16;

/// Where a command has its password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The last word that is not a flag, if a flag contains this letter.
    LastWordWithFlag(u8),
    /// The last word that is not a flag.
    LastWord,
    /// The first word that is not a flag, if it looks like a token.
    FirstToken,
    /// The first word that is not a flag and is in quotes.
    FirstQuoted,
    /// The word at this place, not counting flags.
    Word(usize),
    /// The part of a word after this byte: `user/password@host`, `user%password`.
    PartAfter(u8),
    /// The part of a word after this text.
    After(&'static [u8]),
    /// `net use X: \\\\host\\share password /user:me`.
    NetUse,
    /// `smbclient //host/share password`, or `-U user%password`.
    Smb,
    /// The part of the last word after this byte.
    LastPartAfter(u8),
    /// The last word, if another one starts with this text.
    LastWordIf(&'static [u8]),
    /// The word after this one.
    WordAfter(&'static [u8]),
    /// The word after the label of a secret.
    AfterLabel,
}

/// The commands, each with the text before its arguments.
pub(super) static COMMANDS: [(&str, Place); 37] = [
    ("htpasswd ", Place::LastWordWithFlag(b'b')),
    ("net user ", Place::Word(1)),
    ("net use ", Place::NetUse),
    ("smbclient ", Place::Smb),
    ("rpcclient ", Place::Smb),
    ("sqlplus ", Place::PartAfter(b'/')),
    ("impdp ", Place::PartAfter(b'/')),
    ("expdp ", Place::PartAfter(b'/')),
    ("jdbc:oracle:thin:", Place::PartAfter(b'/')),
    ("lftp ", Place::PartAfter(b',')),
    ("skopeo ", Place::PartAfter(b':')),
    ("bundle config ", Place::LastPartAfter(b':')),
    ("composer config ", Place::LastWordIf(b"http-basic")),
    ("wandb login ", Place::FirstToken),
    ("snyk auth ", Place::FirstToken),
    ("AUTH ", Place::FirstToken),
    ("<(echo ", Place::Word(0)),
    ("ConvertTo-SecureString ", Place::FirstQuoted),
    ("encrypt_string ", Place::FirstQuoted),
    ("xfreerdp ", Place::After(b"/p:")),
    ("cmdkey ", Place::After(b"/pass:")),
    ("openssl passwd ", Place::LastWord),
    ("openssl enc ", Place::WordAfter(b"-K")),
    ("openssl dgst ", Place::WordAfter(b"-hmac")),
    ("oathtool ", Place::LastWord),
    ("cryptsetup ", Place::WordAfter(b"<<<")),
    ("put-parameter ", Place::WordAfter(b"--value")),
    ("keyvault secret set ", Place::WordAfter(b"--value")),
    ("gh secret set ", Place::WordAfter(b"--body")),
    ("netlify ", Place::WordAfter(b"--auth")),
    ("schtasks ", Place::WordAfter(b"/rp")),
    ("reg add ", Place::WordAfter(b"/d")),
    ("plink ", Place::WordAfter(b"-pw")),
    ("pdftotext ", Place::WordAfter(b"-upw")),
    ("setx ", Place::AfterLabel),
    ("config set --secret ", Place::AfterLabel),
    ("configure set ", Place::AfterLabel),
];

/// A word of a command line, without its quotes.
#[derive(Debug, Clone, Copy, Default)]
struct Word {
    start: usize,
    end: usize,
    quote: Option<u8>,
}

/// The password of the command at `start`, if its name has this bit in the prefilter.
pub(super) fn find(view: View<'_>, start: usize, bit: u32) -> Option<SecretSpan> {
    let commands = COMMANDS.iter().skip(bit as usize).step_by(PREFIXED_TOKEN_BITS as usize);
    let (name, place) = commands
        .into_iter()
        .find(|(name, _)| view.ahead_up_to(start, name.len()) == name.as_bytes())?;
    find_in(view, start + name.len(), *place)
}

#[inline(never)]
fn find_in(view: View<'_>, start: usize, place: Place) -> Option<SecretSpan> {
    let (words, count) = read_words(view, start);
    let words = words.get(..count)?;
    let text = |word: &Word| view.ahead_up_to(word.start, word.end - word.start);
    let is_flag = |word: &&Word| text(word).starts_with(b"-") && word.quote.is_none();
    let mut plain = words.iter().filter(|word| !is_flag(word));
    match place {
        Place::LastWordWithFlag(letter) => {
            let mut flags = words.iter().filter(is_flag);
            flags.find(|word| text(word).contains(&letter))?;
            (plain.clone().count() > 1).then(|| argument(view, plain.next_back()?))?
        }
        Place::LastWord => argument(view, plain.next_back()?),
        Place::FirstToken => {
            let is_token = |word: &&Word| {
                looks_secret(text(word), Expected::Password, Syntax::Argument)
                    && text(word).len() >= 8
            };
            argument(view, plain.take(2).find(is_token)?)
        }
        Place::FirstQuoted => argument(view, words.iter().find(|word| word.quote.is_some())?),
        Place::Word(index) => {
            argument(view, plain.nth(index)?).filter(|secret| view.byte(secret.start) != Some(b'/'))
        }
        Place::PartAfter(byte) => words.iter().find_map(|word| part_after(view, word, byte)),
        Place::LastPartAfter(byte) => part_after(view, words.last()?, byte),
        Place::LastWordIf(start) => {
            words.iter().find(|word| text(word).starts_with(start))?;
            argument(view, words.last()?)
        }
        Place::Smb => {
            let is_share = words.first().is_some_and(|word| text(word).starts_with(b"//"));
            let after_share = words.get(1).filter(|_| is_share);
            let login = words.iter().find_map(|word| part_after(view, word, b'%'));
            login.or_else(|| argument(view, after_share.filter(|word| !is_flag(word))?))
        }
        Place::AfterLabel => {
            let at = words.iter().position(|word| label_kind(text(word)).is_some())?;
            let secret = argument(view, words.get(at + 1)?)?;
            let value = view.ahead_up_to(secret.start, secret.end - secret.start);
            looks_secret(value, Expected::Password, Syntax::Argument).then_some(secret)
        }
        Place::After(prefix) => words.iter().find_map(|word| {
            let prefix_len = text(word).starts_with(prefix).then_some(prefix.len())?;
            // In `/p:'…'` the quote is inside the word.
            let quote =
                view.byte(word.start + prefix_len).filter(|byte| matches!(byte, b'\'' | b'"'));
            find_argument(view, word.start + prefix_len + usize::from(quote.is_some()), quote)
        }),
        Place::NetUse => {
            let is_password =
                |word: &&Word| !matches!(text(word), [b'/' | b'\\' | b'*', ..] | [_, b':']);
            argument(view, plain.find(is_password)?)
        }
        Place::WordAfter(before) => {
            let at = words.iter().position(|word| text(word) == before)?;
            argument(view, words.get(at + 1)?)
        }
    }
}

/// The part of a word after a user's name and this byte.
fn part_after(view: View<'_>, word: &Word, byte: u8) -> Option<SecretSpan> {
    let text = view.ahead_up_to(word.start, word.end - word.start);
    let user = prefix_len(text, |other| other != byte);
    let is_user = user > 0 && user < text.len() && !text.starts_with(b"/");
    let is_url = text.get(user + 1..user + 3) == Some(b"//");
    (is_user && !is_url).then(|| part(view, word, user + 1))?
}

fn argument(view: View<'_>, word: &Word) -> Option<SecretSpan> {
    let secret = find_argument(view, word.start, word.quote)?;
    (secret.end > secret.start + 3).then_some(secret)
}

/// The part of a word after `skipped` bytes, up to an `@`.
fn part(view: View<'_>, word: &Word, skipped: usize) -> Option<SecretSpan> {
    let start = word.start + skipped;
    let secret = find_argument(view, start, word.quote)?;
    let text = view.ahead_up_to(start, secret.end - start);
    let at = memchr::memrchr(b'@', text).unwrap_or(text.len());
    (at > 3).then_some(SecretSpan { end: start + at, ..secret })
}

/// Splits the rest of a command line into words.
fn read_words(view: View<'_>, start: usize) -> ([Word; MAX_WORDS], usize) {
    let (mut words, mut count) = ([Word::default(); MAX_WORDS], 0);
    let mut at = start;
    let line = view.ahead_up_to(start, MAX_LINE_LEN);
    examine(line.len());
    let limit = start + line.len();
    while let Some(word) = words.get_mut(count) {
        at += prefix_len(view.ahead_up_to(at, limit.saturating_sub(at)), |byte| byte == b' ');
        let is_escaped = view.byte(at) == Some(b'\\');
        let quote_at = at + usize::from(is_escaped);
        let quote = view.byte(quote_at).filter(|byte| matches!(byte, b'"' | b'\''));
        let word_start = if quote.is_some() { quote_at + 1 } else { at };
        let is_word_byte = |byte: u8| match quote {
            Some(_) if is_escaped => byte >= b' ' && byte != b'\\',
            Some(quote) => byte >= b' ' && byte != quote,
            None => byte > b' ' && !matches!(byte, b'|' | b';' | b'"' | b')' | b'>'),
        };
        let len = prefix_len(
            view.ahead_up_to(word_start, limit.saturating_sub(word_start)),
            is_word_byte,
        );
        if len == 0 || word_start >= limit {
            break;
        }
        *word = Word { start: word_start, end: word_start + len, quote };
        count += 1;
        at = word_start + len + usize::from(quote.is_some()) + usize::from(is_escaped);
    }
    (words, count)
}

#[cfg(test)]
mod tests {
    use crate::redact::testing::{assert_no_secret, redacted};

    #[test]
    fn only_the_password_of_a_command_is_redacted() {
        for (before, after) in [
            ("htpasswd -bc /etc/a me ", ""),
            ("htpasswd -b a me '", "'\n"),
            ("net use Z: \\\\a\\b ", " /user:me"),
            ("net use Z: \\\\a\\b /user:me \"", "\" /persistent:yes"),
            ("net user me ", " /add"),
            ("smbclient //a/b -U me%", " -c ls"),
            ("sqlplus me/", "@a"),
            ("lftp -u me,", " a"),
            ("wandb login ", "\n"),
            ("redis-cli -h a AUTH ", "\n"),
            ("ConvertTo-SecureString \"", "\" -AsPlainText"),
            ("xfreerdp /u:me /p:'", "' /v:a"),
            ("aws ssm put-parameter --type SecureString --value '", "'"),
        ] {
            let text = format!("{before}a8Kd0f3Lq9Zx{after}");
            assert_eq!(redacted(&text), format!("{before}[redacted:labelled_secret]{after}"));
        }
    }

    #[test]
    fn other_words_are_kept() {
        for text in [
            "htpasswd -c a me",
            "net use Z: \\\\a\\b",
            "smbclient -L //a -U me",
            "sqlplus -v",
            "lftp a",
            "wandb login --relogin",
            "the AUTH command",
            "htpasswd -b a me $PASSWORD",
        ] {
            assert_no_secret(text);
        }
    }
}
