//! The directory where midcourse keeps its data, and where it finds the user's configuration.
//!
//! If the environment variable `MIDCOURSE_HOME` is set, it names one directory for both. Otherwise
//! the data and the configuration are in the platform's directories for them. A new data directory
//! is readable by its owner only; an existing one keeps its permissions. File locks are unreliable
//! on network filesystems, so `DataDir` can tell whether it is on one.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::path::{Path, PathBuf};

/// The environment variable that names the data directory.
pub const DATA_DIR_VARIABLE: &str = "MIDCOURSE_HOME";

const CONFIG: &str = "midcourse.toml";

/// The directory where midcourse keeps its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir {
    path: PathBuf,
    config: PathBuf,
}

/// The error when `MIDCOURSE_HOME` is not set and the platform has no data directory for this user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no data directory was found; set {DATA_DIR_VARIABLE} to one")]
pub struct NoDataDir;

impl DataDir {
    /// The user's data directory: `MIDCOURSE_HOME` if that is set, otherwise `midcourse` in the
    /// platform's data directory.
    pub fn of_user() -> Result<Self, NoDataDir> {
        Self::named_or_usual(std::env::var_os(DATA_DIR_VARIABLE))
    }

    fn named_or_usual(named: Option<OsString>) -> Result<Self, NoDataDir> {
        match named {
            // The path is made absolute, because it is also written into the commands of hooks,
            // which may run in another working directory.
            Some(folder) if !folder.is_empty() => {
                Ok(Self::at(std::path::absolute(&folder).unwrap_or_else(|_| folder.into())))
            }
            _ => {
                let data_dir = Self::at(dirs::data_dir().ok_or(NoDataDir)?.join("midcourse"));
                let config = dirs::config_dir().map(|folder| folder.join("midcourse").join(CONFIG));
                Ok(Self { config: config.unwrap_or(data_dir.config), ..data_dir })
            }
        }
    }

    /// The data directory at this path, with the configuration file in the same directory.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { config: path.join(CONFIG), path }
    }

    /// The same data directory with the user's configuration file at this path.
    #[must_use]
    pub fn with_config_file(self, config: PathBuf) -> Self {
        Self { config, ..self }
    }

    /// The path of the data directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database file.
    pub fn store_file(&self) -> PathBuf {
        self.path.join("store.db")
    }

    /// The file of the search index. It can be deleted at any time and is then built again.
    pub fn search_file(&self) -> PathBuf {
        self.path.join("search.db")
    }

    /// The folder for events that could not be stored in time, for example because the store was
    /// locked.
    pub fn spill_folder(&self) -> PathBuf {
        self.path.join("spill")
    }

    /// The file that counts lost events: those that could be written neither to the database nor to
    /// the spill folder.
    pub fn loss_file(&self) -> PathBuf {
        self.path.join("losses")
    }

    /// The file with the number of records that were ever stored, by which missing ones are noticed.
    pub fn count_file(&self) -> PathBuf {
        self.path.join("record-count")
    }

    /// The file with the key for the hashes in redaction markers.
    pub fn redaction_key_file(&self) -> PathBuf {
        self.path.join("redaction.key")
    }

    /// The log file to which hooks and the proxy write errors and warnings.
    pub fn log_file(&self) -> PathBuf {
        self.path.join("hook.log")
    }

    /// The user's configuration file, `midcourse.toml`. It may not exist.
    pub fn config_file(&self) -> PathBuf {
        self.config.clone()
    }

    /// The file that lists the project configurations that the user approved.
    pub fn trusted_file(&self) -> PathBuf {
        self.path.join("trusted.json")
    }

    /// The folder for the settings of one invocation of `midcourse run`; `launch` is the id of that
    /// invocation.
    pub fn launch_folder(&self, launch: &str) -> PathBuf {
        self.path.join("launches").join(launch)
    }

    /// Creates a folder, readable by its owner only, if it does not exist.
    pub fn create(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let parents = || folder.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        let missing = parents().take_while(|above| !above.is_dir()).count();
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
        // Sync the parents of the new folders, so that the folders' names survive a power cut.
        for above in parents().take(missing.saturating_add(1)) {
            sync_folder(above)?;
        }
        Ok(())
    }

    /// The name of the network filesystem that the directory is on; `None` for a local filesystem,
    /// and always on systems other than Linux.
    pub fn network_filesystem(&self) -> Option<&'static str> {
        #[cfg(target_os = "linux")]
        return rustix::fs::statfs(&self.path)
            .ok()
            .and_then(|found| u32::try_from(found.f_type & 0xffff_ffff).ok())
            .and_then(network_name);
        #[cfg(not(target_os = "linux"))]
        None
    }
}

/// Syncs a folder, so that the names of new or renamed files in it survive a power cut.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // Other systems need no sync for this, and cannot open a folder like a file.
    if cfg!(unix) {
        std::fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// The name of a network filesystem by its `statfs` magic number; `None` for other filesystems.
#[cfg(any(target_os = "linux", test))]
const fn network_name(magic: u32) -> Option<&'static str> {
    match magic {
        0x6969 => Some("NFS"),
        0xff53_4d42 => Some("CIFS"),
        0xfe53_4d42 => Some("SMB2"),
        0x517b => Some("SMB"),
        0x0102_1997 => Some("9P"),
        0x00c3_6400 => Some("Ceph"),
        0x5346_414f => Some("AFS"),
        0x7375_7245 => Some("Coda"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x4750_4653 => Some("GPFS"),
        0x6573_5546 => Some("FUSE, which may be a network filesystem"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{DataDir, network_name};

    #[test]
    fn network_filesystems_are_recognised() {
        assert_eq!(network_name(0x6969), Some("NFS"));
        assert_eq!(network_name(0xff53_4d42), Some("CIFS"));
        assert_eq!(network_name(0xef53), None, "ext4");
        assert_eq!(network_name(0x0102_1994), None, "tmpfs");
    }

    #[test]
    fn the_configuration_is_in_the_data_directory_only_if_that_is_named() {
        let named = DataDir::named_or_usual(Some("/of/mine".into())).unwrap();
        assert_eq!(named, DataDir::at("/of/mine"));
        assert_eq!(named.config_file(), Path::new("/of/mine/midcourse.toml"));
        for nothing in [None, Some("".into())] {
            // Some systems have no data directory for this user. There is nothing to test there.
            let Ok(usual) = DataDir::named_or_usual(nothing) else { continue };
            let config = dirs::config_dir().unwrap().join("midcourse/midcourse.toml");
            assert_eq!(usual.config_file(), config);
            assert_eq!(usual.path(), dirs::data_dir().unwrap().join("midcourse"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_new_directory_is_readable_by_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::at(folder.path().join("a/b"));
        data_dir.create(data_dir.path()).unwrap();
        let mode = data_dir.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
