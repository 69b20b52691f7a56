//! Naming a state: the present one, a checkpoint, a snapshot, a step back, or another vault.

use avfs_core::diff::{Change, diff_trees};
use avfs_core::{ObjectId, SnapshotId};
use avfs_tree::{ObjectError, TreeReader};

use crate::error::{Error, Result};
use crate::name::closest;
use crate::record::Head;
use crate::vault::Vault;

/// How many digits of a snapshot's id must be given at least.
const SHORTEST_ID: usize = 6;

/// A state of a vault that a user named.
#[derive(Clone)]
pub struct Revision {
    pub vault: Vault,
    pub snapshot: SnapshotId,
    pub(crate) state: Head,
}

impl Revision {
    pub fn reader(&self) -> Result<TreeReader> {
        self.vault.reader_at(self.snapshot)
    }

    /// What differs from this state to another one, in the time of what differs.
    pub fn diff(&self, to: &Revision) -> Result<Vec<Change>> {
        let objects = self.vault.store().objects();
        let (before, after) = (objects.snapshot(self.snapshot)?.root, objects.snapshot(to.snapshot)?.root);
        let mut changes = Vec::new();
        diff_trees(objects, &before, &after, &mut |change| {
            changes.push(change);
            Ok::<_, ObjectError>(())
        })?;
        Ok(changes)
    }
}

impl Vault {
    /// Finds the state that `text` names:
    /// `@` the present one, `@~N` the one N snapshots before, a checkpoint, `VAULT:` the present state of
    /// another vault, `VAULT:REV` a state of it, the name of a vault, or the first digits of a
    /// snapshot's id.
    pub fn revision(&self, text: &str) -> Result<Revision> {
        if let Some((vault, rest)) = text.split_once(':') {
            let other = self.store().vault(vault)?;
            return other.revision(if rest.is_empty() { "@" } else { rest });
        }
        if text == "@" {
            self.head()?;
            return Ok(self.revise(self.record()?.0.head));
        }
        if let Some(steps) = text.strip_prefix("@~") {
            return self.steps_back(text, steps);
        }
        if let Some(checkpoint) = self.find_checkpoint(text)? {
            return Ok(self.revise(checkpoint.state()));
        }
        if crate::name::VaultName::new(text).is_ok() && self.store().has_vault(text)? {
            return self.store().vault(text)?.revision("@");
        }
        self.by_id(text)
    }

    fn revise(&self, state: Head) -> Revision {
        Revision { vault: self.clone(), snapshot: state.snapshot, state }
    }

    fn steps_back(&self, text: &str, steps: &str) -> Result<Revision> {
        let Ok(steps) = steps.parse::<usize>() else { return Err(self.unknown(text)?) };
        self.head()?;
        let history = self.history(None, steps.saturating_add(1))?;
        match history.get(steps) {
            Some(entry) => Ok(self.revise(entry.state())),
            None => Err(self.unknown(text)?),
        }
    }

    fn by_id(&self, text: &str) -> Result<Revision> {
        let is_id =
            text.len() >= SHORTEST_ID && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_id {
            return Err(self.unknown(text)?);
        }
        let mut found: Vec<Head> = Vec::new();
        let mut consider = |state: Head| {
            let known = found.iter().any(|known| known.snapshot == state.snapshot);
            if !known && state.snapshot.to_string().starts_with(text) {
                found.push(state);
            }
        };
        self.for_each_entry(|entry| {
            consider(entry.state());
            Ok(true)
        })?;
        self.checkpoints()?.iter().for_each(|checkpoint| consider(checkpoint.state()));
        match found[..] {
            [only] => Ok(self.revise(only)),
            [] => self.by_full_id(text),
            _ => Err(Error::AmbiguousRevision { vault: self.name()?.to_string(), text: text.to_owned() }),
        }
    }

    /// A whole id names a snapshot of any vault, as long as it is stored.
    fn by_full_id(&self, text: &str) -> Result<Revision> {
        if let Ok(id) = ObjectId::parse_hex(text)
            && self.store().objects().store().contains_many(&[id])? == [true]
        {
            let snapshot = SnapshotId::from_object(id);
            self.snapshot(snapshot)?;
            return Ok(self.revise(Head { snapshot, inodes: None, journal: 0 }));
        }
        Err(self.unknown(text)?)
    }

    fn unknown(&self, text: &str) -> Result<Error> {
        let checkpoints = self.checkpoints()?;
        let vaults = self.store().vault_records()?;
        let names = checkpoints.iter().map(|checkpoint| checkpoint.name.as_str());
        let similar = closest(text, names.chain(vaults.iter().map(|vault| vault.name.as_str())));
        let text = avfs_core::printable(text.as_bytes());
        Ok(Error::UnknownRevision { vault: self.name()?.to_string(), text, similar })
    }
}
