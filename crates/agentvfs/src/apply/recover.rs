//! What a killed process left: taken back, or put away if everything was done.

use super::carry::put_away_or_forget;
use super::error::{ApplyError, KeptCopy};
use super::host::Host;
use super::ledger::{Folder, Ledger};
use super::record::{ApplyId, ApplyRecord};
use super::step::{Journal, LeftTime};
use super::taking_back::TakingBack;
use crate::error::{Error, Result};
use crate::store::Store;

/// An apply that another process had not finished.
#[derive(Debug)]
pub struct Recovered {
    /// The number that the user knows it by, if there is one.
    pub id: ApplyId,
    /// It was the taking back of that one.
    pub is_undo: bool,
    pub outcome: Recovery,
}

#[derive(Debug)]
pub enum Recovery {
    /// Everything had been done.
    Finished,
    /// The directory is as it was; these versions, which somebody wrote since, are kept.
    TakenBack(Vec<KeptCopy>),
    /// It cannot be now: the directory is gone, or refuses. It will be tried again.
    Stuck(Error),
}

impl Store {
    /// Finishes or takes back what a killed process left. Costs a look into one directory if there is nothing.
    /// While another process applies something, there is nothing to do.
    pub fn recover_applies(&self) -> Result<Vec<Recovered>> {
        if self.home().is_none() {
            return Ok(Vec::new());
        }
        let ledger = Ledger::of(self)?;
        if ledger.unfinished()?.is_empty() {
            return Ok(Vec::new());
        }
        match ledger.turn_at_once()? {
            Some(_turn) => self.recover_under_turn(&ledger),
            None => Ok(Vec::new()),
        }
    }

    /// Whoever calls this has the turn.
    pub(super) fn recover_under_turn(&self, ledger: &Ledger) -> Result<Vec<Recovered>> {
        let mut recovered = Vec::new();
        for id in ledger.unfinished()?.into_iter().rev() {
            let record = ledger.open_pending(id).read::<Journal>(Folder::PLAN).ok().flatten();
            let record = record.map(|journal| journal.record);
            let outcome = self.recover(ledger, id).unwrap_or_else(Recovery::Stuck);
            let is_undo = record.as_ref().is_some_and(ApplyRecord::is_undo);
            let id = record.and_then(|record| self.first_apply(&record).ok()).unwrap_or(id);
            recovered.push(Recovered { id, is_undo, outcome });
        }
        Ok(recovered)
    }

    fn recover(&self, ledger: &Ledger, id: ApplyId) -> Result<Recovery> {
        let folder = ledger.open_pending(id);
        let Some(journal) = folder.read::<Journal>(Folder::PLAN)? else {
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
        let host = Host::open(&path)?;
        if host.key != journal.top {
            let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(ApplyError::host("finding again", path, gone).into());
        }
        let kept = TakingBack::new(&host, &folder, &journal)?.run()?;
        Ok(Recovery::TakenBack(put_away_or_forget(ledger, &folder, &journal.into, kept)?))
    }
}
