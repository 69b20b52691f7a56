//! The log of a process that serves a vault in the background, and the detachment from the process that
//! started it.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use agentvfs::mount::Report;
use agentvfs::{Error, Vault};
use anyhow::Result;

/// A log is begun again when it is this long.
const LOG_MAX: u64 = 1 << 20;

/// The log in which processes that serve a vault write messages for the operator.
pub struct BackgroundLog {
    file: Arc<Mutex<File>>,
}

impl BackgroundLog {
    pub fn open(vault: &Vault) -> Result<BackgroundLog> {
        let place = if vault.store().is_read_only() {
            PathBuf::from("/dev/null")
        } else {
            vault.log_place()?
        };
        let host = |source| Error::Host {
            action: "opening",
            place: place.display().to_string(),
            source,
        };
        if std::fs::metadata(&place).is_ok_and(|log| log.len() > LOG_MAX) {
            std::fs::remove_file(&place).map_err(host)?;
        }
        if let Some(directory) = place.parent() {
            std::fs::create_dir_all(directory).map_err(host)?;
        }
        let file = File::options()
            .create(true)
            .append(true)
            .open(&place)
            .map_err(host)?;
        Ok(BackgroundLog {
            file: Arc::new(Mutex::new(file)),
        })
    }

    pub fn report(&self) -> Report {
        let file = Arc::clone(&self.file);
        Arc::new(move |line| {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            // If the log cannot be written, the message is lost.
            let _ = writeln!(file, "{} {line}", jiff::Timestamp::now());
        })
    }

    /// Reports success to the process that started this one, and closes its streams: it may wait for their
    /// end.
    pub fn detach_from_starter(&self, ready: &str) -> Result<()> {
        say(ready)?;
        let host = |source| Error::Host {
            action: "letting go of",
            place: "the terminal".into(),
            source,
        };
        let nowhere = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map_err(host)?;
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        rustix::stdio::dup2_stdout(&nowhere).map_err(|errno| host(errno.into()))?;
        rustix::stdio::dup2_stderr(&*file).map_err(|errno| host(errno.into()))?;
        // The directory that we were started in may be unmounted or removed one day.
        std::env::set_current_dir("/").map_err(host)?;
        Ok(())
    }
}

/// One line to the process that started this one.
pub fn say(line: &str) -> Result<()> {
    let host = |source| Error::Host {
        action: "talking to",
        place: "the terminal".into(),
        source,
    };
    let mut output = std::io::stdout().lock();
    Ok(writeln!(output, "{line}")
        .and_then(|()| output.flush())
        .map_err(host)?)
}
