//! Telling the journal where inodes are before it hears of them by number.
//!
//! Replay starts from the head with nothing in memory. An inode that was loaded from the head is therefore
//! introduced to each journal once, with the directories above it, by the place where it was found.

use avfs_core::LinkId;

use crate::error::FsError;
use crate::inodes::Ino;
use crate::op::{Op, Place};
use crate::overlay::Data;
use crate::worktree::state::State;

impl State {
    /// Introduces every inode that `op` names or moves.
    pub fn introduce(&mut self, op: &Op) -> Result<(), FsError> {
        if self.journal.is_none() {
            return Ok(());
        }
        match op {
            Op::Place { at, ino, .. } => {
                self.introduce_inode(at.parent)?;
                self.journaled.insert(*ino);
            }
            Op::PlaceLink { at, link, .. } => {
                self.introduce_inode(at.parent)?;
                self.journaled.insert(Ino::of_link(*link));
            }
            Op::Arrive { at, ino, .. } => {
                self.introduce_inode(at.parent)?;
                self.journaled.insert(*ino);
            }
            Op::Remove { at, .. } | Op::Gone { at } => self.introduce_place(at)?,
            Op::Rename { from, to, .. } => {
                self.introduce_place(from)?;
                self.introduce_place(to)?;
            }
            Op::Link { at, .. } => self.introduce_inode(at.parent)?,
            _ => {}
        }
        match op.inode() {
            Some(ino) => self.introduce_inode(ino),
            None => Ok(()),
        }
    }

    fn introduce_place(&mut self, at: &Place) -> Result<(), FsError> {
        self.introduce_inode(at.parent)?;
        let Some(child) = self.lookup(at)? else { return Ok(()) };
        // Whatever the operation will need is loaded now: once it is in the journal, it must not fail.
        for link in self.links_lost_with(child)? {
            self.load_link(link)?;
        }
        self.introduce_inode(child)
    }

    fn introduce_inode(&mut self, ino: Ino) -> Result<(), FsError> {
        let mut unknown = Vec::new();
        let mut current = ino;
        while current != Ino::ROOT && !self.journaled.contains(&current) {
            let inode = self.inode(current)?;
            let (op, above) = match (inode.linked, &inode.place) {
                (true, _) => (Op::FoundLink { link: LinkId(current.0) }, Ino::ROOT),
                (false, Some(place)) => (Op::Found { ino: current, at: place.clone() }, place.parent),
                // Without a name it does not outlive a crash, so replay need not know it.
                (false, None) => break,
            };
            unknown.push((current, op));
            current = above;
        }
        for (known, op) in unknown.into_iter().rev() {
            if let Some(journal) = &mut self.journal {
                journal.append(&op, &[])?;
            }
            self.apply(op, Data::Hole)?;
            self.journaled.insert(known);
        }
        Ok(())
    }
}
