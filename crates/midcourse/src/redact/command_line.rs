//! Passwords in command lines (`curl -u`, `sshpass -p`, `mysql -p`) and in a `.netrc`.
//!
//! In these places any text is a password, whatever it looks like, unless it is a placeholder or a
//! variable. To find out which command an argument belongs to, the rules look back a bounded number
//! of bytes.

use super::bytes::{last_bytes, matching_suffix, prefix_len, suffix_len};
use super::false_positives::{contains_placeholder, is_placeholder_password};
use super::kind::SecretKind::LabelledSecret;
use super::marker::{MARKER_START, contains_marker_start};
use super::view::{SecretSpan, View};

const MAX_USER_LEN: usize = 96;

/// How many bytes before a password are searched for a command such as `curl` or `mysql`.
const MAX_COMMAND_DISTANCE: usize = 256;

/// How many bytes of a password are examined to see whether it is a placeholder.
const SAMPLE_LEN: usize = 64;

/// The longest password in quotes, in bytes. If the closing quote is further away, the text is not
/// a password.
const MAX_QUOTED_LEN: usize = 256;

/// The most spaces that may be between a flag and its value.
const MAX_SPACES: usize = 4;

/// The password after the colon at `colon`: `curl -u user:…`.
pub(super) fn find_curl_password(view: View<'_>, colon: usize) -> Option<SecretSpan> {
    let before = view.before(colon);
    let user = matching_suffix(before, MAX_USER_LEN, is_user_byte);
    let before = before.get(..before.len() - user.len())?;
    let (before, quote) = match before {
        [before @ .., quote @ (b'"' | b'\'')] => (before, Some(*quote)),
        before => (before, None),
    };
    let before = before.strip_suffix(b"\\").unwrap_or(before);
    let before = if quote.is_none() && user.starts_with(b"-u") {
        before
    } else {
        let before = without_spaces(before.strip_suffix(b"=").unwrap_or(before))?;
        let flag = matching_suffix(before, 16, |byte| byte > b' ');
        // Short flags may be combined, as in `-sSu`.
        let is_short = matches!(flag, [b'-', others @ .., b'u' | b'U']
            if others.len() < 5 && others.iter().all(u8::is_ascii_alphabetic));
        if !is_short && !matches!(flag, b"--user" | b"--proxy-user") {
            return None;
        }
        before.get(..before.len() - flag.len())?
    };
    is_argument_of(before, &[b"curl"]).then_some(())?;
    find_argument(view, colon + 1, quote)
}

/// The password after a flag `-p`: `sshpass -p …`, `mysql -p…`; `flag` is the position of its `p`.
pub(super) fn find_short_flag(view: View<'_>, flag: usize) -> Option<SecretSpan> {
    let before = view.before(flag.checked_sub(1)?);
    let is_spaced = view.byte(flag + 1) == Some(b' ');
    let start = if without_spaces(before)?.ends_with(b"sshpass") {
        flag + 1 + usize::from(is_spaced)
    } else if !is_spaced
        && !is_find_predicate(view.ahead_up_to(flag, 8))
        && is_argument_of(before, &[b"mysql", b"mysqldump", b"mysqladmin", b"mariadb"])
    {
        flag + 1
    } else {
        return None;
    };
    let (start, quote) = match view.byte(start) {
        Some(quote @ (b'"' | b'\'')) => (start + 1, Some(quote)),
        _ => (start, None),
    };
    let secret = find_argument(view, start, quote)?;
    // Not a password but a port: `docker run --name mysql -p3306:3306`.
    let is_port_byte = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
    let sample = view.ahead_up_to(start, (secret.end - start).min(SAMPLE_LEN));
    (!sample.iter().all(is_port_byte)).then_some(secret)
}

/// Whether a flag that starts with `p` belongs to the program `find` (`find -name mysql -print`),
/// so that the rest of it is not a password.
fn is_find_predicate(flag: &[u8]) -> bool {
    const PREDICATES: [&[u8]; 6] = [b"print", b"print0", b"printf", b"prune", b"path", b"perm"];
    let name = flag.get(..prefix_len(flag, is_name_byte)).unwrap_or_default();
    PREDICATES.contains(&name)
}

/// The password in a `.netrc` line `machine … login … password …`; `space` is the position of the
/// space before the password itself.
pub(super) fn find_netrc_password(view: View<'_>, space: usize) -> Option<SecretSpan> {
    let before = view.before(space).strip_suffix(b"password")?;
    before.last().filter(|byte| byte.is_ascii_whitespace())?;
    let mut words = last_bytes(before, MAX_COMMAND_DISTANCE)
        .rsplit(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty());
    let (login, keyword, host) = (words.next()?, words.next()?, words.next()?);
    let is_entry = keyword == b"login"
        && login != b"anonymous"
        && (host == b"default" || words.next() == Some(b"machine"));
    is_entry.then(|| find_argument(view, space + 1, None))?
}

/// The argument that starts at `start`, unless it is a placeholder or a variable.
fn find_argument(view: View<'_>, start: usize, quote: Option<u8>) -> Option<SecretSpan> {
    let is_argument_byte = |byte: u8| match quote {
        Some(quote) => byte >= b' ' && byte != quote && byte != b'\\',
        None => byte > b' ' && !b"\"'`\\;|&()<>".contains(&byte),
    };
    let max_len = if quote.is_some() { MAX_QUOTED_LEN } else { SAMPLE_LEN };
    let ahead = view.ahead_up_to(start, max_len + MARKER_START.len());
    let argument = ahead.get(..prefix_len(ahead, is_argument_byte))?;
    let is_unclosed =
        quote.is_some() && !matches!(ahead.get(argument.len()), Some(b'"' | b'\'' | b'\\'));
    let is_substitution = matches!(view.byte(start + argument.len()), Some(b'(' | b'<' | b'`'));
    let sample = argument.get(..SAMPLE_LEN).unwrap_or(argument);
    if is_unclosed
        || is_substitution
        || contains_marker_start(argument)
        || is_placeholder_password(sample)
        || contains_placeholder(sample)
    {
        return None;
    }
    let end = start + prefix_len(view.ahead(start), is_argument_byte);
    Some(SecretSpan { start, end, kind: LabelledSecret })
}

/// Whether the text after `before` is an argument of one of the commands.
fn is_argument_of(before: &[u8], commands: &[&[u8]]) -> bool {
    let near = last_bytes(before, MAX_COMMAND_DISTANCE);
    let is_line_end = |pair: &[u8]| pair.ends_with(b"\n") && !pair.starts_with(b"\\");
    let line = match near.windows(2).rposition(is_line_end) {
        Some(at) => near.get(at + 2..).unwrap_or_default(),
        None => near,
    };
    let mut words = line.rsplit(|byte| byte.is_ascii_whitespace());
    while let Some(word) = words.next() {
        let name = matching_suffix(word, usize::MAX, is_name_byte);
        // In `\ncurl`, the `n` is part of the escape sequence `\n`.
        let is_escaped = word.get(..word.len() - name.len()).unwrap_or_default().ends_with(b"\\");
        let name = match name {
            [b'n', rest @ ..] if is_escaped => rest,
            name => name,
        };
        if commands.contains(&name) {
            // `find -name mysql` does not run `mysql`.
            let previous = words.next().unwrap_or_default();
            let is_value_of_flag = previous != b"--"
                && matches!(previous, [b'-', _, _, ..] | [b'-', b'a'..=b'z'])
                && word == name;
            return !is_value_of_flag;
        }
        if matches!(word, [.., b'|' | b';'] | [.., b'&', b'&']) {
            return false;
        }
    }
    false
}

fn without_spaces(text: &[u8]) -> Option<&[u8]> {
    let spaces = suffix_len(last_bytes(text, MAX_SPACES), |byte| byte == b' ');
    text.get(..text.len() - spaces)
}

const fn is_user_byte(byte: u8) -> bool {
    is_name_byte(byte) || matches!(byte, b'%' | b'+' | b'~' | b'!' | b'@')
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

#[cfg(test)]
mod tests {
    use crate::redact::testing::{assert_no_secret, redacted};

    #[test]
    fn only_the_password_of_a_command_is_redacted() {
        for (before, after) in [
            ("curl -u me:", " https://a.b/c"),
            ("curl -s --user me@a.b:", " https://a.b/c"),
            ("curl --user=me:", " https://a.b/c"),
            ("curl -sSu 'me:", "' https://a.b/c"),
            ("curl https://a.b/c \\\n  -u \"me:", "\""),
            ("curl -ume:", " https://a.b/c"),
            ("{\"cmd\": \"cd a && curl -u me:", "\"}"),
            ("sshpass -p ", " ssh me@a"),
            ("sshpass -p '", "' ssh me@a"),
            ("sshpass -p", " ssh me@a"),
            ("mysql -p", " main"),
            ("docker exec -it db mysql -uroot -p", " main"),
            ("kubectl exec a -- curl -u me:", " b"),
            ("bash -c \"curl -u me:", " b\""),
            ("sudo -E mysql -p", " main"),
            ("mysql -u root -h db -p", ""),
            ("/usr/bin/mysqldump -uroot -p'", "' main"),
            ("machine a.b login me password ", "\n"),
            ("machine a.b\n  login me\n  password ", "\nmachine c"),
            ("default login me password ", ""),
        ] {
            for password in ["hunter2", "correcthorse", "p@ss:w0rd"] {
                let text = format!("{before}{password}{after}");
                assert_eq!(redacted(&text), format!("{before}[redacted:labelled_secret]{after}"));
            }
        }
        assert_eq!(redacted("curl -u 'me:a b' c"), "curl -u 'me:[redacted:labelled_secret]' c");
    }

    #[test]
    fn other_arguments_placeholders_and_variables_are_kept() {
        for text in [
            "docker run -u node:node image",
            "docker exec --user 1000:1000 db curl x",
            "curl x | docker run -u me:staff a",
            "curl a; chown -u me:staff b",
            "curl a\nrun -u me:staff b",
            "curl -u \"$USER:$PASSWORD\" x",
            "curl -u me:${PASSWORD} x",
            "curl -u user:password x",
            "curl -u <user>:<password> x",
            "curl -u me:`cat pw` x",
            "curl -H host:value x",
            "libcurl -u me:staff x",
            "sshpass -p $PASSWORD ssh a",
            "sshpass -p password ssh a",
            "sshpass -f file1 -p",
            "mkdir -p hunter2/a",
            "mysql -u root -p main",
            "mysql -P3306 -h a",
            "find / -type d -name mysql -print 2>/dev/null",
            "find mysql -prune -o -name a",
            "find . -name curl -u me:staff",
            "default login anonymous password me@a.b",
            "mysql -p$PASSWORD a",
            "mysql -p\"${PASSWORD}\" a",
            "mysql -ppassword a",
            "docker run --name mysql -p3306:3306 mysql:8",
            "mysql a && docker run -phunter2x",
            "the login and password of the machine",
            "machine a login b password <password>",
            "their login me password hunter2",
        ] {
            assert_no_secret(text);
        }
    }
}
