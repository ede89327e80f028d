//! The ends of hash chains that a fleet has, to find runs that were rewritten on a machine.

use midcourse::{Head, Store};

use crate::error::FleetError;
use crate::schema;
use crate::ship;
use crate::target::FleetTarget;

/// The project if none is named.
const DEFAULT_PROJECT: &str = "default";

/// What a fleet has of the runs of a machine.
pub struct ShippedHeads {
    /// The heads of the runs that this machine has shipped to a project, and of the runs of its store
    /// that others have shipped there.
    pub heads: Vec<Head>,
    /// Whether the machine knows which runs it has shipped. If not, runs that were deleted here are not
    /// in the list.
    pub has_store_id: bool,
}

/// Asks a fleet for the heads of the runs of this machine.
pub fn shipped_heads(
    target: &FleetTarget,
    project: Option<&str>,
    store: &Store,
) -> Result<ShippedHeads, FleetError> {
    let mut client = schema::connect(target)?;
    let project = project.unwrap_or(DEFAULT_PROJECT);
    let ours = ship::store_id(store.data_dir(), target, project)?;
    let mut heads = Vec::new();
    for (head, store_id) in ship::heads_of(&mut client, project)? {
        // Other machines may ship with the same role.
        if ours.as_ref() == Some(&store_id) || store.head(&head.run_id)?.is_some() {
            heads.push(head);
        }
    }
    Ok(ShippedHeads { heads, has_store_id: ours.is_some() })
}
