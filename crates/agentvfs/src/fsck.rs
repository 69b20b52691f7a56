//! Checking a store: every byte of it, everything that vaults need, and which files are affected.

use std::collections::{BTreeMap, HashMap, HashSet};

use avfs_core::chunks::{ChunkNode, ChunkNodes};
use avfs_core::map::{MapNode, NodeSource};
use avfs_core::{
    ChunksId, Content, Entry, EntryKind, EntryName, LinkId, LinkedFile, NodeId, ObjectId, PromiseId, Slot,
    SnapshotId, TreePath,
};
use avfs_store::{REBUILT, UpkeepFinding};
use avfs_tree::{KeptPromise, ObjectError, TreeFlaw, validate, walk_needed};

use crate::error::{Error, ErrorKind, Result, VaultError};
use crate::name::VaultName;
use crate::roots::VaultRoots;
use crate::store::Store;
use crate::vault::Vault;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// How many objects are intact.
    pub objects: u64,
    /// How many bytes were read.
    pub bytes: u64,
    /// How many vaults were checked.
    pub vaults: u64,
    /// The problems, as sentences.
    pub problems: Vec<String>,
    /// Files that cannot be read because of them.
    pub affected: Vec<AffectedPath>,
    /// An earlier repair may have lost refs, and a person has not accepted that yet.
    pub may_lack_refs: bool,
}

impl CheckReport {
    /// Whether nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty() && self.affected.is_empty()
    }
}

/// An error that damage is the reason of is something that was found; any other one ends the check.
fn found(checked: Result<()>, report: &mut CheckReport) -> Result<()> {
    match checked {
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            let problem = avfs_core::with_causes(&error);
            if !report.problems.contains(&problem) {
                report.problems.push(problem);
            }
            Ok(())
        }
        checked => checked,
    }
}

/// A path that a damaged or missing object belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffectedPath {
    /// The vault.
    pub vault: VaultName,
    /// The states in which it is affected: `@`, names of checkpoints, or ids of snapshots.
    pub states: Vec<String>,
    /// The path in it.
    pub path: TreePath,
}

/// Verifies a store, and repairs it.
#[derive(Clone, Copy)]
pub struct StoreIntegrity<'a> {
    pub(crate) store: &'a Store,
}

impl StoreIntegrity<'_> {
    /// Reads and verifies everything. `progress` hears of bytes done and bytes in total.
    pub fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        let mut bad = HashSet::new();
        if let Some(upkeep) = self.store.upkeep() {
            let scrub = upkeep.scrub(progress)?;
            report.may_lack_refs = matches!(self.store.refs().read(REBUILT), Ok(Some(_)));
            (report.objects, report.bytes) = (scrub.objects, scrub.bytes);
            for finding in scrub.findings {
                report.problems.push(finding.to_string());
                if let UpkeepFinding::Object { id, .. } = finding {
                    bad.insert(id);
                }
            }
        }
        // The second attempt starts from here and replaces what the first one has found.
        let before = report.clone();
        self.check_vaults(&bad, &mut report)?;
        if report.problems.len() > before.problems.len() {
            // Objects that other processes delete and collect meanwhile would seem to be missing. With a pin
            // nothing is removed.
            let _pin = self.store.objects().store().pin()?;
            report = before;
            self.check_vaults(&bad, &mut report)?;
        }
        Ok(report)
    }

    /// Adds problems of vaults and of objects that they need. `bad` is known to be damaged.
    fn check_vaults(&self, bad: &HashSet<ObjectId>, report: &mut CheckReport) -> Result<()> {
        let roots = match self.store.roots() {
            Ok(roots) => roots,
            Err(error) => return found(Err(error), report),
        };
        let checked = self.check_needed(&roots, bad.clone(), report);
        let checked = checked.and_then(|()| self.find_journal_flaws(&roots, report));
        self.find_soft_flaws(&roots, report);
        found(checked, report)
    }

    fn check_needed(
        &self,
        roots: &[VaultRoots],
        bad: HashSet<ObjectId>,
        report: &mut CheckReport,
    ) -> Result<()> {
        report.vaults = roots.len() as u64;
        let bad = self.find_missing(roots, bad, report)?;
        self.find_flaws(roots, report);
        for roots in roots {
            let vault = Vault::new(self.store.clone(), roots.record.id);
            match vault.verify_audit(None) {
                // A vault without a record was deleted since: each had one at the moment of `roots`.
                Ok(_) | Err(Error::Vault(VaultError::Unknown { .. })) => {}
                Err(error) => report.problems.push(avfs_core::with_causes(&error)),
            }
            if !bad.is_empty() {
                self.name_affected(roots, &bad, report);
            }
        }
        if let Err(error) = self.store.verify_audit(None) {
            report.problems.push(avfs_core::with_causes(&error));
        }
        Ok(())
    }

    /// Adds objects that are needed and missing, or not readable as expected.
    fn find_missing(
        &self,
        roots: &[VaultRoots],
        mut bad: HashSet<ObjectId>,
        report: &mut CheckReport,
    ) -> Result<HashSet<ObjectId>> {
        let mut seen = HashSet::new();
        let kept = self.store.objects().all_kept()?;
        let mut open: Vec<_> = roots.iter().flat_map(VaultRoots::all).collect();
        while let Some(needed) = open.pop() {
            let id = needed.object();
            if !seen.insert(id) || bad.contains(&id) {
                continue;
            }
            if self.store.objects().store().contains_many(&[id])? != [true] {
                report.problems.push(format!("{} {id} is missing", needed.kind()));
                bad.insert(id);
                continue;
            }
            let mut first = true;
            let walked = walk_needed(self.store.objects(), &kept, [needed], &mut |part| {
                // The walk reports the object itself first, and then its parts, which are put on our own
                // list.
                if !std::mem::take(&mut first) {
                    open.push(part);
                    return Ok(false);
                }
                Ok(true)
            });
            if let Err(error) = walked {
                report.problems.push(avfs_core::with_causes(&error));
                bad.insert(id);
            }
        }
        Ok(bad)
    }

    /// Adds readable objects that contradict each other. Unreadable ones were found before.
    fn find_flaws(&self, roots: &[VaultRoots], report: &mut CheckReport) {
        const MOST_FLAWS: usize = 1_000;
        let states = roots.iter().flat_map(VaultRoots::states);
        let flaws = validate(self.store.objects(), states, MOST_FLAWS);
        for flaw in flaws
            .iter()
            .filter(|flaw| !matches!(flaw, TreeFlaw::Object(ObjectError::Store(_))))
        {
            let problem = avfs_core::with_causes(flaw);
            if !report.problems.contains(&problem) {
                report.problems.push(problem);
            }
        }
    }

    fn name_affected(&self, roots: &VaultRoots, bad: &HashSet<ObjectId>, report: &mut CheckReport) {
        let mut states: Vec<(String, SnapshotId)> = vec![("@".into(), roots.record.head.snapshot)];
        let checkpoints = roots.checkpoints.iter().chain(&roots.automatic);
        states.extend(checkpoints.map(|point| (point.name.to_string(), point.snapshot)));
        states.extend(
            roots
                .history
                .iter()
                .map(|entry| (format!("{:.12}", entry.snapshot), entry.snapshot)),
        );
        let mut done = HashSet::new();
        let mut search = PathSearch {
            store: self.store,
            bad,
            links: HashMap::new(),
            clean: HashSet::new(),
            found: Vec::new(),
        };
        let mut paths: BTreeMap<TreePath, Vec<String>> = BTreeMap::new();
        for (name, snapshot) in states {
            // Several names can mean one state; it is searched once, under the first of them.
            if !done.insert(snapshot) {
                continue;
            }
            search.state(snapshot);
            for path in search.found.drain(..) {
                paths.entry(path).or_default().push(name.clone());
            }
        }
        let vault = roots.record.name.clone();
        report
            .affected
            .extend(paths.into_iter().map(|(path, states)| AffectedPath {
                vault: vault.clone(),
                states,
                path,
            }));
    }

    /// Adds journals that cannot be replayed. The state of an owner is in its memory.
    fn find_journal_flaws(&self, roots: &[VaultRoots], report: &mut CheckReport) -> Result<()> {
        for VaultRoots { record, .. } in roots {
            let vault = Vault::new(self.store.clone(), record.id);
            match vault.has_journal() {
                Ok(true) if !self.store.is_read_only() => {}
                // It was deleted since.
                Ok(_) | Err(Error::Vault(VaultError::Unknown { .. })) => continue,
                Err(error) => return Err(error),
            }
            // An owner that is alive has the operations in memory, and its journal grows while it would be
            // read.
            let Ok(_ownership) = self.store.own_at_once(record.id, record.name.as_str()) else {
                continue;
            };
            // Its last owner may have stored the journal since, or deleted the vault.
            let Ok((record, _)) = vault.record() else { continue };
            let Some(place) = vault.journal_place(&record.head) else {
                continue;
            };
            // Without its base there is nothing to replay it on, and that was found before.
            let Ok(base) = vault.base_of(&record.head) else {
                continue;
            };
            let flaw = place.flaw(self.store.objects(), &base);
            let flaw = flaw.map(|flaw| flaw.map(|flaw| avfs_core::with_causes(&flaw)));
            let problem = flaw.unwrap_or_else(|error| Some(avfs_core::with_causes(&error)));
            report
                .problems
                .extend(problem.map(|problem| format!("vault '{}': {problem}", record.name)));
        }
        Ok(())
    }

    fn find_soft_flaws(&self, roots: &[VaultRoots], report: &mut CheckReport) {
        for VaultRoots { record, .. } in roots {
            if let Some(list) = Vault::new(self.store.clone(), record.id)
                .mounts()
                .unreadable_mounts()
            {
                report
                    .problems
                    .push(format!("{} is not readable", list.display()));
            }
        }
    }
}

/// The search for the paths of bad objects in one state after the other.
struct PathSearch<'a> {
    store: &'a Store,
    bad: &'a HashSet<ObjectId>,
    /// The linked files of the present state that are bad.
    links: HashMap<LinkId, bool>,
    /// Directories below which everything is in order, whatever the state. Only those without links.
    clean: HashSet<NodeId>,
    found: Vec<TreePath>,
}

impl PathSearch<'_> {
    fn state(&mut self, id: SnapshotId) {
        let Ok(snapshot) = self.store.objects().snapshot(id) else {
            self.found.push(TreePath::root());
            return;
        };
        // A linked file can be sound in one state and damaged in another.
        self.links.clear();
        if let Some(links) = snapshot.root.links {
            self.linked(links);
        }
        self.tree(&snapshot.root.directory);
    }

    /// Notes for each linked file whether it is bad. A table that cannot be read makes all of them bad,
    /// by the absence of a note.
    fn linked(&mut self, table: NodeId) {
        let mut open = vec![table];
        while let Some(id) = open.pop() {
            let Ok(node) = NodeSource::<LinkedFile>::load(self.store.objects(), id) else {
                continue;
            };
            match &*node {
                MapNode::Inner { children, .. } => open.extend(children.iter().map(|child| child.id)),
                MapNode::Leaf(records) => records.iter().for_each(|(key, file)| self.linked_file(key, file)),
            }
        }
    }

    fn linked_file(&mut self, key: &[u8], file: &LinkedFile) {
        if let Ok(key) = <[u8; 8]>::try_from(key) {
            let bad = self.is_bad_file(&file.entry);
            self.links.insert(LinkId(u64::from_be_bytes(key)), bad);
        }
    }

    /// Checks everything below a directory, also after damage. Trees may be deeper than the stack.
    fn tree(&mut self, root: &Entry) {
        let mut walk = TreeWalk::default();
        walk.open.extend(WalkStep::enter(None, root));
        while let Some(step) = walk.open.pop() {
            match step {
                // States share most of their directories: without this, each state would cost a walk of the
                // whole tree.
                WalkStep::Enter { id, .. } if self.clean.contains(&id) => {}
                WalkStep::Enter { name, id, has_links } => {
                    let leave = WalkStep::Leave {
                        id,
                        has_links,
                        found: self.found.len(),
                        named: name.is_some(),
                    };
                    walk.names.extend(name);
                    walk.open.extend([leave, WalkStep::Node(id)]);
                }
                WalkStep::Node(id) => self.node(id, &mut walk),
                WalkStep::Leave {
                    id,
                    has_links,
                    found,
                    named,
                } => {
                    // A directory with links depends on the link table of its state, so it is clean only
                    // there.
                    if self.found.len() == found && !has_links {
                        self.clean.insert(id);
                    }
                    walk.names.truncate(walk.names.len() - usize::from(named));
                }
            }
        }
    }

    /// Whether a source would have to be read: a promise that was never resolved cannot be damaged.
    fn is_unknown(&self, id: ObjectId) -> bool {
        let objects = self.store.objects();
        let is_promise = matches!(objects.promise(id), Ok(Some(_)));
        is_promise && matches!(objects.kept(PromiseId::from_object(id)), Ok(None))
    }

    fn node(&mut self, id: NodeId, walk: &mut TreeWalk) {
        if self.is_unknown(id.object()) {
            return;
        }
        let node = match NodeSource::<Slot>::load(self.store.objects(), id) {
            Ok(node) if !self.bad.contains(&id.object()) => node,
            _ => return self.found.push(walk.path(None)),
        };
        match &*node {
            MapNode::Inner { children, .. } => {
                walk.open
                    .extend(children.iter().map(|child| WalkStep::Node(child.id)));
            }
            MapNode::Leaf(records) => records
                .iter()
                .for_each(|(name, slot)| self.slot(name, slot, walk)),
        }
    }

    fn slot(&mut self, name: &[u8], slot: &Slot, walk: &mut TreeWalk) {
        let Ok(name) = EntryName::new(name) else {
            return self.found.push(walk.path(None));
        };
        let bad = match slot {
            Slot::Link(link) => self.links.get(link).copied().unwrap_or(true),
            Slot::Own(entry) => self.is_bad_file(entry),
        };
        if bad {
            self.found.push(walk.path(Some(&name)));
        }
        if let Slot::Own(entry) = slot {
            walk.open.extend(WalkStep::enter(Some(name), entry));
        }
    }

    fn is_bad_file(&self, entry: &Entry) -> bool {
        match entry.kind {
            EntryKind::File {
                content: Content::Blob(id),
                ..
            } => self.bad.contains(&id.object()) || self.is_bad_promise(id.object()),
            EntryKind::File {
                content: Content::Chunks(id),
                ..
            } => !self.is_unknown(id.object()) && self.is_bad_list(id),
            _ => false,
        }
    }

    /// Whether the result of a promise is damaged.
    fn is_bad_promise(&self, id: ObjectId) -> bool {
        match self.store.objects().kept(PromiseId::from_object(id)) {
            Ok(Some(kept)) => {
                matches!(&*kept, KeptPromise::File(Content::Blob(id)) if self.bad.contains(&id.object()))
            }
            Ok(None) => false,
            Err(_) => true,
        }
    }

    fn is_bad_list(&self, root: ChunksId) -> bool {
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            let Ok(node) = ChunkNodes::load(self.store.objects(), id) else {
                return true;
            };
            match &*node {
                ChunkNode::Inner { children, .. } => open.extend(children.iter().map(|(_, child)| *child)),
                ChunkNode::Leaf(chunks) => {
                    if chunks
                        .iter()
                        .any(|(_, chunk)| self.bad.contains(&chunk.id.object()))
                    {
                        return true;
                    }
                }
            }
        }
        false
    }
}

/// A walk through a tree, and where it is.
#[derive(Default)]
struct TreeWalk {
    open: Vec<WalkStep>,
    names: Vec<EntryName>,
}

impl TreeWalk {
    /// The path of the present directory, or of an entry of it.
    fn path(&self, name: Option<&EntryName>) -> TreePath {
        let mut path = TreePath::root();
        self.names.iter().chain(name).for_each(|name| path.push(name));
        path
    }
}

enum WalkStep {
    Enter {
        /// `None` for the root.
        name: Option<EntryName>,
        id: NodeId,
        has_links: bool,
    },
    /// A node of the present directory.
    Node(NodeId),
    Leave {
        id: NodeId,
        has_links: bool,
        /// How many were found before.
        found: usize,
        named: bool,
    },
}

impl WalkStep {
    /// Into a directory that is not empty.
    fn enter(name: Option<EntryName>, entry: &Entry) -> Option<WalkStep> {
        match entry.kind {
            EntryKind::Directory {
                entries: Some(id),
                below,
            } => Some(WalkStep::Enter {
                name,
                id,
                has_links: below.links > 0,
            }),
            _ => None,
        }
    }
}
