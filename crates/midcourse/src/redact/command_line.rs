//! Passwords in command lines: `curl -u`, `sshpass -p`, `mysql -p`, `redis-cli -a`.
//!
//! In these places any text is a password, whatever it looks like, unless it is a placeholder or a
//! variable. To find out which command an argument belongs to, the rules look back a bounded number
//! of bytes.

use super::bytes::{examine, last_bytes, matching_suffix, prefix_len, suffix_len};
use super::false_positives::{contains_placeholder, is_placeholder_password};
use super::kind::SecretKind::LabelledSecret;
use super::marker::{MARKER_START, contains_marker_start};
use super::view::{SecretSpan, View};

const MAX_USER_LEN: usize = 96;

/// How many bytes before a password are searched for a command such as `curl` or `mysql`.
const MAX_COMMAND_DISTANCE: usize = 200;

/// How many bytes of a password are examined to see whether it is a placeholder.
const SAMPLE_LEN: usize = 64;

/// The longest password in quotes, in bytes. If the closing quote is further away, the text is not
/// a password.
const MAX_QUOTED_LEN: usize = 256;

/// How many bytes of a flag with one dash are read.
const MAX_LONG_FLAG_LEN: usize = 24;

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
        let is_short = is_short || matches!(flag, b"-a");
        if !is_short && !matches!(flag, b"--user" | b"--proxy-user" | b"--auth" | b"--basic") {
            return None;
        }
        before.get(..before.len() - flag.len())?
    };
    let is_command = |name: &[u8]| matches!(name, b"curl" | b"http" | b"https" | b"wget" | b"xh");
    is_argument_of(before, is_command).then_some(())?;
    find_argument(view, colon + 1, quote)
}

/// How a command takes the value of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// In the next word: `-p …`.
    NextWord,
    /// In the same word: `-p…`.
    SameWord,
    /// Either way.
    Both,
}

/// Short flags that take a password, with the commands that have them.
const SHORT_FLAGS: &[(u8, Form, &[&[u8]])] = &[
    (b'p', Form::Both, &[b"sshpass"]),
    (
        b'p',
        Form::SameWord,
        &[
            b"mysql",
            b"mysqldump",
            b"mysqladmin",
            b"mysqlimport",
            b"mysqlshow",
            b"mysqlsh",
            b"mariadb",
            b"mariadb-dump",
            b"mariadb-admin",
            b"7z",
            b"7za",
            b"rar",
            b"unrar",
        ],
    ),
    (
        b'p',
        Form::NextWord,
        &[
            b"login",
            b"mongo",
            b"mongosh",
            b"mongodump",
            b"mongorestore",
            b"mongoimport",
            b"mongoexport",
            b"ncftpput",
            b"ncftpget",
            b"oc",
            b"cf",
            b"rabbitmqadmin",
            b"az",
            b"nuget",
            b"evil-winrm",
            b"psexec",
            b"crackmapexec",
            b"netexec",
            b"smbmap",
            b"winexe",
            b"poetry",
            b"cypher-shell",
        ],
    ),
    (b'a', Form::NextWord, &[b"redis-cli", b"redis-benchmark", b"valkey-cli"]),
    (
        b'w',
        Form::NextWord,
        &[b"ldapsearch", b"ldapadd", b"ldapmodify", b"ldapdelete", b"ldapwhoami", b"ldappasswd"],
    ),
    (b's', Form::NextWord, &[b"ldappasswd", b"slappasswd"]),
    (b'P', Form::NextWord, &[b"sqlcmd", b"bcp", b"unzip", b"zip", b"ipmitool", b"ssh-keygen"]),
    (b'N', Form::NextWord, &[b"ssh-keygen"]),
    (b'P', Form::SameWord, &[b"sqlcmd", b"bcp"]),
    (b'k', Form::NextWord, &[b"openssl"]),
];

/// Long flags with one dash that take a password in the next word, whatever the command.
const LONG_FLAGS: [&[u8]; 8] = [
    b"password",
    b"passwd",
    b"storepass",
    b"keypass",
    b"srcstorepass",
    b"deststorepass",
    b"passphrase",
    b"pass",
];

/// The password after a flag with one dash: `sshpass -p …`, `mysql -p…`; `flag` is the position of
/// its first letter.
#[inline(never)]
pub(super) fn find_short_flag(view: View<'_>, flag: usize) -> Option<SecretSpan> {
    let ahead = view.ahead_up_to(flag, MAX_LONG_FLAG_LEN);
    let name = ahead.get(..prefix_len(ahead, is_name_byte))?;
    if name.starts_with(b"pass") && matches!(ahead.get(name.len()), Some(b' '))
        || LONG_FLAGS.iter().any(|known| name.eq_ignore_ascii_case(known))
    {
        return find_long_flag(view, flag, name);
    }
    let letter = view.byte(flag)?;
    let is_spaced = view.byte(flag + 1) == Some(b' ');
    let takes = |form: Form| match form {
        Form::NextWord => is_spaced,
        Form::SameWord => !is_spaced && !is_find_predicate(name),
        Form::Both => true,
    };
    let mut flags =
        SHORT_FLAGS.iter().filter(|(known, form, _)| *known == letter && takes(*form)).peekable();
    flags.peek()?;
    let before = view.before(flag.checked_sub(1)?);
    let before = before.strip_suffix(b"\"").unwrap_or(before);
    // A flag directly after a password belongs to the same command: `ssh-keygen -P … -N …`.
    let follows_password = before.is_empty() && flag > 1 && is_spaced;
    let is_command = |name: &[u8]| flags.clone().any(|(_, _, commands)| commands.contains(&name));
    if !follows_password && !is_argument_of(before, is_command) {
        return None;
    }
    let spaces = prefix_len(view.ahead_up_to(flag + 1, MAX_SPACES), |byte| byte == b' ');
    find_flag_value(view, flag + 1 + spaces, is_spaced)
}

/// The password after `-storepass`, or after `pass:` as in `-passin pass:…`.
fn find_long_flag(view: View<'_>, flag: usize, name: &[u8]) -> Option<SecretSpan> {
    let start = flag + name.len() + 1;
    if let Some(rest) = view.ahead_up_to(start, MAX_LONG_FLAG_LEN).strip_prefix(b"pass:") {
        return (!rest.is_empty()).then(|| find_argument(view, start + b"pass:".len(), None))?;
    }
    let is_separated = matches!(view.byte(start - 1), Some(b' ' | b'='));
    let is_known = LONG_FLAGS.iter().any(|known| name.eq_ignore_ascii_case(known));
    (is_separated && is_known).then(|| find_flag_value(view, start, true))?
}

/// The value of a flag at `start`, with or without quotes.
fn find_flag_value(view: View<'_>, start: usize, is_word: bool) -> Option<SecretSpan> {
    let (start, quote) = match view.byte(start) {
        Some(quote @ (b'"' | b'\'')) => (start + 1, Some(quote)),
        Some(b'\\') if matches!(view.byte(start + 1), Some(b'"')) => (start + 2, Some(b'\\')),
        // Another flag: `docker login -p -u me`.
        Some(b'-') if is_word => return None,
        _ => (start, None),
    };
    let secret = find_argument(view, start, quote)?;
    // Not a password but a port: `docker run --name mysql -p3306:3306`.
    let is_port_byte = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
    let sample = view.ahead_up_to(start, (secret.end - start).min(SAMPLE_LEN));
    let is_port = sample.len() < 6 && sample.iter().all(u8::is_ascii_digit)
        || sample.contains(&b':') && sample.iter().all(is_port_byte);
    (!is_port).then_some(secret)
}

/// The password that `echo` writes to a command: `echo … | docker login --password-stdin`; `space`
/// is the position after the `|`.
#[inline(never)]
pub(super) fn find_piped_password(view: View<'_>, space: usize) -> Option<SecretSpan> {
    const READERS: [&[u8]; 7] = [
        b"--password-stdin",
        b"--passphrase-fd",
        b"chpasswd",
        b"passwd --stdin",
        b"sudo -S",
        b"--stdin",
        b"cryptsetup",
    ];
    let pipe = space.checked_sub(2)?;
    let near = last_bytes(view.before(pipe), MAX_QUOTED_LEN);
    let echo = memchr::memmem::rfind(near, b"echo ")? + b"echo ".len();
    let echoed = near.get(echo..)?;
    let ahead = view.ahead_up_to(space, MAX_QUOTED_LEN);
    examine(near.len() + ahead.len());
    let line = ahead.get(..prefix_len(ahead, |byte| byte >= b' '))?;
    READERS.iter().find(|reader| memchr::memmem::find(line, reader).is_some())?;
    let flag = if echoed.starts_with(b"-n ") { 3 } else { 0 };
    let start = pipe - echoed.len() + flag;
    let (start, quote) = match view.byte(start)? {
        quote @ (b'"' | b'\'') => (start + 1, Some(quote)),
        b'\\' => (start + 2, Some(b'\\')),
        _ => (start, None),
    };
    let secret = find_argument(view, start, quote)?;
    // `chpasswd` reads `user:password`.
    let text = view.ahead_up_to(secret.start, secret.end - secret.start);
    let user =
        memchr::memchr(b':', text).filter(|_| memchr::memmem::find(line, b"chpasswd").is_some());
    let start = secret.start + user.map_or(0, |user| user + 1);
    (secret.end > start + 3).then_some(SecretSpan { start, ..secret })
}

/// Whether a flag that starts with `p` belongs to the program `find` (`find -name mysql -print`),
/// so that the rest of it is not a password.
fn is_find_predicate(name: &[u8]) -> bool {
    const PREDICATES: [&[u8]; 6] = [b"print", b"print0", b"printf", b"prune", b"path", b"perm"];
    PREDICATES.contains(&name)
}

/// The argument that starts at `start`, unless it is a placeholder or a variable.
pub(super) fn find_argument(view: View<'_>, start: usize, quote: Option<u8>) -> Option<SecretSpan> {
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

/// Whether the text after `before` is an argument of such a command.
fn is_argument_of(before: &[u8], is_command: impl Fn(&[u8]) -> bool) -> bool {
    let near = last_bytes(before, MAX_COMMAND_DISTANCE);
    examine(near.len());
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
            name => after_colour(word, name),
        };
        if is_command(name) {
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

/// The name of a command without the terminal colour before it: `[33mcurl`.
fn after_colour<'a>(word: &[u8], name: &'a [u8]) -> &'a [u8] {
    let is_coloured = word.get(..word.len() - name.len()).unwrap_or_default().ends_with(b"[")
        || word.contains(&b'\x1b');
    let digits = prefix_len(name, |byte| byte.is_ascii_digit());
    match name.get(digits..) {
        Some([b'm', rest @ ..]) if is_coloured && digits > 0 => rest,
        _ => name,
    }
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
            ("docker login -u me -p ", " registry.a"),
            ("docker login -u me -p '", "' registry.a"),
            ("redis-cli -h a -a ", " ping"),
            ("ldapsearch -x -D cn=a -w ", " b"),
            ("sqlcmd -S a -U sa -P ", " -Q b"),
            ("mongosh -u me -p ", " a"),
            ("keytool -list -storepass ", " -v"),
            ("openssl rsa -in a -passin pass:", " -out b"),
            ("http -a me:", " https://a.b"),
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
            "mysql -p$PASSWORD a",
            "mysql -p\"${PASSWORD}\" a",
            "mysql -ppassword a",
            "docker run --name mysql -p3306:3306 mysql:8",
            "mysql a && docker run -phunter2x",
            "docker login -p $PASSWORD a",
            "docker run -p 8080:80 a",
            "redis-cli -a \"$REDIS_PASSWORD\" ping",
            "ls -a hunter2",
            "git commit -a -m hunter2",
        ] {
            assert_no_secret(text);
        }
    }
}
