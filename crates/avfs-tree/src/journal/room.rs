//! Disk space for appended operations: allocated before an operation is answered, so that buffered records
//! can always be written.

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::{Journal, JournalError};

/// Space is allocated in steps of this size, if that much is free.
const STEP: u64 = 256 << 10;
/// The part of it that is left to operations that free space.
const KEPT_FOR_MAKING_ROOM: u64 = 64 << 10;
/// The part of it that is left to marks and the seal.
const KEPT_FOR_MARKS: u64 = 4 << 10;
/// Disks allocate space in blocks of this size.
const PIECE: u64 = 4 << 10;

/// The purpose of an append, which decides how much of the space it must leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendPurpose {
    Ordinary,
    /// Deletes something.
    MakesRoom,
    /// A mark or the seal.
    Mark,
}

impl AppendPurpose {
    fn leaves(self) -> u64 {
        match self {
            AppendPurpose::Ordinary => KEPT_FOR_MAKING_ROOM,
            AppendPurpose::MakesRoom => KEPT_FOR_MARKS,
            AppendPurpose::Mark => 0,
        }
    }
}

/// The space that is allocated to the file of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllocatedRoom {
    UpTo(u64),
    /// The file system does not preallocate: everything is written immediately.
    NotAhead,
}

impl Journal {
    /// Sets the purpose of the following appends.
    pub(crate) fn set_need(&mut self, need: AppendPurpose) {
        self.need = need;
    }

    /// Ensures that everything that was appended can be written.
    pub(super) fn take_room(&mut self) -> Result<(), JournalError> {
        let AllocatedRoom::UpTo(end) = self.room else {
            return Ok(());
        };
        let wanted = self.len() + self.need.leaves();
        if wanted <= end {
            return Ok(());
        }
        let least = (wanted - end).next_multiple_of(PIECE);
        // An operation that frees space leaves as much as possible to what follows it: the snapshot.
        let step = if self.need == AppendPurpose::Ordinary {
            least.max(STEP)
        } else {
            least
        };
        // If a whole step is not free, the operation still gets what it needs itself.
        for step in [step, least] {
            // The size stays: it tells recovery how far records may reach.
            match rustix::fs::fallocate(&self.log.file, FallocateFlags::KEEP_SIZE, end, step) {
                Ok(()) => {
                    self.room = AllocatedRoom::UpTo(end + step);
                    return Ok(());
                }
                Err(Errno::NOSPC | Errno::DQUOT) => {}
                // The file system cannot allocate: from now on, a full disk shows in the write itself.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.room = AllocatedRoom::NotAhead;
                    return Ok(());
                }
                Err(errno) => return Err(self.log.broken("taking room for", errno.into())),
            }
        }
        Err(JournalError::Full {
            place: self.log.place.clone(),
        })
    }

    /// Bytes were written past the buffer, up to here.
    pub(super) fn reaches(&mut self, position: u64) {
        if let AllocatedRoom::UpTo(end) = &mut self.room {
            *end = position.max(*end);
        }
    }
}
