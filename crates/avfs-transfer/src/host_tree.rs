//! The directories of a tree that several threads read, put together from below.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use avfs_core::{Entry, EntryKind, Meta, Slot, Totals, map};
use avfs_tree::{ObjectError, ObjectWriter, Objects};
use rayon::prelude::*;

use super::links::{HostFileKey, NumberedLinks};

/// A directory on its way.
pub(super) struct PendingDirectory {
    pub parent: Option<Arc<PendingDirectory>>,
    name: Box<[u8]>,
    /// From the topmost one.
    pub relative: Vec<u8>,
    depth: usize,
    /// Unset if it could not be read.
    pub meta: OnceLock<Meta>,
    items: Mutex<Vec<(Box<[u8]>, DirectoryItem)>>,
    /// Its unfinished parts, each of which is a task or a subdirectory.
    waiting: AtomicUsize,
}

pub(super) enum DirectoryItem {
    Ready(Slot),
    /// A file with several links.
    Shared(HostFileKey),
    /// A directory that waits for the ids of links, by its place in the list of those.
    Deferred(usize),
}

impl PendingDirectory {
    pub(super) fn top() -> Arc<PendingDirectory> {
        Arc::new(PendingDirectory::new(None, Box::default(), Vec::new(), 0))
    }

    /// A directory in this one, which waits for it.
    pub(super) fn below(self: &Arc<Self>, name: Box<[u8]>, relative: Vec<u8>) -> Arc<PendingDirectory> {
        Arc::new(PendingDirectory::new(
            Some(self.hold()),
            name,
            relative,
            self.depth + 1,
        ))
    }

    fn new(
        parent: Option<Arc<PendingDirectory>>,
        name: Box<[u8]>,
        relative: Vec<u8>,
        depth: usize,
    ) -> PendingDirectory {
        let (meta, items) = (OnceLock::new(), Mutex::default());
        PendingDirectory {
            parent,
            name,
            relative,
            depth,
            meta,
            items,
            waiting: AtomicUsize::new(1),
        }
    }

    /// Announces another part, for which [`TreeGrowth::release`] will be called.
    pub(super) fn hold(self: &Arc<Self>) -> Arc<PendingDirectory> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Arc::clone(self)
    }

    pub(super) fn add(&self, mut items: Vec<(Box<[u8]>, DirectoryItem)>) {
        self.items
            .lock()
            .expect("no panic happens while the lock is held")
            .append(&mut items);
    }

    fn take_items(&self) -> Vec<(Box<[u8]>, DirectoryItem)> {
        std::mem::take(
            &mut *self
                .items
                .lock()
                .expect("no panic happens while the lock is held"),
        )
    }
}

/// A directory whose map could not be stored.
pub(super) struct UnbuiltDirectory {
    pub relative: Vec<u8>,
    pub source: ObjectError,
}

/// The parts that have been built so far.
pub(super) struct TreeGrowth<'a> {
    objects: &'a Objects,
    writer: &'a ObjectWriter,
    /// Directories that need the ids of links; those below others before them.
    deferred: Mutex<Vec<Arc<PendingDirectory>>>,
    top: OnceLock<DirectoryItem>,
}

impl<'a> TreeGrowth<'a> {
    pub(super) fn new(objects: &'a Objects, writer: &'a ObjectWriter) -> TreeGrowth<'a> {
        TreeGrowth {
            objects,
            writer,
            deferred: Mutex::default(),
            top: OnceLock::new(),
        }
    }

    /// One part of a directory is done; after the last part, the parent directory is updated, and so on.
    pub(super) fn release(&self, mut directory: Arc<PendingDirectory>) -> Result<(), UnbuiltDirectory> {
        while directory.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            let closed = self.close(&directory);
            let item = closed.map_err(|source| UnbuiltDirectory {
                relative: directory.relative.clone(),
                source,
            })?;
            let Some(parent) = &directory.parent else {
                if let Some(item) = item {
                    let _ = self.top.set(item);
                }
                break;
            };
            parent.add(
                item.map(|item| (directory.name.clone(), item))
                    .into_iter()
                    .collect(),
            );
            directory = Arc::clone(parent);
        }
        Ok(())
    }

    /// Builds the map of a directory, unless it must wait. `None` if it was not read.
    fn close(&self, directory: &Arc<PendingDirectory>) -> Result<Option<DirectoryItem>, ObjectError> {
        let Some(meta) = directory.meta.get() else {
            return Ok(None);
        };
        let mut items = directory.take_items();
        items.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        // A directory that is changed while it is listed may list a name twice.
        items.dedup_by(|a, b| a.0 == b.0);
        if items
            .iter()
            .all(|(_, item)| matches!(item, DirectoryItem::Ready(_)))
        {
            let slots = items.into_iter().filter_map(|(name, item)| match item {
                DirectoryItem::Ready(slot) => Some((name, slot)),
                DirectoryItem::Shared(_) | DirectoryItem::Deferred(_) => None,
            });
            return self
                .build(meta, slots)
                .map(|entry| Some(DirectoryItem::Ready(Slot::Own(entry))));
        }
        directory.add(items);
        let mut deferred = self
            .deferred
            .lock()
            .expect("no panic happens while the lock is held");
        deferred.push(Arc::clone(directory));
        Ok(Some(DirectoryItem::Deferred(deferred.len() - 1)))
    }

    fn build(
        &self,
        meta: &Meta,
        slots: impl Iterator<Item = (Box<[u8]>, Slot)>,
    ) -> Result<Entry, ObjectError> {
        directory_entry(self.objects, self.writer, meta.clone(), slots)
    }

    /// Whether the topmost directory was read.
    pub(super) fn has_top(&self) -> bool {
        self.top.get().is_some()
    }

    /// The topmost directory, with the links in it; call it when all are released.
    pub(super) fn finish(mut self, numbered: &NumberedLinks<HostFileKey>) -> Result<Entry, UnbuiltDirectory> {
        if let Some(DirectoryItem::Ready(Slot::Own(entry))) = self.top.take() {
            return Ok(entry);
        }
        let deferred = std::mem::take(self.deferred.get_mut().expect("no panic happened under the lock"));
        self.build_deferred(&deferred, numbered)
    }

    /// Builds the directories that waited for the ids of links, the deepest first. Returns the topmost.
    fn build_deferred(
        &self,
        deferred: &[Arc<PendingDirectory>],
        numbered: &NumberedLinks<HostFileKey>,
    ) -> Result<Entry, UnbuiltDirectory> {
        let built: Vec<OnceLock<Entry>> = deferred.iter().map(|_| OnceLock::new()).collect();
        let mut order: Vec<usize> = (0..deferred.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(deferred[*index].depth));
        for level in order.chunk_by(|a, b| deferred[*a].depth == deferred[*b].depth) {
            level.par_iter().try_for_each(|index| {
                let directory = &deferred[*index];
                let entry = self.resolve(directory, numbered, &built);
                let entry = entry.map_err(|source| UnbuiltDirectory {
                    relative: directory.relative.clone(),
                    source,
                })?;
                built[*index].set(entry).expect("each is built once");
                Ok::<(), UnbuiltDirectory>(())
            })?;
        }
        let top = built.into_iter().last().and_then(OnceLock::into_inner);
        Ok(top.expect("the topmost directory is deferred if any is, and comes last"))
    }

    fn resolve(
        &self,
        directory: &PendingDirectory,
        numbered: &NumberedLinks<HostFileKey>,
        built: &[OnceLock<Entry>],
    ) -> Result<Entry, ObjectError> {
        let slot = |item| match item {
            DirectoryItem::Ready(slot) => slot,
            DirectoryItem::Shared(key) => numbered.slot(&key).expect("every shared file was added"),
            DirectoryItem::Deferred(index) => Slot::Own(
                built[index]
                    .get()
                    .expect("what lies deeper was built before")
                    .clone(),
            ),
        };
        let meta = directory
            .meta
            .get()
            .expect("only directories that were read are deferred");
        self.build(
            meta,
            directory
                .take_items()
                .into_iter()
                .map(|(name, item)| (name, slot(item))),
        )
    }
}

/// Builds the map of a directory from its slots in order of name.
pub(super) fn directory_entry(
    objects: &Objects,
    mut writer: &ObjectWriter,
    meta: Meta,
    slots: impl Iterator<Item = (Box<[u8]>, Slot)>,
) -> Result<Entry, ObjectError> {
    let (entries, below) = match map::from_sorted(objects, &mut writer, slots)? {
        Some(root) => (Some(root.id), root.totals),
        None => (None, Totals::default()),
    };
    Ok(Entry {
        meta,
        kind: EntryKind::Directory { entries, below },
    })
}
