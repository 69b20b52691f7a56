//! How snapshots, checkpoints and restores are displayed: the words and the JSON bodies that several commands
//! share.

use std::collections::HashMap;
use std::fmt;

use agentvfs::{Checkpoint, HistoryEntry, Restored, SnapshotId, TreePath, Vault};
use anyhow::Result;
use serde::Serialize;

use crate::change::describe;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::time::show_rfc3339;

/// How many digits of an id are displayed. Six are enough to name a snapshot in most vaults.
const SHORT_ID: usize = 12;

pub fn short(id: SnapshotId) -> String {
    let mut text = id.to_string();
    text.truncate(SHORT_ID);
    text
}

/// A number with its noun: `1 path`, `3 paths`.
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

pub fn count_applies(number: u64) -> String {
    if number == 1 {
        "1 apply".to_owned()
    } else {
        format!("{number} applies")
    }
}

/// The names that entries of a vault's history have.
pub struct EntryNames(HashMap<u64, Vec<String>>);

impl EntryNames {
    pub fn of(checkpoints: &[Checkpoint]) -> EntryNames {
        let mut names: HashMap<u64, Vec<String>> = HashMap::new();
        for checkpoint in checkpoints {
            names
                .entry(checkpoint.seq)
                .or_default()
                .push(checkpoint.name.to_string());
        }
        EntryNames(names)
    }

    pub fn at(&self, seq: u64) -> &[String] {
        self.0.get(&seq).map_or(&[], Vec::as_slice)
    }
}

/// One entry of a history in JSON.
#[derive(Serialize)]
pub struct HistoryEntryBody {
    pub seq: u64,
    pub snapshot: String,
    pub time: String,
    pub actor: String,
    pub action: String,
    pub checkpoints: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undoes: Option<u64>,
}

impl HistoryEntryBody {
    pub fn new(entry: &HistoryEntry, names: &EntryNames) -> HistoryEntryBody {
        HistoryEntryBody {
            seq: entry.seq,
            snapshot: entry.snapshot.to_string(),
            time: show_rfc3339(entry.time),
            actor: entry.actor.clone(),
            action: entry.action.clone(),
            checkpoints: names.at(entry.seq).to_vec(),
            undoes: entry.undoes,
        }
    }
}

/// The description of a change of the present state in the history: a revision and the paths.
pub fn detail(revision: impl fmt::Display, paths: &[TreePath]) -> String {
    match paths {
        [] => revision.to_string(),
        paths => format!("{revision} {}", describe(paths)),
    }
}

#[derive(Serialize)]
struct RestoredBody {
    vault: String,
    from: String,
    /// The new state; none if everything was like that already.
    snapshot: Option<String>,
    seq: Option<u64>,
    changed: u64,
}

/// The extent of a restore: files, as all commands count them, or directories that contain none.
pub fn changed(restored: &Restored) -> String {
    match restored.files {
        0 => count(restored.changed, "path"),
        files => count(files, "file"),
    }
}

/// Tells of paths that were brought back from `from`.
pub fn report_restored(
    context: &mut Context<'_>,
    vault: &Vault,
    from: &str,
    done: &Restored,
) -> Result<ExitStatus> {
    let undo = context.undo_command(vault)?;
    let out = &mut *context.out;
    if out.is_json() {
        let saved = done.saved.as_ref();
        let body = RestoredBody {
            vault: vault.name()?.to_string(),
            from: from.to_owned(),
            snapshot: saved.map(|saved| saved.snapshot.to_string()),
            seq: saved.map(|saved| saved.seq),
            changed: done.changed,
        };
        out.object("restored", &body)?;
    }
    match &done.saved {
        Some(saved) => out.talk(format_args!(
            "{} from {from}, now snapshot {} (`{undo}` undoes it)",
            changed(done),
            short(saved.snapshot)
        )),
        None => out.talk(format_args!("nothing to do: everything is as in {from}")),
    }
    Ok(ExitStatus::Success)
}

/// The default state for comparing and restoring a vault: its latest checkpoint, or for a fork without one
/// the state from which it was forked.
pub fn last_landmark(vault: &Vault) -> Result<Option<Landmark>> {
    if let Some(checkpoint) = vault.checkpoints()?.pop() {
        return Ok(Some(Landmark::Checkpoint(checkpoint.name.to_string())));
    }
    Ok(vault.info()?.fork_base.map(Landmark::ForkBase))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landmark {
    Checkpoint(String),
    ForkBase(SnapshotId),
}

impl Landmark {
    /// In the notation of [`Vault::revision`].
    pub fn revision(&self) -> String {
        match self {
            Landmark::Checkpoint(name) => name.clone(),
            Landmark::ForkBase(id) => id.to_string(),
        }
    }
}

impl fmt::Display for Landmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Landmark::Checkpoint(name) => f.write_str(name),
            Landmark::ForkBase(id) => f.write_str(&short(*id)),
        }
    }
}
