//! Checks that what this machine records can be shipped, if the user's configuration names a fleet.

use midcourse_fleet::Shipper;

use super::super::ship::Plan;
use super::Place;
use super::finding::{Area, Finding};
use crate::display::escape_control_chars;

/// `None` if nothing is to be shipped.
pub(super) fn check(place: &Place) -> Option<Area> {
    let plan = Plan::configured(place.data_dir.as_ref()?)?;
    Some(Area::new("ship", "Shipping to a fleet", vec![fleet(plan)]))
}

/// Connects to the fleet and ships nothing.
fn fleet(plan: anyhow::Result<Plan>) -> Finding {
    const CHECK: &str = "fleet";
    const WHERE: &str = "correct `to` in [ship] of your midcourse.toml";
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => return Finding::problem(CHECK, plain(&format!("{error:#}")), WHERE),
    };
    match Shipper::check(&plan.target, &plan.settings) {
        Ok(()) => Finding::ok(
            CHECK,
            plain(&format!("{} accepts runs for project {}", plan.target, plan.settings.project)),
        ),
        // A machine that is offline is nothing unusual.
        Err(error) if error.is_temporary() => {
            Finding::warning(CHECK, plain(&error.to_string()), error.hint())
        }
        Err(error) => Finding::problem(CHECK, plain(&error.to_string()), error.hint()),
    }
}

/// What the server says may contain anything.
fn plain(text: &str) -> String {
    escape_control_chars(text).to_string()
}
