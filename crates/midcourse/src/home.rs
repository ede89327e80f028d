//! The folder where midcourse keeps its data, and where the user's configuration lies.
//!
//! `MIDCOURSE_HOME` is the folder for both; else they are in the platform's folders for data and for
//! configuration. The folder for data is made for its owner only;
//! one that the user made is left as it is. Locks do not hold on network filesystems, so one is
//! noticed and said.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::path::{Path, PathBuf};

/// The environment variable that names the folder.
pub const HOME_VARIABLE: &str = "MIDCOURSE_HOME";

/// What the user's configuration is called.
const CONFIG: &str = "midcourse.toml";

/// The folder where midcourse keeps its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    folder: PathBuf,
    config: PathBuf,
}

/// There is no folder to keep data in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no folder for data: set {HOME_VARIABLE} to one")]
pub struct NoHome;

impl Home {
    /// The user's: `MIDCOURSE_HOME`, else `midcourse` in the platform's folder for data.
    pub fn of_user() -> Result<Self, NoHome> {
        Self::named_or_usual(std::env::var_os(HOME_VARIABLE))
    }

    fn named_or_usual(named: Option<OsString>) -> Result<Self, NoHome> {
        match named {
            // A path that is not absolute would follow the agent from folder to folder.
            Some(folder) if !folder.is_empty() => {
                Ok(Self::at(std::path::absolute(&folder).unwrap_or_else(|_| folder.into())))
            }
            _ => {
                let home = Self::at(dirs::data_dir().ok_or(NoHome)?.join("midcourse"));
                let config = dirs::config_dir().map(|folder| folder.join("midcourse").join(CONFIG));
                Ok(Self { config: config.unwrap_or(home.config), ..home })
            }
        }
    }

    /// The folder of this name: the usual one, with what belongs to it, or another.
    pub fn named(folder: PathBuf) -> Self {
        let usual = Self::named_or_usual(None).ok();
        usual.filter(|usual| usual.folder == folder).unwrap_or_else(|| Self::at(folder))
    }

    /// A folder of the caller's, with the user's configuration in it.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self { config: folder.join(CONFIG), folder }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The database.
    pub fn store_file(&self) -> PathBuf {
        self.folder.join("store.db")
    }

    /// The index for searching, which can be thrown away.
    pub fn search_file(&self) -> PathBuf {
        self.folder.join("search.db")
    }

    /// Where events wait that the store did not take in time.
    pub fn spill_folder(&self) -> PathBuf {
        self.folder.join("spill")
    }

    /// Where it is counted what could not be kept at all.
    pub fn lost_file(&self) -> PathBuf {
        self.folder.join("lost")
    }

    /// What went wrong at the hooks of hosts.
    pub fn log_file(&self) -> PathBuf {
        self.folder.join("hook.log")
    }

    /// The user's configuration.
    pub fn config_file(&self) -> PathBuf {
        self.config.clone()
    }

    /// The list of projects' configurations that the user approved.
    pub fn trusted_file(&self) -> PathBuf {
        self.folder.join("trusted.json")
    }

    /// What is there for a command that is run under watch, for as long as it runs.
    pub fn launch_folder(&self, launch: &str) -> PathBuf {
        self.folder.join("launches").join(launch)
    }

    /// Makes the folder, for its owner only, if it is not there.
    pub fn make(&self, folder: &Path) -> io::Result<()> {
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
        // The names of the new folders have to survive too.
        for above in parents().take(missing.saturating_add(1)) {
            sync_folder(above)?;
        }
        Ok(())
    }

    /// The network filesystem the folder is on, if it is on one.
    pub fn network_filesystem(&self) -> Option<&'static str> {
        #[cfg(target_os = "linux")]
        return rustix::fs::statfs(&self.folder)
            .ok()
            .and_then(|found| u32::try_from(found.f_type & 0xffff_ffff).ok())
            .and_then(network_name);
        #[cfg(not(target_os = "linux"))]
        None
    }
}

/// Makes the names in a folder durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // Elsewhere a folder cannot be opened, and the system takes care of it.
    if cfg!(unix) {
        std::fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// The name of a network filesystem, by the number the kernel gives it.
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

    use super::{Home, network_name};

    #[test]
    fn network_filesystems_are_known_by_name() {
        assert_eq!(network_name(0x6969), Some("NFS"));
        assert_eq!(network_name(0xff53_4d42), Some("CIFS"));
        assert_eq!(network_name(0xef53), None, "ext4");
        assert_eq!(network_name(0x0102_1994), None, "tmpfs");
    }

    #[test]
    fn the_configuration_lies_with_the_data_only_where_a_folder_is_named() {
        let named = Home::named_or_usual(Some("/of/mine".into())).unwrap();
        assert_eq!(named, Home::at("/of/mine"));
        assert_eq!(named.config_file(), Path::new("/of/mine/midcourse.toml"));
        for nothing in [None, Some("".into())] {
            // Without a home folder of the system there is none.
            let Ok(usual) = Home::named_or_usual(nothing) else { continue };
            let config = dirs::config_dir().unwrap().join("midcourse/midcourse.toml");
            assert_eq!(usual.config_file(), config);
            assert_eq!(usual.folder(), dirs::data_dir().unwrap().join("midcourse"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_new_folder_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().join("a/b"));
        home.make(home.folder()).unwrap();
        let mode = home.folder().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
