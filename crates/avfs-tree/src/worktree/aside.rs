//! Journals that cannot be replayed: reporting them, and keeping the intact part.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::replay::rehearse_journals;
use super::state::BaseTree;
use super::{JournalPlace, remove_journal};
use crate::error::FsError;
use crate::journal::{JournalError, JournalNote, mend_header, remove_note};
use crate::objects::Objects;

/// How often a repair searches for the next damaged journal.
const ROUNDS: usize = 64;

/// The result of repairing a journal that could not be replayed.
#[derive(Debug)]
pub struct SetAside {
    /// The damage.
    pub error: JournalError,
    /// The journal as it was, if it existed.
    pub kept: Option<PathBuf>,
    /// How many bytes from its start are still used.
    pub whole: u64,
    /// Nothing of it is lost.
    pub mended: bool,
}

impl JournalPlace {
    /// Returns why the journals cannot be replayed, if so. Changes nothing. Only for the owner of the tree.
    pub fn flaw(&self, objects: &Objects, base: &BaseTree) -> Result<Option<JournalError>, FsError> {
        match rehearse_journals(objects.clone(), base.clone(), self) {
            Ok(()) => Ok(None),
            Err(FsError::Journal(
                flaw @ (JournalError::Damaged { .. }
                | JournalError::Missing { .. }
                | JournalError::Replaced { .. }
                | JournalError::Version { .. }
                | JournalError::Misfit { .. }),
            )) => Ok(Some(flaw)),
            Err(error) => Err(error),
        }
    }

    /// Makes the journals replayable: each damaged one is cut at the damage, and the original is kept beside
    /// it, together with the journals that follow. Only for the owner of the tree.
    pub fn repair(&self, objects: &Objects, base: &BaseTree) -> Result<Vec<SetAside>, FsError> {
        let mut done = Vec::new();
        for _ in 0..ROUNDS {
            let Some(flaw) = self.flaw(objects, base)? else {
                break;
            };
            done.extend(self.set_aside(flaw)?);
        }
        Ok(done)
    }

    fn set_aside(&self, error: JournalError) -> Result<Vec<SetAside>, FsError> {
        let (place, whole) = match &error {
            JournalError::Damaged { place, position } => (place.clone(), *position),
            JournalError::Missing { place }
            | JournalError::Replaced { place }
            | JournalError::Version { place }
            | JournalError::Misfit { place }
            | JournalError::Full { place }
            | JournalError::Failed { place }
            | JournalError::Io { place, .. } => (place.clone(), 0),
        };
        let failed = |source| JournalError::Io {
            action: "setting aside",
            place: place.clone(),
            source,
        };
        if whole == 0 && mend_header(&place).map_err(failed)? {
            return Ok(vec![SetAside {
                error,
                kept: None,
                whole,
                mended: true,
            }]);
        }
        let mut done = self.set_followers_aside(&place)?;
        let kept = keep_beside(&place).map_err(failed)?;
        match &kept {
            Some(kept) if whole > 0 => keep_start(kept, &place, whole).map_err(failed)?,
            _ => remove_note(&place).map_err(failed)?,
        }
        done.insert(
            0,
            SetAside {
                error,
                kept,
                whole,
                mended: false,
            },
        );
        Ok(done)
    }

    /// Journals after a damaged one continue from operations that it lost.
    fn set_followers_aside(&self, damaged: &Path) -> Result<Vec<SetAside>, FsError> {
        let followers = self
            .listed()?
            .journals
            .into_iter()
            .filter(|number| *number > self.included);
        let followers = followers
            .map(|number| self.path(number))
            .skip_while(|path| path != damaged);
        let mut done = Vec::new();
        for path in followers.skip(1) {
            let failed = |source| JournalError::Io {
                action: "setting aside",
                place: path.clone(),
                source,
            };
            let kept = keep_beside(&path).map_err(failed)?;
            remove_note(&path).map_err(failed)?;
            done.push(SetAside {
                error: JournalError::Misfit { place: path },
                kept,
                whole: 0,
                mended: false,
            });
        }
        Ok(done)
    }
}

/// Renames a journal so that it is no longer used; `None` if it does not exist.
fn keep_beside(journal: &Path) -> io::Result<Option<PathBuf>> {
    let names = (1..).map(|count| match count {
        1 => format!("{}.damaged", journal.display()),
        count => format!("{}.damaged-{count}", journal.display()),
    });
    let kept = names
        .map(PathBuf::from)
        .find(|name| !name.exists())
        .unwrap_or_default();
    match std::fs::rename(journal, &kept) {
        Ok(()) => Ok(Some(kept)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a journal from the first bytes of another one. The note is lowered first, so that it never claims
/// more than the file contains.
fn keep_start(kept: &Path, journal: &Path, whole: u64) -> io::Result<()> {
    let note = JournalNote::read(journal);
    remove_note(journal)?;
    let mut bytes = vec![0; usize::try_from(whole).map_err(io::Error::other)?];
    let length = kept.metadata()?.len().min(whole) as usize;
    bytes.truncate(length);
    File::open(kept)?.read_exact_at(&mut bytes, 0)?;
    let written = std::fs::write(journal, &bytes).and_then(|()| File::open(journal)?.sync_all());
    written.inspect_err(|_| remove_journal(journal))?;
    if let Some(note) = note {
        JournalNote {
            durable: length as u64,
            ..note
        }
        .write(journal);
    }
    Ok(())
}
