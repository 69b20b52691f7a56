//! The checkpoint before a tool of the agent changes a file: its name says which tool and which file.

use std::path::Path;

use agentvfs::error::HistoryError;
use agentvfs::{Checkpoint, CheckpointName, Error, Vault};
use anyhow::Result;

/// The longest name without a number; a number still fits behind it.
const NAME_MAX: usize = 90;
/// How many files the note of a checkpoint names.
const FILES_MAX: usize = 5;

/// A call that is about to change files.
pub struct FileCall<'a> {
    tool: &'a str,
    /// From the root of the workspace.
    files: Vec<String>,
}

impl<'a> FileCall<'a> {
    /// A call for one file, which has a name of its own in the input of the tool.
    pub fn of_file(tool: &'a str, root: &Path, file: &Path) -> FileCall<'a> {
        let file = file.strip_prefix(root).unwrap_or(file);
        FileCall {
            tool,
            files: vec![file.display().to_string()],
        }
    }

    /// A call with a patch, which names its files itself.
    pub fn of_patch(tool: &'a str, patch: &str) -> FileCall<'a> {
        const HEADINGS: [&str; 3] = ["*** Add File: ", "*** Update File: ", "*** Delete File: "];
        let file = |line: &str| {
            HEADINGS
                .iter()
                .find_map(|heading| line.strip_prefix(heading))
                .map(str::to_owned)
        };
        FileCall {
            tool,
            files: patch.lines().filter_map(file).collect(),
        }
    }

    /// Saves the present state. Like the checkpoints of runs, it is thinned out as it ages.
    pub fn save(&self, vault: &Vault) -> Result<Checkpoint> {
        // What programs have written to the mount belongs to it.
        vault.head()?;
        let (base, message) = (self.name(), self.message());
        let mut number = next_number(
            &base,
            vault.checkpoints()?.iter().map(|known| known.name.as_str()),
        );
        loop {
            let name = match number {
                1 => base.clone(),
                number => format!("{base}-{number}"),
            };
            match vault
                .history()
                .save_automatic_checkpoint(&CheckpointName::new(&name)?, Some(&message))
            {
                // Agents call several tools at once.
                Err(Error::History(HistoryError::CheckpointExists { .. })) => number += 1,
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Such as `before-edit-src-main.rs`. Of a long path, the end is kept, which tells files apart.
    fn name(&self) -> String {
        let mut name = format!("before-{}", plain(self.tool).to_lowercase());
        if let Some(first) = self.files.first() {
            let file = plain(first);
            let room = NAME_MAX.saturating_sub(name.len() + 1);
            let start = (file.len().saturating_sub(room)..=file.len())
                .find(|at| file.is_char_boundary(*at))
                .unwrap_or_default();
            let end = file[start..].trim_matches('-');
            if !end.is_empty() {
                name = format!("{name}-{end}");
            }
        }
        name
    }

    /// Such as `Edit src/main.rs`.
    fn message(&self) -> String {
        let mut message = self.tool.to_owned();
        let named: Vec<&str> = self.files.iter().take(FILES_MAX).map(String::as_str).collect();
        if !named.is_empty() {
            message = format!("{message} {}", named.join(", "));
        }
        match self.files.len().saturating_sub(FILES_MAX) {
            0 => message,
            more => format!("{message} and {more} more"),
        }
    }
}

/// A text with nothing in it that the name of a checkpoint cannot have.
fn plain(text: &str) -> String {
    let plain = |c: char| {
        if c.is_alphanumeric() || matches!(c, '_' | '.') {
            c
        } else {
            '-'
        }
    };
    text.chars().take(NAME_MAX * 10).map(plain).collect()
}

/// The number after the highest one of this name: numbers of checkpoints that were thinned out do not come back, so that
/// a higher number is a later state.
fn next_number<'a>(base: &str, known: impl Iterator<Item = &'a str>) -> u64 {
    let number = |name: &str| match name.strip_prefix(base)? {
        "" => Some(1),
        rest => rest.strip_prefix('-')?.parse::<u64>().ok(),
    };
    known.filter_map(number).max().unwrap_or(0).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tool: &str, file: &str, name: &str) {
        let call = FileCall::of_file(tool, Path::new("/w"), &Path::new("/w").join(file));
        assert_eq!(call.name(), name);
        assert!(CheckpointName::new(&format!("{name}-1000000")).is_ok(), "{name}");
    }

    #[test]
    fn every_file_gives_the_name_of_a_checkpoint() {
        check("Edit", "src/main.rs", "before-edit-src-main.rs");
        check("Write", "a b/ünï.txt", "before-write-a-b-ünï.txt");
        check("Write", "*", "before-write");
        check("NotebookEdit", "x\ny", "before-notebookedit-x-y");
        let deep = format!("{}/main.rs", "d/ü".repeat(200));
        let call = FileCall::of_file("Edit", Path::new("/w"), &Path::new("/w").join(deep));
        assert!(
            call.name().ends_with("-main.rs") && call.name().len() <= NAME_MAX,
            "{}",
            call.name()
        );
        assert!(CheckpointName::new(&call.name()).is_ok());
    }

    #[test]
    fn a_patch_names_its_files() {
        let patch =
            "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-x\n+*** no heading\n*** Add File: b\n+y\n";
        let call = FileCall::of_patch("apply_patch", patch);
        assert_eq!(
            (call.name().as_str(), call.message().as_str()),
            ("before-apply_patch-src-a.rs", "apply_patch src/a.rs, b")
        );
        let call = FileCall::of_patch("apply_patch", "no patch");
        assert_eq!(
            (call.name().as_str(), call.message().as_str()),
            ("before-apply_patch", "apply_patch")
        );
        let many: String = (0..9).map(|n| format!("*** Add File: f{n}\n")).collect();
        assert_eq!(
            FileCall::of_patch("p", &many).message(),
            "p f0, f1, f2, f3, f4 and 4 more"
        );
    }

    #[test]
    fn a_later_state_of_the_same_name_has_a_higher_number() {
        assert_eq!(next_number("before-edit-a", [].into_iter()), 1);
        let known = [
            "before-edit-a-3",
            "before-edit-a",
            "before-edit-a-b",
            "before-edit-a.c-9",
        ];
        assert_eq!(next_number("before-edit-a", known.into_iter()), 4);
    }
}
