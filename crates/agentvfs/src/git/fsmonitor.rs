//! git in a large task: instead of examining every file, it queries changes.
//!
//! The first `git status` of a task would look up each tracked file through the mount and list each
//! directory. If the index is large, git inside gets `core.fsmonitor`, a command that queries the inner door,
//! and the task's index is prepared on the host, where the files are available: by git itself, in a copy of
//! the index. In it, files that match the index are marked as examined, and the untracked files of each
//! directory are recorded. The reasons are in
//! [0026](../../../../docs/decisions/0026-git-asks-what-changed.md).
//!
//! git's token is a snapshot of the task: later changes are the difference of two trees.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use avfs_core::rules::{Level, Rules};
use avfs_core::{SnapshotId, TreePath};

use super::hidden::Levels;
use super::host::HostRepository;
use super::index::GitIndex;
use super::program::{Git, GitStop};
use crate::error::GitError;

/// The setting with the query command.
pub(crate) const SETTING: &str = "core.fsmonitor";
/// The request of git inside to the inner door.
pub(crate) const QUESTION: &str = "fsmonitor";

/// Below this, looking at the files costs less than asking each time.
const TRACKED_MIN: usize = 10_000;
/// With more, preparing is not worth it.
const DOUBTFUL_MAX: usize = 10_000;

const LOOKING: &str = "looking at the files of a large repository";

/// The minimum size of an entry of an index, and the maximum of most of them.
const ENTRY_MIN: u64 = 64;
const ENTRY_USUAL: u64 = 160;

/// Whether the size of an index shows that git should query changes; `None` if its beginning must be read,
/// which would import all of it into the store.
pub(crate) fn is_large_by_size(bytes: u64) -> Option<bool> {
    match bytes {
        few if few < TRACKED_MIN as u64 * ENTRY_MIN => Some(false),
        many if many >= TRACKED_MIN as u64 * ENTRY_USUAL => Some(true),
        _ => None,
    }
}

/// Whether the beginning of an index shows that git should query changes.
pub(crate) fn is_large(index: &[u8]) -> bool {
    let count = index
        .get(8..12)
        .and_then(|count| count.try_into().ok())
        .map(u32::from_be_bytes);
    index.starts_with(b"DIRC") && count.is_some_and(|count| count as usize >= TRACKED_MIN)
}

/// Whether git queried changes when it wrote this index, or the index was prepared.
pub(crate) fn asks(index: &[u8]) -> bool {
    GitIndex::of_bytes(index.to_vec()).is_some_and(|index| index.extension(b"FSMN").is_some())
}

/// The name of a state for git, which it repeats in its next query.
pub(crate) fn token(snapshot: SnapshotId) -> String {
    format!("avfs:{snapshot}")
}

/// The state that a token names.
pub(crate) fn state_of(token: &[u8]) -> Option<SnapshotId> {
    let name = std::str::from_utf8(token).ok()?.strip_prefix("avfs:")?;
    avfs_core::ObjectId::parse_hex(name)
        .ok()
        .map(SnapshotId::from_object)
}

/// An answer in the second version of git's protocol: the name of the present state, and the paths that may differ from the
/// one that git named. `None`: any of them.
pub(crate) fn answer(now: SnapshotId, changed: Option<&[Vec<u8>]>) -> Vec<u8> {
    let mut answer = [token(now).as_bytes(), b"\0"].concat();
    match changed {
        None => answer.extend(b"/\0"),
        Some(paths) => paths
            .iter()
            .for_each(|path| answer.extend([&path[..], b"\0"].concat())),
    }
    answer
}

/// An index that git need not verify file by file.
pub(crate) struct PreparedIndex {
    pub bytes: Vec<u8>,
    pub written: SystemTime,
    /// Files that differ from the index, or are not in it: git must examine these itself.
    pub doubtful: Vec<TreePath>,
}

impl PreparedIndex {
    /// Examines the files of a project. `index` is that of a task of it, written at `written`, and `state`
    /// the task's initial state. `None`: git must examine everything itself.
    pub(crate) fn make(
        project: &Path,
        index: &[u8],
        written: SystemTime,
        state: SnapshotId,
        rules: Option<&Rules>,
        stop: &GitStop,
    ) -> Result<Option<PreparedIndex>, GitError> {
        let host = HostRepository::open(project)?;
        if host.place() != project.join(".git") {
            return Ok(None);
        }
        let directory = tempfile::Builder::new()
            .prefix("avfs-git-")
            .tempdir()
            .map_err(GitError::host(LOOKING))?;
        let place = directory.path().join("index");
        let copy = || -> std::io::Result<()> {
            let mut file = File::create(&place)?;
            file.write_all(index)?;
            // git compares the time of the index to find files that may have changed since.
            file.set_modified(written)
        };
        copy().map_err(GitError::host(LOOKING))?;
        let mut git = looking(&host, &place, project).stopped_by(stop);
        for name in filters(&host)? {
            git = git.args(["-c", &format!("{name}=")]);
        }
        let answer = format!(
            "{SETTING}=avfs_answer() {{ printf '{}\\0'; }}; avfs_answer",
            token(state)
        );
        let status = [
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--no-ahead-behind",
            "--ignore-submodules=all",
        ];
        let listed = git
            .args(["-c", &answer, "-c", "core.untrackedCache=true"])
            .args(status)
            .output()?;
        let Some(doubtful) = paths_of(&listed) else {
            return Ok(None);
        };
        let read = || fs::read(&place).map_err(GitError::host(LOOKING));
        let written = fs::metadata(&place)
            .and_then(|found| found.modified())
            .map_err(GitError::host(LOOKING))?;
        let bytes = read()?;
        if !rules.is_some_and(|rules| names_hidden(&bytes, rules)) {
            return Ok(Some(PreparedIndex {
                bytes,
                written,
                doubtful,
            }));
        }
        // Names of hidden files do not exist inside: git lists the directories itself.
        let without = [
            "-c",
            &answer,
            "-c",
            "core.untrackedCache=keep",
            "update-index",
            "--no-untracked-cache",
        ];
        looking(&host, &place, project)
            .stopped_by(stop)
            .args(without)
            .output()?;
        let bytes = read()?;
        let is_clear = rules.is_some_and(|rules| !names_hidden(&bytes, rules));
        Ok(is_clear.then_some(PreparedIndex {
            bytes,
            written,
            doubtful,
        }))
    }
}

/// git on files of the host and an index of ours, with the user's settings, so that ignored files are the
/// same inside.
fn looking(host: &HostRepository, index: &Path, files: &Path) -> Git {
    host.git(LOOKING)
        .with_user_settings()
        .with_system_settings()
        .noting_files(index, files)
}

/// Settings by which git would start programs to look at files.
fn filters(host: &HostRepository) -> Result<Vec<String>, GitError> {
    let asking = host
        .git("asking for its filters")
        .with_user_settings()
        .with_system_settings();
    let listed = asking.args([
        "config",
        "--name-only",
        "--get-regexp",
        r"^filter\..*\.(clean|process|required)$",
    ]);
    Ok(listed
        .line_if_any()?
        .map(|lines| lines.lines().map(str::to_owned).collect())
        .unwrap_or_default())
}

/// The paths of a status, if they are not too many.
fn paths_of(status: &[u8]) -> Option<Vec<TreePath>> {
    let paths: Vec<TreePath> = status
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.get(3..))
        .map(|path| TreePath::parse(path.strip_suffix(b"/").unwrap_or(path)).ok())
        .collect::<Option<_>>()?;
    (paths.len() <= DOUBTFUL_MAX).then_some(paths)
}

/// Whether an index's records of untracked files name something hidden. In doubt they do.
fn names_hidden(index: &[u8], rules: &Rules) -> bool {
    let Some(index) = GitIndex::of_bytes(index.to_vec()) else {
        return true;
    };
    let Some(noted) = index.untracked_names() else {
        return true;
    };
    let mut levels = Levels::new(rules);
    noted
        .iter()
        .any(|path| TreePath::parse(path).is_ok_and(|path| levels.of(&path) == Level::None))
}

#[cfg(test)]
mod tests;
