//! Recognises names that are made of words which describe a secret: `userPassword2`, `my-api-token`.
//!
//! Such a name is a variable, the name of another setting or a placeholder, not a secret.

use super::bytes::examine;

/// A longer name is not taken apart.
const MAX_NAME_LEN: usize = 63;

/// A name with more digits than this is not made of words.
const MAX_DIGITS: usize = 4;

/// The words, by their first letter.
const WORDS: [&[&str]; 26] = [
    &[
        "abc",
        "access",
        "account",
        "action",
        "actual",
        "admin",
        "an",
        "and",
        "any",
        "api",
        "app",
        "arg",
        "args",
        "arn",
        "at",
        "attr",
        "auth",
        "authorization",
        "azure",
        "aws",
    ],
    &[
        "bad", "bar", "base", "basic", "baz", "bearer", "blank", "bool", "boolean", "bot", "buf",
        "buffer", "by", "byte", "bytes",
    ],
    &[
        "cache",
        "cert",
        "certs",
        "change",
        "char",
        "chars",
        "check",
        "cipher",
        "ci",
        "class",
        "cli",
        "client",
        "cloud",
        "code",
        "conf",
        "config",
        "confirm",
        "confirmation",
        "const",
        "correct",
        "create",
        "cred",
        "creds",
        "credential",
        "credentials",
        "crypt",
        "csrf",
        "ctx",
        "cur",
        "current",
        "custom",
    ],
    &[
        "data",
        "database",
        "date",
        "db",
        "decoded",
        "decrypted",
        "default",
        "demo",
        "deploy",
        "dest",
        "dev",
        "digest",
        "django",
        "docker",
        "dst",
        "dummy",
    ],
    &[
        "edit",
        "el",
        "element",
        "email",
        "empty",
        "enc",
        "encoded",
        "encrypted",
        "encryption",
        "end",
        "entry",
        "env",
        "err",
        "error",
        "event",
        "example",
        "existing",
        "expected",
        "expr",
        "external",
    ],
    &["fake", "false", "field", "file", "first", "flag", "foo", "for", "form", "from", "func"],
    &[
        "gen",
        "generate",
        "generated",
        "get",
        "git",
        "github",
        "gitlab",
        "given",
        "global",
        "good",
        "google",
        "group",
    ],
    &["has", "hash", "hashed", "header", "headers", "helm", "hidden", "hint", "host", "http"],
    &[
        "id",
        "ident",
        "identifier",
        "ids",
        "in",
        "info",
        "initial",
        "input",
        "int",
        "integer",
        "internal",
        "invalid",
        "is",
        "item",
    ],
    &["job", "json", "jwt"],
    &["key", "keys", "kind", "kube", "kubernetes"],
    &[
        "label", "last", "ldap", "left", "len", "length", "line", "list", "live", "local", "log",
        "login", "long",
    ],
    &[
        "main", "map", "master", "match", "max", "me", "message", "method", "min", "missing",
        "mock", "mode", "model", "msg", "my", "mysql",
    ],
    &[
        "name", "names", "new", "next", "nil", "no", "node", "none", "not", "npm", "null", "num",
        "number",
    ],
    &[
        "oauth", "obj", "object", "of", "old", "on", "one", "op", "opt", "option", "optional",
        "options", "opts", "or", "org", "orig", "original", "other", "out", "output", "owner",
    ],
    &[
        "param",
        "params",
        "parse",
        "parsed",
        "parser",
        "part",
        "pass",
        "passphrase",
        "passwd",
        "password",
        "passwords",
        "path",
        "payload",
        "peek",
        "personal",
        "phrase",
        "pk",
        "plain",
        "plaintext",
        "postgres",
        "prefix",
        "prev",
        "previous",
        "private",
        "prod",
        "production",
        "prop",
        "props",
        "provided",
        "proxy",
        "ptr",
        "public",
        "pw",
        "pwd",
    ],
    &["query"],
    &[
        "random", "raw", "read", "redis", "ref", "refresh", "registry", "remote", "repo", "req",
        "request", "required", "res", "reset", "resp", "response", "result", "ret", "return",
        "right", "role", "root", "row",
    ],
    &[
        "salt", "sample", "scope", "second", "secret", "secrets", "self", "server", "service",
        "session", "set", "sha", "shared", "signing", "site", "smtp", "some", "source", "spec",
        "src", "staging", "start", "state", "str", "string", "sub", "super", "system",
    ],
    &[
        "tag", "target", "temp", "template", "test", "testing", "tests", "text", "the", "this",
        "tls", "tmp", "to", "tok", "token", "tokens", "true", "type",
    ],
    &[
        "undefined",
        "unknown",
        "update",
        "uri",
        "url",
        "use",
        "user",
        "username",
        "users",
        "utf",
        "uuid",
    ],
    &["val", "valid", "value", "values", "var", "variable", "vault", "ver", "version"],
    &["webhook", "with", "word", "words", "write", "wrong"],
    &["xml", "xxx"],
    &["yaml", "yes", "you", "your"],
    &[],
];

/// Whether a name consists of the words above, with separators, capitals and a few digits between
/// them.
pub(super) fn is_made_of_words(name: &[u8]) -> bool {
    let mut letters = [0_u8; MAX_NAME_LEN];
    let (mut len, mut digits) = (0, 0);
    for byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {
                let Some(letter) = letters.get_mut(len) else { return false };
                *letter = byte.to_ascii_lowercase();
                len += 1;
            }
            b'0'..=b'9' => digits += 1,
            b'_' | b'-' | b'.' | b'$' | b':' | b' ' => {}
            _ => return false,
        }
    }
    examine(name.len());
    // The bit at `n` says that the first `n` letters are words.
    let mut reached = 1_u64;
    for at in 0..len {
        if reached & (1 << at) != 0 {
            let rest = letters.get(at..len).unwrap_or_default();
            reached |= ends_of_words(rest) << at;
        }
    }
    digits <= MAX_DIGITS && len > 0 && reached & (1 << len) != 0
}

/// The lengths of the words that `letters` start with, one bit each.
fn ends_of_words(letters: &[u8]) -> u64 {
    let Some(first) = letters.first() else { return 0 };
    let words = WORDS.get(usize::from(first.wrapping_sub(b'a'))).copied().unwrap_or_default();
    examine(words.len());
    let matching = words.iter().filter(|word| letters.starts_with(word.as_bytes()));
    matching.fold(0, |ends, word| ends | 1 << word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_placeholders_are_made_of_words() {
        for name in
            ["password", "userPassword2", "my-api-token", "DB_PASS", "secret123", "testpass"]
        {
            assert!(is_made_of_words(name.as_bytes()), "{name}");
        }
        for name in ["hunter2", "correcthorse", "a8Kd0f3Lq9Zx", "", "1234", "pass12345", "pass!"] {
            assert!(!is_made_of_words(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn words_are_listed_under_their_first_letter() {
        for (letter, words) in (b'a'..=b'z').zip(WORDS) {
            assert!(words.iter().all(|word| word.as_bytes().first() == Some(&letter)));
        }
    }
}
