//! What was moved, and not removed here and made anew there.

use std::collections::{BTreeSet, HashMap};

use crate::diff::Change;
use crate::entry::{Content, Entry, EntryKind};
use crate::name::TreePath;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Move {
    pub from: TreePath,
    pub to: TreePath,
}

/// The files that are gone from one path and are at another one with the same contents, if there is exactly one of
/// each. What is known to have been moved already is left alone.
pub fn moves_by_content(changes: &[Change], known: &[Move]) -> Vec<Move> {
    let taken: BTreeSet<&TreePath> = known.iter().flat_map(|known| [&known.from, &known.to]).collect();
    let mut gone: HashMap<Content, Vec<&TreePath>> = HashMap::new();
    let mut added: HashMap<Content, Vec<&TreePath>> = HashMap::new();
    for change in changes.iter().filter(|change| !taken.contains(&change.path)) {
        match (&change.before, &change.after) {
            (Some(before), None) => note(&mut gone, before, &change.path),
            (None, Some(after)) => note(&mut added, after, &change.path),
            _ => {}
        }
    }
    let pairs =
        gone.iter().filter_map(|(content, from)| match (&from[..], added.get(content).map(|to| &to[..])) {
            ([from], Some([to])) => Some(Move { from: (*from).clone(), to: (*to).clone() }),
            _ => None,
        });
    let mut moves: Vec<Move> = pairs.collect();
    moves.sort();
    moves
}

/// Empty files are all alike: they say nothing of where they came from.
fn note<'a>(found: &mut HashMap<Content, Vec<&'a TreePath>>, entry: &Entry, path: &'a TreePath) {
    if let EntryKind::File { content, .. } = entry.kind
        && content != Content::Empty
    {
        found.entry(content).or_default().push(path);
    }
}
