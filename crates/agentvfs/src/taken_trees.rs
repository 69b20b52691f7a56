//! Which trees of a store had their files read ahead in this process, or have them read now.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use avfs_core::Root;
use avfs_core::rules::Rule;

/// How many trees are remembered whose files were taken.
const REMEMBERED: usize = 16;

/// A tree as it is seen through rules.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TakenTree {
    pub root: Root,
    /// Those of the vault's handle, and those of the walk.
    pub rules: [Option<Vec<Rule>>; 2],
}

/// The trees whose files are being taken in this process, and the last ones whose files were. Forks begin with the tree
/// that they were made from: one walk takes the files of all.
#[derive(Default)]
pub(crate) struct TakenTrees(Mutex<Walks>);

#[derive(Default)]
struct Walks {
    under_way: Vec<TakenTree>,
    complete: VecDeque<TakenTree>,
}

/// What remains to be done about a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TreeTurn {
    /// The caller takes its files.
    Ours,
    /// Another walk does, and may be cut short.
    Others,
    Nothings,
}

impl TakenTrees {
    fn walks(&self) -> MutexGuard<'_, Walks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, tree: &TakenTree) -> TreeTurn {
        let mut walks = self.walks();
        if walks.complete.contains(tree) {
            return TreeTurn::Nothings;
        }
        if walks.under_way.contains(tree) {
            return TreeTurn::Others;
        }
        walks.under_way.push(tree.clone());
        TreeTurn::Ours
    }

    pub(crate) fn end(&self, tree: &TakenTree, is_complete: bool) {
        let mut walks = self.walks();
        walks.under_way.retain(|other| other != tree);
        if is_complete {
            walks.complete.truncate(REMEMBERED - 1);
            walks.complete.push_front(tree.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use avfs_core::{Entry, Meta, Totals};

    use super::*;

    fn tree(mode: u32) -> TakenTree {
        let directory = Entry::empty_directory(Meta {
            mode,
            ..Meta::default()
        });
        let root = Root {
            directory,
            links: None,
            totals: Totals::default(),
        };
        TakenTree {
            root,
            rules: [None, None],
        }
    }

    #[test]
    fn one_walk_takes_a_tree_and_the_next_one_does_if_it_was_cut_short() {
        let (trees, one) = (TakenTrees::default(), tree(0o755));
        assert_eq!(trees.begin(&one), TreeTurn::Ours);
        assert_eq!(trees.begin(&one), TreeTurn::Others);
        assert_eq!(trees.begin(&tree(0o700)), TreeTurn::Ours);
        trees.end(&one, false);
        assert_eq!(trees.begin(&one), TreeTurn::Ours);
        trees.end(&one, true);
        assert_eq!(trees.begin(&one), TreeTurn::Nothings);
    }

    #[test]
    fn other_rules_make_another_tree() {
        let trees = TakenTrees::default();
        let seen = TakenTree {
            rules: [None, Some(vec![Rule::parse("/**=read").unwrap()])],
            ..tree(0o755)
        };
        assert_eq!(trees.begin(&tree(0o755)), TreeTurn::Ours);
        assert_eq!(trees.begin(&seen), TreeTurn::Ours);
    }

    #[test]
    fn only_the_last_trees_are_remembered() {
        let trees = TakenTrees::default();
        for mode in 0..=REMEMBERED as u32 {
            trees.begin(&tree(mode));
            trees.end(&tree(mode), true);
        }
        assert_eq!(trees.begin(&tree(1)), TreeTurn::Nothings);
        assert_eq!(trees.begin(&tree(0)), TreeTurn::Ours);
    }
}
