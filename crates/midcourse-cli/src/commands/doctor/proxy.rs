//! Checks the proxy that `midcourse proxy install` has set up: its unit, its token, and whether it
//! answers on its port.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::super::proxy::InstalledProxy;
use super::Place;
use super::finding::{Area, Finding};
use crate::shell::shell_quote;

/// How long the proxy may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

const INSTALL: &str = "`midcourse proxy install --upstream URL`";

/// `None` if no proxy is installed.
pub(super) fn check(place: &Place) -> Option<Area> {
    let proxy = InstalledProxy::find(place.data_dir.as_ref()?)?;
    let unit = proxy.unit.display();
    let mut findings = vec![if proxy.has_unit {
        Finding::ok("unit", format!("{unit} starts the proxy"))
    } else {
        Finding::problem(
            "unit",
            format!("there is no unit {unit} that starts the proxy"),
            format!("{INSTALL}, or `midcourse proxy uninstall` to remove the rest"),
        )
    }];
    findings.push(token(&proxy));
    findings.push(match proxy.address {
        Some(address) => answers(&proxy, address),
        None => Finding::problem(
            "answers",
            "the address of the proxy is not known",
            format!("{INSTALL} chooses one"),
        ),
    });
    Some(Area::new("proxy", "Proxy", findings))
}

fn token(proxy: &InstalledProxy) -> Finding {
    let file = proxy.token_file.display().to_string();
    if let Some(error) = &proxy.token_error {
        return Finding::problem("token", error.clone(), format!("{INSTALL} writes a token"));
    }
    if is_readable_by_others(&proxy.token_file) {
        return Finding::warning(
            "token",
            format!("other users can read {file}"),
            format!("`chmod 600 {}`", shell_quote(&file)),
        );
    }
    Finding::ok("token", format!("{file} is readable by you only"))
}

#[cfg(unix)]
fn is_readable_by_others(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
const fn is_readable_by_others(_: &Path) -> bool {
    false
}

/// Connects to the proxy and sends nothing.
fn answers(proxy: &InstalledProxy, address: SocketAddr) -> Finding {
    const CHECK: &str = "answers";
    // A proxy that listens on all interfaces listens on this one too.
    let local = match address.ip() {
        ip if ip.is_loopback() => address,
        ip if ip.is_unspecified() => {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
        }
        _ => {
            return Finding::note(
                CHECK,
                format!("not tried: {address} is not on the loopback interface"),
                "see in the output of your agent whether it reaches the proxy",
            );
        }
    };
    match TcpStream::connect_timeout(&local, CONNECT_TIMEOUT) {
        Ok(_) => Finding::ok(CHECK, format!("the proxy accepts connections on {local}")),
        Err(error) => Finding::problem(
            CHECK,
            format!("nothing answers on {local}: {error}"),
            format!("start the proxy: `{}`", proxy.start_command),
        ),
    }
}
