//! Replays a log of file operations, to know what is durable after each entry and what a power cut
//! at that moment could leave on the disk.
//!
//! [`FileHistory`] models the bytes of a file; this module models the names of files and folders. A
//! change of a name (created, linked, renamed or removed) becomes durable when the folder that
//! contains the name is synced; a rename from one folder to another needs a sync of both. Until
//! then a power cut may keep or lose each change. A rename is never half done: exactly one of the
//! two names exists.
//!
//! Syncing a file does not make the file's name durable, and syncing a folder does not make the
//! folder's own name durable. If the sync of a folder fails, its changes stay as they were, and a
//! later sync can still make them durable.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::file::{FileHistory, Survival};
use super::image::{Content, Image, walk};
use super::log::Entry;

/// A file or folder, as an index into the model's nodes.
type NodeId = usize;

const ROOT: NodeId = 0;

/// A folder and a name in it.
type Location = (NodeId, String);

type Names = BTreeMap<Location, NodeId>;

#[derive(Debug, Clone)]
pub(super) struct Model {
    nodes: Vec<Node>,
    by_inode: HashMap<u64, NodeId>,
    /// The names as processes see them.
    current: Names,
    /// The names without the changes in `changes`.
    durable: Names,
    /// The oldest change that is not durable and all changes after it, in order. A later change
    /// stays in this list even if it is durable, because it must be applied after the older ones.
    changes: Vec<NameChange>,
    /// How many log entries were applied.
    entries: usize,
    /// What the recorded processes have written to the file of acknowledgements so far. Each line
    /// of it is one acknowledgement: the data that the line names must survive every later power
    /// cut.
    acked: Vec<u8>,
}

#[derive(Debug, Clone)]
enum Node {
    Folder,
    File(FileHistory),
}

/// A change of a node's name: created, linked, renamed or removed.
#[derive(Debug, Clone)]
struct NameChange {
    node: NodeId,
    removed: Option<Location>,
    added: Option<Location>,
    /// The folders that still have to be synced to make the change durable.
    unsynced: Vec<NodeId>,
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        if let Some(location) = &self.removed
            && names.get(location) == Some(&self.node)
        {
            names.remove(location);
        }
        if let Some(location) = &self.added {
            names.insert(location.clone(), self.node);
        }
    }
}

impl Model {
    /// A disk with the content of this folder, all of it durable.
    pub(super) fn of_folder(root: &Path) -> Self {
        let root_inode = fs::metadata(root).unwrap().ino();
        let mut model = Self {
            nodes: vec![Node::Folder],
            by_inode: HashMap::from([(root_inode, ROOT)]),
            current: Names::new(),
            durable: Names::new(),
            changes: Vec::new(),
            entries: 0,
            acked: Vec::new(),
        };
        for (path, status) in walk(root) {
            let node = match status.is_dir() {
                true => Node::Folder,
                false => Node::File(FileHistory::durable(fs::read(root.join(&path)).unwrap())),
            };
            let node = model.add_node(status.ino(), node);
            let location = model.location(path.to_str().unwrap());
            model.current.insert(location, node);
        }
        model.durable = model.current.clone();
        model
    }

    fn add_node(&mut self, inode: u64, node: Node) -> NodeId {
        self.nodes.push(node);
        self.by_inode.insert(inode, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    fn location(&self, path: &str) -> Location {
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut folder = ROOT;
        for parent in parents.split('/').filter(|parent| !parent.is_empty()) {
            folder = self.current[&(folder, parent.to_owned())];
        }
        (folder, name.to_owned())
    }

    /// Applies the next entry of the log.
    pub(super) fn apply(&mut self, entry: &Entry) {
        let entry_index = self.entries;
        self.entries += 1;
        match entry {
            Entry::Create { path, inode } => {
                let node = self.add_node(*inode, Node::File(FileHistory::default()));
                self.change_name(node, None, Some(self.location(path)));
            }
            Entry::MakeFolder { path, inode } => {
                let node = self.add_node(*inode, Node::Folder);
                self.change_name(node, None, Some(self.location(path)));
            }
            Entry::Link { path, inode } => {
                self.change_name(self.by_inode[inode], None, Some(self.location(path)));
            }
            Entry::Rename { from, to } => {
                let (from, to) = (self.location(from), self.location(to));
                let node = self.current[&from];
                // POSIX: if both names already refer to the same file, `rename` does nothing.
                if self.current.get(&to) != Some(&node) {
                    self.change_name(node, Some(from), Some(to));
                }
            }
            Entry::Unlink { path } => {
                let location = self.location(path);
                self.change_name(self.current[&location], Some(location), None);
            }
            Entry::Write { inode, offset, data, .. } => {
                self.change_file(*inode, |file| file.write(entry_index, *offset, data.clone()));
            }
            Entry::Resize { inode, length, .. } => {
                self.change_file(*inode, |file| file.resize(entry_index, *length));
            }
            Entry::Sync { inode, .. } => {
                self.change_file(*inode, FileHistory::sync);
                self.sync_names(self.by_inode[inode]);
            }
            Entry::SyncFailed { inode, .. } => self.change_file(*inode, FileHistory::fail_sync),
            Entry::Ack { data } => self.acked.extend(data),
        }
    }

    fn change_file(&mut self, inode: u64, change: impl FnOnce(&mut FileHistory)) {
        if let Node::File(file) = &mut self.nodes[self.by_inode[&inode]] {
            change(file);
        }
    }

    fn change_name(&mut self, node: NodeId, removed: Option<Location>, added: Option<Location>) {
        let mut unsynced: Vec<NodeId> =
            [&removed, &added].into_iter().flatten().map(|(folder, _)| *folder).collect();
        unsynced.dedup();
        let change = NameChange { node, removed, added, unsynced };
        change.apply(&mut self.current);
        self.changes.push(change);
    }

    fn sync_names(&mut self, folder: NodeId) {
        for change in &mut self.changes {
            change.unsynced.retain(|unsynced| *unsynced != folder);
        }
        let durable = self.changes.iter().take_while(|change| change.unsynced.is_empty()).count();
        for change in self.changes.drain(..durable) {
            change.apply(&mut self.durable);
        }
    }

    /// The complete lines acknowledged so far.
    pub(super) fn acked(&self) -> Vec<String> {
        let text = String::from_utf8(self.acked.clone()).unwrap();
        let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        complete.lines().map(str::to_owned).collect()
    }

    /// The log index of the last write that a power cut could still lose.
    pub(super) fn last_volatile_write(&self) -> Option<usize> {
        let last = |node: &Node| match node {
            Node::Folder => None,
            Node::File(file) => file.last_volatile_write(),
        };
        self.nodes.iter().filter_map(last).max()
    }

    /// The content of the disk if the power is cut now.
    pub(super) fn after_power_cut(&self, mut survival: Survival) -> Image {
        let mut names = self.durable.clone();
        for change in &self.changes {
            let survives = change.unsynced.is_empty()
                || match &mut survival {
                    Survival::Nothing => false,
                    Survival::Everything | Survival::AllExcept(_) => true,
                    Survival::Random(rng) => rng.is_kept(),
                };
            if survives {
                change.apply(&mut names);
            }
        }
        let mut image = Image::default();
        let mut contents: HashMap<NodeId, Content> = HashMap::new();
        let mut unvisited = vec![(ROOT, PathBuf::new())];
        while let Some((folder, folder_path)) = unvisited.pop() {
            let inside = (folder, String::new())..(folder + 1, String::new());
            for ((_, name), node) in names.range(inside) {
                let path = folder_path.join(name);
                // A file with several names gets its bytes once, so that all names agree.
                let content = contents.entry(*node).or_insert_with(|| match &self.nodes[*node] {
                    Node::Folder => Content::Folder,
                    Node::File(file) => Content::File(file.after_power_cut(&mut survival)),
                });
                if matches!(content, Content::Folder) {
                    unvisited.push((*node, path.clone()));
                }
                image.0.insert(path, content.clone());
            }
        }
        image
    }
}
