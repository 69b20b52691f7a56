//! One entry that both sides changed.

use crate::entry::{Content, Entry, EntryKind};

use super::attributes::{merge_meta, three_way};
use super::lines::{MarkerStyle, SideNames, is_text, merge_lines};
use super::{ConflictPolicy, MergeConflictKind};

/// The interface to the contents of files.
pub trait MergeContents {
    /// Why contents could not be read or stored.
    type Error;
    /// All the bytes; `None` if there are too many to merge line by line, or if they are currently
    /// unavailable.
    fn load(&mut self, size: u64, content: Content) -> Result<Option<Vec<u8>>, Self::Error>;
    /// Stores a merged text.
    fn store(&mut self, bytes: Vec<u8>) -> Result<Content, Self::Error>;
}

/// How entries are merged.
pub struct EntryMerger<'a, C> {
    /// Reads and stores the contents of files.
    pub contents: &'a mut C,
    /// The names of the sides in markers.
    pub names: &'a SideNames,
    /// How conflicts are resolved.
    pub choice: ConflictPolicy,
}

/// The merged entry of a path, and why it may need more than that.
pub(super) struct MergedEntry {
    pub entry: Option<Entry>,
    pub conflict: Option<MergeConflictKind>,
}

impl MergedEntry {
    pub(crate) fn clean(entry: Option<&Entry>) -> MergedEntry {
        MergedEntry {
            entry: entry.cloned(),
            conflict: None,
        }
    }
}

type File = (u64, Content);

impl<C: MergeContents> EntryMerger<'_, C> {
    /// The merged entry for three states of one path, conflict or not.
    pub fn merged(
        &mut self,
        base: Option<&Entry>,
        ours: Option<&Entry>,
        theirs: Option<&Entry>,
    ) -> Result<Option<Entry>, C::Error> {
        Ok(self.entry(base, ours, theirs)?.entry)
    }

    /// Merges three states of one path. The contents of directories are ignored.
    pub(super) fn entry(
        &mut self,
        base: Option<&Entry>,
        ours: Option<&Entry>,
        theirs: Option<&Entry>,
    ) -> Result<MergedEntry, C::Error> {
        if is_same(ours, theirs) || is_same(base, theirs) {
            return Ok(MergedEntry::clean(ours));
        }
        if is_same(base, ours) {
            return Ok(MergedEntry::clean(theirs));
        }
        match (ours, theirs) {
            (Some(mine), Some(yours)) if is_same_kind(mine, yours) => self.both_changed(base, mine, yours),
            (Some(_), Some(_)) => Ok(self.choose(ours, theirs, MergeConflictKind::Kinds, ours)),
            (None, _) => Ok(self.choose(ours, theirs, MergeConflictKind::RemovedByUs, theirs)),
            (_, None) => Ok(self.choose(ours, theirs, MergeConflictKind::RemovedByThem, ours)),
        }
    }

    /// A conflict with the entry that the tree holds meanwhile, or the entry that was chosen for all
    /// conflicts.
    pub(super) fn choose(
        &self,
        ours: Option<&Entry>,
        theirs: Option<&Entry>,
        kind: MergeConflictKind,
        meanwhile: Option<&Entry>,
    ) -> MergedEntry {
        match self.choice {
            ConflictPolicy::Mark => MergedEntry {
                entry: meanwhile.cloned(),
                conflict: Some(kind),
            },
            ConflictPolicy::Ours => MergedEntry::clean(ours),
            ConflictPolicy::Theirs => MergedEntry::clean(theirs),
        }
    }

    fn both_changed(
        &mut self,
        base: Option<&Entry>,
        ours: &Entry,
        theirs: &Entry,
    ) -> Result<MergedEntry, C::Error> {
        let base = base.filter(|base| is_same_kind(base, ours));
        let merged = merge_meta(base.map(|base| &base.meta), &ours.meta, &theirs.meta, self.choice);
        let (kind, conflict) = self.kind(base.map(|base| &base.kind), &ours.kind, &theirs.kind)?;
        let attributes = merged.conflict.then_some(MergeConflictKind::Attributes);
        Ok(MergedEntry {
            entry: Some(Entry {
                meta: merged.meta,
                kind,
            }),
            conflict: conflict.or(attributes),
        })
    }

    fn kind(
        &mut self,
        base: Option<&EntryKind>,
        ours: &EntryKind,
        theirs: &EntryKind,
    ) -> Result<(EntryKind, Option<MergeConflictKind>), C::Error> {
        if let EntryKind::Directory { .. } = ours {
            return Ok((ours.clone(), None));
        }
        if let Some(merged) = three_way(base, ours, theirs) {
            return Ok((merged.clone(), None));
        }
        if let (Some(mine), Some(yours)) = (file(ours), file(theirs))
            && let Some((merged, conflict)) = self.text(base.and_then(file), mine, yours)?
        {
            return Ok((merged, conflict));
        }
        Ok(match self.choice {
            ConflictPolicy::Mark => (ours.clone(), Some(MergeConflictKind::Binary)),
            ConflictPolicy::Ours => (ours.clone(), None),
            ConflictPolicy::Theirs => (theirs.clone(), None),
        })
    }

    /// Merges two texts; `None` if they are not text. Without a base, both are compared with an empty text.
    fn text(
        &mut self,
        base: Option<File>,
        ours: File,
        theirs: File,
    ) -> Result<Option<(EntryKind, Option<MergeConflictKind>)>, C::Error> {
        let mut texts = [Vec::new(), Vec::new(), Vec::new()];
        let files = [base.unwrap_or((0, Content::Empty)), ours, theirs];
        for (text, (size, content)) in texts.iter_mut().zip(files) {
            match self.contents.load(size, content)?.filter(|bytes| is_text(bytes)) {
                Some(bytes) => *text = bytes,
                None => return Ok(None),
            }
        }
        let [base, ours, theirs] = texts;
        let style = match self.choice {
            ConflictPolicy::Mark => self.names.style,
            ConflictPolicy::Ours => MarkerStyle::Ours,
            ConflictPolicy::Theirs => MarkerStyle::Theirs,
        };
        let merged = merge_lines(
            &base,
            &ours,
            &theirs,
            &SideNames {
                style,
                ..self.names.clone()
            },
        );
        let size = merged.merged.len() as u64;
        let conflict = (!merged.is_clean()).then_some(MergeConflictKind::Text);
        let content = self.contents.store(merged.merged)?;
        Ok(Some((EntryKind::File { size, content }, conflict)))
    }
}

fn file(kind: &EntryKind) -> Option<File> {
    match kind {
        EntryKind::File { size, content } => Some((*size, *content)),
        _ => None,
    }
}

/// Whether two states of a path are equal; the contents of directories are ignored.
pub(super) fn is_same(one: Option<&Entry>, other: Option<&Entry>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) if one.is_directory() && other.is_directory() => one.meta == other.meta,
        _ => one == other,
    }
}

fn is_same_kind(one: &Entry, other: &Entry) -> bool {
    std::mem::discriminant(&one.kind) == std::mem::discriminant(&other.kind)
}
