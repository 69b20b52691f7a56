//! One vault: its states, forks, and what runs in it.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;

use agentvfs::error::RulesError;
use agentvfs::exec::{ChangedFile, RunContext, RunSpec};
use agentvfs::patch::{FileChange, PatchOptions, file_changes, write_patch};
use agentvfs::rules::{Level, Rules};
use agentvfs::session::{IDLE, SessionRequest};
use agentvfs::transfer::{DirectoryExport, export_directory};
use agentvfs::{CheckpointName, MergeOptions, Task, TaskName, VaultName};
use pyo3::prelude::*;

use crate::changes::Change;
use crate::errors::own;
use crate::forked::OwnProcess;
use crate::options::{CommandOptions, SandboxOptions};
use crate::paths::{shown, tree_path, tree_paths};
use crate::rules::{RuleParts, RuleText, explained, ready};
use crate::run::{Decision, RunReport, decision};
use crate::sandbox::{Listener, OpenSandbox};
use crate::session::Session;
use crate::versions::{Checkpoint, HistoryEntry, seconds};
use crate::waiting::{CancelToken, wait};
use crate::{errors, inside};

/// A vault, which may be a task of a project, as it is or through rules.
#[pyclass(frozen, module = "agentvfs._native")]
pub struct Vault(OwnProcess<agentvfs::Vault>);

/// What a list of vaults shows of each.
#[pyclass(frozen, get_all, module = "agentvfs._native")]
pub struct VaultInfo {
    name: String,
    files: u64,
    bytes: u64,
    /// Seconds since 1970.
    created: f64,
    parent: Option<String>,
    snapshots: u64,
    conflicts: u64,
    max_bytes: Option<u64>,
    max_files: Option<u64>,
}

impl From<agentvfs::VaultInfo> for VaultInfo {
    fn from(info: agentvfs::VaultInfo) -> VaultInfo {
        VaultInfo {
            name: info.name.to_string(),
            files: info.files,
            bytes: info.bytes,
            created: seconds(info.created),
            parent: info.parent.map(|name| name.to_string()),
            snapshots: info.snapshots,
            conflicts: info.conflicts,
            max_bytes: info.max_bytes,
            max_files: info.max_files,
        }
    }
}

impl Vault {
    pub fn new(vault: agentvfs::Vault) -> Vault {
        Vault(OwnProcess::new(vault))
    }

    pub fn library(&self, py: Python<'_>) -> PyResult<&agentvfs::Vault> {
        self.0.get().ok_or_else(|| errors::of_parent(py))
    }
}

/// What differs: from one state to another, or everything that was changed in the vault since it was made.
fn differing(vault: &agentvfs::Vault, from: Option<&str>, to: &str) -> agentvfs::Result<Vec<FileChange>> {
    let first = match from {
        Some(from) => from.to_owned(),
        None => match Task::of_vault(&vault.unrestricted())? {
            Some(task) => return Ok(task.changes()?.files),
            None => first_state(vault)?,
        },
    };
    let (from, to) = (vault.revision(&first)?, vault.revision(to)?);
    Ok(file_changes(from.diff(&to)?))
}

/// The state in which a vault was made.
fn first_state(vault: &agentvfs::Vault) -> agentvfs::Result<String> {
    if let Some(base) = vault.info()?.fork_base {
        return Ok(base.to_string());
    }
    let mut first = vault.head()?;
    // Newest first, so the last one that is seen is the oldest.
    vault.for_each_entry(|entry| {
        first = entry.snapshot;
        Ok(true)
    })?;
    Ok(first.to_string())
}

#[pymethods]
impl Vault {
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        self.0.detached(py, |vault| Ok(vault.name()?.to_string()))
    }

    fn info(&self, py: Python<'_>) -> PyResult<VaultInfo> {
        self.0.detached(py, |vault| Ok(vault.info()?.into()))
    }

    /// The directory of this machine that it is a copy of.
    fn own_path(&self, py: Python<'_>) -> PyResult<Option<OsString>> {
        let path = self.0.detached(py, |vault| vault.own_path())?;
        Ok(path.map(PathBuf::into_os_string))
    }

    /// The same vault, seen through rules.
    fn through(&self, py: Python<'_>, lines: Vec<RuleText>) -> PyResult<Vault> {
        self.0
            .detached(py, |vault| Ok(Vault::new(vault.through(ready(&lines)?))))
    }

    /// The same vault, seen through the rules that are stored with it.
    fn through_stored(&self, py: Python<'_>) -> PyResult<Vault> {
        self.0
            .detached(py, |vault| Ok(Vault::new(vault.through_stored()?)))
    }

    /// The same vault as programs see it if nobody says other rules: through those that are stored with it, or that the task
    /// was made with.
    fn through_for_programs(&self, py: Python<'_>) -> PyResult<Vault> {
        self.0.detached(py, |vault| {
            let rules = vault.rules_for_programs()?;
            let rules = rules.map(Rules::shared).transpose().map_err(RulesError::from)?;
            Ok(Vault::new(
                rules.map_or_else(|| vault.clone(), |rules| vault.through(rules)),
            ))
        })
    }

    /// The level of a path in this view, and the rule that decides it; all of it is writable where there are no rules.
    fn explain(&self, py: Python<'_>, path: OsString) -> PyResult<(&'static str, Option<RuleParts>)> {
        self.0.detached(py, |vault| {
            let path = tree_path(&path)?;
            Ok(match vault.rules() {
                Some(rules) => explained(rules, &path),
                None => (Level::Write.as_str(), None),
            })
        })
    }

    /// Runs one command in a sandbox of its own.
    fn run(
        &self,
        py: Python<'_>,
        options: SandboxOptions,
        command: CommandOptions,
        cancel: &CancelToken,
        listener: Option<Py<PyAny>>,
    ) -> PyResult<RunReport> {
        let spec = command.onto(py, options.spec(py)?)?;
        let (vault, inside, cancel) = (self.library(py)?, inside::find(py)?, cancel.cancel_of());
        let mut listener = Listener::new(listener, &cancel);
        let finished = wait(py, &cancel, || {
            // Without the interpreter's lock, see `wait`: the listener takes it for each piece of output.
            let mut finished = vault.exec(&spec, RunContext::new(inside, &cancel, &mut listener));
            std::mem::take(&mut finished.after).wait();
            finished
        })?;
        // Before the report: an exception of the caller's own function is what ended the command.
        listener.check()?;
        RunReport::of(py, &finished)
    }

    /// What the policy says about a command, which does not run: action, class, rule. An approval that is missing is
    /// told as an error, and not asked for.
    fn decide(
        &self,
        py: Python<'_>,
        options: SandboxOptions,
        command: CommandOptions,
        cancel: &CancelToken,
    ) -> PyResult<Decision> {
        let spec = RunSpec {
            dry_run: true,
            ..command.onto(py, options.spec(py)?)?
        };
        let (vault, inside, cancel) = (self.library(py)?, inside::find(py)?, cancel.cancel_of());
        let finished = py.detach(|| vault.exec(&spec, RunContext::new(inside, &cancel, &mut ())));
        decision(py, &finished)
    }

    /// Opens a sandbox on it.
    fn open_sandbox(&self, py: Python<'_>, options: SandboxOptions) -> PyResult<OpenSandbox> {
        OpenSandbox::open(py, self.library(py)?, inside::find(py)?, &options.spec(py)?)
    }

    /// Starts a shell that stays.
    fn open_session(&self, py: Python<'_>, options: SandboxOptions) -> PyResult<Session> {
        let exec = options.spec(py)?;
        let inside = inside::find(py)?;
        let request = SessionRequest { exec, idle: IDLE };
        let vault = self.library(py)?;
        // Detached: starting a sandbox takes a while, and other threads of Python continue.
        let held = py.detach(|| vault.hold_session(request, inside, None, std::sync::Arc::new(|_| ())));
        held.map(Session::new)
            .map_err(|error| errors::not_opened(py, &error))
    }

    /// Copies with these names: tasks of the same project, if it is a task.
    /// Gives a fork what is installed in the root directory that this vault has on an image.
    fn fork_root(&self, py: Python<'_>, image: &str, fork: &Vault) -> PyResult<()> {
        let fork = fork.0.get().ok_or_else(|| errors::of_parent(py))?;
        self.0.detached(py, |vault| vault.image().fork_root(image, fork))
    }

    fn fork(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Vec<Vault>> {
        self.0.detached(py, |vault| {
            if let Some(task) = Task::of_vault(vault)? {
                let names: agentvfs::Result<Vec<TaskName>> =
                    names.iter().map(|name| TaskName::new(name)).collect();
                let forks = task.fork(&names?)?;
                return Ok(forks
                    .iter()
                    .map(|fork| Vault::new(fork.vault().clone()))
                    .collect());
            }
            let names: agentvfs::Result<Vec<VaultName>> =
                names.iter().map(|name| VaultName::new(name)).collect();
            let forks = vault.fork(&names?)?;
            Ok(forks.into_iter().map(Vault::new).collect())
        })
    }

    /// The id of its present state.
    fn head(&self, py: Python<'_>) -> PyResult<String> {
        self.0.detached(py, |vault| Ok(vault.head()?.to_string()))
    }

    fn save_checkpoint(&self, py: Python<'_>, name: &str, message: Option<&str>) -> PyResult<Checkpoint> {
        self.0.detached(py, |vault| {
            let name = CheckpointName::new(name)?;
            Ok(vault.save_checkpoint(&name, message)?.into())
        })
    }

    fn checkpoints(&self, py: Python<'_>) -> PyResult<Vec<Checkpoint>> {
        let all = self.0.detached(py, |vault| vault.checkpoints())?;
        Ok(all.into_iter().map(Checkpoint::from).collect())
    }

    fn delete_checkpoint(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.0.detached(py, |vault| vault.delete_checkpoint(name))
    }

    /// Makes a state the present one. Returns how many paths changed.
    fn restore(&self, py: Python<'_>, revision: &str) -> PyResult<u64> {
        self.0.detached(py, |vault| {
            let restored = vault.restore(&vault.revision(revision)?, revision)?;
            Ok(restored.changed)
        })
    }

    /// Brings paths back from a state. Returns how many paths changed.
    fn restore_paths(
        &self,
        py: Python<'_>,
        revision: &str,
        paths: Vec<OsString>,
        action: &str,
    ) -> PyResult<u64> {
        self.0.detached(py, |vault| {
            let from = vault.revision(revision)?;
            let restored = vault.restore_paths(&from, &tree_paths(&paths)?, action, revision)?;
            Ok(restored.changed)
        })
    }

    /// Takes back the last change. Returns what it was.
    fn undo(&self, py: Python<'_>) -> PyResult<HistoryEntry> {
        self.0.detached(py, |vault| Ok(vault.undo()?.0.into()))
    }

    fn redo(&self, py: Python<'_>) -> PyResult<HistoryEntry> {
        self.0.detached(py, |vault| Ok(vault.redo()?.0.into()))
    }

    /// Its states, the newest first.
    fn history(&self, py: Python<'_>, limit: usize) -> PyResult<Vec<HistoryEntry>> {
        let entries = self
            .0
            .detached(py, |vault| vault.history().entries(None, limit))?;
        Ok(entries.into_iter().map(HistoryEntry::from).collect())
    }

    /// What differs: from one state to another, or everything that was changed in it since it was made.
    fn changes(&self, py: Python<'_>, from: Option<&str>, to: &str) -> PyResult<Vec<Change>> {
        let changes = self.0.detached(py, |vault| differing(vault, from, to))?;
        Ok(changes
            .into_iter()
            .map(|change| Change::from(&ChangedFile::from(change)))
            .collect())
    }

    /// The same as a patch for `git apply`.
    fn patch(&self, py: Python<'_>, from: Option<&str>, to: &str) -> PyResult<Vec<u8>> {
        self.0.detached(py, |vault| {
            let changes = differing(vault, from, to)?;
            let mut text = Vec::new();
            let objects = vault.store().objects();
            let written = write_patch(objects, &changes, &PatchOptions::default(), &mut text);
            written.map_err(|error| agentvfs::Error::Host {
                action: "comparing",
                place: "the states".to_owned(),
                source: std::io::Error::other(error),
            })?;
            Ok(text)
        })
    }

    /// Writes its files into a directory of this machine. Returns how many files that were.
    fn export(
        &self,
        py: Python<'_>,
        revision: &str,
        path: OsString,
        directory: PathBuf,
        force: bool,
    ) -> PyResult<u64> {
        self.0.detached(py, |vault| {
            let options = DirectoryExport {
                merge: force,
                ..DirectoryExport::default()
            };
            let reader = vault.revision(revision)?.reader()?;
            let report = export_directory(&reader, &tree_path(&path)?, &directory, &options, &())?;
            Ok(report.files)
        })
    }

    /// Writes all of it, with its history, to one file.
    fn export_bundle(&self, py: Python<'_>, file: PathBuf) -> PyResult<()> {
        self.0.detached(py, |vault| {
            let place = file.display().to_string();
            // An existing file is not replaced: it may be the only copy of another vault.
            let made = File::create_new(&file);
            let mut out = made.map_err(|source| agentvfs::Error::Host {
                action: "creating",
                place: place.clone(),
                source,
            })?;
            vault.export_bundle(&mut out, &place, &mut |_| ()).map(drop)
        })
    }

    /// Merges what other vaults changed. Returns how many paths changed, and the conflicts.
    fn merge(
        &self,
        py: Python<'_>,
        from: Vec<PyRef<'_, Vault>>,
        on_conflict: &str,
        dry_run: bool,
    ) -> PyResult<(usize, Vec<OsString>)> {
        use agentvfs::ConflictPolicy;
        let conflicts = match on_conflict {
            "mark" => ConflictPolicy::Mark,
            "ours" => ConflictPolicy::Ours,
            "theirs" => ConflictPolicy::Theirs,
            other => return Err(own(py, "invalid", format!("on_conflict: there is no '{other}'"))),
        };
        // Cloned while Python is attached: its objects cannot be used without the interpreter's lock.
        let others: Vec<agentvfs::Vault> = from
            .iter()
            .map(|vault| vault.library(py).cloned())
            .collect::<PyResult<_>>()?;
        self.0.detached(py, |vault| {
            let options = MergeOptions {
                dry_run,
                conflicts,
                ..MergeOptions::default()
            };
            let others: Vec<&agentvfs::Vault> = others.iter().collect();
            let report = vault.merge(&others, &options)?;
            let conflicts = report
                .conflicts
                .iter()
                .map(|conflict| shown(&conflict.conflict.path));
            Ok((report.changes.len(), conflicts.collect()))
        })
    }

    /// The paths of conflicts that a merge left open.
    fn open_conflicts(&self, py: Python<'_>) -> PyResult<Vec<OsString>> {
        let open = self.0.detached(py, |vault| vault.conflicts())?;
        Ok(open
            .iter()
            .map(|conflict| shown(&conflict.conflict.path))
            .collect())
    }

    fn set_quota(&self, py: Python<'_>, max_bytes: Option<u64>, max_files: Option<u64>) -> PyResult<()> {
        self.0.detached(py, |vault| vault.set_quota(max_bytes, max_files))
    }

    /// Its audit log: number, seconds since 1970, actor, action and detail.
    fn audit(
        &self,
        py: Python<'_>,
        after: u64,
        limit: usize,
    ) -> PyResult<Vec<(u64, f64, String, String, String)>> {
        let entries = self.0.detached(py, |vault| vault.audit(after, limit))?;
        Ok(entries
            .into_iter()
            .map(|entry| {
                (
                    entry.seq,
                    seconds(entry.time),
                    entry.actor,
                    entry.action,
                    entry.detail,
                )
            })
            .collect())
    }

    fn rename(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.0.detached(py, |vault| vault.rename(&VaultName::new(name)?))
    }

    /// Deletes it; a task is discarded.
    fn delete(&self, py: Python<'_>, force: bool) -> PyResult<()> {
        self.0.detached(py, |vault| match Task::of_vault(vault)? {
            Some(task) => task.discard(force),
            None => vault.clone().delete(force),
        })
    }
}
