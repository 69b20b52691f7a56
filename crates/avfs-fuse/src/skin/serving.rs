//! What each request becomes: one call of the tree, and an answer.

use avfs_tree::Ino;
use rustix::io::Errno;

use super::deferring::{Outcome, Unanswered};
use super::{Access, Skin};
use crate::reply::Reply;
use crate::request::{Operation, Request};

impl Skin {
    /// Serves a request from what is in memory.
    pub(super) fn try_to_serve<'a>(&self, request: &Request<'_>, reply: Reply<'a>) -> Outcome<'a> {
        // The kernel refuses changes of a read-only mount itself, until somebody remounts it.
        if self.options.access != Access::Everything && request.operation.is_change() {
            return Ok(reply.error(Errno::ROFS));
        }
        if let Err(error) = self.check_mode(request) {
            return self.refuse(request, reply, error);
        }
        let as_of = self.notices.news();
        match request.operation {
            Operation::Lookup { name } => self.entry(request, reply, as_of, self.lookup(request, name)),
            Operation::Forget { lookups } => {
                self.forget(request.nodeid, lookups);
                Ok(reply.nothing())
            }
            Operation::BatchForget { nodes } => {
                nodes.iter().for_each(|one| self.forget(one.nodeid, one.nlookup));
                Ok(reply.nothing())
            }
            Operation::GetAttr(_) => {
                self.answer(request, reply, self.get_attr(request), |reply, attr| reply.attr(&attr))
            }
            Operation::SetAttr(set) => {
                self.answer(request, reply, self.set_attr(request, &set), |reply, attr| reply.attr(&attr))
            }
            Operation::ReadLink => {
                self.answer(request, reply, self.read_link(request), |reply, target| reply.bytes(&target))
            }
            Operation::Symlink { name, target } => {
                self.entry(request, reply, as_of, self.symlink(request, name, target))
            }
            Operation::MakeNode { node, name } => {
                self.entry(request, reply, as_of, self.make_node(request, &node, name))
            }
            Operation::MakeDirectory { directory, name } => {
                self.entry(request, reply, as_of, self.make_directory(request, directory.mode, name))
            }
            Operation::Unlink { name } => self.done(request, reply, self.unlink(request, name)),
            Operation::RemoveDirectory { name } => {
                self.done(request, reply, self.remove_directory(request, name))
            }
            Operation::Rename { name, new_parent, new_name, flags } => {
                self.done(request, reply, self.rename(request, name, new_parent, new_name, flags))
            }
            Operation::Link { node, name } => {
                self.entry(request, reply, as_of, self.link(request, node, name))
            }
            // A file is kept alive by its node, so a handle would have nothing to say.
            Operation::Open(_) if self.opens_itself() => Ok(reply.error(Errno::NOSYS)),
            Operation::Open(open) => match self.open(request, &open) {
                Ok(()) => {
                    let held = self.opens.hold(request.nodeid);
                    self.give_contents(&held, open.flags);
                    let (handle, flags) = self.opened(held, self.nodes.meant(request.nodeid), open.flags);
                    Ok(self.when_up_to_date(reply, move |reply| reply.open(handle, flags)))
                }
                // Who is told that a file is gone must not find its name any more.
                Err(error) => match error.wanted() {
                    Some(wanted) => Err(Unanswered { reply, wanted }),
                    None => {
                        let errno = self.errno(request, error);
                        Ok(self.when_up_to_date(reply, move |reply| reply.error(errno)))
                    }
                },
            },
            Operation::Create { create, name } => {
                let created = self.create(request, &create, name);
                self.answer(request, reply, created, |reply, entry| {
                    let held = self.opens.hold(entry.nodeid);
                    let (handle, flags) = self.opened(held, Ino(entry.attr.ino), create.flags);
                    reply.create(&self.kept_if_true(entry, as_of), handle, flags)
                })
            }
            // A file that never has a name cannot be made. This answer makes the kernel never ask again.
            Operation::TemporaryFile(_) => Ok(reply.error(Errno::NOSYS)),
            Operation::Read(read) => self.read(request, &read, reply),
            Operation::Write { write, data } => {
                let written = self.write(request, &write, data);
                self.answer_write(request, &write, reply, written)
            }
            // The kernel keeps the locks of such a mount itself, and asks this once.
            Operation::Flush(_) if self.opens_itself() => Ok(reply.error(Errno::NOSYS)),
            Operation::Flush(flush) => self.done(request, reply, self.flush(request, &flush)),
            Operation::Release(release) => {
                self.release_file(request, &release);
                Ok(reply.ok())
            }
            Operation::Sync(_) | Operation::SyncDirectory(_) | Operation::SyncFilesystem => {
                Ok(self.syncing.sync(reply))
            }
            Operation::StatFilesystem => Ok(reply.statfs(&self.stat_filesystem())),
            Operation::SetXattr { name, value, flags } => {
                self.done(request, reply, self.set_xattr(request, name, value, flags))
            }
            Operation::GetXattr { name, size } => {
                self.answer(request, reply, self.get_xattr(request, name), |reply, value| {
                    reply.xattr(&value, size)
                })
            }
            Operation::ListXattr { size } => {
                self.answer(request, reply, self.list_xattrs(request), |reply, list| reply.xattr(&list, size))
            }
            Operation::RemoveXattr { name } => self.done(request, reply, self.remove_xattr(request, name)),
            Operation::OpenDirectory(_) if self.lists_itself() => Ok(reply.error(Errno::NOSYS)),
            Operation::OpenDirectory(_) => {
                self.answer(request, reply, self.open_directory(request), |reply, ino| {
                    reply.open(self.directories.open(), self.listing_flags(ino))
                })
            }
            Operation::ReadDirectory(read) => self.read_directory(request, &read, false, reply),
            Operation::ReadDirectoryPlus(read) => self.read_directory(request, &read, true, reply),
            Operation::ReleaseDirectory(release) => {
                self.directories.release(release.fh);
                Ok(reply.ok())
            }
            Operation::Allocate(allocate) => self.done(request, reply, self.allocate(request, &allocate)),
            Operation::Seek(seek) => {
                self.answer(request, reply, self.seek(request, &seek), |reply, offset| reply.seek(offset))
            }
            Operation::CopyRange { copy, wide } => {
                let copied = self.copy_range(request, &copy);
                self.answer(request, reply, copied, |reply, bytes| reply.copied(bytes, wide))
            }
            Operation::GetLock(lock) => {
                self.answer(request, reply, self.get_lock(request, &lock), |reply, lock| reply.lock(lock))
            }
            Operation::SetLock { lock, wait } => self.set_lock(request, &lock, wait, reply),
            Operation::Interrupt { unique } => {
                self.interrupt(unique);
                Ok(reply.nothing())
            }
            Operation::DeviceControl { .. } => Ok(reply.error(Errno::NOTTY)),
            // Each is asked for once; then the kernel does what it can by itself.
            Operation::Access { .. } if !self.is_ruled() => Ok(match self.options.checks_modes {
                true => reply.ok(),
                false => reply.error(Errno::NOSYS),
            }),
            Operation::Access { mask } => self.done(request, reply, self.access(request, mask)),
            Operation::Statx(_) | Operation::BlockMap(_) | Operation::Poll(_) => {
                Ok(reply.error(Errno::NOSYS))
            }
            Operation::Init(_) | Operation::Destroy => Ok(reply.error(Errno::IO)),
        }
    }
}
