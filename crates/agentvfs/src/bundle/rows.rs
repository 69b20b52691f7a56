//! The refs that a vault file carries: taken from a store as of one moment, or read from a file and checked.

use std::collections::BTreeSet;

use avfs_core::{NodeId, SnapshotId};
use avfs_store::{MemoryStore, RefEdit, RefRange, RefStore};
use serde::de::DeserializeOwned;

use crate::audit;
use crate::error::{Error, Result, StorageError};
use crate::name::{CheckpointName, VaultName};
use crate::record::{self, CheckpointRecord, HistoryRecord, VaultRecord, key};
use crate::vault::Vault;

/// Keys without the vault's number, and values.
pub(super) type Rows = Vec<(String, Vec<u8>)>;

/// How often a vault that is being written is read again before an export gives up.
const ATTEMPTS: u32 = 100;
/// More entries than any vault will have; keys have room for ten times as many.
const MOST_ENTRIES: u64 = 100_000_000_000;

/// The refs of one vault.
pub(super) struct Bundle {
    pub record: VaultRecord,
    pub history: Rows,
    pub checkpoints: Rows,
    pub audit: Rows,
}

/// A state and its inode table.
type State = (SnapshotId, Option<NodeId>);

impl Bundle {
    /// The refs of `vault` as of one moment. Each change of a vault changes its record, except that thinning
    /// removes old entries of its history.
    pub(super) fn of(vault: &Vault) -> Result<Bundle> {
        for _ in 0..ATTEMPTS {
            let (record, bytes) = vault.record()?;
            let bundle = Bundle {
                record: VaultRecord {
                    nameless: Vec::new(),
                    ..record
                },
                history: rows(vault, key::histories(vault.id()))?,
                checkpoints: rows(vault, key::checkpoints(vault.id()))?,
                audit: rows(vault, key::audits(vault.id()))?,
            };
            if vault.record()?.1 == bytes {
                return Ok(bundle);
            }
        }
        Err(Error::Storage(StorageError::Contended {
            key: key::vault(vault.id()),
        }))
    }

    /// The rows as a file holds them.
    pub(super) fn refs(&self) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
        let lists = [
            ("history", &self.history),
            ("checkpoint", &self.checkpoints),
            ("audit", &self.audit),
        ];
        let rows = lists.into_iter().flat_map(|(list, rows)| {
            rows.iter()
                .map(move |(rest, value)| (format!("{list}/{rest}"), value.clone()))
        });
        std::iter::once(("vault".to_owned(), record::encode(&self.record))).chain(rows)
    }

    /// All states that the vault needs.
    pub(super) fn states(&self) -> Result<Vec<State>> {
        let mut states = vec![(self.record.head.snapshot, self.record.head.inodes)];
        states.extend(self.record.parent.map(|parent| (parent.snapshot, None)));
        states.extend(self.record.head.conflicts.map(|conflicts| (conflicts, None)));
        for (key, value) in &self.history {
            let entry: HistoryRecord = record::decode(key, value)?;
            states.push((entry.snapshot, entry.inodes));
            states.extend(entry.conflicts.map(|conflicts| (conflicts, None)));
        }
        for (key, value) in &self.checkpoints {
            let point: CheckpointRecord = record::decode(key, value)?;
            states.push((point.snapshot, point.inodes));
            states.extend(point.conflicts.map(|conflicts| (conflicts, None)));
        }
        Ok(states)
    }

    /// The refs of a file. The error is the reason to refuse it.
    pub(super) fn sort_out(refs: Rows) -> Result<Bundle, String> {
        let mut record = None;
        let (mut history, mut checkpoints, mut audit) = (Rows::new(), Rows::new(), Rows::new());
        for (key, value) in refs {
            match key.split_once('/') {
                None if key == "vault" && record.is_none() => {
                    record = Some(decode::<VaultRecord>(&key, &value)?)
                }
                Some(("history", rest)) if is_number(rest) => history.push((rest.to_owned(), value)),
                Some(("audit", rest)) if is_number(rest) => audit.push((rest.to_owned(), value)),
                Some(("checkpoint", rest)) => checkpoints.push((rest.to_owned(), value)),
                _ => return Err("it holds a record of an unknown sort".into()),
            }
        }
        let record = record.ok_or("it holds no vault")?;
        let bundle = Bundle {
            record,
            history,
            checkpoints,
            audit,
        };
        VaultName::new(bundle.record.name.last_part()).map_err(|error| error.to_string())?;
        bundle.check_history()?;
        bundle.check_checkpoints()?;
        bundle.check_audit()?;
        Ok(bundle)
    }

    fn check_history(&self) -> Result<(), String> {
        let mut last = (0, None);
        for (key, value) in &self.history {
            let entry: HistoryRecord = decode(key, value)?;
            let seq = key::seq_of(key).filter(|seq| *seq > last.0);
            let seq = seq.ok_or("its history is not in order")?;
            if entry.undoes.is_some_and(|undone| undone >= seq) {
                return Err(format!("entry {seq} of its history undoes what came later"));
            }
            last = (seq, Some(entry.snapshot));
        }
        if self.record.seq > MOST_ENTRIES {
            return Err("its history is too long".into());
        }
        if last != (self.record.seq, Some(self.record.head.snapshot)) {
            return Err("its history does not end with its present state".into());
        }
        Ok(())
    }

    fn check_checkpoints(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for (name, value) in &self.checkpoints {
            CheckpointName::new(name).map_err(|error| error.to_string())?;
            let point: CheckpointRecord = decode(name, value)?;
            if point.seq > self.record.seq || !names.insert(name) {
                return Err(format!(
                    "its checkpoint {name} is twice there or newer than the vault"
                ));
            }
        }
        Ok(())
    }

    /// Checks the audit log by the same rule as that of a vault in a store.
    fn check_audit(&self) -> Result<(), String> {
        let (id, copy) = (self.record.id, MemoryStore::new());
        let numbered = (1u64..)
            .zip(&self.audit)
            .all(|(seq, (key, _))| key::seq_of(key) == Some(seq));
        if !numbered {
            return Err("its audit log has a gap".into());
        }
        let rows = (1u64..)
            .zip(&self.audit)
            .map(|(seq, (_, value))| RefEdit::create(key::audit(id, seq), value.clone()));
        copy.commit(&rows.collect::<Vec<_>>())
            .map_err(|error| error.to_string())?;
        let head = || Ok(self.record.audit.clone());
        let verified = audit::verify(&copy, self.record.name.as_str(), id, &head, None);
        verified.map(|_| ()).map_err(|error| error.to_string())
    }
}

fn rows(vault: &Vault, prefix: String) -> Result<Rows> {
    let found = vault.store().refs().scan(&RefRange::prefix(prefix.clone()))?;
    let short = |key: String| key.strip_prefix(&prefix).unwrap_or_default().to_owned();
    Ok(found
        .into_iter()
        .map(|(key, value)| (short(key), value))
        .collect())
}

fn decode<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, String> {
    record::decode(key, value).map_err(|error| error.to_string())
}

fn is_number(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}
