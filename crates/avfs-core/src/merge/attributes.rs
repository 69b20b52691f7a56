//! Merges each attribute separately.

use std::collections::BTreeSet;

use crate::entry::{Meta, Xattrs};
use crate::label::{Label, Labels};

use super::ConflictPolicy;

/// Merged attributes, and whether one of them was changed by both sides.
pub(super) struct MergedMeta {
    pub meta: Meta,
    pub conflict: bool,
}

pub(super) fn merge_meta(
    base: Option<&Meta>,
    ours: &Meta,
    theirs: &Meta,
    choice: ConflictPolicy,
) -> MergedMeta {
    let mut merge = AttributeMerge {
        choice,
        conflict: false,
    };
    let of_base = |field: fn(&Meta) -> u32| base.map(field);
    let meta = Meta {
        mode: merge.pick(of_base(|meta| meta.mode), ours.mode, theirs.mode),
        uid: merge.pick(of_base(|meta| meta.uid), ours.uid, theirs.uid),
        gid: merge.pick(of_base(|meta| meta.gid), ours.gid, theirs.gid),
        // Two changes of a time do not conflict: the later one is the last modification.
        mtime: three_way(base.map(|base| base.mtime), ours.mtime, theirs.mtime)
            .unwrap_or(ours.mtime.max(theirs.mtime)),
        xattrs: merge.xattrs(base.map(|base| &base.xattrs), &ours.xattrs, &theirs.xattrs),
        labels: merge_labels(base, ours, theirs),
    };
    MergedMeta {
        meta,
        conflict: merge.conflict,
    }
}

/// The merged value; `None` if both sides changed it in different ways.
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

struct AttributeMerge {
    choice: ConflictPolicy,
    conflict: bool,
}

impl AttributeMerge {
    fn pick<T: PartialEq + Clone>(&mut self, base: Option<T>, ours: T, theirs: T) -> T {
        match (three_way(base, ours.clone(), theirs.clone()), self.choice) {
            (Some(merged), _) => merged,
            (None, ConflictPolicy::Theirs) => theirs,
            (None, ConflictPolicy::Ours) => ours,
            (None, ConflictPolicy::Mark) => {
                self.conflict = true;
                ours
            }
        }
    }

    fn xattrs(&mut self, base: Option<&Xattrs>, ours: &Xattrs, theirs: &Xattrs) -> Xattrs {
        let names: BTreeSet<&[u8]> = ours.iter().chain(theirs.iter()).map(|(name, _)| name).collect();
        let mut merged = Xattrs::default();
        for name in names {
            // Without a base, an attribute that only one side has was added by that side.
            let before = Some(base.and_then(|base| base.get(name)));
            if let Some(value) = self.pick(before, ours.get(name), theirs.get(name)) {
                merged.set(name, value);
            }
        }
        merged
    }
}

/// A label is either present or absent, so the side that changed it wins: a third state does not exist.
fn merge_labels(base: Option<&Meta>, ours: &Meta, theirs: &Meta) -> Labels {
    let stays = |label: &&Label| {
        let before = base.is_some_and(|base| base.labels.contains(label));
        match (ours.labels.contains(label), theirs.labels.contains(label)) {
            (true, true) => true,
            (mine, yours) => (mine || yours) && !before,
        }
    };
    ours.labels
        .iter()
        .chain(theirs.labels.iter())
        .filter(stays)
        .cloned()
        .collect()
}
