//! A little space that is reserved for freeing space: removing rows first needs pages of the log, and on a
//! full disk there are none.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::FallocateFlags;

use crate::embedded::layout::StoreLayout;

/// Enough for a few transactions and a pack that is nearly empty.
const SIZE: u64 = 1 << 20;

/// Two parts of the file that connections share.
const LENT: u64 = 64 << 10;

/// With less free space than this, nothing is reserved.
const PLENTY: u64 = 16 * SIZE;

/// Creates the reserve if there is plenty of space. A store without it works, and is harder to clear when the
/// disk is full.
pub(crate) fn keep(layout: &StoreLayout) {
    let disk = rustix::fs::statvfs(layout.dir());
    let has_plenty = disk.is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= PLENTY);
    let place = layout.reserve();
    if has_plenty && !place.exists() && make(&place).is_err() {
        // Half a reserve would pass for a whole one.
        let _ = std::fs::remove_file(place);
    }
}

fn make(place: &std::path::Path) -> io::Result<()> {
    let file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(place)?;
    // Allocated, not only sized: the reserve exists to be given up when the disk is full.
    Ok(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, SIZE)?)
}

/// Releases a little of it, for a file that every command needs: the one that the connections of all
/// processes share.
pub(crate) fn lend(layout: &StoreLayout) -> bool {
    let lend = || -> io::Result<bool> {
        let file = OpenOptions::new().write(true).open(layout.reserve())?;
        let Some(rest) = file.metadata()?.len().checked_sub(LENT) else {
            return Ok(false);
        };
        file.set_len(rest)?;
        Ok(true)
    };
    lend().unwrap_or(false)
}

/// Releases it to the operation that frees space now.
pub(crate) fn release(layout: &StoreLayout) {
    // If it does not exist, there was no space for it.
    let _ = std::fs::remove_file(layout.reserve());
}
