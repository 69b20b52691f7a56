use std::collections::HashMap;
use std::convert::Infallible;

use super::*;
use crate::diff::TreeChange;
use crate::entry::{Content, EntryKind, Meta, Timestamp, Xattrs};
use crate::id::BlobId;
use crate::label::{Label, Labels};

/// Contents that a merge can load and store.
#[derive(Default)]
struct TextContents(HashMap<Content, Vec<u8>>);

impl TextContents {
    fn file(&mut self, text: &str) -> Entry {
        let content = self.keep(text.as_bytes().to_vec());
        Entry {
            meta: Meta::default(),
            kind: EntryKind::File {
                size: text.len() as u64,
                content,
            },
        }
    }

    fn keep(&mut self, bytes: Vec<u8>) -> Content {
        let content = Content::Blob(BlobId::of(&bytes));
        self.0.insert(content, bytes);
        content
    }
}

impl MergeContents for TextContents {
    type Error = Infallible;

    fn load(&mut self, _: u64, content: Content) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(Some(self.0.get(&content).cloned().unwrap_or_default()))
    }

    fn store(&mut self, bytes: Vec<u8>) -> Result<Content, Infallible> {
        Ok(self.keep(bytes))
    }
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

fn change(at: &str, before: Option<&Entry>, after: Option<&Entry>) -> TreeChange {
    TreeChange {
        path: path(at),
        before: before.cloned(),
        after: after.cloned(),
    }
}

fn merge(texts: &mut TextContents, ours: &[TreeChange], theirs: &[TreeChange]) -> MergeResult {
    let names = SideNames {
        ours: "ours".into(),
        theirs: "theirs".into(),
        base: "base".into(),
        style: MarkerStyle::Merge,
    };
    let mut merger = EntryMerger {
        contents: texts,
        names: &names,
        choice: ConflictPolicy::Mark,
    };
    let side = |changes| MergeSide { changes, moves: &[] };
    merge_trees(side(ours), side(theirs), &mut merger).unwrap_or_else(|never| match never {})
}

/// The result of merging attributes that both sides changed.
#[track_caller]
fn merged_meta(base: Meta, ours: Meta, theirs: Meta) -> (Meta, Vec<MergeConflictKind>) {
    let mut texts = TextContents::default();
    let file = texts.file("same");
    let [base, ours, theirs] = [base, ours, theirs].map(|meta| Entry { meta, ..file.clone() });
    let one = [change("/f", Some(&base), Some(&ours))];
    let merged = merge(&mut texts, &one, &[change("/f", Some(&base), Some(&theirs))]);
    let kinds = merged.conflicts.iter().map(|conflict| conflict.kind).collect();
    match &merged.steps[..] {
        [] => (ours.meta, kinds),
        [MergeStep::Put { entry, .. }] => (entry.meta.clone(), kinds),
        other => panic!("{other:?}"),
    }
}

fn labels(words: &[&str]) -> Meta {
    let labels: Labels = words.iter().map(|word| Label::new(word).unwrap()).collect();
    Meta {
        labels,
        ..Meta::default()
    }
}

fn xattrs(pairs: &[(&str, &str)]) -> Meta {
    let mut xattrs = Xattrs::default();
    pairs
        .iter()
        .for_each(|(name, value)| xattrs.set(name.as_bytes(), value.as_bytes()));
    Meta {
        xattrs,
        ..Meta::default()
    }
}

#[test]
fn labels_that_either_side_adds_or_removes_are_added_and_removed() {
    let merged = merged_meta(labels(&["a", "b"]), labels(&["a", "b", "c"]), labels(&["b", "d"]));
    assert_eq!(merged, (labels(&["b", "c", "d"]), vec![]));
}

#[test]
fn extended_attributes_merge_each_by_itself() {
    let base = || xattrs(&[("u.a", "1"), ("u.b", "1")]);
    let merged = merged_meta(
        base(),
        xattrs(&[("u.a", "2"), ("u.b", "1")]),
        xattrs(&[("u.a", "1"), ("u.c", "3")]),
    );
    assert_eq!(merged, (xattrs(&[("u.a", "2"), ("u.c", "3")]), vec![]));
    let (kept, kinds) = merged_meta(
        base(),
        xattrs(&[("u.a", "2")]),
        xattrs(&[("u.a", "3"), ("u.b", "1")]),
    );
    assert_eq!(
        (kept, kinds),
        (xattrs(&[("u.a", "2")]), vec![MergeConflictKind::Attributes])
    );
}

#[test]
fn the_later_one_of_two_times_is_taken() {
    let at = |seconds| Meta {
        mtime: Timestamp { seconds, nanos: 0 },
        ..Meta::default()
    };
    assert_eq!(merged_meta(at(1), at(5), at(3)), (at(5), vec![]));
    assert_eq!(merged_meta(at(1), at(3), at(5)), (at(5), vec![]));
}

#[test]
fn steps_come_in_an_order_in_which_they_can_be_done() {
    let mut texts = TextContents::default();
    let old = texts.file("old");
    let new = texts.file("new");
    let directory = Entry::empty_directory(Meta::default());
    let theirs = [
        change("/d", Some(&directory), None),
        change("/d/f", Some(&old), None),
        change("/e", None, Some(&directory)),
        change("/e/f", None, Some(&new)),
    ];
    let remove = |at: &str| MergeStep::Remove(path(at));
    let put = |at: &str, entry: &Entry| MergeStep::Put {
        path: path(at),
        entry: entry.clone(),
    };
    let merged = merge(&mut texts, &[], &theirs);
    let expected = [
        remove("/d/f"),
        remove("/d"),
        put("/e", &directory),
        put("/e/f", &new),
    ];
    assert_eq!((&merged.steps[..], merged.conflicts.len()), (&expected[..], 0));
}

#[test]
fn a_side_that_did_nothing_changes_nothing() {
    let mut texts = TextContents::default();
    let old = texts.file("old");
    let new = texts.file("new");
    let changes = [
        change("/f", Some(&old), Some(&new)),
        change("/g", Some(&old), None),
    ];
    assert_eq!(merge(&mut texts, &changes, &[]), MergeResult::default());
    assert_eq!(merge(&mut texts, &changes, &changes), MergeResult::default());
}

#[test]
fn contents_that_went_to_one_place_were_moved_and_others_were_not() {
    let mut texts = TextContents::default();
    let one = texts.file("one");
    let two = texts.file("two");
    let changes = [
        change("/a", Some(&one), None),
        change("/b", None, Some(&one)),
        change("/c", Some(&two), None),
        change("/d", None, Some(&two)),
        change("/e", None, Some(&two)),
    ];
    assert_eq!(
        moves_by_content(&changes, &[]),
        [PathMove {
            from: path("/a"),
            to: path("/b")
        }]
    );
}
