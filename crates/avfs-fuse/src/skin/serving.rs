//! Translates each request: one call of the tree, and an answer.

use avfs_tree::Ino;
use rustix::io::Errno;

use super::deferring::{ServeResult, UnansweredRequest};
use super::{MountAccess, Skin};
use crate::reply::FuseReply;
use crate::request::{FuseOperation, FuseRequest};

impl Skin {
    /// Serves a request from what is in memory.
    pub(super) fn try_to_serve<'a>(
        &self,
        request: &FuseRequest<'_>,
        reply: FuseReply<'a>,
    ) -> ServeResult<'a> {
        // The kernel refuses changes of a read-only mount itself, unless the mount is remounted.
        if self.options.access != MountAccess::Everything && request.operation.is_change() {
            return Ok(reply.error(Errno::ROFS));
        }
        if let Err(error) = self.modes().check_mode(request) {
            return self.refuse(request, reply, error);
        }
        let as_of = self.notices.news();
        match request.operation {
            FuseOperation::Lookup { name } => {
                self.entry(request, reply, as_of, self.names().lookup(request, name))
            }
            FuseOperation::Forget { lookups } => {
                self.names().forget(request.nodeid, lookups);
                Ok(reply.nothing())
            }
            FuseOperation::BatchForget { nodes } => {
                nodes
                    .iter()
                    .for_each(|one| self.names().forget(one.nodeid, one.nlookup));
                Ok(reply.nothing())
            }
            FuseOperation::GetAttr(_) => self.answer(
                request,
                reply,
                self.attributes().get_attr(request),
                |reply, attr| reply.attr(&attr),
            ),
            FuseOperation::SetAttr(set) => self.answer(
                request,
                reply,
                self.attributes().set_attr(request, &set),
                |reply, attr| reply.attr(&attr),
            ),
            FuseOperation::ReadLink => self.answer(
                request,
                reply,
                self.names().read_link(request),
                |reply, target| reply.bytes(&target),
            ),
            FuseOperation::Symlink { name, target } => {
                self.entry(request, reply, as_of, self.names().symlink(request, name, target))
            }
            FuseOperation::MakeNode { node, name } => self.entry(
                request,
                reply,
                as_of,
                self.names().make_node(request, &node, name),
            ),
            FuseOperation::MakeDirectory { directory, name } => self.entry(
                request,
                reply,
                as_of,
                self.names().make_directory(request, directory.mode, name),
            ),
            FuseOperation::Unlink { name } => self.done(request, reply, self.names().unlink(request, name)),
            FuseOperation::RemoveDirectory { name } => {
                self.done(request, reply, self.names().remove_directory(request, name))
            }
            FuseOperation::Rename {
                name,
                new_parent,
                new_name,
                flags,
            } => self.done(
                request,
                reply,
                self.names().rename(request, name, new_parent, new_name, flags),
            ),
            FuseOperation::Link { node, name } => {
                self.entry(request, reply, as_of, self.names().link(request, node, name))
            }
            // A file is kept alive by its node, so a handle would carry no information.
            FuseOperation::Open(_) if self.opens_itself() => Ok(reply.error(Errno::NOSYS)),
            FuseOperation::Open(open) => match self.names().open(request, &open) {
                Ok(()) => {
                    let held = self.opens.hold(request.nodeid);
                    self.contents().give_contents(&held, open.flags);
                    let (handle, flags) = self.opened(held, self.nodes.meant(request.nodeid), open.flags);
                    Ok(self.when_up_to_date(reply, move |reply| reply.open(handle, flags)))
                }
                // A caller that learns that a file is gone must not find its name afterwards.
                Err(error) => match error.wanted() {
                    Some(wanted) => Err(UnansweredRequest { reply, wanted }),
                    None => {
                        let errno = self.errno(request, error);
                        Ok(self.when_up_to_date(reply, move |reply| reply.error(errno)))
                    }
                },
            },
            FuseOperation::Create { create, name } => {
                let created = self.names().create(request, &create, name);
                self.answer(request, reply, created, |reply, entry| {
                    let held = self.opens.hold(entry.nodeid);
                    let (handle, flags) = self.opened(held, Ino(entry.attr.ino), create.flags);
                    reply.create(&self.kept_if_true(entry, as_of), handle, flags)
                })
            }
            // Files that never have a name are not supported. With this answer the kernel never asks again.
            FuseOperation::TemporaryFile(_) => Ok(reply.error(Errno::NOSYS)),
            FuseOperation::Read(read) => self.contents().read(request, &read, reply),
            FuseOperation::Write { write, data } => {
                let written = self.contents().write(request, &write, data);
                self.contents().answer_write(request, &write, reply, written)
            }
            // The kernel keeps the locks of such a mount itself, and sends this once.
            FuseOperation::Flush(_) if self.opens_itself() => Ok(reply.error(Errno::NOSYS)),
            FuseOperation::Flush(flush) => self.done(request, reply, self.locking().flush(request, &flush)),
            FuseOperation::Release(release) => {
                self.locking().release_file(request, &release);
                Ok(reply.ok())
            }
            FuseOperation::Sync(_) | FuseOperation::SyncDirectory(_) | FuseOperation::SyncFilesystem => {
                Ok(self.syncing.sync(reply))
            }
            FuseOperation::StatFilesystem => Ok(reply.statfs(&self.attributes().stat_filesystem())),
            FuseOperation::SetXattr { name, value, flags } => self.done(
                request,
                reply,
                self.attributes().set_xattr(request, name, value, flags),
            ),
            FuseOperation::GetXattr { name, size } => self.answer(
                request,
                reply,
                self.attributes().get_xattr(request, name),
                |reply, value| reply.xattr(&value, size),
            ),
            FuseOperation::ListXattr { size } => self.answer(
                request,
                reply,
                self.attributes().list_xattrs(request),
                |reply, list| reply.xattr(&list, size),
            ),
            FuseOperation::RemoveXattr { name } => {
                self.done(request, reply, self.attributes().remove_xattr(request, name))
            }
            FuseOperation::OpenDirectory(_) if self.lists_itself() => Ok(reply.error(Errno::NOSYS)),
            FuseOperation::OpenDirectory(_) => self.answer(
                request,
                reply,
                self.names().open_directory(request),
                |reply, ino| reply.open(self.directories.open(), self.listing().listing_flags(ino)),
            ),
            FuseOperation::ReadDirectory(read) => self.listing().read_directory(request, &read, false, reply),
            FuseOperation::ReadDirectoryPlus(read) => {
                self.listing().read_directory(request, &read, true, reply)
            }
            FuseOperation::ReleaseDirectory(release) => {
                self.directories.release(release.fh);
                Ok(reply.ok())
            }
            FuseOperation::Allocate(allocate) => {
                self.done(request, reply, self.contents().allocate(request, &allocate))
            }
            FuseOperation::Seek(seek) => self.answer(
                request,
                reply,
                self.contents().seek(request, &seek),
                |reply, offset| reply.seek(offset),
            ),
            FuseOperation::CopyRange { copy, wide } => {
                let copied = self.contents().copy_range(request, &copy);
                self.answer(request, reply, copied, |reply, bytes| reply.copied(bytes, wide))
            }
            FuseOperation::GetLock(lock) => self.answer(
                request,
                reply,
                self.locking().get_lock(request, &lock),
                |reply, lock| reply.lock(lock),
            ),
            FuseOperation::SetLock { lock, wait } => self.locking().set_lock(request, &lock, wait, reply),
            FuseOperation::Interrupt { unique } => {
                self.locking().interrupt(unique);
                Ok(reply.nothing())
            }
            FuseOperation::DeviceControl { .. } => Ok(reply.error(Errno::NOTTY)),
            // Each is requested once; then the kernel uses its own fallback.
            FuseOperation::Access { .. } if !self.is_ruled() => Ok(if self.options.checks_modes {
                reply.ok()
            } else {
                reply.error(Errno::NOSYS)
            }),
            FuseOperation::Access { mask } => {
                self.done(request, reply, self.attributes().access(request, mask))
            }
            FuseOperation::Statx(_) | FuseOperation::BlockMap(_) | FuseOperation::Poll(_) => {
                Ok(reply.error(Errno::NOSYS))
            }
            FuseOperation::Init(_) | FuseOperation::Destroy => Ok(reply.error(Errno::IO)),
        }
    }
}
