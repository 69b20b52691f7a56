//! Detects moves among removals and additions.

use std::collections::{BTreeSet, HashMap};

use crate::diff::TreeChange;
use crate::entry::{Content, Entry, EntryKind};
use crate::name::TreePath;

/// A file that is at another path on one side.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathMove {
    /// Its path in the common state.
    pub from: TreePath,
    /// Its path on that side.
    pub to: TreePath,
}

/// The files that disappeared from one path and appeared at another one with the same contents, if there is
/// exactly one of each. Moves that are already known are not reported.
pub fn moves_by_content(changes: &[TreeChange], known: &[PathMove]) -> Vec<PathMove> {
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
        gone.iter().filter_map(
            |(content, from)| match (&from[..], added.get(content).map(|to| &to[..])) {
                ([from], Some([to])) => Some(PathMove {
                    from: (*from).clone(),
                    to: (*to).clone(),
                }),
                _ => None,
            },
        );
    // From hash maps, in no order: sorted, so that equal inputs give equal results.
    let mut moves: Vec<PathMove> = pairs.collect();
    moves.sort();
    moves
}

/// Empty files are all alike, so their contents do not show where they came from.
fn note<'a>(found: &mut HashMap<Content, Vec<&'a TreePath>>, entry: &Entry, path: &'a TreePath) {
    if let EntryKind::File { content, .. } = entry.kind
        && content != Content::Empty
    {
        found.entry(content).or_default().push(path);
    }
}
