//! Doing again what journals say that the head does not contain.

use std::path::PathBuf;
use std::sync::Arc;

use avfs_core::EntryKind;

use super::state::{Base, State};
use super::{JournalPlace, remove_journal};
use crate::error::FsError;
use crate::journal::{Journal, JournalError, LogFile, Note};
use crate::objects::Objects;
use crate::op::Op;
use crate::overlay::Data;

/// The numbers of what is in the directory of a journal, in order.
#[derive(Default)]
pub(super) struct Listed {
    pub journals: Vec<u64>,
    pub notes: Vec<u64>,
}

impl JournalPlace {
    pub(super) fn path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("journal.{number}"))
    }

    pub(super) fn listed(&self) -> Result<Listed, FsError> {
        let failed = |source| -> FsError {
            JournalError::Io { action: "listing", place: self.directory.clone(), source }.into()
        };
        let mut listed = Listed::default();
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(listed),
            Err(source) => return Err(failed(source)),
        };
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let Some(rest) = name.to_str().and_then(|name| name.strip_prefix("journal.")) else { continue };
            match rest.strip_suffix(".note") {
                Some(number) => listed.notes.extend(number.parse::<u64>()),
                None => listed.journals.extend(rest.parse::<u64>()),
            }
        }
        listed.journals.sort_unstable();
        listed.notes.sort_unstable();
        Ok(listed)
    }

    /// The numbers of the journals that the head does not contain. One that has a note and is not there was lost.
    pub(super) fn left(&self) -> Result<Vec<u64>, FsError> {
        let mut listed = self.listed()?;
        let is_left = |number: &u64| *number > self.included;
        listed.journals.retain(is_left);
        match listed.notes.into_iter().filter(is_left).find(|number| !listed.journals.contains(number)) {
            Some(lost) => Err(JournalError::Missing { place: self.path(lost) }.into()),
            None => Ok(listed.journals),
        }
    }

    /// Removes journals that the head contains, which a crash kept from being removed.
    fn remove_included(&self) -> Result<(), FsError> {
        let listed = self.listed()?;
        let old = listed.journals.into_iter().chain(listed.notes).filter(|number| *number <= self.included);
        old.for_each(|number| remove_journal(&self.path(number)));
        Ok(())
    }

    /// Fails if the journal does not go on from what is there: the stored state, or the journal `last`.
    fn check_origin(&self, number: u64, last: u64, state: &State) -> Result<(), FsError> {
        let place = self.path(number);
        let Some(origin) = Note::read(&place).map(|note| note.origin) else { return Ok(()) };
        let fits = match origin.base {
            0 => origin.follows <= last,
            base => last == self.included && base == mark_of(&state.base),
        };
        if fits { Ok(()) } else { Err(JournalError::Misfit { place }.into()) }
    }

    /// Whether something was synced to a journal.
    fn was_synced(&self, number: u64) -> bool {
        Note::read(&self.path(number)).is_some_and(|note| note.durable > 0)
    }
}

/// Does again what the journals say that the head does not contain; the last one stays open. Returns the number of
/// the last one.
pub(super) fn replay_journals(state: &mut State, place: &JournalPlace) -> Result<u64, FsError> {
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
        (last, is_whole) = (number, sealed);
        match sealed {
            true => state.sealed.push(Arc::clone(journal.log())),
            false => state.journal = Some(journal),
        }
    }
    Ok(last)
}

/// Does the same in memory alone, and changes no file.
pub(super) fn rehearse_journals(objects: Objects, base: Base, place: &JournalPlace) -> Result<(), FsError> {
    let mut state = State::new(objects, base)?;
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

/// A journal behind one that is not sealed is what a crash left, if nothing in it was synced: the one before would
/// have been whole by then.
fn check_unsynced(place: &JournalPlace, last: u64, number: u64) -> Result<(), FsError> {
    let before = place.path(last);
    match place.was_synced(number) {
        true => {
            let position = before.metadata().map_or(0, |journal| journal.len());
            Err(JournalError::Damaged { place: before, position }.into())
        }
        false => Ok(()),
    }
}

fn apply(
    state: &mut State,
    place: &JournalPlace,
    number: u64,
    log: &Arc<LogFile>,
    op: Op,
    position: u64,
) -> Result<(), FsError> {
    state.apply(op, Data::Logged(Arc::clone(log), position)).map_err(|error| match error {
        FsError::Object(_) | FsError::Journal(_) => error,
        // An operation in a journal cannot fail on the state that it was made on.
        _ => JournalError::Misfit { place: place.path(number) }.into(),
    })
}

/// Tells a stored state from others; never 0.
pub(super) fn mark_of(base: &Base) -> u64 {
    let mut hasher = blake3::Hasher::new();
    if let EntryKind::Directory { entries: Some(id), .. } = base.root.directory.kind {
        hasher.update(id.object().as_bytes());
    }
    if let Some(links) = base.root.links {
        hasher.update(links.object().as_bytes());
    }
    let hash = hasher.finalize();
    u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes")).max(1)
}
