//! The contents of files.

use avfs_core::rules::Level;
use avfs_tree::{At, FsError, Piece, WorkTree};
use rustix::io::Errno;

use super::Skin;
use super::deferring::Outcome;
use super::error::SkinError;
use super::nodes::Dropped;
use crate::abi::flags::{read, write};
use crate::abi::{CopyFileRangeIn, FallocateIn, LseekIn, ReadIn, WriteIn};
use crate::reply::Reply;
use crate::request::Request;

/// Of `fallocate(2)`.
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02 | KEEP_SIZE;
const ZERO_RANGE: u32 = 0x10;
const ZERO_KEEPING_SIZE: u32 = ZERO_RANGE | KEEP_SIZE;

const COPIED_AT_ONCE: u64 = 1 << 20;

/// Of `lseek(2)`; the others the kernel does itself.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

impl Skin {
    /// Reads straight into the transport's buffer.
    pub(super) fn read<'a>(&self, request: &Request<'_>, read: &ReadIn, reply: Reply<'a>) -> Outcome<'a> {
        self.read_by(request, read, reply, |tree, at, buffer| tree.read_piece(at, read.offset, buffer))
    }

    /// The same on a thread that may wait for contents.
    pub(super) fn read_late<'a>(
        &self,
        request: &Request<'_>,
        read: &ReadIn,
        reply: Reply<'a>,
    ) -> Outcome<'a> {
        self.read_by(request, read, reply, |tree, at, buffer| {
            tree.read_piece_waiting(at, read.offset, buffer)
        })
    }

    fn read_by<'a>(
        &self,
        request: &Request<'_>,
        read: &ReadIn,
        reply: Reply<'a>,
        fill: impl FnOnce(&WorkTree, At, &mut [u8]) -> Result<Piece, FsError>,
    ) -> Outcome<'a> {
        let at = match self.at(request) {
            Ok(at) => at,
            Err(error) => return self.refuse(request, reply, error),
        };
        if !is_direct(read.flags, read.read_flags & read::LOCKOWNER) {
            // Before the bytes are looked up: a direct write that comes after them must know.
            self.nodes.set_cached(request.nodeid);
        }
        let answered = reply.filled(read.size as usize, |buffer| {
            let piece = fill(&self.tree, at, buffer)?;
            self.note_read(read, piece);
            Ok(piece.len)
        });
        answered.or_else(|(reply, error): (_, FsError)| self.refuse(request, reply, error))
    }

    /// Writes all or nothing. An appended write goes to the end as it is now, which the kernel may not know.
    pub(super) fn write(
        &self,
        request: &Request<'_>,
        arguments: &WriteIn,
        data: &[u8],
    ) -> Result<(), SkinError> {
        let at = self.at(request)?;
        if !is_direct(arguments.flags, arguments.write_flags & write::LOCKOWNER) {
            self.nodes.set_cached(request.nodeid);
        }
        if arguments.write_flags & write::KILL_SUIDGID != 0 {
            self.drop_privileges(request, at)?;
        }
        // What the page cache writes back lies where the mapping has it, however the file was opened.
        let from_cache = arguments.write_flags & write::CACHE != 0;
        match arguments.flags & rustix::fs::OFlags::APPEND.bits() != 0 && !from_cache {
            true => self.append(request.nodeid, at, arguments.offset, data),
            false => self.write_at(request.nodeid, at, arguments.offset, data),
        }
    }

    /// Answers a write. The kernel has dropped the pages that a direct one covers when it began; those that were read
    /// before it was done hold old bytes, and must be gone when its caller hears of its end.
    pub(super) fn answer_write<'a>(
        &self,
        request: &Request<'_>,
        arguments: &WriteIn,
        reply: Reply<'a>,
        written: Result<(), SkinError>,
    ) -> Outcome<'a> {
        let (node, size) = (request.nodeid, arguments.size);
        self.answer(request, reply, written, |reply, ()| {
            if !is_direct(arguments.flags, arguments.write_flags & write::LOCKOWNER) {
                return reply.written(size);
            }
            self.nodes.written_past_cache(node, |dropped| match dropped {
                Dropped::Written => self.notices.contents(node, arguments.offset, size.into()),
                Dropped::Whole => self.notices.contents_from(node, 0),
            });
            self.when_up_to_date(reply, move |reply| reply.written(size))
        })
    }

    /// The kernel has these bytes in its cache by now; if they may not be written, it must forget them.
    fn write_at(&self, node: u64, at: At, offset: u64, data: &[u8]) -> Result<(), SkinError> {
        let written = self.tree.write(at, offset, data);
        if matches!(written, Err(FsError::Denied { .. } | FsError::Closed)) {
            self.notices.contents_from(node, offset);
        }
        Ok(written?)
    }

    /// Writes at the end. Where the kernel believed it to be, it has these bytes in its cache by now; if it was
    /// wrong, it must forget them. Said before the answer: whoever opens the file after it waits for that.
    fn append(&self, node: u64, at: At, believed: u64, data: &[u8]) -> Result<(), SkinError> {
        let end = self.tree.append(at, data)?;
        if end != believed {
            self.notices.contents_from(node, end.min(believed));
        }
        Ok(())
    }

    pub(super) fn allocate(&self, request: &Request<'_>, range: &FallocateIn) -> Result<(), SkinError> {
        let at = self.at(request)?;
        let end = range.offset.checked_add(range.length).ok_or(FsError::TooLarge)?;
        self.check(at.ino, Level::Write)?;
        let size = self.tree.attr(at.ino)?.size;
        if !matches!(range.mode, 0 | KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE | ZERO_KEEPING_SIZE) {
            return Err(Errno::OPNOTSUPP.into());
        }
        self.drop_privileges_of_changed(request, at)?;
        if matches!(range.mode, PUNCH_HOLE | ZERO_RANGE | ZERO_KEEPING_SIZE) {
            self.clear(at, range.offset, end.min(size))?;
        }
        // With KEEP_SIZE alone nothing is done ahead: room is taken by what is written.
        if matches!(range.mode, 0 | ZERO_RANGE) {
            self.tree.allocate(at, end)?;
        }
        Ok(())
    }

    /// Makes a range a hole.
    fn clear(&self, at: At, start: u64, end: u64) -> Result<(), SkinError> {
        match end.checked_sub(start) {
            Some(len) if len > 0 => Ok(self.tree.punch_hole(at, start, len)?),
            _ => Ok(()),
        }
    }

    pub(super) fn seek(&self, request: &Request<'_>, seek: &LseekIn) -> Result<u64, SkinError> {
        let ino = self.ino(request)?;
        if seek.offset >= self.tree.attr(ino)?.size {
            return Err(Errno::NXIO.into());
        }
        match seek.whence {
            SEEK_DATA => self.tree.seek_data(ino, seek.offset)?.ok_or(SkinError::Errno(Errno::NXIO)),
            SEEK_HOLE => Ok(self.tree.seek_hole(ino, seek.offset)?),
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn copy_range(&self, request: &Request<'_>, copy: &CopyFileRangeIn) -> Result<u64, SkinError> {
        if copy.flags != 0 {
            return Err(Errno::INVAL.into());
        }
        let (from, to) = (self.at(request)?, self.nodes.at(copy.nodeid_out)?);
        let end = |offset: u64| offset.checked_add(copy.len).ok_or(FsError::TooLarge);
        end(copy.off_in)?;
        end(copy.off_out)?;
        // A part of what was asked for; the caller comes back for more.
        let mut buffer = vec![0; copy.len.min(COPIED_AT_ONCE) as usize];
        let read = self.tree.read(from, copy.off_in, &mut buffer)?;
        self.drop_privileges_of_changed(request, to)?;
        self.tree.write(to, copy.off_out, &buffer[..read])?;
        Ok(read as u64)
    }
}

/// Whether a read or write goes past the kernel's cache. A page that is read or written back for a mapping comes with
/// the flags of a file that was opened with `O_DIRECT`, but for no owner of locks. It matters: the kernel holds the lock
/// of such a page while it waits for the answer, and invalidating the page waits for that lock.
fn is_direct(flags: u32, for_lock_owner: u32) -> bool {
    flags & rustix::fs::OFlags::DIRECT.bits() != 0 && for_lock_owner != 0
}
