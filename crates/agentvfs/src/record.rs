//! Records of the library in refs: JSON under readable keys.
//!
//! | key | record |
//! |---|---|
//! | `name/NAME` | the id of the vault with this name |
//! | `vault/ID` | [`VaultRecord`] |
//! | `history/ID/SEQ` | [`HistoryRecord`] |
//! | `checkpoint/ID/NAME` | [`CheckpointRecord`] |
//! | `audit/ID/SEQ` | an entry of the audit log; `ID` 0 is the store's own |
//! | `apply/ID` | [`ApplyRecord`](crate::apply::ApplyRecord); `counter/apply` has the last id |
//! | `approval/…`, `approval-…/…` | see [`crate::approvals`] |
//! | `counter/vault` | the last vault id given out |
//! | `policy/ID` | [`StoredPolicy`](crate::StoredPolicy); `ID` 0 is the store's own |
//! | `project/HASH` | [`ProjectRecord`], by the path of its directory |
//! | `review/ID` | [`KeptReview`](crate::KeptReview) |
//! | `setting/KEY` | what was chosen for the whole store |

use avfs_core::{BlobId, ChunksId, Content, NodeId, ObjectId, SnapshotId, Timestamp};
use avfs_store::{RefStore, StoreError};
use avfs_transfer::ImageConfig;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result, StorageError};
use crate::name::{CheckpointName, VaultName};
use crate::rule_record::RuleRecord;
use crate::stored_bytes::StoredBytes;

/// Names a vault for good, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VaultId(pub u64);

impl VaultId {
    /// The audit log of the store itself.
    pub(crate) const STORE: VaultId = VaultId(0);
}

impl std::fmt::Display for VaultId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:010}", self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VaultRecord {
    pub id: VaultId,
    pub name: VaultName,
    pub head: Head,
    /// The last entry of its history.
    pub seq: u64,
    #[serde(with = "time")]
    pub created: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_files: Option<u64>,
    /// Contents of files that were removed while its owner had them open.
    #[serde(with = "contents", default, skip_serializing_if = "Vec::is_empty")]
    pub nameless: Vec<Content>,
    /// The rules through which it is seen by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<RuleRecord>>,
    /// The rules through which programs see it, unless others are stored with it: of a vault that was made from a
    /// task or from a project. A task's own are in its record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_rules: Option<Vec<RuleRecord>>,
    /// Set if it is a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskRecord>,
    /// Set if it is an image, or the root directory of sandboxes on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageRecord>,
    /// The checkpoint that was saved last. Unknown in records of older versions, and after it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_checkpoint: Option<LastCheckpoint>,
    pub audit: AuditHead,
}

/// A directory of the host that tasks are made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProjectRecord {
    /// The bytes of its path, in hexadecimal.
    pub root: String,
    pub vault: VaultId,
    /// How many tasks have been given a number.
    pub tasks: u64,
    /// The setup that the user has allowed, by its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
}

/// One piece of work on a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskRecord {
    /// The bytes of the project's path, in hexadecimal.
    pub root: String,
    /// The project as the task found it.
    #[serde(with = "snapshot_id")]
    pub base: SnapshotId,
    pub command: String,
    /// Made automatically for one run, and not named by a user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub automatic: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<RuleRecord>>,
    /// The state of it that was applied last.
    #[serde(
        with = "optional_snapshot_id",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub applied: Option<SnapshotId>,
    /// The ends of its git history that the user's repository was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brought: Vec<String>,
    /// The branch that it was brought to last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Box<MadeRecord>>,
}

/// What makes a vault an image, or the root directory of sandboxes on one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageRecord {
    pub config: ImageConfig,
    /// Where it came from, for people.
    pub source: String,
    pub layers: u64,
    /// The vault whose sandboxes have it as their root; images have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_of: Option<VaultId>,
}

/// A checkpoint and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastCheckpoint {
    pub name: String,
    #[serde(with = "snapshot_id")]
    pub snapshot: SnapshotId,
    /// In seconds. Unknown in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<i64>,
}

/// The stored part of the present state of a vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    #[serde(with = "snapshot_id")]
    pub snapshot: SnapshotId,
    #[serde(with = "node_id", default, skip_serializing_if = "Option::is_none")]
    pub inodes: Option<NodeId>,
    /// The last journal whose operations are in the snapshot.
    pub journal: u64,
    /// The conflicts that are open in it, as a tree of their own.
    #[serde(
        with = "optional_snapshot_id",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub conflicts: Option<SnapshotId>,
}

/// Where a fork came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ParentRecord {
    pub vault: VaultId,
    /// The snapshot they share.
    #[serde(with = "snapshot_id")]
    pub snapshot: SnapshotId,
}

/// The end of an audit log, which the next entry must follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuditHead {
    pub seq: u64,
    pub hash: String,
}

/// A branch that was made of a task in a repository of the user, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MadeRecord {
    pub branch: StoredBytes,
    pub into: StoredBytes,
    #[serde(with = "time")]
    pub time: Timestamp,
    /// What the branch named then. Older versions did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<String>,
    /// Those that were made together with it, in submodules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<MadeRecord>,
}

/// One state that a vault had, and what made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HistoryRecord {
    #[serde(with = "snapshot_id")]
    pub snapshot: SnapshotId,
    #[serde(with = "node_id", default, skip_serializing_if = "Option::is_none")]
    pub inodes: Option<NodeId>,
    #[serde(
        with = "optional_snapshot_id",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub conflicts: Option<SnapshotId>,
    #[serde(with = "time")]
    pub time: Timestamp,
    pub actor: String,
    /// The command that made it, as one line.
    pub action: String,
    /// For an undo: the entry whose effect it reverted. For a redo: the undo that it reverted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<u64>,
    /// The changes since this entry are one step, and are undone together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Of a task: the state of its project that this one is compared with. Unknown in records of older versions.
    #[serde(
        with = "optional_snapshot_id",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub task_base: Option<SnapshotId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckpointRecord {
    #[serde(with = "snapshot_id")]
    pub snapshot: SnapshotId,
    #[serde(with = "node_id", default, skip_serializing_if = "Option::is_none")]
    pub inodes: Option<NodeId>,
    #[serde(
        with = "optional_snapshot_id",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub conflicts: Option<SnapshotId>,
    #[serde(with = "time")]
    pub time: Timestamp,
    pub actor: String,
    /// The entry of the history that it names.
    pub seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A run saved it, and it is thinned out like an automatic snapshot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub automatic: bool,
    /// As in the history.
    #[serde(
        with = "optional_snapshot_id",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub task_base: Option<SnapshotId>,
}

pub(crate) mod key {
    use super::{CheckpointName, VaultId};

    pub(crate) const VAULT_COUNTER: &str = "counter/vault";
    pub(crate) const STORE_AUDIT: &str = "setting/audit";
    pub(crate) const CURRENT_VAULT: &str = "setting/current-vault";
    pub(crate) const NAMES: &str = "name/";
    pub(crate) const VAULTS: &str = "vault/";
    pub(crate) const HISTORIES: &str = "history/";
    pub(crate) const CHECKPOINTS: &str = "checkpoint/";
    pub(crate) const PROJECTS: &str = "project/";
    pub(crate) const APPROVALS: &str = "approval/";

    pub(crate) fn name(name: &str) -> String {
        format!("{NAMES}{name}")
    }

    pub(crate) fn vault(id: VaultId) -> String {
        format!("{VAULTS}{id}")
    }

    pub(crate) fn project(path: &[u8]) -> String {
        format!("{PROJECTS}{}", avfs_core::BlobId::of(path))
    }

    pub(crate) fn approvals(id: VaultId) -> String {
        format!("{APPROVALS}{id}/")
    }

    /// Standard input of requests that wait.
    pub(crate) fn approval_inputs(id: VaultId) -> String {
        format!("approval-input/{id}/")
    }

    /// The latest approvals, by what they are about.
    pub(crate) fn approval_pointers(id: VaultId) -> String {
        format!("approval-latest/{id}/")
    }

    /// What was allowed for always.
    pub(crate) fn always_allowed(id: VaultId) -> String {
        format!("approval-rules/{id}")
    }

    pub(crate) fn histories(id: VaultId) -> String {
        format!("{HISTORIES}{id}/")
    }

    pub(crate) fn history(id: VaultId, seq: u64) -> String {
        format!("{HISTORIES}{id}/{seq:012}")
    }

    pub(crate) fn checkpoints(id: VaultId) -> String {
        format!("{CHECKPOINTS}{id}/")
    }

    pub(crate) fn checkpoint(id: VaultId, name: &CheckpointName) -> String {
        format!("{CHECKPOINTS}{id}/{name}")
    }

    /// The policy of a vault; of number 0, that of the store.
    pub(crate) fn policy(id: VaultId) -> String {
        format!("policy/{id}")
    }

    pub(crate) fn review(id: VaultId) -> String {
        format!("review/{id}")
    }

    pub(crate) fn audits(id: VaultId) -> String {
        format!("audit/{id}/")
    }

    pub(crate) fn audit(id: VaultId, seq: u64) -> String {
        format!("audit/{id}/{seq:012}")
    }

    /// The number at the end of a key.
    pub(crate) fn seq_of(key: &str) -> Option<u64> {
        key.rsplit('/').next()?.parse().ok()
    }
}

pub(crate) fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    serde_json::to_vec(record).expect("records have string keys and finite numbers")
}

pub(crate) fn decode<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        Error::Storage(StorageError::DamagedRecord {
            key: key.to_owned(),
            reason: error.to_string(),
        })
    })
}

/// The record under `key` with the bytes it was read from, for a later compare-and-swap.
pub(crate) fn read<T: DeserializeOwned>(refs: &dyn RefStore, key: &str) -> Result<Option<(T, Vec<u8>)>> {
    let bytes: Result<Option<Vec<u8>>, StoreError> = refs.read(key);
    match bytes? {
        Some(bytes) => Ok(Some((decode(key, &bytes)?, bytes))),
        None => Ok(None),
    }
}

/// The age of a record that counts its changes: every change of a vault has an entry in its audit log, and
/// removing a vault has an entry in the audit log of the store, which is never removed itself.
pub(crate) fn age(key: &str, bytes: Option<&[u8]>) -> Option<u64> {
    #[derive(Deserialize)]
    struct Audited {
        audit: AuditHead,
    }
    let is_lasting = key == key::STORE_AUDIT || key.starts_with("counter/");
    let Some(bytes) = bytes else {
        return is_lasting.then_some(0);
    };
    if key.starts_with(key::VAULTS) {
        return serde_json::from_slice::<Audited>(bytes)
            .ok()
            .map(|record| record.audit.seq);
    }
    if key == key::STORE_AUDIT {
        return serde_json::from_slice::<AuditHead>(bytes)
            .ok()
            .map(|head| head.seq);
    }
    is_lasting.then(|| serde_json::from_slice(bytes).ok()).flatten()
}

/// Ids as 64 hexadecimal digits.
pub(crate) mod snapshot_id {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(id: &SnapshotId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SnapshotId, D::Error> {
        let text = String::deserialize(deserializer)?;
        ObjectId::parse_hex(&text)
            .map(SnapshotId::from_object)
            .map_err(serde::de::Error::custom)
    }
}

pub(crate) mod optional_snapshot_id {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        id: &Option<SnapshotId>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        id.map(|id| id.to_string()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SnapshotId>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let id = text
            .map(|text| ObjectId::parse_hex(&text))
            .transpose()
            .map_err(serde::de::Error::custom)?;
        Ok(id.map(SnapshotId::from_object))
    }
}

pub(crate) mod node_id {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(id: &Option<NodeId>, serializer: S) -> Result<S::Ok, S::Error> {
        id.map(|id| id.to_string()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<NodeId>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let id = text
            .map(|text| ObjectId::parse_hex(&text))
            .transpose()
            .map_err(serde::de::Error::custom)?;
        Ok(id.map(NodeId::from_object))
    }
}

/// Contents as `blob ID` or `chunks ID`.
mod contents {
    use super::*;

    pub(super) fn serialize<S: Serializer>(contents: &[Content], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(contents.iter().filter_map(|content| match content {
            Content::Empty => None,
            Content::Blob(id) => Some(format!("blob {id}")),
            Content::Chunks(id) => Some(format!("chunks {id}")),
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Content>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let content = |text: &String| {
            let (kind, id) = text.split_once(' ')?;
            let id = ObjectId::parse_hex(id).ok()?;
            match kind {
                "blob" => Some(Content::Blob(BlobId::from_object(id))),
                "chunks" => Some(Content::Chunks(ChunksId::from_object(id))),
                _ => None,
            }
        };
        let read: Option<Vec<Content>> = texts.iter().map(content).collect();
        read.ok_or_else(|| serde::de::Error::custom("not the contents of a file"))
    }
}

/// Times as nanoseconds since 1970.
pub(crate) mod time {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        nanos.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        Ok(Timestamp::from_nanos(i64::deserialize(deserializer)?.into()))
    }
}
