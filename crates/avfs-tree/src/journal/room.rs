//! Room on the disk for what is appended: taken before an operation is answered, so that what waits in memory can always
//! be written.

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::{Journal, JournalError};

/// Room is taken in steps of this size, where there is as much.
const STEP: u64 = 256 << 10;
/// What is left of it to operations that make room.
const KEPT_FOR_MAKING_ROOM: u64 = 64 << 10;
/// What is left of it to marks and the seal.
const KEPT_FOR_MARKS: u64 = 4 << 10;
/// Disks give room in pieces of this size.
const PIECE: u64 = 4 << 10;

/// What is about to be appended, by how much of the room it must leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Ordinary,
    /// Takes something away.
    MakesRoom,
    /// A mark or the seal.
    Mark,
}

impl Need {
    fn leaves(self) -> u64 {
        match self {
            Need::Ordinary => KEPT_FOR_MAKING_ROOM,
            Need::MakesRoom => KEPT_FOR_MARKS,
            Need::Mark => 0,
        }
    }
}

/// How far the file of a journal reaches on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    UpTo(u64),
    /// The file system gives none ahead: everything is written at once.
    NotAhead,
}

impl Journal {
    /// What is appended from now on needs room of this kind.
    pub(crate) fn set_need(&mut self, need: Need) {
        self.need = need;
    }

    /// Makes sure that everything that was appended can be written.
    pub(super) fn take_room(&mut self) -> Result<(), JournalError> {
        let Room::UpTo(end) = self.room else { return Ok(()) };
        let wanted = self.len() + self.need.leaves();
        if wanted <= end {
            return Ok(());
        }
        let least = (wanted - end).next_multiple_of(PIECE);
        // What makes room leaves as much as it can to what comes after it: the snapshot.
        let step = if self.need == Need::Ordinary { least.max(STEP) } else { least };
        for step in [step, least] {
            match rustix::fs::fallocate(&self.log.file, FallocateFlags::KEEP_SIZE, end, step) {
                Ok(()) => {
                    self.room = Room::UpTo(end + step);
                    return Ok(());
                }
                Err(Errno::NOSPC | Errno::DQUOT) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.room = Room::NotAhead;
                    return Ok(());
                }
                Err(errno) => return Err(self.log.broken("taking room for", errno.into())),
            }
        }
        Err(JournalError::Full { place: self.log.place.clone() })
    }

    /// Bytes were written past the buffer, up to here.
    pub(super) fn reaches(&mut self, position: u64) {
        if let Room::UpTo(end) = &mut self.room {
            *end = position.max(*end);
        }
    }
}
