//! Reads the sessions of opencode piece by piece: the rows of its database, or the files of its storage
//! folder. The messages of a session follow the session, and the parts of a message the message.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row};
use serde_json::json;
use serde_json::value::RawValue;

use super::read::ReadError;

/// How a SQLite database begins.
const SQLITE_HEADER: &[u8] = b"SQLite format 3\0";

/// Maximum length of a file in the storage folder, in bytes. The rest of a longer file is left out.
const MAX_FILE_LEN: u64 = 64 << 20;

/// Where the pieces of a session are.
pub(super) enum Collection {
    Database(PathBuf),
    /// The file of a session in a storage folder, and this folder.
    Folder(PathBuf, PathBuf),
}

impl Collection {
    /// The collection to which a file belongs; `None` if it stands for itself. `head` is the beginning
    /// of the file.
    pub(super) fn of(path: &Path, head: &[u8]) -> Option<Self> {
        if head.starts_with(SQLITE_HEADER) {
            return Some(Self::Database(path.to_owned()));
        }
        // storage/session/PROJECT/SESSION.json
        let session_folder = path.parent()?.parent()?;
        let is_session = session_folder.file_name().is_some_and(|name| name == "session");
        let storage = session_folder.parent().filter(|_| is_session)?;
        Some(Self::Folder(path.to_owned(), storage.to_owned()))
    }

    /// Calls `take` with every piece, in order.
    pub(super) fn for_each(
        self,
        take: &mut dyn FnMut(&[u8]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        match self {
            Self::Database(path) => read_database(&path, take),
            Self::Folder(session, storage) => read_folder(&session, &storage, take),
        }
    }
}

fn read_database(
    path: &Path,
    take: &mut dyn FnMut(&[u8]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    let mut sessions = connection.prepare(
        "SELECT id, parent_id, directory, version, time_created FROM session \
         ORDER BY parent_id IS NOT NULL, time_created, id",
    )?;
    let mut messages = connection
        .prepare("SELECT id, data FROM message WHERE session_id = ?1 ORDER BY time_created, id")?;
    let mut parts =
        connection.prepare("SELECT id, data FROM part WHERE message_id = ?1 ORDER BY id")?;
    let mut session_rows = sessions.query([])?;
    while let Some(row) = session_rows.next()? {
        let session: String = row.get(0)?;
        let piece = json!({
            "table": "session",
            "id": session,
            "parentID": row.get::<_, Option<String>>(1)?,
            "directory": row.get::<_, Option<String>>(2)?,
            "version": row.get::<_, Option<String>>(3)?,
            "time": {"created": row.get::<_, Option<i64>>(4)?},
        });
        take(piece.to_string().as_bytes())?;
        let mut message_rows = messages.query([&session])?;
        while let Some(row) = message_rows.next()? {
            let message: String = row.get(0)?;
            take(&piece_of("message", row, &session, &message)?)?;
            let mut part_rows = parts.query([&message])?;
            while let Some(row) = part_rows.next()? {
                take(&piece_of("part", row, &session, &message)?)?;
            }
        }
    }
    Ok(())
}

/// A row as JSON. Contents that are not valid JSON make the whole piece invalid, which the reader then
/// counts.
fn piece_of(
    table: &str,
    row: &Row<'_>,
    session: &str,
    message: &str,
) -> Result<Vec<u8>, ReadError> {
    let (id, data): (String, String) = (row.get(0)?, row.get(1)?);
    let Ok(data) = RawValue::from_string(data.clone()) else { return Ok(data.into_bytes()) };
    let piece = PieceWire { table, id: &id, session_id: session, message_id: message, data: &data };
    Ok(serde_json::to_vec(&piece).map_err(io::Error::from)?)
}

#[derive(serde::Serialize)]
struct PieceWire<'a> {
    table: &'a str,
    id: &'a str,
    #[serde(rename = "sessionID")]
    session_id: &'a str,
    #[serde(rename = "messageID")]
    message_id: &'a str,
    data: &'a RawValue,
}

fn read_folder(
    session: &Path,
    storage: &Path,
    take: &mut dyn FnMut(&[u8]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    take(&contents(session)?)?;
    let name = session.file_stem().unwrap_or_default();
    for message in files(&storage.join("message").join(name))? {
        take(&contents(&message)?)?;
        let name = message.file_stem().unwrap_or_default();
        for part in files(&storage.join("part").join(name))? {
            take(&contents(&part)?)?;
        }
    }
    Ok(())
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_FILE_LEN).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The JSON files in a folder, sorted by name: opencode's ids sort by time. None if there is no such
/// folder.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let is_json = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let mut paths: Vec<PathBuf> = paths.into_iter().filter(is_json).collect();
    paths.sort_unstable();
    Ok(paths)
}
