//! Which directories are open: all if the tree is small, otherwise the small ones.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::{Fold, TreeRow};

/// How many rows are shown before directories are folded.
const ROWS: usize = 100;

/// Puts those of `all` into `rows` that are not in a folded directory. Rows that the user opened or closed
/// stay so; of the others, the ones with the fewest files are opened as long as there is room.
pub fn unfolded(mut all: Vec<TreeRow>, wanted: &HashMap<Fold, bool>, rows: &mut Vec<TreeRow>) {
    let is_open = open(&all, wanted);
    let mut hidden_below = None;
    for (index, mut row) in all.drain(..).enumerate() {
        if hidden_below.is_some_and(|depth| row.depth() > depth) {
            continue;
        }
        hidden_below = None;
        if let TreeRow::Directory { depth, is_folded, .. } = &mut row
            && !is_open[index]
        {
            (*is_folded, hidden_below) = (true, Some(*depth));
        }
        rows.push(row);
    }
}

fn open(all: &[TreeRow], wanted: &HashMap<Fold, bool>) -> Vec<bool> {
    let mut is_open = vec![true; all.len()];
    if all.len() <= ROWS {
        mark(all, wanted, &mut is_open);
        return is_open;
    }
    let children = children(all);
    is_open.fill(false);
    let top = all.first().map_or(0, TreeRow::depth);
    let mut shown = all.iter().filter(|row| row.depth() == top).count();
    let directories = |rows: &[usize]| -> Vec<Reverse<(usize, usize)>> {
        let is_directory = |row: &&usize| all[**row].file().is_none();
        rows.iter()
            .filter(is_directory)
            .map(|row| Reverse((all[*row].files().len(), *row)))
            .collect()
    };
    let roots: Vec<usize> = (0..all.len()).filter(|row| all[*row].depth() == top).collect();
    let mut closed: BinaryHeap<Reverse<(usize, usize)>> = directories(&roots).into();
    while let Some(Reverse((_, row))) = closed.pop() {
        if shown + children[row].len() <= ROWS {
            shown += children[row].len();
            is_open[row] = true;
            closed.extend(directories(&children[row]));
        }
    }
    mark(all, wanted, &mut is_open);
    is_open
}

/// The user's choice takes precedence.
fn mark(all: &[TreeRow], wanted: &HashMap<Fold, bool>, is_open: &mut [bool]) {
    for (row, is_open) in all.iter().zip(is_open) {
        if let TreeRow::Directory { fold, .. } = row
            && let Some(wanted) = wanted.get(fold)
        {
            *is_open = *wanted;
        }
    }
}

/// The rows right below each row.
fn children(all: &[TreeRow]) -> Vec<Vec<usize>> {
    let mut children = vec![Vec::new(); all.len()];
    let mut above: Vec<usize> = Vec::new();
    for (index, row) in all.iter().enumerate() {
        while above.last().is_some_and(|last| all[*last].depth() >= row.depth()) {
            above.pop();
        }
        if let Some(parent) = above.last() {
            children[*parent].push(index);
        }
        if row.file().is_none() {
            above.push(index);
        }
    }
    children
}
