//! A vault in JSON, the same for all commands that show one.

use agentvfs::VaultInfo;
use serde::Serialize;

use crate::time::show_rfc3339;

#[derive(Serialize)]
pub struct VaultInfoBody {
    name: String,
    head: String,
    files: u64,
    bytes: u64,
    created: String,
    parent: Option<String>,
    fork_base: Option<String>,
    snapshots: u64,
    max_bytes: Option<u64>,
    max_files: Option<u64>,
    conflicts: u64,
    audit_head: String,
    /// Work that is in the journal alone.
    unstored_bytes: u64,
    current: bool,
}

impl VaultInfoBody {
    /// `current` is the name of the vault that commands work on.
    pub fn new(info: &VaultInfo, current: Option<&str>) -> VaultInfoBody {
        VaultInfoBody {
            name: info.name.to_string(),
            head: info.head.to_string(),
            files: info.files,
            bytes: info.bytes,
            created: show_rfc3339(info.created),
            parent: info.parent.as_ref().map(ToString::to_string),
            fork_base: info.fork_base.map(|id| id.to_string()),
            snapshots: info.snapshots,
            max_bytes: info.max_bytes,
            max_files: info.max_files,
            conflicts: info.conflicts,
            audit_head: info.audit_head.clone(),
            unstored_bytes: info.unstored_bytes,
            current: current == Some(info.name.as_str()),
        }
    }
}
