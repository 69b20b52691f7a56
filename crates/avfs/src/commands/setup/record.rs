//! What setup did to files of settings, so that a removal restores each of them to the byte.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::change::SetupChange;
use crate::escape::printable_path;

/// A shorter text could be found by accident where it is not ours.
const SHORTEST_FOUND: usize = 16;

/// The files that setup has changed, in the user's own state.
#[derive(Debug, Default)]
pub struct SetupRecords {
    place: PathBuf,
    files: BTreeMap<PathBuf, FileRecord>,
}

/// What setup did to one file: it put `added` where `replaced` was. The rest of the file is not kept here,
/// because settings hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// There was no file.
    made: bool,
    /// The directories that were made for it, outermost first.
    directories: Vec<PathBuf>,
    at: usize,
    replaced: String,
    added: String,
}

impl SetupRecords {
    /// The records in the user's home. A file that cannot be read holds none: removals are then more careful.
    pub fn of_user(home: &Path) -> SetupRecords {
        let state = std::env::var_os("XDG_STATE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .unwrap_or_else(|| home.join(".local/state"));
        let place = state.join("agentvfs/setup.json");
        let files = fs::read(&place).ok();
        let files = files.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        SetupRecords {
            place,
            files: files.unwrap_or_default(),
        }
    }

    /// Whether setup made the file.
    pub fn has_made(&self, file: &Path) -> bool {
        self.files.get(file).is_some_and(|record| record.made)
    }

    /// What setup added to a file.
    pub fn added(&self, file: &Path) -> Option<&str> {
        Some(&self.files.get(file)?.added)
    }

    /// The directories that setup made for a file, outermost first.
    pub fn directories(&self, file: &Path) -> &[PathBuf] {
        self.files.get(file).map_or(&[], |record| &record.directories)
    }

    /// The file as it would be if setup had never changed it; outer `None`: that is not known.
    pub fn original(&self, file: &Path, now: Option<&str>) -> Option<Option<String>> {
        self.files.get(file)?.undone(now?)
    }

    /// Keeps what a change does, before it is made.
    pub fn add(&mut self, change: &SetupChange, removes: bool) -> Result<()> {
        let SetupChange::File { file, before, after } = change else {
            return Ok(());
        };
        let original = match self.original(file, before.as_deref()) {
            Some(original) => original,
            // Another program rewrote what setup had added.
            None if removes => return self.forget(file),
            None => before.clone(),
        };
        if original == *after {
            // Forgotten once the change is made.
            return Ok(());
        }
        let mut directories = self.directories(file).to_vec();
        directories.extend(missing_directories(file));
        let record = FileRecord::of(
            original.as_deref(),
            after.as_deref().unwrap_or_default(),
            directories,
        );
        self.files.insert(file.clone(), record);
        self.save()
    }

    /// Forgets a file that is again as it was.
    pub fn settle(&mut self, change: &SetupChange) -> Result<()> {
        match change {
            SetupChange::File { file, before, after }
                if self
                    .original(file, before.as_deref())
                    .is_some_and(|original| original == *after) =>
            {
                self.forget(file)
            }
            _ => Ok(()),
        }
    }

    fn forget(&mut self, file: &Path) -> Result<()> {
        match self.files.remove(file) {
            Some(_) => self.save(),
            None => Ok(()),
        }
    }

    fn save(&self) -> Result<()> {
        self.write()
            .with_context(|| format!("writing {}", printable_path(&self.place)))
    }

    fn write(&self) -> io::Result<()> {
        let directory = self.place.parent().unwrap_or(Path::new("."));
        if self.files.is_empty() {
            return match fs::remove_file(&self.place) {
                // Another program may keep state beside it.
                Ok(()) => fs::remove_dir(directory).or(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            };
        }
        fs::create_dir_all(directory)?;
        // A temporary file is for its owner alone, and so is what replaces the records.
        let mut fresh = tempfile::NamedTempFile::new_in(directory)?;
        serde_json::to_writer(&mut fresh, &self.files)?;
        fresh.as_file().sync_all()?;
        fresh.persist(&self.place)?;
        Ok(())
    }
}

impl FileRecord {
    fn of(before: Option<&str>, after: &str, directories: Vec<PathBuf>) -> FileRecord {
        let text = before.unwrap_or_default();
        let same = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
            pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
        };
        let start = same(&mut text.chars().zip(after.chars()));
        let (text, added) = (&text[start..], &after[start..]);
        let end = same(&mut text.chars().rev().zip(added.chars().rev()));
        FileRecord {
            made: before.is_none(),
            directories,
            at: start,
            replaced: text[..text.len() - end].to_owned(),
            added: added[..added.len() - end].to_owned(),
        }
    }

    /// The text without what setup added, if that is found in it.
    fn undone(&self, now: &str) -> Option<Option<String>> {
        if self.made && now == self.added {
            return Some(None);
        }
        let is_in_place = now
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(&self.added));
        let at = if is_in_place {
            self.at
        } else {
            let mut found = now.match_indices(&self.added).map(|(at, _)| at);
            let at = found.next().filter(|_| self.added.len() >= SHORTEST_FOUND)?;
            if found.next().is_some() {
                return None;
            }
            at
        };
        // A file of setup's own with more in it than setup wrote is no longer setup's alone.
        if self.made {
            return None;
        }
        let rest = &now[at + self.added.len()..];
        Some(Some([&now[..at], &self.replaced, rest].concat()))
    }
}

/// The directories that are not there yet for a file, outermost first.
fn missing_directories(file: &Path) -> Vec<PathBuf> {
    let missing = file
        .ancestors()
        .skip(1)
        .take_while(|directory| !directory.exists());
    let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "{ \"é\": { /* later */ } }";
    const AFTER: &str = "{ \"é\": { /* later */\n  \"agentvfs\": { \"command\": \"avfs\" } } }";

    #[test]
    fn an_edit_is_undone_to_the_byte_also_beside_later_edits() {
        let record = FileRecord::of(Some(BEFORE), AFTER, Vec::new());
        assert_eq!(record.undone(AFTER), Some(Some(BEFORE.to_owned())));
        let moved = format!("// new\n{AFTER}\n");
        assert_eq!(record.undone(&moved), Some(Some(format!("// new\n{BEFORE}\n"))));
        assert_eq!(record.undone("{}"), None);
        assert_eq!(record.undone(&format!("// more, {AFTER}{AFTER}")), None);
    }

    #[test]
    fn a_file_of_setup_goes_only_if_nothing_was_written_into_it() {
        let record = FileRecord::of(None, AFTER, Vec::new());
        assert_eq!(record.undone(AFTER), Some(None));
        assert_eq!(record.undone(&format!("{AFTER}// mine")), None);
        let empty = FileRecord::of(Some(""), AFTER, Vec::new());
        assert_eq!(empty.undone(AFTER), Some(Some(String::new())));
    }
}
