//! Replays operations of journals that the head does not contain.

use std::path::PathBuf;
use std::sync::Arc;

use avfs_core::EntryKind;

use super::state::{BaseTree, TreeState};
use super::{JournalPlace, remove_journal};
use crate::error::FsError;
use crate::journal::{Journal, JournalError, JournalNote, LogFile};
use crate::objects::Objects;
use crate::op::JournalOp;
use crate::overlay::ExtentData;

/// The numbers of the files in the directory of a journal, in order.
#[derive(Default)]
pub(super) struct LeftJournals {
    pub journals: Vec<u64>,
    pub notes: Vec<u64>,
}

impl JournalPlace {
    pub(super) fn path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("journal.{number}"))
    }

    pub(super) fn listed(&self) -> Result<LeftJournals, FsError> {
        let failed = |source| -> FsError {
            JournalError::Io {
                action: "listing",
                place: self.directory.clone(),
                source,
            }
            .into()
        };
        let mut listed = LeftJournals::default();
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(listed),
            Err(source) => return Err(failed(source)),
        };
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let Some(rest) = name.to_str().and_then(|name| name.strip_prefix("journal.")) else {
                continue;
            };
            match rest.strip_suffix(".note") {
                Some(number) => listed.notes.extend(number.parse::<u64>()),
                None => listed.journals.extend(rest.parse::<u64>()),
            }
        }
        listed.journals.sort_unstable();
        listed.notes.sort_unstable();
        Ok(listed)
    }

    /// The numbers of the journals that the head does not contain. A journal whose note exists without it was
    /// lost.
    pub(super) fn left(&self) -> Result<Vec<u64>, FsError> {
        let mut listed = self.listed()?;
        let is_left = |number: &u64| *number > self.included;
        listed.journals.retain(is_left);
        match listed
            .notes
            .into_iter()
            .filter(is_left)
            .find(|number| !listed.journals.contains(number))
        {
            Some(lost) => Err(JournalError::Missing {
                place: self.path(lost),
            }
            .into()),
            None => Ok(listed.journals),
        }
    }

    /// Removes journals that the head contains, which a crash kept from being removed.
    fn remove_included(&self) -> Result<(), FsError> {
        let listed = self.listed()?;
        let old = listed
            .journals
            .into_iter()
            .chain(listed.notes)
            .filter(|number| *number <= self.included);
        old.for_each(|number| remove_journal(&self.path(number)));
        Ok(())
    }

    /// Fails if the journal does not continue the existing state: the stored one, or the journal `last`.
    fn check_origin(&self, number: u64, last: u64, state: &TreeState) -> Result<(), FsError> {
        let place = self.path(number);
        let Some(origin) = JournalNote::read(&place).map(|note| note.origin) else {
            return Ok(());
        };
        let fits = match origin.base {
            0 => origin.follows <= last,
            base => last == self.included && base == mark_of(&state.base),
        };
        if fits {
            Ok(())
        } else {
            Err(JournalError::Misfit { place }.into())
        }
    }

    /// Whether something was synced to a journal.
    fn was_synced(&self, number: u64) -> bool {
        JournalNote::read(&self.path(number)).is_some_and(|note| note.durable > 0)
    }
}

/// Replays operations of journals that the head does not contain; the last journal stays open. Returns its
/// number.
pub(super) fn replay_journals(state: &mut TreeState, place: &JournalPlace) -> Result<u64, FsError> {
    place.remove_included()?;
    let mut last = place.included;
    let mut is_whole = true;
    for number in place.left()? {
        if !is_whole {
            check_unsynced(place, last, number)?;
            remove_journal(&place.path(number));
            continue;
        }
        place.check_origin(number, last, state)?;
        let (journal, sealed) = Journal::recover(&place.path(number), |log, op, position| {
            apply(state, place, number, log, op, position)
        })?;
        last = number;
        is_whole = sealed;
        if sealed {
            state.sealed.push(Arc::clone(journal.log()))
        } else {
            state.journal = Some(journal)
        }
    }
    Ok(last)
}

/// The same in memory only, without changing files.
pub(super) fn rehearse_journals(
    objects: Objects,
    base: BaseTree,
    place: &JournalPlace,
) -> Result<(), FsError> {
    let mut state = TreeState::new(objects, base)?;
    let mut last = place.included;
    let mut is_whole = true;
    for number in place.left()? {
        if !is_whole {
            check_unsynced(place, last, number)?;
            continue;
        }
        place.check_origin(number, last, &state)?;
        is_whole = Journal::rehearse(&place.path(number), |log, op, position| {
            apply(&mut state, place, number, log, op, position)
        })?;
        last = number;
    }
    Ok(())
}

/// A journal after one that is not sealed is the remains of a crash, if nothing in it was synced: otherwise
/// the one before it would be complete.
fn check_unsynced(place: &JournalPlace, last: u64, number: u64) -> Result<(), FsError> {
    let before = place.path(last);
    if place.was_synced(number) {
        let position = before.metadata().map_or(0, |journal| journal.len());
        Err(JournalError::Damaged {
            place: before,
            position,
        }
        .into())
    } else {
        Ok(())
    }
}

fn apply(
    state: &mut TreeState,
    place: &JournalPlace,
    number: u64,
    log: &Arc<LogFile>,
    op: JournalOp,
    position: u64,
) -> Result<(), FsError> {
    state
        .apply(op, ExtentData::Logged(Arc::clone(log), position))
        .map_err(|error| match error {
            FsError::Object(_) | FsError::Journal(_) => error,
            // An operation in a journal cannot fail on the state that it was made on.
            _ => JournalError::Misfit {
                place: place.path(number),
            }
            .into(),
        })
}

/// Distinguishes a stored state from others; never 0.
pub(super) fn mark_of(base: &BaseTree) -> u64 {
    let mut hasher = blake3::Hasher::new();
    if let EntryKind::Directory {
        entries: Some(id), ..
    } = base.root.directory.kind
    {
        hasher.update(id.object().as_bytes());
    }
    if let Some(links) = base.root.links {
        hasher.update(links.object().as_bytes());
    }
    let hash = hasher.finalize();
    u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes")).max(1)
}
