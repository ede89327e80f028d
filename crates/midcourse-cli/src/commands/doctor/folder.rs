//! Whether midcourse can write in a folder. If the folder does not exist, it is not created.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Result, Write as _};
use std::path::Path;

use uuid::Uuid;

use super::finding::Finding;

/// Checks the data directory by writing a file and removing it again.
pub(super) fn check(folder: &Path) -> Finding {
    const CHECK: &str = "data-directory";
    let shown = folder.display();
    let why = match folder.metadata() {
        Ok(found) if found.is_dir() => match write_and_remove(folder) {
            Ok(()) => return Finding::ok(CHECK, format!("{shown} is writable")),
            Err(error) => error.to_string(),
        },
        Ok(_) => "it is not a folder".to_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let existing = folder.ancestors().skip(1).find(|above| above.exists());
            if existing.is_some_and(is_writable) {
                let detail = format!("{shown} does not exist yet; midcourse creates it");
                return Finding::ok(CHECK, detail);
            }
            "it does not exist and cannot be created".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Finding::problem(
        CHECK,
        format!("{shown} cannot be written: {why}"),
        "make the folder writable, or set MIDCOURSE_HOME to another one and install the hooks again \
         (`midcourse install HOST`)",
    )
}

fn write_and_remove(folder: &Path) -> Result<()> {
    let path = folder.join(format!(".doctor-{}", Uuid::now_v7()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    let written = file.write_all(b"midcourse doctor\n");
    fs::remove_file(&path)?;
    written
}

#[cfg(unix)]
fn is_writable(folder: &Path) -> bool {
    use rustix::fs::{Access, access};
    folder.is_dir() && access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn is_writable(folder: &Path) -> bool {
    folder.is_dir() && folder.metadata().is_ok_and(|found| !found.permissions().readonly())
}
