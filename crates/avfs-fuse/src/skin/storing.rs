//! Giving the kernel the contents of a small file before it asks for them, when the file is opened to be read.
//!
//! A read that is served costs two requests: itself, and the next question for attributes, because the kernel takes
//! the time of access to have changed. What it was given it reads without either.

use rustix::fs::OFlags;

use super::Skin;
use super::opens::Held;

/// Up to this size: copying more takes longer than a request, and whoever opens the file may want little of it.
const SMALL: u64 = 64 << 10;

impl Skin {
    /// Gives the kernel what is in a file that is being opened, if it has not got it and it is at hand.
    ///
    /// Only while nobody has the file open: then no read, write or mapping of it is under way, so nobody holds a page
    /// of it while he waits for us, and nothing is overwritten that was written later. The first one to open it and
    /// whoever changes its size wait until this is done ([`Held`]).
    pub(super) fn give_contents(&self, held: &Held<'_>, flags: u32) {
        let node = held.node();
        if held.is_open() || !will_be_read(flags) || self.nodes.has_contents(node) {
            return;
        }
        let as_of = self.notices.news();
        // What the kernel has yet to forget, it would forget of what it is given now.
        if !self.notices.is_idle() {
            return;
        }
        if let Some(contents) = self.small_contents(node) {
            // What it has not taken, it asks for.
            let _ = self.notices.store(node, &contents);
            // Others were faster: what was given may be older than what the kernel was told to forget. Whoever opens
            // the file is answered when it has forgotten this too.
            if self.notices.news() != as_of {
                return self.notices.contents_from(node, 0);
            }
        }
        self.nodes.set_has_contents(node, true);
    }

    /// The whole contents of a file, if they are few, at hand, and may be read through this mount. Whole, because a
    /// page that is given in part is asked for nevertheless, unless the file ends in it.
    fn small_contents(&self, node: u64) -> Option<Vec<u8>> {
        let at = self.nodes.at(node).ok()?;
        let size = self.tree.attr(at.ino).ok()?.size;
        if size == 0 || size > SMALL {
            return None;
        }
        // Room for one byte more shows whether it has grown since.
        let mut contents = vec![0; size as usize + 1];
        let len = self.tree.read(at, 0, &mut contents).ok()?;
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
