//! The leftovers of a killed process: rolled back, or put away if everything was done.

use super::carry::put_away_or_forget;
use super::host::HostFiles;
use super::ledger::{Folder, Ledger};
use super::record::ApplyRecord;
use super::rollback::Rollback;
use super::step::{ApplyJournal, LeftTime};
use crate::apply::record::Applies;
use crate::error::ApplyId;
use crate::error::{ApplyError, KeptCopy};
use crate::error::{Error, Result};

/// An apply that another process had not finished.
#[derive(Debug)]
pub struct Recovered {
    /// The number by which the user knows it, if there is one.
    pub id: ApplyId,
    /// It was the undo of that apply.
    pub is_undo: bool,
    /// What became of it.
    pub outcome: Recovery,
}

/// What became of an apply that was interrupted.
#[derive(Debug)]
pub enum Recovery {
    /// Everything had been done.
    Finished,
    /// The directory is unchanged; these versions, which another program wrote since, are kept.
    TakenBack(Vec<KeptCopy>),
    /// It cannot be now: the directory is gone, or refuses. It will be tried again.
    Stuck(Error),
}

impl Applies<'_> {
    /// Finishes or rolls back the leftovers of a killed process. If there are none, the cost is one directory
    /// listing. While another process applies something, this does nothing.
    pub fn recover(&self) -> Result<Vec<Recovered>> {
        let Some(work) = self.store.work().existing() else {
            return Ok(Vec::new());
        };
        let ledger = Ledger::at(work);
        if ledger.unfinished()?.is_empty() {
            return Ok(Vec::new());
        }
        match ledger.turn_at_once()? {
            Some(_turn) => self.recover_under_turn(&ledger),
            None => Ok(Vec::new()),
        }
    }

    /// The caller has the turn.
    pub(super) fn recover_under_turn(&self, ledger: &Ledger) -> Result<Vec<Recovered>> {
        let mut recovered = Vec::new();
        for id in ledger.unfinished()?.into_iter().rev() {
            let record = ledger
                .open_pending(id)
                .read::<ApplyJournal>(Folder::PLAN)
                .ok()
                .flatten();
            let record = record.map(|journal| journal.record);
            let outcome = self.recover_directory(ledger, id).unwrap_or_else(Recovery::Stuck);
            let is_undo = record.as_ref().is_some_and(ApplyRecord::is_undo);
            let id = record.and_then(|record| self.first(&record).ok()).unwrap_or(id);
            recovered.push(Recovered { id, is_undo, outcome });
        }
        Ok(recovered)
    }

    fn recover_directory(&self, ledger: &Ledger, id: ApplyId) -> Result<Recovery> {
        let folder = ledger.open_pending(id);
        let Some(journal) = folder.read::<ApplyJournal>(Folder::PLAN)? else {
            // It had not even begun.
            folder.remove()?;
            return Ok(Recovery::TakenBack(Vec::new()));
        };
        if folder.read::<Vec<LeftTime>>(Folder::DONE)?.is_some() {
            self.keep_apply_record(&journal.record)?;
            ledger.put_away(&folder, &journal.into)?;
            if let Some(undone) = journal.record.undoes {
                ledger.open_done(undone).remove()?;
            }
            return Ok(Recovery::Finished);
        }
        let path = journal.record.directory();
        let host = HostFiles::open(&path)?;
        if host.key != journal.top {
            let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(ApplyError::host("finding again", path, gone).into());
        }
        let kept = Rollback::new(&host, &folder, &journal)?.run()?;
        Ok(Recovery::TakenBack(put_away_or_forget(
            ledger,
            &folder,
            &journal.into,
            kept,
        )?))
    }
}
