//! Work that is in the journal of a vault alone.

use agentvfs::VaultInfo;

use crate::size::HumanSize;

/// Says how much work of a vault is not stored yet, if there is any.
pub fn unstored(info: &VaultInfo) -> Option<String> {
    let size = HumanSize(info.unstored_bytes);
    (info.unstored_bytes > 0).then(|| {
        format!(
            "{size} of work in the journal of '{}' is not stored yet",
            info.name
        )
    })
}
