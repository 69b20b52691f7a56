//! Gives the kernel the contents of a small file before it requests them, when the file is opened for
//! reading.
//!
//! A read that is served costs two requests: itself, and the next request for attributes, because the kernel
//! assumes that the time of access has changed. Contents that it was given are read without either.

use super::contents::ContentRequests;
use rustix::fs::OFlags;

use super::opens::HeldNode;

/// Up to this size: copying more takes longer than a request, and the opening program may need little of it.
const SMALL: u64 = 64 << 10;

impl ContentRequests<'_> {
    /// Gives the kernel the contents of a file that is being opened, if it lacks them and they are in memory.
    ///
    /// Only while no program has the file open: then no read, write or mapping of it is in progress, so no
    /// request holds a page of it while it waits for us, and no later write is overwritten. The first open of
    /// the file and changes of its size wait until this is done ([`HeldNode`]).
    pub(super) fn give_contents(&self, held: &HeldNode<'_>, flags: u32) {
        let node = held.node();
        if held.is_open() || !will_be_read(flags) || self.skin.nodes.has_contents(node) {
            return;
        }
        let as_of = self.skin.notices.news();
        // A pending notification would make the kernel forget the contents that it is given now.
        if !self.skin.notices.is_idle() {
            return;
        }
        if let Some(contents) = self.small_contents(node) {
            // Contents that it has not accepted, it requests.
            let _ = self.skin.notices.store(node, &contents);
            // Another door was faster: the contents may be older than the notifications that the kernel has
            // received. The open is answered when the kernel has forgotten these contents too.
            if self.skin.notices.news() != as_of {
                return self.skin.notices.contents_from(node, 0);
            }
        }
        self.skin.nodes.set_has_contents(node, true);
    }

    /// The whole contents of a file, if they are small, in memory, and readable through this mount. Whole,
    /// because the kernel requests a page that it was given only in part, unless the file ends in that page.
    fn small_contents(&self, node: u64) -> Option<Vec<u8>> {
        let at = self.skin.nodes.at(node).ok()?;
        let size = self.skin.tree.attr(at.ino).ok()?.size;
        if size == 0 || size > SMALL {
            return None;
        }
        // Room for one more byte shows whether it has grown since.
        let mut contents = vec![0; size as usize + 1];
        let len = self.skin.tree.read(at, 0, &mut contents).ok()?;
        contents.truncate(len);
        (len as u64 == size).then_some(contents)
    }
}

fn will_be_read(flags: u32) -> bool {
    let flags = OFlags::from_bits_retain(flags);
    flags & OFlags::RWMODE != OFlags::WRONLY && !flags.contains(OFlags::DIRECT)
}

/// Whether a descriptor that is opened with these flags can change contents.
pub(super) fn may_write(flags: u32) -> bool {
    flags & OFlags::RWMODE.bits() != OFlags::RDONLY.bits()
}
