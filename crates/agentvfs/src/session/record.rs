//! Which sessions a store has.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use avfs_core::Timestamp;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::client::SessionClient;
use crate::error::{Error, Result};
use crate::exec::PublishedBody;
use crate::exec::places::{LOCK, RECORD, SESSIONS, clear_away};
use crate::record::time;
use crate::store::Store;

/// What a session is, for as long as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    pub id: String,
    pub vault: String,
    #[serde(with = "time")]
    pub since: Timestamp,
    pub idle_limit_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The process that hosts it.
    pub pid: u32,
    /// Ports inside that this machine reaches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedBody>,
}

/// What a session does at the moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionState {
    #[serde(flatten)]
    pub record: SessionRecord,
    pub activity: Activity,
    /// How long it has had nothing to do.
    pub idle_ms: u64,
    /// How many commands it was given.
    pub commands: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    Idle,
    Running,
    /// It does not answer.
    Silent,
}

impl Activity {
    pub fn as_str(self) -> &'static str {
        match self {
            Activity::Idle => "idle",
            Activity::Running => "running",
            Activity::Silent => "silent",
        }
    }
}

impl Store {
    /// The sessions that there are, oldest first.
    pub fn sessions(&self) -> Result<Vec<SessionState>> {
        let Some(home) = self.home() else { return Ok(Vec::new()) };
        clear_away(home);
        let place = home.join(SESSIONS);
        let listing = match std::fs::read_dir(&place) {
            Ok(listing) => listing,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(host("listing", &place, source)),
        };
        let ids = listing.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut sessions: Vec<SessionState> =
            ids.filter_map(|id| self.session(&id).ok()?.state().ok()).collect();
        sessions.sort_by(|one, other| {
            (one.record.since, &one.record.id).cmp(&(other.record.since, &other.record.id))
        });
        Ok(sessions)
    }

    /// A session by its id.
    pub fn session(&self, id: &str) -> Result<SessionClient> {
        let unknown = || Error::UnknownSession { id: id.to_owned() };
        let is_name = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let home = self.home().filter(|_| is_name).ok_or_else(unknown)?;
        let place = home.join(SESSIONS).join(id);
        match lives(&place) {
            true => Ok(SessionClient::new(read(&place).map_err(|_| unknown())?, place, self.patience())),
            false => {
                clear_away(home);
                Err(unknown())
            }
        }
    }
}

/// Whether a process has the session.
pub(super) fn lives(place: &Path) -> bool {
    let Ok(lock) = File::open(place.join(LOCK)) else { return false };
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()
}

pub(super) fn write(place: &Path, record: &SessionRecord) -> Result<()> {
    let (file, draft) = (place.join(RECORD), place.join("session.new"));
    std::fs::write(&draft, crate::record::encode(record))
        .and_then(|()| std::fs::rename(&draft, &file))
        .map_err(|source| host("writing", &file, source))
}

fn read(place: &Path) -> io::Result<SessionRecord> {
    Ok(serde_json::from_slice(&std::fs::read(place.join(RECORD))?)?)
}

pub(super) fn host(action: &'static str, place: &Path, source: io::Error) -> Error {
    Error::Host { action, place: place.display().to_string(), source }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Short enough to be typed, long enough that two are never the same.
pub(super) fn new_id(home: &Path) -> String {
    let taken = |id: &str| -> PathBuf { home.join(SESSIONS).join(id) };
    loop {
        let hash = blake3::hash(crate::exec::run_id().as_bytes()).to_hex();
        let id = format!("s{}", &hash[..8]);
        if !taken(&id).exists() {
            return id;
        }
    }
}
