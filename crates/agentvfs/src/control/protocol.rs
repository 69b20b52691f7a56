//! The messages between the owner of a vault and others.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use avfs_core::{NodeId, SnapshotId, TreePath};
use serde::{Deserialize, Deserializer, Serialize};

use super::mount_state::{MountState, Unmounted};
use crate::error::{Error, ErrorCode, FileError, Hint};
use crate::logged_action::{LoggedAction, TreeUpdate};
use crate::record::{Head, VaultId, node_id, optional_snapshot_id, snapshot_id};

/// Grows with every change that an older process would misunderstand.
pub(crate) const VERSION: u32 = 1;

/// The code of an owner that talks to too many others already.
pub(super) const NO_ROOM: ErrorCode = ErrorCode::OwnerSilent;

/// A request to an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(crate) enum OwnerRequest {
    /// Always the first one, and the same in every version.
    Hello {
        version: u32,
    },
    /// Take a snapshot of all unstored changes.
    Settle,
    /// Make a stored state the head.
    Adopt(Box<Adopt>),
    /// Read the limits of the vault again.
    Limits,
    /// Serve the vault at a directory; a connection to the kernel may come along.
    Mount {
        dir: Bytes,
        options: Vec<String>,
    },
    Unmount {
        dir: Bytes,
        /// Also if the mount is in use.
        force: bool,
        /// Copies of it in other namespaces are no longer served.
        #[serde(default)]
        cut_off: bool,
    },
    Mounts,
    /// See a mount through other rules.
    Rules {
        dir: Bytes,
        rules: Vec<String>,
    },
    /// End, as soon as everything is stored.
    Stop,
}

/// A state that another process has stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Adopt {
    /// The head that it was made from.
    #[serde(with = "snapshot_id")]
    pub base: SnapshotId,
    #[serde(with = "snapshot_id")]
    pub snapshot: SnapshotId,
    #[serde(with = "node_id", default, skip_serializing_if = "Option::is_none")]
    pub inodes: Option<NodeId>,
    pub action: String,
    pub detail: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    #[serde(
        with = "optional_snapshot_id",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub task_base: Option<SnapshotId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<ConflictsEdit>,
    /// The state wins as a whole.
    pub exact: bool,
    /// Handles on files that change go stale.
    pub renew: bool,
}

/// Other open conflicts than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConflictsEdit {
    #[serde(
        with = "optional_snapshot_id",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub before: Option<SnapshotId>,
    #[serde(
        with = "optional_snapshot_id",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub after: Option<SnapshotId>,
}

impl Adopt {
    pub(crate) fn new(base: &Head, head: &Head, logged: &LoggedAction<'_>, update: TreeUpdate) -> Adopt {
        let edit = ConflictsEdit {
            before: base.conflicts,
            after: head.conflicts,
        };
        Adopt {
            base: base.snapshot,
            snapshot: head.snapshot,
            inodes: head.inodes,
            action: logged.action.to_owned(),
            detail: logged.detail.to_owned(),
            undoes: logged.undoes,
            since: logged.since,
            task_base: logged.task_base,
            conflicts: Some(edit).filter(|edit| edit.before != edit.after),
            exact: update.is_exact(),
            renew: update.renews(),
        }
    }

    /// Its entry in the history. The author of the snapshot is the actor.
    pub(crate) fn logged<'a>(&'a self, author: &'a str) -> LoggedAction<'a> {
        LoggedAction {
            actor: author,
            action: &self.action,
            detail: &self.detail,
            undoes: self.undoes,
            since: self.since,
            task_base: self.task_base,
        }
    }

    pub(crate) fn update(&self) -> TreeUpdate {
        TreeUpdate::from_flags(self.exact, self.renew)
    }
}

/// An answer of an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub(crate) enum OwnerReply {
    /// The same in every version.
    Hello {
        version: u32,
        pid: u32,
        vault: VaultId,
    },
    Settled {
        #[serde(with = "snapshot_id")]
        head: SnapshotId,
    },
    Adopted {
        seq: u64,
        #[serde(with = "snapshot_id")]
        snapshot: SnapshotId,
        #[serde(with = "node_id", default, skip_serializing_if = "Option::is_none")]
        inodes: Option<NodeId>,
        #[serde(
            with = "optional_snapshot_id",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        conflicts: Option<SnapshotId>,
    },
    /// Others have changed the same path meanwhile.
    Conflict {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<Bytes>,
    },
    Unmounted {
        left: Unmounted,
    },
    Done,
    Mounts {
        mounts: Vec<MountState>,
    },
    /// It could not be done; the code is one of [`crate::ErrorCode`].
    Failed {
        code: String,
        message: String,
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "known_hint"
        )]
        hint: Option<Hint>,
    },
}

impl OwnerReply {
    pub(crate) fn of_error(error: &Error) -> OwnerReply {
        if let Error::File(FileError::Overtaken { path, .. }) = error {
            return OwnerReply::Conflict {
                path: path.as_ref().map(Bytes::of_path),
            };
        }
        let message = avfs_core::with_causes(error);
        OwnerReply::Failed {
            code: error.code().to_string(),
            message,
            hint: error.hint(),
        }
    }
}

/// A hint of another version may be unknown here: the error is valid without it.
fn known_hint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Hint>, D::Error> {
    let given = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(given).ok())
}

/// Bytes that are text most of the time: the text itself, or else `{"hex": …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Bytes {
    Text(String),
    Other { hex: String },
}

impl Bytes {
    fn new(bytes: &[u8]) -> Bytes {
        match std::str::from_utf8(bytes) {
            Ok(text) => Bytes::Text(text.to_owned()),
            Err(_) => Bytes::Other {
                hex: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            },
        }
    }

    pub(crate) fn of_host(path: &Path) -> Bytes {
        Bytes::new(path.as_os_str().as_bytes())
    }

    pub(crate) fn of_path(path: &TreePath) -> Bytes {
        Bytes::new(path.as_bytes())
    }

    /// The bytes; `None` if they are invalid.
    fn to_vec(&self) -> Option<Vec<u8>> {
        match self {
            Bytes::Text(text) => Some(text.clone().into_bytes()),
            Bytes::Other { hex } if hex.len().is_multiple_of(2) && hex.is_ascii() => {
                let pairs = (0..hex.len()).step_by(2);
                pairs
                    .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok())
                    .collect()
            }
            Bytes::Other { .. } => None,
        }
    }

    pub(crate) fn to_host(&self) -> Option<PathBuf> {
        self.to_vec().map(|bytes| OsString::from_vec(bytes).into())
    }

    pub(crate) fn to_path(&self) -> Option<TreePath> {
        TreePath::parse(&self.to_vec()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_form_that_other_versions_know() {
        let hello = serde_json::to_string(&OwnerRequest::Hello { version: 1 }).unwrap();
        assert_eq!(hello, r#"{"request":"hello","version":1}"#);
        let reply = OwnerReply::Hello {
            version: 1,
            pid: 7,
            vault: VaultId(3),
        };
        let reply = serde_json::to_string(&reply).unwrap();
        assert_eq!(reply, r#"{"reply":"hello","version":1,"pid":7,"vault":3}"#);
        let settle = serde_json::to_string(&OwnerRequest::Settle).unwrap();
        assert_eq!(settle, r#"{"request":"settle"}"#);
    }

    #[test]
    fn any_bytes_come_through() {
        for bytes in [&b"/plain"[..], b"/caf\xe9", b"/\xff\x00\n", b""] {
            let text = serde_json::to_string(&Bytes::new(bytes)).unwrap();
            let back: Bytes = serde_json::from_str(&text).unwrap();
            assert_eq!(back.to_vec().unwrap(), bytes, "{text}");
        }
        assert_eq!(Bytes::Other { hex: "0".into() }.to_vec(), None);
        assert_eq!(Bytes::Other { hex: "zz".into() }.to_vec(), None);
        assert_eq!(Bytes::Other { hex: "é1".into() }.to_vec(), None);
    }
}
