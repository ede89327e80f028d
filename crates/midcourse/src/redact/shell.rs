//! Passwords that a command is given: `curl -u`, `sshpass -p`, `mysql -p`, and those of a `.netrc`.
//!
//! What stands there is a password whatever it looks like, so only what plainly stands for one is
//! left. A rule looks back for its command over a bounded part of the same command line.

use super::OPEN;
use super::shape::SecretShape::LabelledSecret;
use super::sight::{Secret, Sight, count, count_back};
use super::url::is_stand_in;
use super::value::holds_stand_in;

/// The longest user that is looked for.
const USER_MAX: usize = 96;

/// How far a command may be from its password.
const COMMAND_MAX: usize = 256;

/// How much of a password is judged, and how long one in quotes may be.
const JUDGED: usize = 64;
const QUOTED_MAX: usize = 256;

/// The password behind the colon at `colon`: `curl -u user:…`.
pub(super) fn find_login(sight: Sight<'_>, colon: usize) -> Option<Secret> {
    let behind = sight.behind(colon);
    let near = last(behind, USER_MAX);
    let user = last(near, count_back(near, in_user));
    let before = behind.get(..behind.len() - user.len())?;
    let (before, quote) = match before {
        [before @ .., quote @ (b'"' | b'\'')] => (before, Some(*quote)),
        before => (before, None),
    };
    let before = before.strip_suffix(b"\\").unwrap_or(before);
    let before = if quote.is_none() && user.starts_with(b"-u") {
        before
    } else {
        let before = before.strip_suffix(b"=").unwrap_or(before);
        let before =
            before.get(..before.len() - count_back(last(before, 4), |byte| byte == b' '))?;
        let flag = last(last(before, 16), count_back(last(before, 16), |byte| byte > b' '));
        let is_short = matches!(flag, [b'-', rest @ .., b'u' | b'U']
            if rest.len() < 5 && rest.iter().all(u8::is_ascii_alphabetic));
        if !is_short && !matches!(flag, b"--user" | b"--proxy-user") {
            return None;
        }
        before.get(..before.len() - flag.len())?
    };
    follows_command(before, &[b"curl"]).then_some(())?;
    find_word(sight, colon + 1, quote)
}

/// The password of a flag whose `p` is at `flag`: `sshpass -p …`, `mysql -p…`.
pub(super) fn find_short_flag(sight: Sight<'_>, flag: usize) -> Option<Secret> {
    let before = sight.behind(flag.checked_sub(1)?);
    let is_spaced = sight.byte(flag + 1) == Some(b' ');
    let line = before.get(..before.len() - count_back(last(before, 4), |byte| byte == b' '))?;
    let start = if line.ends_with(b"sshpass") {
        flag + 1 + usize::from(is_spaced)
    } else if !is_spaced
        && !is_find_flag(sight.head(flag, 8))
        && follows_command(before, &[b"mysql", b"mysqldump", b"mysqladmin", b"mariadb"])
    {
        flag + 1
    } else {
        return None;
    };
    let (start, quote) = match sight.byte(start) {
        Some(quote @ (b'"' | b'\'')) => (start + 1, Some(quote)),
        _ => (start, None),
    };
    let secret = find_word(sight, start, quote)?;
    // `docker run --name mysql -p3306:3306`.
    let is_port = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
    (!sight.head(start, (secret.end - start).min(JUDGED)).iter().all(is_port)).then_some(secret)
}

/// Whether a flag of one dash is one of `find`, which may look for a command's files.
fn is_find_flag(flag: &[u8]) -> bool {
    const FLAGS: [&[u8]; 6] = [b"print", b"print0", b"printf", b"prune", b"path", b"perm"];
    let name = flag.get(..count(flag, in_name)).unwrap_or_default();
    FLAGS.contains(&name)
}

/// The password behind the space at `space`: `machine … login … password …`.
pub(super) fn find_netrc(sight: Sight<'_>, space: usize) -> Option<Secret> {
    let before = sight.behind(space).strip_suffix(b"password")?;
    before.last().filter(|byte| byte.is_ascii_whitespace())?;
    let is_word = |word: &&[u8]| !word.is_empty();
    let mut words =
        last(before, COMMAND_MAX).rsplit(|byte| byte.is_ascii_whitespace()).filter(is_word);
    let (login, name, host) = (words.next()?, words.next()?, words.next()?);
    let is_entry = name == b"login"
        && login != b"anonymous"
        && (host == b"default" || words.next() == Some(b"machine"));
    let start = space + 1;
    is_entry.then(|| find_word(sight, start, None))?
}

/// The password that begins at `start`, unless it only stands for one.
fn find_word(sight: Sight<'_>, start: usize, quote: Option<u8>) -> Option<Secret> {
    let in_word = |byte: u8| match quote {
        Some(quote) => byte >= b' ' && byte != quote && byte != b'\\',
        None => byte > b' ' && !b"\"'`\\;|&()<>".contains(&byte),
    };
    let reach = if quote.is_some() { QUOTED_MAX } else { JUDGED };
    let head = sight.head(start, reach + OPEN.len());
    let word = head.get(..count(head, in_word))?;
    let is_open = quote.is_some() && !matches!(head.get(word.len()), Some(b'"' | b'\'' | b'\\'));
    let is_redacted = word.windows(OPEN.len()).any(|part| part == OPEN.as_bytes());
    let is_filled_in = matches!(sight.byte(start + word.len()), Some(b'(' | b'<' | b'`'));
    let judged = word.get(..JUDGED).unwrap_or(word);
    if is_open || is_redacted || is_filled_in || is_stand_in(judged) || holds_stand_in(judged) {
        return None;
    }
    let end = start + count(sight.ahead(start), in_word);
    Some(Secret { start, end, shape: LabelledSecret })
}

/// Whether one of the commands is what runs where `before` ends.
fn follows_command(before: &[u8], commands: &[&[u8]]) -> bool {
    let near = last(before, COMMAND_MAX);
    let is_line_end = |pair: &[u8]| pair.ends_with(b"\n") && !pair.starts_with(b"\\");
    let line = match near.windows(2).rposition(is_line_end) {
        Some(at) => near.get(at + 2..).unwrap_or_default(),
        None => near,
    };
    let mut words = line.rsplit(|byte| byte.is_ascii_whitespace());
    while let Some(word) = words.next() {
        let name = last(word, count_back(word, in_name));
        let is_escape = word.len() > name.len()
            && word.get(word.len() - name.len() - 1) == Some(&b'\\')
            && name.starts_with(b"n");
        let name = if is_escape { name.get(1..).unwrap_or_default() } else { name };
        if commands.contains(&name) {
            // `find -name mysql` runs no such command.
            let before = words.next().unwrap_or_default();
            let is_argument = before != b"--"
                && matches!(before, [b'-', _, _, ..] | [b'-', b'a'..=b'z'])
                && word == name;
            return !is_argument;
        }
        if matches!(word, [.., b'|' | b';'] | [.., b'&', b'&']) {
            return false;
        }
    }
    false
}

const fn in_user(byte: u8) -> bool {
    in_name(byte) || matches!(byte, b'%' | b'+' | b'~' | b'!' | b'@')
}

const fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn last(bytes: &[u8], length: usize) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(length)..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::redact::check::{gone, stays};

    #[test]
    fn only_the_password_of_a_command_goes() {
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
                assert_eq!(gone(&text), format!("{before}[redacted:labelled_secret]{after}"));
            }
        }
        assert_eq!(gone("curl -u 'me:a b' c"), "curl -u 'me:[redacted:labelled_secret]' c");
    }

    #[test]
    fn what_is_no_password_of_a_command_stays() {
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
            stays(text);
        }
    }
}
