//! The installed proxy: whether it answers on its port.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::Place;
use super::finding::{Area, Finding};

/// How long the proxy may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// `None` if no proxy is installed.
pub(super) fn check(place: &Place) -> Option<Area> {
    let address = installed_address(place)?;
    let finding = match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
        Ok(_) => Finding::ok("answers", format!("the proxy answers on {address}")),
        Err(error) => Finding::problem(
            "answers",
            format!("the proxy does not answer on {address}: {error}"),
            "start its service, and see `hook.log` in the data directory",
        ),
    };
    Some(Area::new("proxy", "Proxy", vec![finding]))
}

/// The loopback address of the proxy that is installed as a service. No command installs one yet.
const fn installed_address(_: &Place) -> Option<SocketAddr> {
    None
}
