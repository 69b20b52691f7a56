//! The contents of files.

use avfs_tree::FsError;
use rustix::io::Errno;

use super::error::SkinError;
use super::{Skin, missing};
use crate::abi::flags::write;
use crate::abi::{CopyFileRangeIn, FallocateIn, LseekIn, ReadIn, WriteIn};
use crate::reply::{Answered, Reply};
use crate::request::Request;

/// Of `lseek(2)`; the others the kernel does itself.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

impl Skin {
    /// Reads straight into the transport's buffer.
    pub(super) fn read(&self, request: &Request<'_>, read: &ReadIn, reply: Reply<'_>) -> Answered {
        let ino = match self.ino(request) {
            Ok(ino) => ino,
            Err(error) => return reply.error(self.errno(request, error)),
        };
        reply.read(read.size as usize, |buffer| {
            let result = self.tree.read(ino, read.offset, buffer);
            result.map_err(|error| self.errno(request, error.into()))
        })
    }

    /// Writes all or nothing. An appended write goes to the end as it is now, which the kernel may not know.
    pub(super) fn write(
        &self,
        request: &Request<'_>,
        arguments: &WriteIn,
        data: &[u8],
    ) -> Result<(), SkinError> {
        let ino = self.ino(request)?;
        if arguments.write_flags & write::KILL_SUIDGID != 0 {
            self.drop_privileges(ino)?;
        }
        // What the page cache writes back lies where the mapping has it, however the file was opened.
        let from_cache = arguments.write_flags & write::CACHE != 0;
        match arguments.flags & rustix::fs::OFlags::APPEND.bits() != 0 && !from_cache {
            true => missing::append(&self.tree, ino, data)?,
            false => self.tree.write(ino, arguments.offset, data)?,
        }
        Ok(())
    }

    pub(super) fn allocate(&self, request: &Request<'_>, range: &FallocateIn) -> Result<(), SkinError> {
        missing::allocate(&self.tree, self.ino(request)?, range)
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
        let (from, to) = (self.ino(request)?, self.nodes.ino(copy.nodeid_out)?);
        let end = |offset: u64| offset.checked_add(copy.len).ok_or(FsError::TooLarge);
        end(copy.off_in)?;
        end(copy.off_out)?;
        missing::copy_range(&self.tree, (from, copy.off_in), (to, copy.off_out), copy.len)
    }
}
