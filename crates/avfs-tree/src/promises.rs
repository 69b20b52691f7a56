//! Resolves promises: the placeholder of an entry of a source becomes objects on first use.
//!
//! The result of a promise is a ref of the store (`capture/ID`), so that it is the same for every tree that
//! contains the promise. Those refs are committed in batches, a little later than the objects; until then
//! they are in memory here, and the objects are pinned. A crash that loses them does no harm: the source is
//! read again.

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

pub use kept::{KeptDirectory, KeptPromise};
pub use newer::NewerEntries;

use crate::inodes::{Ino, InodeRecord};
use crate::objects::{ObjectError, ObjectWriter, Objects};
use crate::reach::{NeededObject, kept_parts};
use crate::source::{ListedEntry, ListedEntryKind, Source, SourceError, SourceFinder, TakenFile};

/// Refs that record the results of promises.
pub(crate) const CAPTURES: &str = "capture/";
/// Refs that record promises whose source had changed before they were resolved.
pub(crate) const MOVED: &str = "moved/";
/// Refs that record the sources.
pub const SOURCES: &str = "source/";

/// How many promises are cached.
const REMEMBERED: usize = 64 << 10;
/// How many refs are written in one commit.
const ROWS_AT_ONCE: usize = 5_000;

/// The promises of a store, as known to this process.
pub(crate) struct Promises {
    finder: OnceLock<Arc<dyn SourceFinder>>,
    found: Mutex<HashMap<SourceId, Arc<dyn Source>>>,
    /// For each id that was looked up: its promise, if it is one.
    promised: Cache<ObjectId, Option<Arc<Promise>>>,
    kept: Cache<PromiseId, Arc<KeptPromise>>,
    pending: Mutex<PendingRows>,
    /// Held by the thread that commits them: another one would commit the same rows, and find each of them taken.
    committing: Mutex<()>,
    /// Whether the store can contain promises at all; determined on first use.
    possible: OnceLock<bool>,
    seen: AtomicBool,
    files_taken: AtomicU64,
    /// Observers of source entries that changed late.
    newer: Mutex<Vec<Weak<NewerEntries>>>,
}

/// Results that are not in the refs yet.
#[derive(Default)]
struct PendingRows {
    rows: HashMap<PromiseId, PromiseRow>,
    /// Blocks garbage collection until they are.
    pin: Option<Pin>,
}

/// The result of a promise.
#[derive(Clone)]
struct PromiseRow {
    kept: Arc<KeptPromise>,
    /// The promise itself, if its source had changed before it was resolved.
    moved: Option<Vec<u8>>,
}

impl PromiseRow {
    fn new(promise: &Promise, kept: KeptPromise) -> PromiseRow {
        let moved = matches!(kept, KeptPromise::Moved { .. } | KeptPromise::Gone).then(|| promise.encode());
        PromiseRow {
            kept: Arc::new(kept),
            moved,
        }
    }
}

impl Promises {
    pub(crate) fn new() -> Promises {
        Promises {
            finder: OnceLock::new(),
            found: Mutex::default(),
            promised: Cache::new(REMEMBERED),
            kept: Cache::new(REMEMBERED),
            pending: Mutex::default(),
            committing: Mutex::default(),
            possible: OnceLock::new(),
            seen: AtomicBool::new(false),
            files_taken: AtomicU64::new(0),
            newer: Mutex::default(),
        }
    }

    /// From now on the store may contain promises.
    pub(crate) fn note_one(&self) {
        self.seen.store(true, Ordering::Relaxed);
    }

    fn pending(&self) -> MutexGuard<'_, PendingRows> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn source(&self, id: SourceId) -> Result<Arc<dyn Source>, SourceError> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = found.get(&id) {
            return Ok(Arc::clone(source));
        }
        // Under the lock, so that each source is opened once.
        let source = self.finder.get().ok_or(SourceError::Unknown)?.find(id)?;
        found.insert(id, Arc::clone(&source));
        Ok(source)
    }
}

/// The results of all promises, for callers that walk the whole store.
#[derive(Debug, Default)]
pub struct AllKept(HashMap<ObjectId, KeptPromise>);

impl AllKept {
    pub(crate) fn get(&self, id: ObjectId) -> Option<&KeptPromise> {
        self.0.get(&id)
    }

    /// The objects that the result of a promise needs.
    pub fn needed_by(&self, id: ObjectId) -> Vec<NeededObject> {
        self.get(id).map(kept_parts).unwrap_or_default()
    }

    /// The promises themselves.
    pub fn ids(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.0.keys().copied()
    }
}

/// The ref that records the result of a promise.
pub(crate) fn capture_key(id: PromiseId) -> String {
    format!("{CAPTURES}{id}")
}

pub(crate) fn moved_key(id: PromiseId) -> String {
    format!("{MOVED}{id}")
}

impl Objects {
    /// Sets how the sources of this store are found. Only the first call has an effect.
    pub fn set_sources(&self, sources: Arc<dyn SourceFinder>) {
        let _ = self.promises().finder.set(sources);
    }

    /// How many files were read from sources by this process.
    pub fn files_taken(&self) -> u64 {
        self.promises().files_taken.load(Ordering::Relaxed)
    }

    /// Whether trees of this store can contain promises. A store without sources and results has no overhead
    /// from them. Both are checked, because a repair may have lost one and found the other.
    pub fn may_promise(&self) -> bool {
        let promises = self.promises();
        let known = || {
            let ranges = [SOURCES, CAPTURES].map(|prefix| RefRange::prefix(prefix).limit(1));
            let found = self.store().scan_many(&ranges);
            // A store that cannot answer is assumed to contain promises: looking for them is slow and never
            // wrong.
            found.map_or(true, |found| found.iter().any(|refs| !refs.is_empty()))
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

    /// The result of a promise, if it was resolved already.
    pub fn kept(&self, id: PromiseId) -> Result<Option<Arc<KeptPromise>>, ObjectError> {
        if let Some(kept) = self.promises().kept.get(&id) {
            return Ok(Some(kept));
        }
        // A cached result can be evicted before its ref is committed, so the pending rows are consulted as
        // well.
        if let Some(row) = self.promises().pending().rows.get(&id) {
            return Ok(Some(Arc::clone(&row.kept)));
        }
        // The store may be slow; a caller that must not wait tries again from a thread that may.
        if !self.waits() {
            return Err(ObjectError::NotAtHand { id: id.object() });
        }
        let Some(bytes) = self.store().read(&capture_key(id))? else {
            return Ok(None);
        };
        let kept = KeptPromise::decode(&bytes)
            .map(Arc::new)
            .map_err(|source| ObjectError::Malformed {
                id: id.object(),
                kind: ObjectKind::Promise,
                source,
            })?;
        self.promises().kept.insert(id, Arc::clone(&kept));
        Ok(Some(kept))
    }

    /// The results of all promises.
    pub fn all_kept(&self) -> Result<AllKept, ObjectError> {
        let mut all = HashMap::new();
        if !self.may_promise() {
            return Ok(AllKept(all));
        }
        for (key, bytes) in self.store().scan(&RefRange::prefix(CAPTURES))? {
            let id = key
                .strip_prefix(CAPTURES)
                .and_then(|hex| ObjectId::parse_hex(hex).ok());
            if let Some(id) = id {
                let malformed = |source| ObjectError::Malformed {
                    id,
                    kind: ObjectKind::Promise,
                    source,
                };
                all.insert(id, KeptPromise::decode(&bytes).map_err(malformed)?);
            }
        }
        let pending = self.promises().pending();
        all.extend(
            pending
                .rows
                .iter()
                .map(|(id, row)| (id.object(), KeptPromise::clone(&row.kept))),
        );
        Ok(AllKept(all))
    }

    /// The promises of files whose sources changed them before they were first read.
    pub fn all_moved(&self) -> Result<Vec<(PromiseId, Promise)>, ObjectError> {
        if !self.may_promise() {
            return Ok(Vec::new());
        }
        // Promises that were resolved as promised need no lookup.
        let has_pending = self
            .promises()
            .pending()
            .rows
            .values()
            .any(|row| row.moved.is_some());
        if has_pending {
            self.commit_kept()?;
        }
        let mut moved = Vec::new();
        for (_, bytes) in self.store().scan(&RefRange::prefix(MOVED))? {
            let id = PromiseId::of(&bytes);
            let promise = Promise::decode(&bytes);
            let malformed = |source| ObjectError::Malformed {
                id: id.object(),
                kind: PromiseId::KIND,
                source,
            };
            moved.push((id, promise.map_err(malformed)?));
        }
        Ok(moved)
    }

    /// Whether two entries look the same to a reader: a promise equals its result.
    pub fn is_same(&self, one: &Entry, other: &Entry) -> Result<bool, ObjectError> {
        if one == other {
            return Ok(true);
        }
        Ok(one.meta == other.meta && self.has_same_bytes(one, other)?)
    }

    /// Whether two files have the same bytes, as far as that is known without reading them or their source.
    pub fn has_same_bytes(&self, one: &Entry, other: &Entry) -> Result<bool, ObjectError> {
        match (&one.kind, &other.kind) {
            (
                EntryKind::File { size, content },
                EntryKind::File {
                    size: other_size,
                    content: other_content,
                },
            ) if size == other_size => Ok(content == other_content
                || self.known_content(*content)? == self.known_content(*other_content)?),
            _ => Ok(false),
        }
    }

    /// The contents that a promise was resolved to, if it was resolved already.
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
            Some(KeptPromise::File(kept)) => Ok(*kept),
            _ => Ok(content),
        }
    }

    /// The promise that contents stand for, unless it was resolved before.
    pub fn unread(&self, content: Content) -> Result<Option<(PromiseId, Arc<Promise>)>, ObjectError> {
        let id = match content {
            Content::Empty => return Ok(None),
            Content::Blob(id) => id.object(),
            Content::Chunks(id) => id.object(),
        };
        let Some(promise) = self.promise(id)? else {
            return Ok(None);
        };
        let id = PromiseId::from_object(id);
        let is_kept = self.kept(id)?.is_some();
        Ok((!is_kept).then_some((id, promise)))
    }

    /// Resolves a promise, by reading its source unless that happened before.
    pub fn keep(&self, id: PromiseId, promise: &Promise) -> Result<Arc<KeptPromise>, ObjectError> {
        if let Some(kept) = self.kept(id)? {
            return Ok(kept);
        }
        // Before anything is stored: until the ref is committed, nothing else keeps a garbage collection
        // from removing the result.
        let pin = self.store().pin()?;
        // Without a lock, as sources may be slow. Two threads may read the same source at once; the first
        // one wins below.
        let kept = self.ask_source(promise).map_err(|error| match error {
            SourceError::Store(error) => *error,
            source => ObjectError::Promised {
                path: promise.path().clone(),
                source,
            },
        })?;
        let mut pending = self.promises().pending();
        // The first thread to resolve a promise determines its result.
        let row = pending
            .rows
            .entry(id)
            .or_insert_with(|| PromiseRow::new(promise, kept));
        let kept = Arc::clone(&row.kept);
        // One pin covers all pending rows. It was taken before any of their objects were stored.
        pending.pin.get_or_insert(pin);
        drop(pending);
        self.promises().kept.insert(id, Arc::clone(&kept));
        Ok(kept)
    }

    fn ask_source(&self, promise: &Promise) -> Result<KeptPromise, SourceError> {
        let source = self.promises().source(promise.source())?;
        match promise {
            Promise::Directory {
                source: id,
                generation,
                path,
            } => {
                let listed = source.list(path)?;
                self.promises().note_newer(path, &listed);
                Ok(KeptPromise::Directory(self.keep_directory(
                    *id,
                    *generation,
                    path,
                    listed.entries,
                )?))
            }
            Promise::File { path, stamp, .. } => self.keep_file(&*source, path, stamp),
        }
    }

    fn keep_file(
        &self,
        source: &dyn Source,
        path: &TreePath,
        stamp: &Stamp,
    ) -> Result<KeptPromise, SourceError> {
        let writer = ObjectWriter::new(self);
        let taken = source.take(path, stamp, self, &writer)?;
        writer.flush()?;
        self.promises().files_taken.fetch_add(1, Ordering::Relaxed);
        Ok(match taken {
            TakenFile::AsPromised(content) => KeptPromise::File(content),
            TakenFile::Moved { entry, ctime } => KeptPromise::Moved { entry, ctime },
            TakenFile::Gone => KeptPromise::Gone,
        })
    }

    /// Stores a directory whose entries are promises.
    fn keep_directory(
        &self,
        source: SourceId,
        generation: u64,
        path: &TreePath,
        mut listed: Vec<ListedEntry>,
    ) -> Result<KeptDirectory, ObjectError> {
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        // A directory that changes while it is read can list a name twice.
        listed.dedup_by(|a, b| a.name == b.name);
        let writer = ObjectWriter::new(self);
        let mut slots = Vec::new();
        let mut numbers = Vec::new();
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

    /// The current entries of a directory of a source, as promises to which no ref leads yet. The caller
    /// holds a pin until one does.
    pub fn list_now(
        &self,
        source: SourceId,
        path: &TreePath,
    ) -> Result<Vec<(EntryName, Entry)>, ObjectError> {
        let promised = |source| ObjectError::Promised {
            path: path.clone(),
            source,
        };
        let listed = self
            .promises()
            .source(source)
            .and_then(|source| source.list(path))
            .map_err(promised)?;
        let writer = ObjectWriter::new(self);
        let mut entries = Vec::new();
        for entry in listed.entries {
            let name = entry.name.clone();
            // Directories below belong to no generation that has been read.
            entries.push((name, promised_entry(&writer, source, 0, path, entry)?));
        }
        writer.flush()?;
        Ok(entries)
    }

    /// The map to which a promise in place of a directory's map was resolved.
    pub fn keep_listing(&self, id: NodeId) -> Result<Option<KeptDirectory>, ObjectError> {
        let Some(promise) = self.promise(id.object())? else {
            return Ok(None);
        };
        match &*self.keep(PromiseId::from_object(id.object()), &promise)? {
            KeptPromise::Directory(kept) => Ok(Some(*kept)),
            KeptPromise::File(_) | KeptPromise::Moved { .. } | KeptPromise::Gone => {
                Err(misplaced(id.object(), ObjectKind::Node))
            }
        }
    }

    /// The contents to which a promise in place of contents was resolved.
    pub(crate) fn keep_content(&self, id: ObjectId, promise: &Promise) -> Result<Content, ObjectError> {
        match &*self.keep(PromiseId::from_object(id), promise)? {
            KeptPromise::File(content) => Ok(*content),
            KeptPromise::Moved { .. } | KeptPromise::Gone => Err(ObjectError::Promised {
                path: promise.path().clone(),
                source: SourceError::Moved,
            }),
            KeptPromise::Directory(_) => Err(misplaced(id, ObjectKind::Blob)),
        }
    }

    /// Resolves the contents of a file if they are promised. `false`: the source has another version by now,
    /// or nothing.
    pub fn keep_contents_of(&self, entry: &Entry) -> Result<bool, ObjectError> {
        let id = match entry.kind {
            EntryKind::File {
                content: Content::Blob(id),
                ..
            } => id.object(),
            EntryKind::File {
                content: Content::Chunks(id),
                ..
            } => id.object(),
            _ => return Ok(true),
        };
        let Some(promise) = self.promise(id)? else {
            return Ok(true);
        };
        Ok(matches!(
            &*self.keep(PromiseId::from_object(id), &promise)?,
            KeptPromise::File(_)
        ))
    }

    /// Whether both ids are promises of the same directory, and the older one was never resolved: then its
    /// contents are whatever the newer one resolves to.
    pub(crate) fn is_same_directory(&self, one: ObjectId, other: ObjectId) -> Result<bool, ObjectError> {
        let (Some(first), Some(second)) = (self.promise(one)?, self.promise(other)?) else {
            return Ok(false);
        };
        let directory = |promise: &Promise| match promise {
            Promise::Directory {
                source,
                generation,
                path,
            } => Some((*source, path.clone(), *generation)),
            Promise::File { .. } => None,
        };
        let (Some(first), Some(second)) = (directory(&first), directory(&second)) else {
            return Ok(false);
        };
        let older = if first.2 <= second.2 { one } else { other };
        let is_one = (first.0, first.1) == (second.0, second.1);
        Ok(is_one && self.kept(PromiseId::from_object(older))?.is_none())
    }

    /// Forgets the results of these promises, which nothing needs now. If such a promise is made again, its
    /// source is read again.
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
                // Another process has removed it.
                Ok(()) | Err(CommitError::Conflict { .. }) => {}
                Err(CommitError::Store(error)) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Commits the results of promises. A result that another process has committed meanwhile takes
    /// precedence.
    pub fn commit_kept(&self) -> Result<(), ObjectError> {
        let committing = &self.promises().committing;
        let _turn = committing.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // Copied out, because a commit waits for the disk and promises continue to be resolved
            // meanwhile.
            let rows: Vec<(PromiseId, PromiseRow)> = {
                let pending = self.promises().pending();
                pending
                    .rows
                    .iter()
                    .take(ROWS_AT_ONCE)
                    .map(|(id, row)| (*id, row.clone()))
                    .collect()
            };
            if rows.is_empty() {
                return Ok(());
            }
            commit_rows(&**self.store(), &rows)?;
            let mut pending = self.promises().pending();
            // Only now: in between, a reader finds each result in the rows or in the refs, never in
            // neither.
            rows.iter().for_each(|(id, _)| drop(pending.rows.remove(id)));
            if pending.rows.is_empty() {
                pending.pin = None;
            }
        }
    }
}

fn commit_rows(store: &dyn Store, rows: &[(PromiseId, PromiseRow)]) -> Result<(), ObjectError> {
    let mut left: Vec<&(PromiseId, PromiseRow)> = rows.iter().collect();
    loop {
        match store.commit(&edits_of(&left)) {
            Ok(()) => return Ok(()),
            // Another process resolved the same promise first. Both refs of the promise are left to it. Such a process
            // has usually resolved many of them, so all are looked at before the rest is tried again.
            Err(CommitError::Conflict { key }) => {
                let id = key.rsplit('/').next().unwrap_or_default();
                left.retain(|(promise, _)| !capture_key(*promise).ends_with(id));
                left = unresolved(store, left)?;
            }
            Err(CommitError::Store(error)) => return Err(error.into()),
        }
    }
}

fn edits_of(rows: &[&(PromiseId, PromiseRow)]) -> Vec<RefEdit> {
    let mut edits = Vec::with_capacity(rows.len());
    for (id, row) in rows {
        edits.push(RefEdit::create(capture_key(*id), row.kept.encode()));
        let moved = row.moved.as_ref();
        edits.extend(moved.map(|promise| RefEdit::create(moved_key(*id), promise.clone())));
    }
    edits
}

/// The rows whose promises have no result in the store.
fn unresolved<'a>(
    store: &dyn Store,
    rows: Vec<&'a (PromiseId, PromiseRow)>,
) -> Result<Vec<&'a (PromiseId, PromiseRow)>, ObjectError> {
    let mut left = Vec::with_capacity(rows.len());
    for row in rows {
        if store.read(&capture_key(row.0))?.is_none() {
            left.push(row);
        }
    }
    Ok(left)
}

fn misplaced(id: ObjectId, expected: ObjectKind) -> ObjectError {
    ObjectError::WrongKind {
        id,
        found: ObjectKind::Promise,
        expected,
    }
}

/// The number and change time of an entry, where they differ from the rule.
fn number_record(listed: &ListedEntry) -> Option<InodeRecord> {
    let ino = listed.number.map(Ino).filter(|ino| ino.may_be_given());
    let ctime: Option<Timestamp> = (listed.ctime != listed.meta.mtime).then_some(listed.ctime);
    (ino.is_some() || ctime.is_some()).then_some(InodeRecord { ino, ctime })
}

fn promised_entry(
    writer: &ObjectWriter,
    source: SourceId,
    generation: u64,
    directory: &TreePath,
    listed: ListedEntry,
) -> Result<Entry, ObjectError> {
    let path = directory.join(&listed.name);
    let kind = match listed.kind {
        ListedEntryKind::Other(kind) => kind,
        ListedEntryKind::Directory => promised_directory(writer, source, generation, path)?,
        // There is nothing to promise, and a promise would cost an object and a read of the source.
        ListedEntryKind::File(Stamp { size: 0, .. }) => EntryKind::File {
            size: 0,
            content: Content::Empty,
        },
        ListedEntryKind::File(stamp) => {
            let id = writer
                .put_promise(&Promise::File { source, path, stamp })?
                .object();
            let content = if stamp.size > avfs_core::chunks::BLOB_MAX {
                Content::Chunks(ChunksId::from_object(id))
            } else {
                Content::Blob(BlobId::from_object(id))
            };
            EntryKind::File {
                size: stamp.size,
                content,
            }
        }
    };
    Ok(Entry {
        meta: listed.meta,
        kind,
    })
}

/// A directory of a source that has not been read in this generation.
pub fn promised_directory(
    writer: &ObjectWriter,
    source: SourceId,
    generation: u64,
    path: TreePath,
) -> Result<EntryKind, ObjectError> {
    let id = writer.put_promise(&Promise::Directory {
        source,
        generation,
        path,
    })?;
    Ok(EntryKind::Directory {
        entries: Some(NodeId::from_object(id.object())),
        below: Promise::BELOW,
    })
}
