//! Attributes merge each by itself.

use std::collections::BTreeSet;

use crate::entry::{Meta, Xattrs};
use crate::label::{Label, Labels};

use super::Choice;

/// Merged attributes, and whether one of them was changed by both sides.
pub(super) struct MergedMeta {
    pub meta: Meta,
    pub conflict: bool,
}

pub(super) fn merge_meta(base: Option<&Meta>, ours: &Meta, theirs: &Meta, choice: Choice) -> MergedMeta {
    let mut merge = Attributes { choice, conflict: false };
    let of_base = |field: fn(&Meta) -> u32| base.map(field);
    let meta = Meta {
        mode: merge.pick(of_base(|meta| meta.mode), ours.mode, theirs.mode),
        uid: merge.pick(of_base(|meta| meta.uid), ours.uid, theirs.uid),
        gid: merge.pick(of_base(|meta| meta.gid), ours.gid, theirs.gid),
        // Two changes of a time are no conflict: the later one is when it was changed last.
        mtime: three_way(base.map(|base| base.mtime), ours.mtime, theirs.mtime)
            .unwrap_or(ours.mtime.max(theirs.mtime)),
        xattrs: merge.xattrs(base.map(|base| &base.xattrs), &ours.xattrs, &theirs.xattrs),
        labels: merge_labels(base, ours, theirs),
    };
    MergedMeta { meta, conflict: merge.conflict }
}

/// What both sides together made of a value; `None` if each made another one of it.
pub(super) fn three_way<T: PartialEq>(base: Option<T>, ours: T, theirs: T) -> Option<T> {
    if ours == theirs {
        return Some(ours);
    }
    match base {
        Some(base) if base == theirs => Some(ours),
        Some(base) if base == ours => Some(theirs),
        _ => None,
    }
}

struct Attributes {
    choice: Choice,
    conflict: bool,
}

impl Attributes {
    fn pick<T: PartialEq + Clone>(&mut self, base: Option<T>, ours: T, theirs: T) -> T {
        match (three_way(base, ours.clone(), theirs.clone()), self.choice) {
            (Some(merged), _) => merged,
            (None, Choice::Theirs) => theirs,
            (None, Choice::Ours) => ours,
            (None, Choice::Mark) => {
                self.conflict = true;
                ours
            }
        }
    }

    fn xattrs(&mut self, base: Option<&Xattrs>, ours: &Xattrs, theirs: &Xattrs) -> Xattrs {
        let names: BTreeSet<&[u8]> = ours.iter().chain(theirs.iter()).map(|(name, _)| name).collect();
        let mut merged = Xattrs::default();
        for name in names {
            // Without a base, an attribute that one side alone has was added by it.
            let before = Some(base.and_then(|base| base.get(name)));
            if let Some(value) = self.pick(before, ours.get(name), theirs.get(name)) {
                merged.set(name, value);
            }
        }
        merged
    }
}

/// A label is there or not: whoever changed that wins, as there is no third way.
fn merge_labels(base: Option<&Meta>, ours: &Meta, theirs: &Meta) -> Labels {
    let stays = |label: &&Label| {
        let before = base.is_some_and(|base| base.labels.contains(label));
        match (ours.labels.contains(label), theirs.labels.contains(label)) {
            (true, true) => true,
            (mine, yours) => (mine || yours) && !before,
        }
    };
    ours.labels.iter().chain(theirs.labels.iter()).filter(stays).cloned().collect()
}
