//! Finds the addresses of a host by its name.
//!
//! The C library finds names with modules of the system (`/etc/nsswitch.conf`), which it loads when
//! they are needed. A static binary has a C library of its own, and a module that was made for
//! another release of the library can crash the process. So a static binary asks the system's
//! program `getent`, which gives the same answers in the same order.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::Name;

/// Whether this binary contains the C library of GNU.
const IS_STATIC: bool =
    cfg!(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"));

/// Finds addresses by name, for hyper's connector. The connector sets the ports.
#[derive(Clone)]
pub(super) struct Resolver;

impl tower_service::Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(async move {
            let find = move || addresses(name.as_str());
            Ok(tokio::task::spawn_blocking(find).await.map_err(io::Error::other)??.into_iter())
        })
    }
}

fn addresses(name: &str) -> io::Result<Vec<SocketAddr>> {
    if IS_STATIC && let Ok(found) = ask_getent(name) {
        return found;
    }
    Ok((name, 0).to_socket_addrs()?.collect())
}

/// Asks `getent`. The outer error means that it could not be asked, for example because the system
/// does not have it.
fn ask_getent(name: &str) -> io::Result<io::Result<Vec<SocketAddr>>> {
    let mut getent = Command::new("getent");
    getent.args(["ahosts", "--", name]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = getent.output()?;
    let found = parse(&String::from_utf8_lossy(&output.stdout));
    if found.is_empty() {
        return Ok(Err(io::Error::other(format!("the host {name} is not known"))));
    }
    Ok(Ok(found))
}

/// Reads lines such as `93.184.216.34   STREAM example.com`. Each address has a line for each kind of
/// socket; those of other kinds are skipped.
fn parse(text: &str) -> Vec<SocketAddr> {
    let address = |line: &str| {
        let mut words = line.split_whitespace();
        let (address, kind) = (words.next()?, words.next()?);
        let address: IpAddr = (kind == "STREAM").then(|| address.parse().ok()).flatten()?;
        Some(SocketAddr::new(address, 0))
    };
    text.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::{ask_getent, parse};

    #[test]
    fn addresses_are_read_in_their_order_and_once() {
        let text = "\
            2606:2800:21f:cb07:6820:80da:af6b:8b2c STREAM example.com\n\
            2606:2800:21f:cb07:6820:80da:af6b:8b2c DGRAM  \n\
            93.184.216.34   STREAM \n\
            93.184.216.34   RAW    \n\
            nonsense\n";
        let found: Vec<_> = parse(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:0", "93.184.216.34:0"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_is_asked() {
        let loopback = ask_getent("localhost").unwrap().unwrap();
        assert!(loopback.iter().all(|address| address.ip().is_loopback()));
        let unknown = ask_getent("a..b").unwrap().unwrap_err();
        assert_eq!(unknown.to_string(), "the host a..b is not known");
    }
}
