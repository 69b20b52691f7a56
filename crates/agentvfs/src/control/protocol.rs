//! The messages between the owner of a vault and others.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use avfs_core::{NodeId, SnapshotId, TreePath};
use serde::{Deserialize, Serialize};

use super::desk::Unmounted;
use crate::deed::{Deed, Landing};
use crate::error::Error;
use crate::mount::MountState;
use crate::record::{Head, VaultId, node_id, optional_snapshot_id, snapshot_id};

/// Grows with every change that an older process would misunderstand.
pub const VERSION: u32 = 1;

/// The code of an owner that talks to too many others already.
pub const NO_ROOM: &str = "owner-silent";

/// What others ask of an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Always the first one, and the same in every version.
    Hello {
        version: u32,
    },
    /// Take a snapshot of what is not stored yet.
    Settle,
    /// Make a stored state the head.
    Adopt(Box<Adopt>),
    /// Read anew how much the vault may hold.
    Limits,
    /// Serve the vault at a directory; a connection to the kernel may come along.
    Mount {
        dir: Bytes,
        options: Vec<String>,
    },
    Unmount {
        dir: Bytes,
        /// Also one that is in use.
        force: bool,
        /// Copies of it in other namespaces are not served any more.
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
    #[serde(with = "optional_snapshot_id", default, skip_serializing_if = "Option::is_none")]
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
    #[serde(with = "optional_snapshot_id", default, skip_serializing_if = "Option::is_none")]
    pub before: Option<SnapshotId>,
    #[serde(with = "optional_snapshot_id", default, skip_serializing_if = "Option::is_none")]
    pub after: Option<SnapshotId>,
}

impl Adopt {
    pub fn new(base: &Head, head: &Head, deed: &Deed<'_>, landing: Landing) -> Adopt {
        let edit = ConflictsEdit { before: base.conflicts, after: head.conflicts };
        Adopt {
            base: base.snapshot,
            snapshot: head.snapshot,
            inodes: head.inodes,
            action: deed.action.to_owned(),
            detail: deed.detail.to_owned(),
            undoes: deed.undoes,
            since: deed.since,
            task_base: deed.task_base,
            conflicts: Some(edit).filter(|edit| edit.before != edit.after),
            exact: landing.is_exact(),
            renew: landing.renews(),
        }
    }

    /// What the history says of it. The author of the snapshot is who did it.
    pub fn deed<'a>(&'a self, author: &'a str) -> Deed<'a> {
        Deed {
            actor: author,
            action: &self.action,
            detail: &self.detail,
            undoes: self.undoes,
            since: self.since,
            task_base: self.task_base,
        }
    }

    pub fn landing(&self) -> Landing {
        Landing::from_flags(self.exact, self.renew)
    }
}

/// What an owner answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub(crate) enum Reply {
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
        #[serde(with = "optional_snapshot_id", default, skip_serializing_if = "Option::is_none")]
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
    /// It could not be done; the code is one of [`crate::CODES`].
    Failed {
        code: String,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
}

impl Reply {
    pub fn of_error(error: &Error) -> Reply {
        if let Error::Overtaken { path, .. } = error {
            return Reply::Conflict { path: path.as_ref().map(Bytes::of_path) };
        }
        let message = avfs_core::with_causes(error);
        Reply::Failed { code: error.code().to_owned(), message, hint: error.hint() }
    }
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
            Err(_) => Bytes::Other { hex: bytes.iter().map(|byte| format!("{byte:02x}")).collect() },
        }
    }

    pub fn of_host(path: &Path) -> Bytes {
        Bytes::new(path.as_os_str().as_bytes())
    }

    pub fn of_path(path: &TreePath) -> Bytes {
        Bytes::new(path.as_bytes())
    }

    /// The bytes; `None` if they are not what they should be.
    fn to_vec(&self) -> Option<Vec<u8>> {
        match self {
            Bytes::Text(text) => Some(text.clone().into_bytes()),
            Bytes::Other { hex } if hex.len().is_multiple_of(2) && hex.is_ascii() => {
                let pairs = (0..hex.len()).step_by(2);
                pairs.map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()).collect()
            }
            Bytes::Other { .. } => None,
        }
    }

    pub fn to_host(&self) -> Option<PathBuf> {
        self.to_vec().map(|bytes| OsString::from_vec(bytes).into())
    }

    pub fn to_path(&self) -> Option<TreePath> {
        TreePath::parse(&self.to_vec()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_form_that_other_versions_know() {
        let hello = serde_json::to_string(&Request::Hello { version: 1 }).unwrap();
        assert_eq!(hello, r#"{"request":"hello","version":1}"#);
        let reply = Reply::Hello { version: 1, pid: 7, vault: VaultId(3) };
        let reply = serde_json::to_string(&reply).unwrap();
        assert_eq!(reply, r#"{"reply":"hello","version":1,"pid":7,"vault":3}"#);
        let settle = serde_json::to_string(&Request::Settle).unwrap();
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
