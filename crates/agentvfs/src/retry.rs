//! Changes that are repeated when another process was faster.

use std::time::Duration;

use crate::error::{Error, FileError, Result};
use crate::open::OpenVault;
use crate::vault::Vault;

/// How often a change is tried before it fails.
const ATTEMPTS: u32 = 20;

/// Repeats an action until it is not overtaken. The outer error of `act` ends it immediately.
pub(crate) fn repeat<T, E: From<Error>>(
    vault: &Vault,
    mut act: impl FnMut(&OpenVault) -> Result<Result<T>, E>,
) -> Result<T, E> {
    let mut open = vault.begin()?;
    let mut attempt = 1;
    loop {
        match act(&open)? {
            Err(Error::File(FileError::Overtaken { .. })) if attempt < ATTEMPTS => {
                std::thread::sleep(pause_before(attempt));
                open = open.reopened()?;
                attempt += 1;
            }
            outcome => return Ok(outcome?),
        }
    }
}

/// Longer from time to time, and not the same for two processes that meet again and again.
fn pause_before(attempt: u32) -> Duration {
    let step = Duration::from_micros(500 + u64::from(std::process::id() % 16) * 50);
    step * attempt.min(ATTEMPTS)
}
