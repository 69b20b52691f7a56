//! Changes that are done anew when another process was faster.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::open::{OpenVault, Saved};
use crate::vault::Vault;

/// How often a change is done before the others win.
const ATTEMPTS: u32 = 20;

impl Vault {
    /// Lets `edit` change the vault and takes a snapshot of that. If `edit` fails, nothing has happened.
    ///
    /// While another process owns the vault and changes the same paths, `edit` is called again on the state
    /// that has these changes: it must not rely on having been called once, and what it decides by what it
    /// sees, it decides anew. What it has stored meanwhile is kept.
    pub fn change<T, E: From<Error>>(
        &self,
        action: &str,
        detail: &str,
        mut edit: impl FnMut(&OpenVault) -> Result<T, E>,
    ) -> Result<(T, Option<Saved>), E> {
        self.repeat(|open| {
            let value = edit(open)?;
            Ok(open.save(action, detail).map(|saved| (value, saved)))
        })
    }

    pub(crate) fn attempt<T>(&self, mut act: impl FnMut(&OpenVault) -> Result<T>) -> Result<T> {
        self.repeat(|open| Ok(act(open)))
    }

    /// Does something until it is not overtaken. The outer error of `act` ends it at once.
    fn repeat<T, E: From<Error>>(
        &self,
        mut act: impl FnMut(&OpenVault) -> Result<Result<T>, E>,
    ) -> Result<T, E> {
        let mut open = self.begin()?;
        let mut attempt = 1;
        loop {
            match act(&open)? {
                Err(Error::Overtaken { .. }) if attempt < ATTEMPTS => {
                    std::thread::sleep(pause_before(attempt));
                    open = open.anew()?;
                    attempt += 1;
                }
                outcome => return Ok(outcome?),
            }
        }
    }
}

/// Longer from time to time, and not the same for two processes that meet again and again.
fn pause_before(attempt: u32) -> Duration {
    let step = Duration::from_micros(500 + u64::from(std::process::id() % 16) * 50);
    step * attempt.min(ATTEMPTS)
}
