//! A little room that is kept free for making room: removing rows takes pages of the log first, and a disk without a
//! byte left has none.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::FallocateFlags;

use crate::embedded::layout::Layout;

/// Enough for a few transactions and a pack that is nearly empty.
const SIZE: u64 = 1 << 20;

/// Where less is free, the room is not ours to keep.
const PLENTY: u64 = 16 * SIZE;

/// Keeps it, where there is plenty. A store without it works, and is harder to clear when the disk is full.
pub(crate) fn keep(layout: &Layout) {
    let disk = rustix::fs::statvfs(layout.dir());
    let has_plenty = disk.is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= PLENTY);
    let place = layout.reserve();
    if has_plenty && !place.exists() && make(&place).is_err() {
        let _ = std::fs::remove_file(place);
    }
}

fn make(place: &std::path::Path) -> io::Result<()> {
    let file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(place)?;
    Ok(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, SIZE)?)
}

/// Gives it to whoever makes room now.
pub(crate) fn release(layout: &Layout) {
    // If there is none, there was no room for it.
    let _ = std::fs::remove_file(layout.reserve());
}
