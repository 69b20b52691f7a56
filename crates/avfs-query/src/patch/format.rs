//! Git's patch format.

use std::io::{self, Write};

use avfs_core::spelling::is_git_directory;
use avfs_core::{EntryKind, PATH_MAX, TreePath};
use avfs_tree::Objects;

use super::binary::write_binary;
use super::blob::blob_sha1;
use super::changes::{ChangeSide, ChangeStatus, FileChange};
use super::file::{FileDiff, LoadedContents, PatchBody};
use super::lines::{Hunk, HunkLineKind};
use super::quote::{quoted, quoted_with_end};
use super::{PatchError, PatchOptions};

/// The contents of a patch, and the changes that it cannot express.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchReport {
    /// How many files the patch has.
    pub files: usize,
    /// Changes that git's format cannot express or `git apply` refuses: empty directories, pipes and
    /// devices, owners, permissions but the executable bit, files in a `.git` directory, huge files.
    pub omitted: Vec<TreePath>,
}

/// Writes the changes as one patch.
pub fn write_patch(
    objects: &Objects,
    changes: &[FileChange],
    options: &PatchOptions,
    out: &mut dyn Write,
) -> Result<PatchReport, PatchError> {
    let mut report = PatchReport::default();
    for change in changes {
        let mut written = false;
        for step in change.steps() {
            if is_expressible(&step) {
                let diff = FileDiff::compute(objects, &step, options)?;
                written |= write_file(out, &diff, options).map_err(PatchError::Write)?;
            }
        }
        if written {
            report.files += 1
        } else {
            report.omitted.push(change.path().clone())
        }
    }
    Ok(report)
}

/// Whether git knows this change.
fn is_expressible(change: &FileChange) -> bool {
    let sides = || change.old.iter().chain(&change.new);
    let known = sides().all(|side| git_mode(side).is_some() && !is_inside_git_directory(&side.path));
    let modes = (
        change.old.as_ref().and_then(git_mode),
        change.new.as_ref().and_then(git_mode),
    );
    // A change that cannot be named has the path of a parent directory.
    let is_named = |side: &ChangeSide| side.path.as_bytes().len() <= PATH_MAX;
    known && sides().all(is_named) && (change.status != ChangeStatus::Attributes || modes.0 != modes.1)
}

/// `git apply` refuses paths that some file system could treat as a repository's own directory.
fn is_inside_git_directory(path: &TreePath) -> bool {
    path.names().any(is_git_directory)
}

fn git_mode(side: &ChangeSide) -> Option<&'static str> {
    match &side.entry.kind {
        EntryKind::File { .. } if side.entry.meta.mode & 0o100 != 0 => Some("100755"),
        EntryKind::File { .. } => Some("100644"),
        EntryKind::Symlink { .. } => Some("120000"),
        _ => None,
    }
}

/// Returns whether there was something that can be written.
fn write_file(out: &mut dyn Write, diff: &FileDiff, options: &PatchOptions) -> io::Result<bool> {
    let is_huge = |loaded: &LoadedContents| match loaded {
        LoadedContents::Nothing => false,
        LoadedContents::Bytes(bytes) => bytes.len() as u64 > options.binary_bytes,
        LoadedContents::Unread { .. } => true,
    };
    if matches!(diff.body, PatchBody::Binary { .. }) && (is_huge(&diff.old) || is_huge(&diff.new)) {
        return Ok(false);
    }
    write_header(out, &diff.change)?;
    match &diff.body {
        PatchBody::Same => {}
        PatchBody::Text(lines) => {
            write_index(out, diff)?;
            if !lines.hunks.is_empty() {
                write_names(out, &diff.change)?;
            }
            for (index, hunk) in lines.hunks.iter().enumerate() {
                write_hunk(out, hunk, options.number_hunks.then_some(index + 1))?;
            }
        }
        PatchBody::Binary { .. } => {
            write_index(out, diff)?;
            write_binary(out, contents(&diff.old), contents(&diff.new))?;
        }
    }
    Ok(true)
}

fn contents(loaded: &LoadedContents) -> &[u8] {
    match loaded {
        LoadedContents::Bytes(bytes) => bytes,
        LoadedContents::Nothing | LoadedContents::Unread { .. } => &[],
    }
}

fn write_header(out: &mut dyn Write, change: &FileChange) -> io::Result<()> {
    let old = change.old.as_ref().map_or(change.path(), |side| &side.path);
    let new = change.new.as_ref().map_or(change.path(), |side| &side.path);
    write_line(
        out,
        &[b"diff --git ", &quoted("a/", old), b" ", &quoted("b/", new)],
    )?;
    let (old_mode, new_mode) = (
        change.old.as_ref().and_then(git_mode),
        change.new.as_ref().and_then(git_mode),
    );
    match (old_mode, new_mode) {
        (None, Some(mode)) => writeln!(out, "new file mode {mode}")?,
        (Some(mode), None) => writeln!(out, "deleted file mode {mode}")?,
        (Some(old), Some(new)) if old != new => writeln!(out, "old mode {old}\nnew mode {new}")?,
        _ => {}
    }
    if change.status == ChangeStatus::Renamed {
        out.write_all(b"similarity index 100%\n")?;
        write_line(out, &[b"rename from ", &quoted("", old)])?;
        write_line(out, &[b"rename to ", &quoted("", new)])?;
    }
    Ok(())
}

/// Git's own names of the contents: needed for binary files, and for `git apply --3way`.
fn write_index(out: &mut dyn Write, diff: &FileDiff) -> io::Result<()> {
    let (old, new) = (git_blob(&diff.old), git_blob(&diff.new));
    let modes = (
        diff.change.old.as_ref().and_then(git_mode),
        diff.change.new.as_ref().and_then(git_mode),
    );
    match modes {
        (Some(before), Some(after)) if before == after => writeln!(out, "index {old}..{new} {after}"),
        _ => writeln!(out, "index {old}..{new}"),
    }
}

fn git_blob(loaded: &LoadedContents) -> String {
    let bytes = match loaded {
        LoadedContents::Nothing | LoadedContents::Unread { .. } => return "0".repeat(40),
        LoadedContents::Bytes(bytes) => bytes,
    };
    blob_sha1(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn write_names(out: &mut dyn Write, change: &FileChange) -> io::Result<()> {
    let name = |prefix: &str, side: &Option<ChangeSide>| match side {
        Some(side) => quoted_with_end(prefix, &side.path),
        None => b"/dev/null".to_vec(),
    };
    write_line(out, &[b"--- ", &name("a/", &change.old)])?;
    write_line(out, &[b"+++ ", &name("b/", &change.new)])
}

fn write_hunk(out: &mut dyn Write, hunk: &Hunk, number: Option<usize>) -> io::Result<()> {
    let number = number.map(|number| format!(" hunk {number}")).unwrap_or_default();
    writeln!(out, "@@ -{} +{} @@{number}", range(&hunk.old), range(&hunk.new))?;
    for line in &hunk.lines {
        out.write_all(match line.kind {
            HunkLineKind::Context => b" ",
            HunkLineKind::Removed => b"-",
            HunkLineKind::Added => b"+",
        })?;
        out.write_all(&line.text)?;
        if !line.text.ends_with(b"\n") {
            out.write_all(b"\n\\ No newline at end of file\n")?;
        }
    }
    Ok(())
}

/// An empty range is named by the line before it.
fn range(lines: &std::ops::Range<u32>) -> String {
    match lines.end - lines.start {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        length => format!("{},{length}", lines.start + 1),
    }
}

fn write_line(out: &mut dyn Write, parts: &[&[u8]]) -> io::Result<()> {
    parts.iter().try_for_each(|part| out.write_all(part))?;
    out.write_all(b"\n")
}
