//! The audit log of a vault: actor, action and time. It is append-only, and each entry holds the hash of the
//! entry before.
//!
//! An entry is written in the same commit as the action that it records, so that neither exists without the
//! other. A program that can write the store's files could write a whole new log; keeping a hash elsewhere
//! ([`verify`] with `expect`) makes that detectable.

use avfs_core::Timestamp;
use avfs_store::{RefEdit, RefRange, RefStore};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, StorageError};
use crate::record::{self, AuditHead, VaultId, key};

/// One entry of an audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Its number, from 1 on.
    pub seq: u64,
    /// When it happened.
    #[serde(with = "record::time")]
    pub time: Timestamp,
    /// Who did it.
    pub actor: String,
    /// The name of the vault at that time; empty for the store itself.
    pub vault: String,
    /// The action, as one word: `write`, `fork`, `restore` …
    pub action: String,
    /// The object of the action.
    pub detail: String,
    /// The snapshot that came of it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The hash of the entry before; empty for the first.
    pub previous: String,
    /// The hash of this entry.
    #[serde(default)]
    pub hash: String,
}

/// An event to log; the log adds the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditEvent {
    pub time: Timestamp,
    pub actor: String,
    pub vault: String,
    pub action: String,
    pub detail: String,
    pub snapshot: Option<String>,
}

/// The edit that appends `event` to the log of `id`, and advances its end.
pub(crate) fn append(id: VaultId, head: &mut AuditHead, event: AuditEvent) -> RefEdit {
    let mut entry = AuditEntry {
        seq: head.seq + 1,
        time: event.time,
        actor: event.actor,
        vault: event.vault,
        action: event.action,
        detail: event.detail,
        snapshot: event.snapshot,
        previous: head.hash.clone(),
        hash: String::new(),
    };
    entry.hash = hash(&entry);
    *head = AuditHead {
        seq: entry.seq,
        hash: entry.hash.clone(),
    };
    RefEdit::create(key::audit(id, entry.seq), record::encode(&entry))
}

/// The hash of everything in an entry but its own hash.
fn hash(entry: &AuditEntry) -> String {
    let unhashed = AuditEntry {
        hash: String::new(),
        ..entry.clone()
    };
    blake3::hash(&record::encode(&unhashed)).to_hex().to_string()
}

/// The entries of a log after entry `after`, oldest first.
pub(crate) fn entries(refs: &dyn RefStore, id: VaultId, after: u64, limit: usize) -> Result<Vec<AuditEntry>> {
    let range = RefRange::prefix(key::audits(id))
        .after(key::audit(id, after))
        .limit(limit);
    let found = refs.scan(&range)?;
    found
        .iter()
        .map(|(key, bytes)| record::decode(key, bytes))
        .collect()
}

/// Checks that a log is whole: numbered without a gap, each entry the one that its hash names and following
/// the one before, up to the end that `head` reads; and, if `expect` is given, that an entry has that hash.
///
/// Others may append meanwhile. An entry and the end that it moves are one commit, so the end is read after the
/// entries: it is where they end, or further on by entries that can be read by then.
pub(crate) fn verify(
    refs: &dyn RefStore,
    log: &str,
    id: VaultId,
    head: &dyn Fn() -> Result<AuditHead>,
    expect: Option<&str>,
) -> Result<u64> {
    let broken = |seq, reason| {
        Error::Storage(StorageError::AuditBroken {
            log: log.to_owned(),
            seq,
            reason,
        })
    };
    let mut end = AuditHead::default();
    let mut last = AuditHead::default();
    let mut seen = false;
    loop {
        let page = entries(refs, id, end.seq, 10_000)?;
        if page.is_empty() {
            if last.seq > end.seq {
                return Err(broken(end.seq + 1, "it is missing"));
            }
            last = head()?;
            if last.seq > end.seq {
                continue;
            }
            break;
        }
        for entry in page {
            let seq = end.seq + 1;
            if entry.seq != seq {
                return Err(broken(seq, "it is missing"));
            }
            if entry.previous != end.hash {
                return Err(broken(seq, "it does not follow the entry before"));
            }
            if entry.hash != hash(&entry) {
                return Err(broken(seq, "it was changed"));
            }
            seen |= expect == Some(entry.hash.as_str());
            end = AuditHead {
                seq,
                hash: entry.hash,
            };
        }
    }
    if end != last {
        return Err(broken(last.seq, "the end of the log is not where the vault says"));
    }
    match expect {
        Some(_) if !seen => Err(broken(end.seq, "no entry has the expected hash")),
        _ => Ok(end.seq),
    }
}
