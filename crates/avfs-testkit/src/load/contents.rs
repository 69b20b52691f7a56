//! The contents of a load: everything is derived from the thread, the file and a number.

use avfs_core::ObjectKind;

use crate::noise;

/// Two pages, so that a slot can be torn.
pub(super) const SLOT_BYTES: usize = 8_192;

/// One change by one thread. Numbers count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Log { record: u64 },
    Document { number: u64, version: u64 },
    Slot { number: u64, version: u64 },
    Created { number: u64 },
    Removed { number: u64 },
}

impl Item {
    /// The file that is changed.
    pub fn file(&self, thread: u64) -> String {
        match self {
            Item::Log { .. } => format!("t{thread}-log"),
            Item::Document { number, .. } => format!("t{thread}-document-{number}"),
            Item::Slot { .. } => format!("t{thread}-slots"),
            Item::Created { number } | Item::Removed { number } => format!("t{thread}-file-{number}"),
        }
    }

    /// The counter and its value: the last acknowledged value covers all earlier ones.
    pub fn acknowledgement(&self, thread: u64) -> String {
        match self {
            Item::Log { record } => format!("t{thread}-log {record}"),
            Item::Document { number, version } => format!("t{thread}-document-{number} {version}"),
            Item::Slot { number, version } => format!("t{thread}-slot-{number} {version}"),
            Item::Created { number } => format!("t{thread}-created {number}"),
            Item::Removed { number } => format!("t{thread}-removed {number}"),
        }
    }

    /// A line that identifies the contents, with the hash of the rest, and noise.
    pub fn bytes(&self, thread: u64) -> Vec<u8> {
        let title = self.acknowledgement(thread);
        let length = match self {
            Item::Slot { .. } => SLOT_BYTES,
            Item::Log { .. } | Item::Document { .. } | Item::Created { .. } | Item::Removed { .. } => {
                200 + number_of(&title) as usize % 10_000
            }
        };
        let head = |hash: &str| format!("{title} {length} {hash}\n").into_bytes();
        let hash_length = ObjectKind::Blob.hash(b"").to_string().len();
        let noise = noise(number_of(&title), length - head(&"0".repeat(hash_length)).len());
        [head(&ObjectKind::Blob.hash(&noise).to_string()), noise].concat()
    }
}

fn number_of(title: &str) -> u64 {
    let hash = ObjectKind::Blob.hash(title.as_bytes()).to_string();
    u64::from_str_radix(&hash[..8], 16).unwrap()
}
