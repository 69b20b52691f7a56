//! The contents of files.

use avfs_core::rules::Level;
use avfs_tree::{FsError, KnownInode, ReadPiece, WorkTree};
use rustix::io::Errno;

use super::Skin;
use super::deferring::ServeResult;
use super::error::SkinError;
use super::nodes::DroppedPages;
use crate::abi::flags::{read, write};
use crate::abi::{CopyFileRangeIn, FallocateIn, LseekIn, ReadIn, WriteIn};
use crate::reply::FuseReply;
use crate::request::FuseRequest;

/// Of `fallocate(2)`.
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02 | KEEP_SIZE;
const ZERO_RANGE: u32 = 0x10;
const ZERO_KEEPING_SIZE: u32 = ZERO_RANGE | KEEP_SIZE;

const COPIED_AT_ONCE: u64 = 1 << 20;

/// Of `lseek(2)`; the kernel handles the others itself.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

/// Requests for the contents of files.
pub(super) struct ContentRequests<'a> {
    pub(super) skin: &'a Skin,
}

impl ContentRequests<'_> {
    /// Reads directly into the transport's buffer.
    pub(super) fn read<'a>(
        &self,
        request: &FuseRequest<'_>,
        read: &ReadIn,
        reply: FuseReply<'a>,
    ) -> ServeResult<'a> {
        self.read_by(request, read, reply, |tree, at, buffer| {
            tree.read_piece(at, read.offset, buffer)
        })
    }

    /// The same on a thread that may wait for contents.
    pub(super) fn read_late<'a>(
        &self,
        request: &FuseRequest<'_>,
        read: &ReadIn,
        reply: FuseReply<'a>,
    ) -> ServeResult<'a> {
        self.read_by(request, read, reply, |tree, at, buffer| {
            tree.read_piece_waiting(at, read.offset, buffer)
        })
    }

    fn read_by<'a>(
        &self,
        request: &FuseRequest<'_>,
        read: &ReadIn,
        reply: FuseReply<'a>,
        fill: impl FnOnce(&WorkTree, KnownInode, &mut [u8]) -> Result<ReadPiece, FsError>,
    ) -> ServeResult<'a> {
        let at = match self.skin.at(request) {
            Ok(at) => at,
            Err(error) => return self.skin.refuse(request, reply, error),
        };
        if !is_direct(read.flags, read.read_flags & read::LOCKOWNER) {
            // Set before the bytes are looked up: a later direct write must know about the pages.
            self.skin.nodes.set_cached(request.nodeid);
        }
        let answered = reply.filled(read.size as usize, |buffer| {
            let piece = fill(&self.skin.tree, at, buffer)?;
            self.skin.listing().note_read(read, piece);
            Ok(piece.len)
        });
        answered.or_else(|(reply, error): (_, FsError)| self.skin.refuse(request, reply, error))
    }

    /// Writes all or nothing. An appending write goes to the current end, which the kernel may not know.
    pub(super) fn write(
        &self,
        request: &FuseRequest<'_>,
        arguments: &WriteIn,
        data: &[u8],
    ) -> Result<(), SkinError> {
        let at = self.skin.at(request)?;
        if !is_direct(arguments.flags, arguments.write_flags & write::LOCKOWNER) {
            self.skin.nodes.set_cached(request.nodeid);
        }
        if arguments.write_flags & write::KILL_SUIDGID != 0 {
            self.skin.modes().drop_privileges(request, at)?;
        }
        // Writeback from the page cache uses the offset of the mapping, even if the file was opened for
        // appending.
        let from_cache = arguments.write_flags & write::CACHE != 0;
        if arguments.flags & rustix::fs::OFlags::APPEND.bits() != 0 && !from_cache {
            self.append(request.nodeid, at, arguments.offset, data)
        } else {
            self.write_at(request.nodeid, at, arguments.offset, data)
        }
    }

    /// Answers a write. The kernel dropped the pages that a direct write covers when the write began; pages
    /// that were read before it was done hold old bytes, and must be gone when its caller learns of its end.
    pub(super) fn answer_write<'a>(
        &self,
        request: &FuseRequest<'_>,
        arguments: &WriteIn,
        reply: FuseReply<'a>,
        written: Result<(), SkinError>,
    ) -> ServeResult<'a> {
        let node = request.nodeid;
        let size = arguments.size;
        self.skin.answer(request, reply, written, |reply, ()| {
            if !is_direct(arguments.flags, arguments.write_flags & write::LOCKOWNER) {
                return reply.written(size);
            }
            self.skin.nodes.written_past_cache(node, |dropped| match dropped {
                DroppedPages::Written => self.skin.notices.contents(node, arguments.offset, size.into()),
                DroppedPages::Whole => self.skin.notices.contents_from(node, 0),
            });
            self.skin.when_up_to_date(reply, move |reply| reply.written(size))
        })
    }

    /// The kernel has cached these bytes already; if they may not be written, it must forget them.
    fn write_at(&self, node: u64, at: KnownInode, offset: u64, data: &[u8]) -> Result<(), SkinError> {
        let written = self.skin.tree.write(at, offset, data);
        if matches!(written, Err(FsError::Denied { .. } | FsError::Closed)) {
            self.skin.notices.contents_from(node, offset);
        }
        Ok(written?)
    }

    /// Writes at the end. The kernel has cached these bytes at the place where it believed the end to be; if
    /// it was wrong, it must forget them. The notification comes before the answer: a caller that opens the
    /// file afterwards waits for it.
    fn append(&self, node: u64, at: KnownInode, believed: u64, data: &[u8]) -> Result<(), SkinError> {
        let end = self.skin.tree.append(at, data)?;
        if end != believed {
            self.skin.notices.contents_from(node, end.min(believed));
        }
        Ok(())
    }

    pub(super) fn allocate(&self, request: &FuseRequest<'_>, range: &FallocateIn) -> Result<(), SkinError> {
        let at = self.skin.at(request)?;
        let end = range.offset.checked_add(range.length).ok_or(FsError::TooLarge)?;
        self.skin.check(at.ino, Level::Write)?;
        let size = self.skin.tree.attr(at.ino)?.size;
        if !matches!(
            range.mode,
            0 | KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE | ZERO_KEEPING_SIZE
        ) {
            return Err(Errno::OPNOTSUPP.into());
        }
        self.skin.modes().drop_privileges_of_changed(request, at)?;
        if matches!(range.mode, PUNCH_HOLE | ZERO_RANGE | ZERO_KEEPING_SIZE) {
            self.clear(at, range.offset, end.min(size))?;
        }
        // KEEP_SIZE alone preallocates, which is a no-op: space is allocated by writes.
        if matches!(range.mode, 0 | ZERO_RANGE) {
            self.skin.tree.allocate(at, end)?;
        }
        Ok(())
    }

    /// Turns a range into a hole.
    fn clear(&self, at: KnownInode, start: u64, end: u64) -> Result<(), SkinError> {
        match end.checked_sub(start) {
            Some(len) if len > 0 => Ok(self.skin.tree.punch_hole(at, start, len)?),
            _ => Ok(()),
        }
    }

    pub(super) fn seek(&self, request: &FuseRequest<'_>, seek: &LseekIn) -> Result<u64, SkinError> {
        let ino = self.skin.ino(request)?;
        if seek.offset >= self.skin.tree.attr(ino)?.size {
            return Err(Errno::NXIO.into());
        }
        match seek.whence {
            SEEK_DATA => self
                .skin
                .tree
                .seek_data(ino, seek.offset)?
                .ok_or(SkinError::Errno(Errno::NXIO)),
            SEEK_HOLE => Ok(self.skin.tree.seek_hole(ino, seek.offset)?),
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(super) fn copy_range(
        &self,
        request: &FuseRequest<'_>,
        copy: &CopyFileRangeIn,
    ) -> Result<u64, SkinError> {
        if copy.flags != 0 {
            return Err(Errno::INVAL.into());
        }
        let from = self.skin.at(request)?;
        let to = self.skin.nodes.at(copy.nodeid_out)?;
        let end = |offset: u64| offset.checked_add(copy.len).ok_or(FsError::TooLarge);
        end(copy.off_in)?;
        end(copy.off_out)?;
        // A part of the requested range; the caller repeats the call for the rest.
        let mut buffer = vec![0; copy.len.min(COPIED_AT_ONCE) as usize];
        let read = self.skin.tree.read(from, copy.off_in, &mut buffer)?;
        self.skin.modes().drop_privileges_of_changed(request, to)?;
        self.skin.tree.write(to, copy.off_out, &buffer[..read])?;
        Ok(read as u64)
    }
}

/// Whether a read or write bypasses the kernel's cache. A page that is read or written back for a mapping has
/// the flags of a file that was opened with `O_DIRECT`, but no owner of locks. The difference matters: the
/// kernel holds the lock of such a page while it waits for the answer, and invalidating the page waits for
/// that lock.
fn is_direct(flags: u32, for_lock_owner: u32) -> bool {
    flags & rustix::fs::OFlags::DIRECT.bits() != 0 && for_lock_owner != 0
}
