//! Limits failed attempts to sign in, for each address and for all together.
//!
//! The limit answers wrong tokens with "too many attempts" and keeps them out of the log. It never
//! stops a right token: nobody guesses 256 random bits at any rate, and a limit that stops right
//! tokens too would let one broken script lock out everybody behind its address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_secs(60);

/// How many failed attempts of one address in a period are answered and logged as such.
const MAX_PER_ADDRESS: u32 = 10;

/// The same for all addresses together.
const MAX_OF_ALL: u32 = 100;

/// How many addresses are counted in a period. Others are counted together.
const MAX_ADDRESSES: usize = 4_096;

#[derive(Default)]
pub(super) struct Failures(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    since: Option<Instant>,
    all: u32,
    addresses: HashMap<IpAddr, u32>,
    others: u32,
}

impl Failures {
    /// Counts a failed attempt. Returns the time to wait if there were too many.
    pub(super) fn add(&self, address: IpAddr, at: Instant) -> Result<(), Duration> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = counts.since.map_or(PERIOD, |since| at.saturating_duration_since(since));
        if age >= PERIOD {
            *counts = Counts { since: Some(at), ..Counts::default() };
        }
        counts.all = counts.all.saturating_add(1);
        let is_over = counts.all > MAX_OF_ALL;
        let has_room = counts.addresses.len() < MAX_ADDRESSES;
        let counts = &mut *counts;
        let network = network(address);
        let count = match counts.addresses.get_mut(&network) {
            Some(count) => count,
            None if has_room => counts.addresses.entry(network).or_default(),
            None => &mut counts.others,
        };
        *count = count.saturating_add(1);
        if !is_over && *count <= MAX_PER_ADDRESS {
            return Ok(());
        }
        let age = if age >= PERIOD { Duration::ZERO } else { age };
        Err(PERIOD.saturating_sub(age))
    }
}

/// One machine can use all addresses of an IPv6 network of 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let bits = u128::from(address) >> 64 << 64;
            Ipv6Addr::from(bits).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from(number).into()
    }

    #[test]
    fn an_address_has_ten_attempts_a_minute() {
        let (failures, begin) = (Failures::default(), Instant::now());
        for _ in 0..MAX_PER_ADDRESS {
            assert_eq!(failures.add(address(1), begin), Ok(()));
        }
        let later = begin + Duration::from_secs(20);
        assert_eq!(failures.add(address(1), later), Err(Duration::from_secs(40)));
        assert_eq!(failures.add(address(2), later), Ok(()));
        assert_eq!(failures.add(address(1), begin + PERIOD), Ok(()));
    }

    #[test]
    fn all_addresses_together_have_a_limit_and_little_memory() {
        let (failures, at) = (Failures::default(), Instant::now());
        let results: Vec<_> = (0..10_000).map(|number| failures.add(address(number), at)).collect();
        let answered = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(u32::try_from(answered), Ok(MAX_OF_ALL));
        assert_eq!(failures.0.lock().unwrap().addresses.len(), MAX_ADDRESSES);
    }

    #[test]
    fn a_network_of_one_machine_counts_as_one_address() {
        let (failures, at) = (Failures::default(), Instant::now());
        let addresses = (0..=u128::from(MAX_PER_ADDRESS))
            .map(|number| IpAddr::from(Ipv6Addr::from((0x2001_0db8_u128 << 96) | number)));
        let results: Vec<_> = addresses.map(|address| failures.add(address, at).is_ok()).collect();
        assert_eq!(results.iter().filter(|is_ok| !**is_ok).count(), 1);
        assert_eq!(network("::ffff:1.2.3.4".parse().unwrap()), address(0x0102_0304));
    }
}
