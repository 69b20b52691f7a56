//! Free space: on the disk of the store, and within the limits of the vault.

use super::attributes::AttributeRequests;
use crate::abi::StatfsOut;

const BLOCK: u64 = 4096;
/// Reported if the number of files is not limited.
const FILES_FREE: u64 = 1 << 32;

impl AttributeRequests<'_> {
    pub(super) fn stat_filesystem(&self) -> StatfsOut {
        let used = self.skin.tree.occupied_space();
        let limits = self.skin.tree.limits();
        let left = |limit: Option<u64>, used: u64| limit.map_or(u64::MAX, |limit| limit.saturating_sub(used));
        let free = (self.skin.options.free_bytes)().min(left(limits.bytes, used.bytes)) / BLOCK;
        let files_free = FILES_FREE.min(left(limits.files, used.inodes));
        StatfsOut {
            blocks: used.bytes.div_ceil(BLOCK).saturating_add(free),
            bfree: free,
            bavail: free,
            files: used.inodes.saturating_add(files_free),
            ffree: files_free,
            bsize: BLOCK as u32,
            namelen: avfs_core::NAME_MAX as u32,
            frsize: BLOCK as u32,
            padding: 0,
            spare: [0; 6],
        }
    }
}
