//! The number of ignored files, and where they are.

use std::collections::BTreeMap;

use avfs_core::TreePath;

/// The highest ignored entry on the way to some changed files, and how many of them there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredPlace {
    /// The path.
    pub path: TreePath,
    /// Otherwise it is a file itself.
    pub is_directory: bool,
    /// How many files it has.
    pub files: usize,
}

/// The files that were omitted because they are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoredSummary {
    places: BTreeMap<TreePath, (bool, usize)>,
}

impl IgnoredSummary {
    /// Counts a changed file below an ignored directory, or one that is ignored itself.
    pub(crate) fn add(&mut self, place: TreePath, is_directory: bool) {
        self.places.entry(place).or_insert((is_directory, 0)).1 += 1;
    }

    /// Whether nothing is ignored.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The number of files.
    pub fn files(&self) -> usize {
        self.places.values().map(|(_, files)| files).sum()
    }

    /// By path.
    pub fn places(&self) -> impl Iterator<Item = IgnoredPlace> + '_ {
        self.places
            .iter()
            .map(|(path, (is_directory, files))| IgnoredPlace {
                path: path.clone(),
                is_directory: *is_directory,
                files: *files,
            })
    }
}
