//! Tells the journal the places of inodes before operations refer to them by number.
//!
//! Replay starts from the head with nothing in memory. An inode that was loaded from the head is therefore
//! introduced to each journal once, with the directories above it, by the place where it was found.

use avfs_core::LinkId;

use crate::error::FsError;
use crate::inodes::Ino;
use crate::op::{EntryPlace, JournalOp};
use crate::overlay::ExtentData;
use crate::worktree::state::TreeState;

/// Introduces every inode that `op` refers to or moves.
pub(crate) fn introduce(state: &mut TreeState, op: &JournalOp) -> Result<(), FsError> {
    if state.journal.is_none() {
        return Ok(());
    }
    match op {
        JournalOp::Place { at, ino, .. } => {
            introduce_inode(state, at.parent)?;
            state.journaled.insert(*ino);
        }
        JournalOp::PlaceLink { at, link, .. } => {
            introduce_inode(state, at.parent)?;
            state.journaled.insert(Ino::of_link(*link));
        }
        JournalOp::Arrive { at, ino, .. } => {
            introduce_inode(state, at.parent)?;
            state.journaled.insert(*ino);
        }
        JournalOp::Remove { at, .. } | JournalOp::Gone { at } => introduce_place(state, at)?,
        JournalOp::Rename { from, to, .. } => {
            introduce_place(state, from)?;
            introduce_place(state, to)?;
        }
        JournalOp::Link { at, .. } => introduce_inode(state, at.parent)?,
        _ => {}
    }
    match op.inode() {
        Some(ino) => introduce_inode(state, ino),
        None => Ok(()),
    }
}

fn introduce_place(state: &mut TreeState, at: &EntryPlace) -> Result<(), FsError> {
    introduce_inode(state, at.parent)?;
    let Some(child) = state.lookup(at)? else {
        return Ok(());
    };
    // Everything that the operation will need is loaded now: once it is in the journal, it must not fail.
    for link in state.links_lost_with(child)? {
        state.load_link(link)?;
    }
    introduce_inode(state, child)
}

fn introduce_inode(state: &mut TreeState, ino: Ino) -> Result<(), FsError> {
    let mut unknown = Vec::new();
    let mut current = ino;
    while current != Ino::ROOT && !state.journaled.contains(&current) {
        let inode = state.inode(current)?;
        let (op, above) = match (inode.linked, &inode.place) {
            (true, _) => (
                JournalOp::FoundLink {
                    link: LinkId(current.0),
                },
                Ino::ROOT,
            ),
            (false, Some(place)) => (
                JournalOp::Found {
                    ino: current,
                    at: place.clone(),
                },
                place.parent,
            ),
            // Without a name it does not outlive a crash, so replay need not know it.
            (false, None) => break,
        };
        unknown.push((current, op));
        current = above;
    }
    for (known, op) in unknown.into_iter().rev() {
        if let Some(journal) = &mut state.journal {
            journal.append(&op, &[])?;
        }
        state.apply(op, ExtentData::Hole)?;
        state.journaled.insert(known);
    }
    Ok(())
}
