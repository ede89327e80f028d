//! What of a recorded history is durable at some point, and what a power cut there could leave.
//!
//! Files are [`FileHistory`]s; this module owns the names. Creating, linking, renaming or removing
//! a name is settled once the folder it happened in was synced after it, and for a rename between
//! two folders once both were. Until then it may have happened or not, independently of the
//! others, but each is atomic: after a rename there is the old name or the new one, never both
//! and never neither. Syncing a file says nothing about its name, and syncing a folder nothing
//! about the folder's own name. A failed sync of a folder changes nothing: a file system whose
//! journal fails does not later report a success.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::file::{FileHistory, Survival};
use super::image::{Content, Image, walk};
use super::log::Entry;

/// A file or folder that a name can stand for; an index into the model's nodes.
type NodeId = usize;

const ROOT: NodeId = 0;

/// A name in a folder.
type Place = (NodeId, String);

type Names = BTreeMap<Place, NodeId>;

#[derive(Debug, Clone)]
pub(super) struct Model {
    nodes: Vec<Node>,
    by_inode: HashMap<u64, NodeId>,
    /// The names as the process sees them.
    live: Names,
    /// The names with every change up to the first unsettled one.
    durable: Names,
    changes: Vec<NameChange>,
    entries: usize,
    acked: Vec<u8>,
}

#[derive(Debug, Clone)]
enum Node {
    Folder,
    File(FileHistory),
}

/// A node loses the one name and gets the other.
#[derive(Debug, Clone)]
struct NameChange {
    node: NodeId,
    lost: Option<Place>,
    gained: Option<Place>,
    /// The folders still to be synced before this is settled.
    unsynced: Vec<NodeId>,
}

impl NameChange {
    fn happen(&self, names: &mut Names) {
        if let Some(place) = &self.lost
            && names.get(place) == Some(&self.node)
        {
            names.remove(place);
        }
        if let Some(place) = &self.gained {
            names.insert(place.clone(), self.node);
        }
    }
}

impl Model {
    /// A disk on which all that is in the folder is durable.
    pub(super) fn of_folder(root: &Path) -> Self {
        let root_inode = fs::metadata(root).unwrap().ino();
        let mut model = Self {
            nodes: vec![Node::Folder],
            by_inode: HashMap::from([(root_inode, ROOT)]),
            live: Names::new(),
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
            let place = model.place(path.to_str().unwrap());
            model.live.insert(place, node);
        }
        model.durable = model.live.clone();
        model
    }

    fn add_node(&mut self, inode: u64, node: Node) -> NodeId {
        self.nodes.push(node);
        self.by_inode.insert(inode, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    fn place(&self, path: &str) -> Place {
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut folder = ROOT;
        for parent in parents.split('/').filter(|parent| !parent.is_empty()) {
            folder = self.live[&(folder, parent.to_owned())];
        }
        (folder, name.to_owned())
    }

    /// Takes in the next entry of the log.
    pub(super) fn apply(&mut self, entry: &Entry) {
        let at = self.entries;
        self.entries += 1;
        match entry {
            Entry::Create { path, inode } => {
                let node = self.add_node(*inode, Node::File(FileHistory::default()));
                self.change_name(node, None, Some(self.place(path)));
            }
            Entry::MakeFolder { path, inode } => {
                let node = self.add_node(*inode, Node::Folder);
                self.change_name(node, None, Some(self.place(path)));
            }
            Entry::Link { path, inode } => {
                self.change_name(self.by_inode[inode], None, Some(self.place(path)));
            }
            Entry::Rename { from, to } => {
                let (from, to) = (self.place(from), self.place(to));
                let node = self.live[&from];
                // A rename between two names of one file does nothing.
                if self.live.get(&to) != Some(&node) {
                    self.change_name(node, Some(from), Some(to));
                }
            }
            Entry::Unlink { path } => {
                let place = self.place(path);
                self.change_name(self.live[&place], Some(place), None);
            }
            Entry::Write { inode, offset, data, .. } => {
                self.change_file(*inode, |file| file.write(at, *offset, data.clone()));
            }
            Entry::Resize { inode, length, .. } => {
                self.change_file(*inode, |file| file.resize(at, *length));
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

    fn change_name(&mut self, node: NodeId, lost: Option<Place>, gained: Option<Place>) {
        let mut unsynced: Vec<NodeId> =
            [&lost, &gained].into_iter().flatten().map(|(folder, _)| *folder).collect();
        unsynced.dedup();
        let change = NameChange { node, lost, gained, unsynced };
        change.happen(&mut self.live);
        self.changes.push(change);
    }

    fn sync_names(&mut self, folder: NodeId) {
        for change in &mut self.changes {
            change.unsynced.retain(|unsynced| *unsynced != folder);
        }
        let settled = self.changes.iter().take_while(|change| change.unsynced.is_empty()).count();
        for change in self.changes.drain(..settled) {
            change.happen(&mut self.durable);
        }
    }

    /// The complete lines acknowledged so far.
    pub(super) fn acked(&self) -> Vec<String> {
        let text = String::from_utf8(self.acked.clone()).unwrap();
        let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        complete.lines().map(str::to_owned).collect()
    }

    /// The place in the log of the last write that is not settled.
    pub(super) fn last_unsettled_write(&self) -> Option<usize> {
        let last = |node: &Node| match node {
            Node::Folder => None,
            Node::File(file) => file.last_unsettled_write(),
        };
        self.nodes.iter().filter_map(last).max()
    }

    /// The disk a power cut leaves now.
    pub(super) fn after_power_cut(&self, mut survival: Survival) -> Image {
        let mut names = self.durable.clone();
        for change in &self.changes {
            let happens = change.unsynced.is_empty()
                || match &mut survival {
                    Survival::Nothing => false,
                    Survival::Everything | Survival::AllBut(_) => true,
                    Survival::Random(chance) => chance.survives(),
                };
            if happens {
                change.happen(&mut names);
            }
        }
        let mut image = Image::default();
        let mut contents: HashMap<NodeId, Content> = HashMap::new();
        let mut unread = vec![(ROOT, PathBuf::new())];
        while let Some((folder, folder_path)) = unread.pop() {
            let inside = (folder, String::new())..(folder + 1, String::new());
            for ((_, name), node) in names.range(inside) {
                let path = folder_path.join(name);
                // Two names of one file show the same bytes.
                let content = contents.entry(*node).or_insert_with(|| match &self.nodes[*node] {
                    Node::Folder => Content::Folder,
                    Node::File(file) => Content::File(file.after_power_cut(&mut survival)),
                });
                if matches!(content, Content::Folder) {
                    unread.push((*node, path.clone()));
                }
                image.0.insert(path, content.clone());
            }
        }
        image
    }
}
