//! How much there is room for.

use super::Skin;
use crate::abi::StatfsOut;

const BLOCK: u64 = 4096;
/// Where nothing limits the number of files.
const FILES_FREE: u64 = 1 << 32;

impl Skin {
    pub(super) fn stat_filesystem(&self) -> StatfsOut {
        let used = self.tree.totals();
        let free = (self.options.free_bytes)() / BLOCK;
        StatfsOut {
            blocks: (used.bytes.div_ceil(BLOCK)).saturating_add(free),
            bfree: free,
            bavail: free,
            files: used.inodes.saturating_add(FILES_FREE),
            ffree: FILES_FREE,
            bsize: BLOCK as u32,
            namelen: avfs_core::NAME_MAX as u32,
            frsize: BLOCK as u32,
            padding: 0,
            spare: [0; 6],
        }
    }
}
