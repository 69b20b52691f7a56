//! Keeping promises: what stands in a tree for something of a source becomes objects when it is first asked for.
//!
//! What a promise was kept as is a ref of the store (`capture/ID`), so that it is the same for every tree that
//! holds the promise. Those refs are written together, a little later than the objects; until then they are
//! known here, and the objects are pinned. A crash that loses them loses nothing: the source is asked again.

mod kept;
mod newer;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use avfs_core::map;
use avfs_core::{
    BlobId, ChunksId, Content, Entry, EntryKind, EntryName, NodeId, ObjectId, ObjectKind, Promise, PromiseId,
    Slot, SourceId, Stamp, Timestamp, TreePath,
};
use avfs_store::{CommitError, Pin, RefEdit, RefRange, Store};
use quick_cache::sync::Cache;

pub use kept::{Kept, KeptDirectory};
pub use newer::NewerEntries;

use crate::inodes::{Ino, InodeRecord};
use crate::objects::{ObjectError, ObjectWriter, Objects};
use crate::reach::{Needed, kept_parts};
use crate::source::{Listed, ListedKind, Source, SourceError, Sources, Taken};

/// Where refs say what promises were kept as.
pub const CAPTURES: &str = "capture/";
/// Where refs say which promises were kept as something else than was promised.
pub const MOVED: &str = "moved/";
/// Where refs say which sources there are.
pub const SOURCES: &str = "source/";

/// How many promises are remembered.
const REMEMBERED: usize = 64 << 10;
/// How many refs are written in one commit.
const ROWS_AT_ONCE: usize = 5_000;

/// What a store knows of promises, in this process.
pub(crate) struct Promises {
    finder: OnceLock<Arc<dyn Sources>>,
    found: Mutex<HashMap<SourceId, Arc<dyn Source>>>,
    /// Which objects are promises, of those that were looked at.
    promised: Cache<ObjectId, Option<Arc<Promise>>>,
    kept: Cache<PromiseId, Arc<Kept>>,
    pending: Mutex<Pending>,
    /// Whether there may be promises at all; found out when it first matters.
    possible: OnceLock<bool>,
    seen: AtomicBool,
    files_taken: AtomicU64,
    /// Who wants to know of what sources changed late.
    newer: Mutex<Vec<Weak<NewerEntries>>>,
}

/// What was kept and is not in the refs yet.
#[derive(Default)]
struct Pending {
    rows: HashMap<PromiseId, Row>,
    /// Holds back a collection until they are.
    pin: Option<Pin>,
}

/// What a promise was kept as.
#[derive(Clone)]
struct Row {
    kept: Arc<Kept>,
    /// The promise itself, if it could not be kept as it was.
    moved: Option<Vec<u8>>,
}

impl Row {
    fn new(promise: &Promise, kept: Kept) -> Row {
        let moved = matches!(kept, Kept::Moved { .. } | Kept::Gone).then(|| promise.encode());
        Row { kept: Arc::new(kept), moved }
    }
}

impl Promises {
    pub fn new() -> Promises {
        Promises {
            finder: OnceLock::new(),
            found: Mutex::default(),
            promised: Cache::new(REMEMBERED),
            kept: Cache::new(REMEMBERED),
            pending: Mutex::default(),
            possible: OnceLock::new(),
            seen: AtomicBool::new(false),
            files_taken: AtomicU64::new(0),
            newer: Mutex::default(),
        }
    }

    /// From now on there may be promises.
    pub fn note_one(&self) {
        self.seen.store(true, Ordering::Relaxed);
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn source(&self, id: SourceId) -> Result<Arc<dyn Source>, SourceError> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = found.get(&id) {
            return Ok(Arc::clone(source));
        }
        let source = self.finder.get().ok_or(SourceError::Unknown)?.find(id)?;
        found.insert(id, Arc::clone(&source));
        Ok(source)
    }
}

/// What promises were kept as, for those who look at everything.
#[derive(Debug, Default)]
pub struct AllKept(HashMap<ObjectId, Kept>);

impl AllKept {
    pub(crate) fn get(&self, id: ObjectId) -> Option<&Kept> {
        self.0.get(&id)
    }

    /// What a promise was kept as needs.
    pub fn needed_by(&self, id: ObjectId) -> Vec<Needed> {
        self.get(id).map(kept_parts).unwrap_or_default()
    }

    /// The promises themselves.
    pub fn ids(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.0.keys().copied()
    }
}

/// The ref under which is written down what a promise was kept as.
pub fn capture_key(id: PromiseId) -> String {
    format!("{CAPTURES}{id}")
}

pub fn moved_key(id: PromiseId) -> String {
    format!("{MOVED}{id}")
}

impl Objects {
    /// Says who knows the sources of this store. Only the first one is asked.
    pub fn set_sources(&self, sources: Arc<dyn Sources>) {
        let _ = self.promises().finder.set(sources);
    }

    /// How many files were read from sources by this process.
    pub fn files_taken(&self) -> u64 {
        self.promises().files_taken.load(Ordering::Relaxed)
    }

    /// Whether trees of this store can hold promises. Where there is no source, nobody pays for them.
    pub fn may_promise(&self) -> bool {
        let promises = self.promises();
        let known = || {
            let sources = self.store().scan(&RefRange::prefix(SOURCES).limit(1));
            sources.map_or(true, |sources| !sources.is_empty())
        };
        promises.seen.load(Ordering::Relaxed) || *promises.possible.get_or_init(known)
    }

    /// The promise that an id names, if it names one.
    pub fn promise(&self, id: ObjectId) -> Result<Option<Arc<Promise>>, ObjectError> {
        if !self.may_promise() {
            return Ok(None);
        }
        if let Some(known) = self.promises().promised.get(&id) {
            return Ok(known);
        }
        let object = self.object(id)?;
        let promise = match object.kind {
            ObjectKind::Promise => Some(self.decoded(id, &object.bytes)?),
            _ => None,
        };
        self.promises().promised.insert(id, promise.clone());
        Ok(promise)
    }

    fn decoded(&self, id: ObjectId, bytes: &[u8]) -> Result<Arc<Promise>, ObjectError> {
        self.promises().note_one();
        let promise = Promise::decode(bytes);
        promise.map(Arc::new).map_err(|source| ObjectError::Malformed {
            id,
            kind: ObjectKind::Promise,
            source,
        })
    }

    /// What a promise was kept as, if anybody has asked yet.
    pub fn kept(&self, id: PromiseId) -> Result<Option<Arc<Kept>>, ObjectError> {
        if let Some(kept) = self.promises().kept.get(&id) {
            return Ok(Some(kept));
        }
        if let Some(row) = self.promises().pending().rows.get(&id) {
            return Ok(Some(Arc::clone(&row.kept)));
        }
        if !self.waits() {
            return Err(ObjectError::NotAtHand { id: id.object() });
        }
        let Some(bytes) = self.store().read(&capture_key(id))? else { return Ok(None) };
        let kept = Kept::decode(&bytes).map(Arc::new).map_err(|source| ObjectError::Malformed {
            id: id.object(),
            kind: ObjectKind::Promise,
            source,
        })?;
        self.promises().kept.insert(id, Arc::clone(&kept));
        Ok(Some(kept))
    }

    /// What all promises were kept as.
    pub fn all_kept(&self) -> Result<AllKept, ObjectError> {
        let mut all = HashMap::new();
        if !self.may_promise() {
            return Ok(AllKept(all));
        }
        for (key, bytes) in self.store().scan(&RefRange::prefix(CAPTURES))? {
            let id = key.strip_prefix(CAPTURES).and_then(|hex| ObjectId::parse_hex(hex).ok());
            if let Some(id) = id {
                let malformed = |source| ObjectError::Malformed { id, kind: ObjectKind::Promise, source };
                all.insert(id, Kept::decode(&bytes).map_err(malformed)?);
            }
        }
        let pending = self.promises().pending();
        all.extend(pending.rows.iter().map(|(id, row)| (id.object(), Kept::clone(&row.kept))));
        Ok(AllKept(all))
    }

    /// The promises of files that their sources had changed before anybody looked.
    pub fn all_moved(&self) -> Result<Vec<(PromiseId, Promise)>, ObjectError> {
        if !self.may_promise() {
            return Ok(Vec::new());
        }
        self.commit_kept()?;
        let mut moved = Vec::new();
        for (_, bytes) in self.store().scan(&RefRange::prefix(MOVED))? {
            let id = PromiseId::of(&bytes);
            let promise = Promise::decode(&bytes);
            let malformed =
                |source| ObjectError::Malformed { id: id.object(), kind: PromiseId::KIND, source };
            moved.push((id, promise.map_err(malformed)?));
        }
        Ok(moved)
    }

    /// Whether two entries are the same to whoever looks at them: a promise is what it was kept as.
    pub fn is_same(&self, one: &Entry, other: &Entry) -> Result<bool, ObjectError> {
        if one == other {
            return Ok(true);
        }
        Ok(one.meta == other.meta && self.has_same_bytes(one, other)?)
    }

    /// Whether two files have the same bytes, as far as that is known without asking a source or reading them.
    pub fn has_same_bytes(&self, one: &Entry, other: &Entry) -> Result<bool, ObjectError> {
        match (&one.kind, &other.kind) {
            (
                EntryKind::File { size, content },
                EntryKind::File { size: other_size, content: other_content },
            ) if size == other_size => Ok(content == other_content
                || self.known_content(*content)? == self.known_content(*other_content)?),
            _ => Ok(false),
        }
    }

    /// The contents that a promise was kept as, if anybody has asked yet.
    pub fn known_content(&self, content: Content) -> Result<Content, ObjectError> {
        let id = match content {
            Content::Empty => return Ok(content),
            Content::Blob(id) => id.object(),
            Content::Chunks(id) => id.object(),
        };
        if self.promise(id)?.is_none() {
            return Ok(content);
        }
        match self.kept(PromiseId::from_object(id))?.as_deref() {
            Some(Kept::File(kept)) => Ok(*kept),
            _ => Ok(content),
        }
    }

    /// Has a promise kept, by asking its source if nobody did before.
    pub fn keep(&self, id: PromiseId, promise: &Promise) -> Result<Arc<Kept>, ObjectError> {
        if let Some(kept) = self.kept(id)? {
            return Ok(kept);
        }
        let pin = self.store().pin()?;
        let kept = self.ask_source(promise).map_err(|error| match error {
            SourceError::Store(error) => *error,
            source => ObjectError::Promised { path: promise.path().clone(), source },
        })?;
        let mut pending = self.promises().pending();
        // Whoever was first said what it is.
        let row = pending.rows.entry(id).or_insert_with(|| Row::new(promise, kept));
        let kept = Arc::clone(&row.kept);
        pending.pin.get_or_insert(pin);
        drop(pending);
        self.promises().kept.insert(id, Arc::clone(&kept));
        Ok(kept)
    }

    fn ask_source(&self, promise: &Promise) -> Result<Kept, SourceError> {
        let source = self.promises().source(promise.source())?;
        match promise {
            Promise::Directory { source: id, generation, path } => {
                let listed = source.list(path)?;
                self.promises().note_newer(path, &listed);
                Ok(Kept::Directory(self.keep_directory(*id, *generation, path, listed.entries)?))
            }
            Promise::File { path, stamp, .. } => self.keep_file(&*source, path, stamp),
        }
    }

    fn keep_file(&self, source: &dyn Source, path: &TreePath, stamp: &Stamp) -> Result<Kept, SourceError> {
        let writer = ObjectWriter::new(self);
        let taken = source.take(path, stamp, self, &writer)?;
        writer.flush()?;
        self.promises().files_taken.fetch_add(1, Ordering::Relaxed);
        Ok(match taken {
            Taken::AsPromised(content) => Kept::File(content),
            Taken::Moved { entry, ctime } => Kept::Moved { entry, ctime },
            Taken::Gone => Kept::Gone,
        })
    }

    /// Stores a directory whose entries are promises.
    fn keep_directory(
        &self,
        source: SourceId,
        generation: u64,
        path: &TreePath,
        mut listed: Vec<Listed>,
    ) -> Result<KeptDirectory, ObjectError> {
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        listed.dedup_by(|a, b| a.name == b.name);
        let writer = ObjectWriter::new(self);
        let (mut slots, mut numbers) = (Vec::new(), Vec::new());
        for entry in listed {
            let key: Box<[u8]> = entry.name.as_bytes().into();
            numbers.extend(number_record(&entry).map(|record| (key.clone(), record)));
            let promised = promised_entry(&writer, source, generation, path, entry)?;
            slots.push((key, Slot::Own(promised)));
        }
        let mut sink = &writer;
        let entries = map::from_sorted(self, &mut sink, slots)?;
        let numbers = map::from_sorted(self, &mut sink, numbers)?;
        writer.flush()?;
        Ok(KeptDirectory {
            below: entries.as_ref().map(|entries| entries.totals).unwrap_or_default(),
            entries: entries.map(|entries| entries.id),
            numbers: numbers.map(|numbers| numbers.id),
        })
    }

    /// What a directory of a source holds now, as promises that nothing names yet. Hold a pin until something does.
    pub fn list_now(
        &self,
        source: SourceId,
        path: &TreePath,
    ) -> Result<Vec<(EntryName, Entry)>, ObjectError> {
        let promised = |source| ObjectError::Promised { path: path.clone(), source };
        let listed = self.promises().source(source).and_then(|source| source.list(path)).map_err(promised)?;
        let writer = ObjectWriter::new(self);
        let mut entries = Vec::new();
        for entry in listed.entries {
            let name = entry.name.clone();
            // Directories below belong to no generation that anybody has looked at.
            entries.push((name, promised_entry(&writer, source, 0, path, entry)?));
        }
        writer.flush()?;
        Ok(entries)
    }

    /// The map that a promise in the place of a directory's map was kept as.
    pub fn keep_listing(&self, id: NodeId) -> Result<Option<KeptDirectory>, ObjectError> {
        let Some(promise) = self.promise(id.object())? else { return Ok(None) };
        match &*self.keep(PromiseId::from_object(id.object()), &promise)? {
            Kept::Directory(kept) => Ok(Some(*kept)),
            Kept::File(_) | Kept::Moved { .. } | Kept::Gone => Err(misplaced(id.object(), ObjectKind::Node)),
        }
    }

    /// The contents that a promise in the place of contents was kept as.
    pub(crate) fn keep_content(&self, id: ObjectId, promise: &Promise) -> Result<Content, ObjectError> {
        match &*self.keep(PromiseId::from_object(id), promise)? {
            Kept::File(content) => Ok(*content),
            Kept::Moved { .. } | Kept::Gone => {
                Err(ObjectError::Promised { path: promise.path().clone(), source: SourceError::Moved })
            }
            Kept::Directory(_) => Err(misplaced(id, ObjectKind::Blob)),
        }
    }

    /// Has the contents of a file kept, if a source has promised them. `false`: the source has another version by now, or
    /// nothing.
    pub fn keep_contents_of(&self, entry: &Entry) -> Result<bool, ObjectError> {
        let id = match entry.kind {
            EntryKind::File { content: Content::Blob(id), .. } => id.object(),
            EntryKind::File { content: Content::Chunks(id), .. } => id.object(),
            _ => return Ok(true),
        };
        let Some(promise) = self.promise(id)? else { return Ok(true) };
        Ok(matches!(&*self.keep(PromiseId::from_object(id), &promise)?, Kept::File(_)))
    }

    /// Whether both ids are promises of one directory, and nobody has looked at it by way of the older one: then it is as
    /// the newer one finds it.
    pub(crate) fn is_same_directory(&self, one: ObjectId, other: ObjectId) -> Result<bool, ObjectError> {
        let (Some(first), Some(second)) = (self.promise(one)?, self.promise(other)?) else {
            return Ok(false);
        };
        let directory = |promise: &Promise| match promise {
            Promise::Directory { source, generation, path } => Some((*source, path.clone(), *generation)),
            Promise::File { .. } => None,
        };
        let (Some(first), Some(second)) = (directory(&first), directory(&second)) else { return Ok(false) };
        let older = if first.2 <= second.2 { one } else { other };
        let is_one = (first.0, first.1) == (second.0, second.1);
        Ok(is_one && self.kept(PromiseId::from_object(older))?.is_none())
    }

    /// Forgets what these promises were kept as, which nothing needs any more. Should one be made again, its source
    /// is asked again.
    pub fn forget_kept(&self, ids: &[ObjectId]) -> Result<(), ObjectError> {
        for part in ids.chunks(ROWS_AT_ONCE) {
            let mut edits = Vec::new();
            for id in part.iter().map(|id| PromiseId::from_object(*id)) {
                self.promises().kept.remove(&id);
                for key in [capture_key(id), moved_key(id)] {
                    let value = self.store().read(&key)?;
                    edits.extend(value.map(|value| RefEdit::delete(key, value)));
                }
            }
            match self.store().commit(&edits) {
                // Somebody else has done so.
                Ok(()) | Err(CommitError::Conflict { .. }) => {}
                Err(CommitError::Store(error)) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Writes down what promises were kept as. What others wrote down meanwhile stands.
    pub fn commit_kept(&self) -> Result<(), ObjectError> {
        loop {
            let rows: Vec<(PromiseId, Row)> = {
                let pending = self.promises().pending();
                pending.rows.iter().take(ROWS_AT_ONCE).map(|(id, row)| (*id, row.clone())).collect()
            };
            if rows.is_empty() {
                return Ok(());
            }
            commit_rows(&**self.store(), &rows)?;
            let mut pending = self.promises().pending();
            rows.iter().for_each(|(id, _)| drop(pending.rows.remove(id)));
            if pending.rows.is_empty() {
                pending.pin = None;
            }
        }
    }
}

fn commit_rows(store: &dyn Store, rows: &[(PromiseId, Row)]) -> Result<(), ObjectError> {
    let mut edits = Vec::with_capacity(rows.len());
    for (id, row) in rows {
        edits.push(RefEdit::create(capture_key(*id), row.kept.encode()));
        let moved = row.moved.as_ref();
        edits.extend(moved.map(|promise| RefEdit::create(moved_key(*id), promise.clone())));
    }
    loop {
        match store.commit(&edits) {
            Ok(()) => return Ok(()),
            Err(CommitError::Conflict { key }) => {
                let id = key.rsplit('/').next().unwrap_or_default();
                edits.retain(|edit| !edit.key.ends_with(id));
            }
            Err(CommitError::Store(error)) => return Err(error.into()),
        }
    }
}

fn misplaced(id: ObjectId, expected: ObjectKind) -> ObjectError {
    ObjectError::WrongKind { id, found: ObjectKind::Promise, expected }
}

/// The number and change time of an entry, where the rule does not give them.
fn number_record(listed: &Listed) -> Option<InodeRecord> {
    let ino = listed.number.map(Ino).filter(|ino| ino.may_be_given());
    let ctime: Option<Timestamp> = (listed.ctime != listed.meta.mtime).then_some(listed.ctime);
    (ino.is_some() || ctime.is_some()).then_some(InodeRecord { ino, ctime })
}

fn promised_entry(
    writer: &ObjectWriter,
    source: SourceId,
    generation: u64,
    directory: &TreePath,
    listed: Listed,
) -> Result<Entry, ObjectError> {
    let path = directory.join(&listed.name);
    let kind = match listed.kind {
        ListedKind::Other(kind) => kind,
        ListedKind::Directory => promised_directory(writer, source, generation, path)?,
        ListedKind::File(Stamp { size: 0, .. }) => EntryKind::File { size: 0, content: Content::Empty },
        ListedKind::File(stamp) => {
            let id = writer.put_promise(&Promise::File { source, path, stamp })?.object();
            let content = match stamp.size > avfs_core::chunks::BLOB_MAX {
                true => Content::Chunks(ChunksId::from_object(id)),
                false => Content::Blob(BlobId::from_object(id)),
            };
            EntryKind::File { size: stamp.size, content }
        }
    };
    Ok(Entry { meta: listed.meta, kind })
}

/// A directory of a source that nobody has looked at in this generation.
pub fn promised_directory(
    writer: &ObjectWriter,
    source: SourceId,
    generation: u64,
    path: TreePath,
) -> Result<EntryKind, ObjectError> {
    let id = writer.put_promise(&Promise::Directory { source, generation, path })?;
    Ok(EntryKind::Directory { entries: Some(NodeId::from_object(id.object())), below: Promise::BELOW })
}
