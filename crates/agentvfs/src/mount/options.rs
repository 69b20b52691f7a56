//! What a mount is to be, also as the words that travel to the owner.

use avfs_core::{ObjectId, SnapshotId};
pub use avfs_fuse::transport::Transport;

use crate::error::{Error, Result};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    pub read_only: bool,
    /// Users other than the one who mounts may use it.
    pub allow_other: bool,
    /// Show this snapshot, and not the present.
    pub at: Option<SnapshotId>,
    pub transport: Transport,
}

const READ_ONLY: &str = "read-only";
const ALLOW_OTHER: &str = "allow-other";
const AT: &str = "at=";
const TRANSPORT: &str = "transport=";

impl MountOptions {
    /// The past cannot be written to.
    pub fn is_read_only(&self) -> bool {
        self.read_only || self.at.is_some()
    }

    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.read_only.then(|| READ_ONLY.to_owned()));
        words.extend(self.allow_other.then(|| ALLOW_OTHER.to_owned()));
        words.extend(self.at.map(|snapshot| format!("{AT}{snapshot}")));
        if self.transport != Transport::Auto {
            words.push(format!("{TRANSPORT}{}", self.transport.as_str()));
        }
        words
    }

    pub fn parse(words: &[String]) -> Result<MountOptions> {
        let mut options = MountOptions::default();
        for word in words {
            let bad = || Error::BadRequest { reason: format!("'{word}' is not an option of a mount") };
            if word == READ_ONLY {
                options.read_only = true;
            } else if word == ALLOW_OTHER {
                options.allow_other = true;
            } else if let Some(snapshot) = word.strip_prefix(AT) {
                let id = ObjectId::parse_hex(snapshot).map_err(|_| bad())?;
                options.at = Some(SnapshotId::from_object(id));
            } else if let Some(name) = word.strip_prefix(TRANSPORT) {
                let known = Transport::ALL.into_iter().find(|transport| transport.as_str() == name);
                options.transport = known.ok_or_else(bad)?;
            } else {
                return Err(bad());
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_travel_as_words() {
        let at = Some(SnapshotId::of(b"a snapshot"));
        for transport in Transport::ALL {
            for (read_only, allow_other, at) in [(false, false, None), (true, false, at), (false, true, at)] {
                let options = MountOptions { read_only, allow_other, at, transport };
                assert_eq!(MountOptions::parse(&options.words()).unwrap(), options);
            }
        }
        assert!(MountOptions::parse(&["sideways".into()]).is_err());
    }
}
