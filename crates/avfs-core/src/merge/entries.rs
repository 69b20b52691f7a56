//! One entry that both sides changed.

use crate::entry::{Content, Entry, EntryKind};

use super::attributes::{merge_meta, three_way};
use super::lines::{MarkerStyle, Sides, is_text, merge_lines};
use super::{Choice, ConflictKind};

/// The door to the contents of files.
pub trait Contents {
    type Error;
    /// All the bytes; `None` if they are too many to be merged line by line, or nobody has them any more.
    fn load(&mut self, size: u64, content: Content) -> Result<Option<Vec<u8>>, Self::Error>;
    /// Keeps a merged text.
    fn store(&mut self, bytes: Vec<u8>) -> Result<Content, Self::Error>;
}

/// How entries are merged.
pub struct Merger<'a, C> {
    pub contents: &'a mut C,
    pub names: &'a Sides,
    pub choice: Choice,
}

/// What a path is in the merged tree, and why that is not all there is to say.
pub(super) struct Outcome {
    pub entry: Option<Entry>,
    pub conflict: Option<ConflictKind>,
}

impl Outcome {
    pub fn clean(entry: Option<&Entry>) -> Outcome {
        Outcome { entry: entry.cloned(), conflict: None }
    }
}

type File = (u64, Content);

impl<C: Contents> Merger<'_, C> {
    /// Merges three states of one path. What is below directories is not looked at.
    pub(super) fn entry(
        &mut self,
        base: Option<&Entry>,
        ours: Option<&Entry>,
        theirs: Option<&Entry>,
    ) -> Result<Outcome, C::Error> {
        if is_same(ours, theirs) || is_same(base, theirs) {
            return Ok(Outcome::clean(ours));
        }
        if is_same(base, ours) {
            return Ok(Outcome::clean(theirs));
        }
        match (ours, theirs) {
            (Some(mine), Some(yours)) if is_same_kind(mine, yours) => self.both_changed(base, mine, yours),
            (Some(_), Some(_)) => Ok(self.choose(ours, theirs, ConflictKind::Kinds, ours)),
            (None, _) => Ok(self.choose(ours, theirs, ConflictKind::RemovedByUs, theirs)),
            (_, None) => Ok(self.choose(ours, theirs, ConflictKind::RemovedByThem, ours)),
        }
    }

    /// A conflict, with what the tree holds meanwhile; or what was chosen for all of them.
    pub(super) fn choose(
        &self,
        ours: Option<&Entry>,
        theirs: Option<&Entry>,
        kind: ConflictKind,
        meanwhile: Option<&Entry>,
    ) -> Outcome {
        match self.choice {
            Choice::Mark => Outcome { entry: meanwhile.cloned(), conflict: Some(kind) },
            Choice::Ours => Outcome::clean(ours),
            Choice::Theirs => Outcome::clean(theirs),
        }
    }

    fn both_changed(
        &mut self,
        base: Option<&Entry>,
        ours: &Entry,
        theirs: &Entry,
    ) -> Result<Outcome, C::Error> {
        let base = base.filter(|base| is_same_kind(base, ours));
        let merged = merge_meta(base.map(|base| &base.meta), &ours.meta, &theirs.meta, self.choice);
        let (kind, conflict) = self.kind(base.map(|base| &base.kind), &ours.kind, &theirs.kind)?;
        let attributes = merged.conflict.then_some(ConflictKind::Attributes);
        Ok(Outcome { entry: Some(Entry { meta: merged.meta, kind }), conflict: conflict.or(attributes) })
    }

    fn kind(
        &mut self,
        base: Option<&EntryKind>,
        ours: &EntryKind,
        theirs: &EntryKind,
    ) -> Result<(EntryKind, Option<ConflictKind>), C::Error> {
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
            Choice::Mark => (ours.clone(), Some(ConflictKind::Binary)),
            Choice::Ours => (ours.clone(), None),
            Choice::Theirs => (theirs.clone(), None),
        })
    }

    /// Merges two texts; `None` if they are not. Where there was nothing before, both started from an empty one.
    fn text(
        &mut self,
        base: Option<File>,
        ours: File,
        theirs: File,
    ) -> Result<Option<(EntryKind, Option<ConflictKind>)>, C::Error> {
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
            Choice::Mark => self.names.style,
            Choice::Ours => MarkerStyle::Ours,
            Choice::Theirs => MarkerStyle::Theirs,
        };
        let merged = merge_lines(&base, &ours, &theirs, &Sides { style, ..self.names.clone() });
        let size = merged.merged.len() as u64;
        let conflict = (!merged.is_clean()).then_some(ConflictKind::Text);
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

/// Whether two states of a path are the same; of directories, what is below them does not count.
pub(super) fn is_same(one: Option<&Entry>, other: Option<&Entry>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) if one.is_directory() && other.is_directory() => one.meta == other.meta,
        _ => one == other,
    }
}

fn is_same_kind(one: &Entry, other: &Entry) -> bool {
    std::mem::discriminant(&one.kind) == std::mem::discriminant(&other.kind)
}
