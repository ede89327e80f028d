//! The ends of hash chains that a fleet has, to find runs that were rewritten on a machine.

use midcourse::{Head, Link, RunId, Store};

use crate::error::FleetError;
use crate::schema;
use crate::ship;
use crate::target::FleetTarget;

/// The project if none is named.
const DEFAULT_PROJECT: &str = "default";

/// The heads of the runs that this machine has shipped to a project, and of the runs of its store that
/// others have shipped there.
pub fn shipped_heads(
    target: &FleetTarget,
    project: Option<&str>,
    store: &Store,
) -> Result<Vec<Head>, FleetError> {
    let mut client = schema::connect(target)?;
    let project = project.unwrap_or(DEFAULT_PROJECT);
    let ours = ship::store_id(store.data_dir(), target, project)?;
    let rows = client
        .query("SELECT run_id, records, link, store FROM midcourse.heads($1)", &[&project])?;
    let head = |row: &postgres::Row| -> Result<Head, FleetError> {
        let link: &[u8] = row.try_get(2)?;
        let link: [u8; 32] = link
            .try_into()
            .map_err(|_| FleetError::Server("a link has not 32 bytes".to_owned()))?;
        let records: i64 = row.try_get(1)?;
        Ok(Head {
            run_id: RunId::from(row.try_get::<_, &str>(0)?),
            records: records.unsigned_abs(),
            link: Link::from(link).to_string(),
        })
    };
    let mut heads = Vec::new();
    for row in &rows {
        let head = head(row)?;
        // Other machines may ship with the same role.
        let is_ours = ours.as_deref() == Some(row.try_get(3)?);
        if is_ours || store.head(&head.run_id)?.is_some() {
            heads.push(head);
        }
    }
    Ok(heads)
}
