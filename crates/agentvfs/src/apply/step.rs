//! The changes of a directory, one step after the other, as data: a plan is a list of steps, and the same
//! list, read back from the disk, is used to roll back an interrupted one.

use avfs_core::{Entry, Timestamp, TreePath};
use serde::{Deserialize, Serialize};

use super::host::FileKey;
use super::print::Print;
use super::record::ApplyRecord;
use crate::record::time;
use crate::stored_bytes::StoredBytes;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ApplyStep {
    #[serde(with = "tree_path")]
    pub path: TreePath,
    /// The directory in which the new entry is made before it gets its place: the deepest that is there.
    #[serde(with = "tree_path")]
    pub anchor: TreePath,
    pub action: StepAction,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum StepAction {
    /// A new file or symbolic link, over the one that must be there, or over nothing.
    Put {
        over: Option<Print>,
        #[serde(skip)]
        new: New,
    },
    Remove {
        was: Print,
    },
    /// The file itself gets another name, which must be free. Its anchor is the directory that it leaves.
    Rename {
        #[serde(with = "tree_path")]
        from: TreePath,
        was: Print,
        key: FileKey,
    },
    MakeDirectory {
        mode: u32,
        /// `None`: the one of the directory above.
        owner: Option<(u32, u32)>,
    },
    RemoveDirectory {
        mode: u32,
        owner: (u32, u32),
        #[serde(with = "time")]
        mtime: Timestamp,
    },
    SetMode {
        from: u32,
        to: u32,
    },
}

impl ApplyStep {
    /// The path that is free when the step is done.
    pub(super) fn leaves(&self) -> Option<&TreePath> {
        match &self.action {
            StepAction::Remove { .. } | StepAction::RemoveDirectory { .. } => Some(&self.path),
            StepAction::Rename { from, .. } => Some(from),
            StepAction::Put { .. } | StepAction::MakeDirectory { .. } | StepAction::SetMode { .. } => None,
        }
    }
}

/// Where the new entry comes from.
#[derive(Clone, Debug, Default)]
pub(crate) enum New {
    /// It was made before this list was read back.
    #[default]
    Made,
    /// As a tree has it. `keeps_xattrs`: extended attributes are those of the file that it replaces.
    Stored { entry: Entry, keeps_xattrs: bool },
    /// A text that no tree has.
    Text { bytes: Vec<u8>, mode: u32 },
    /// An entry that an earlier apply has kept, by its number there.
    Kept { number: usize, print: Print },
}

/// A directory in which something changes, and its modification time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DirectoryTime {
    #[serde(with = "tree_path")]
    pub path: TreePath,
    /// `None`: it is new.
    #[serde(with = "optional_time")]
    pub before: Option<Timestamp>,
    /// `None`: the time that it gets automatically.
    #[serde(with = "optional_time")]
    pub want: Option<Timestamp>,
}

/// Everything that is durable before the first change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ApplyJournal {
    pub into: StoredBytes,
    pub top: FileKey,
    pub steps: Vec<ApplyStep>,
    pub directories: Vec<DirectoryTime>,
    pub record: ApplyRecord,
}

/// A new entry that waits beside its place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Staged {
    pub key: FileKey,
    pub print: Print,
}

/// The modification time that a directory was left with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LeftTime {
    #[serde(with = "tree_path")]
    pub path: TreePath,
    #[serde(with = "time")]
    pub mtime: Timestamp,
}

/// Paths exactly, as text where they are text.
pub(crate) mod tree_path {
    use avfs_core::TreePath;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::stored_bytes::StoredBytes;

    pub(crate) fn serialize<S: Serializer>(path: &TreePath, serializer: S) -> Result<S::Ok, S::Error> {
        StoredBytes::from(path.as_bytes()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TreePath, D::Error> {
        TreePath::parse(StoredBytes::deserialize(deserializer)?.as_bytes()).map_err(serde::de::Error::custom)
    }
}

/// The same for a path that may not be there.
pub(crate) mod optional_tree_path {
    use avfs_core::TreePath;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Path(#[serde(with = "super::tree_path")] TreePath);

    pub(crate) fn serialize<S: Serializer>(
        path: &Option<TreePath>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.clone().map(Path).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<TreePath>, D::Error> {
        Ok(Option::<Path>::deserialize(deserializer)?.map(|Path(path)| path))
    }
}

mod optional_time {
    use avfs_core::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Time(#[serde(with = "crate::record::time")] Timestamp);

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(Time).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<Time>::deserialize(deserializer)?.map(|Time(time)| time))
    }
}
