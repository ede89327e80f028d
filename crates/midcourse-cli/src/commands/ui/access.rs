//! Decides who may ask the viewer: a browser that opened the link, on this machine, for our own page.
//!
//! The link contains a code that works once. In exchange the browser gets a cookie, so no secret
//! stays in the address bar, and the one in the browser's history is worthless. The cookie's value is
//! a key that is kept in the data directory: a page that is open goes on after a restart.
//!
//! A page of another site cannot use the cookie: requests that another site causes are refused, and
//! so are requests for another host name, which another site could point to this machine.

use std::io::Write as _;
use std::sync::Mutex;

use anyhow::Result;
use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method};
use midcourse::DataDir;
use uuid::Uuid;

const KEY_FILE: &str = "ui-key";

/// What every session of this user shows with each request.
pub(super) struct Access {
    key: String,
    /// The code of the link that was printed last.
    code: Mutex<String>,
    port: u16,
    /// The page to which the link leads.
    start: String,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The request names another host, or a page of another site has caused it.
    Foreign,
    /// The method is neither GET nor HEAD.
    Method,
    /// The request has no cookie, or a wrong one.
    NoSession,
}

impl Access {
    pub(super) fn new(data_dir: &DataDir, port: u16, start: String) -> Self {
        let key = saved_key(data_dir).unwrap_or_else(|_| random());
        Self { key, code: Mutex::new(random()), port, start }
    }

    /// A link that opens the viewer once.
    pub(super) fn link(&self) -> String {
        format!("http://127.0.0.1:{}/open/{}", self.port, self.code())
    }

    fn code(&self) -> String {
        self.code.lock().map_or_else(|poisoned| poisoned.into_inner().clone(), |it| it.clone())
    }

    /// Takes the code of a link; true if it is right. From then on, `link` returns another one.
    pub(super) fn redeem(&self, code: &str) -> bool {
        let mut expected = match self.code.lock() {
            Ok(expected) => expected,
            Err(poisoned) => poisoned.into_inner(),
        };
        let is_right = is_equal(&expected, code);
        if is_right {
            *expected = random();
        }
        is_right
    }

    /// The header that gives a browser its session.
    pub(super) fn cookie(&self) -> String {
        // Cookies do not differ by port, so the name does: two viewers can be open at once.
        format!("midcourse-{}={}; Path=/; HttpOnly; SameSite=Strict", self.port, self.key)
    }

    pub(super) fn start(&self) -> &str {
        &self.start
    }

    /// Checks everything but the session.
    pub(super) fn check_origin(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
        let text = |value: &HeaderValue| value.to_str().ok().map(ToOwned::to_owned);
        let host = headers.get(HOST).and_then(text).unwrap_or_default();
        if !is_this_machine(&host) || headers.get_all(HOST).iter().count() != 1 {
            return Err(Refusal::Foreign);
        }
        let origin = headers.get(ORIGIN).map(|origin| text(origin).unwrap_or_default());
        if origin.is_some_and(|origin| origin != format!("http://{host}")) {
            return Err(Refusal::Foreign);
        }
        let site = headers.get("sec-fetch-site").map(|site| text(site).unwrap_or_default());
        if site.is_some_and(|site| site != "same-origin" && site != "none") {
            return Err(Refusal::Foreign);
        }
        if method != Method::GET && method != Method::HEAD {
            return Err(Refusal::Method);
        }
        Ok(())
    }

    /// Whether the request has the cookie of a session.
    pub(super) fn has_session(&self, headers: &HeaderMap) -> bool {
        let name = format!("midcourse-{}", self.port);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies.flat_map(|cookies| cookies.split(';')).any(|cookie| {
            let pair = cookie.trim().split_once('=');
            pair.is_some_and(|(key, value)| key == name && is_equal(&self.key, value))
        })
    }
}

/// Whether a `Host` header names this machine by an address or a name that no other site can have.
/// The port may be another one, because it is if the user forwards it over SSH.
fn is_this_machine(host: &str) -> bool {
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    matches!(name.map_or(host, |(name, _)| name), "127.0.0.1" | "localhost" | "[::1]")
}

/// Compares two secrets in constant time.
fn is_equal(one: &str, other: &str) -> bool {
    // The comparison of hashes does not depend on their content.
    blake3::hash(one.as_bytes()) == blake3::hash(other.as_bytes())
}

/// 244 random bits.
fn random() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// The key in the data directory. Creates it if there is none.
fn saved_key(data_dir: &DataDir) -> Result<String> {
    let file = data_dir.path().join(KEY_FILE);
    let is_key = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if let Ok(text) = std::fs::read_to_string(&file)
        && is_key(text.trim())
    {
        return Ok(text.trim().to_owned());
    }
    data_dir.create(data_dir.path())?;
    let key = random();
    // Written to a file of its own first: another viewer that starts now reads all of it or nothing.
    let mut written = tempfile_in(data_dir)?;
    written.0.write_all(key.as_bytes())?;
    written.0.sync_all()?;
    std::fs::rename(&written.1, &file)?;
    Ok(key)
}

fn tempfile_in(data_dir: &DataDir) -> Result<(std::fs::File, std::path::PathBuf)> {
    let path = data_dir.path().join(format!("{KEY_FILE}.{}", Uuid::new_v4().simple()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    Ok((options.open(&path)?, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap())
        });
        pairs.collect()
    }

    fn access() -> (tempfile::TempDir, Access) {
        let folder = tempfile::tempdir().unwrap();
        let access = Access::new(&DataDir::at(folder.path()), 4863, "/".to_owned());
        (folder, access)
    }

    #[test]
    fn a_code_works_once() {
        let (_folder, access) = access();
        let link = access.link();
        let code = link.rsplit('/').next().unwrap();
        assert!(!access.redeem(""));
        assert!(!access.redeem("0"));
        assert!(access.redeem(code));
        assert!(!access.redeem(code));
        assert_ne!(access.link(), link);
    }

    #[test]
    fn the_key_is_kept_and_private() {
        let (folder, access) = access();
        let again = Access::new(&DataDir::at(folder.path()), 1, "/".to_owned());
        assert_eq!(access.key, again.key);
        assert_ne!(access.code(), again.code());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(folder.path().join(KEY_FILE)).unwrap().permissions();
            assert_eq!(mode.mode() & 0o777, 0o600);
        }
        std::fs::write(folder.path().join(KEY_FILE), "short").unwrap();
        let replaced = Access::new(&DataDir::at(folder.path()), 1, "/".to_owned());
        assert_ne!(access.key, replaced.key);
    }

    #[test]
    fn only_this_machine_and_our_own_page_may_ask() {
        let (_folder, access) = access();
        let check = |method: Method, pairs: &[(&'static str, &str)]| {
            access.check_origin(&method, &headers(pairs))
        };
        let local = ("host", "127.0.0.1:4863");
        assert_eq!(check(Method::GET, &[local]), Ok(()));
        assert_eq!(check(Method::HEAD, &[("host", "localhost:9000")]), Ok(()));
        assert_eq!(check(Method::GET, &[("host", "[::1]:4863")]), Ok(()));
        assert_eq!(check(Method::GET, &[local, ("sec-fetch-site", "none")]), Ok(()));
        assert_eq!(check(Method::GET, &[local, ("origin", "http://127.0.0.1:4863")]), Ok(()));
        for foreign in [
            ("host", "midcourse.example:4863"),
            ("host", "127.0.0.1.example"),
            ("host", "127.0.0.1:4863:x"),
            ("host", ""),
        ] {
            assert_eq!(check(Method::GET, &[foreign]), Err(Refusal::Foreign), "{foreign:?}");
        }
        for foreign in [
            ("host", "localhost"),
            ("origin", "http://127.0.0.1:9000"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(check(Method::GET, &[local, foreign]), Err(Refusal::Foreign), "{foreign:?}");
        }
        assert_eq!(check(Method::GET, &[]), Err(Refusal::Foreign));
        assert_eq!(check(Method::POST, &[local]), Err(Refusal::Method));
    }

    #[test]
    fn a_session_is_the_cookie_of_this_port() {
        let (_folder, access) = access();
        let cookie = access.cookie();
        let pair = cookie.split(';').next().unwrap();
        let has = |value: &str| access.has_session(&headers(&[("cookie", value)]));
        assert!(has(pair));
        assert!(has(&format!("theme=dark; {pair}; other=1")));
        assert!(!has(&pair.replace("4863", "4864")));
        assert!(!has("midcourse-4863="));
        assert!(!has(&format!("{pair}0")));
        assert!(!access.has_session(&HeaderMap::new()));
    }
}
