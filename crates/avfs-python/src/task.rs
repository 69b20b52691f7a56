//! From a task to the directory that it was made from.

use std::ffi::OsString;
use std::path::PathBuf;

use agentvfs::apply::{ApplyOptions, OnConflict, Selection};
use pyo3::prelude::*;

use crate::errors::{detached, own};
use crate::forked::OwnProcess;
use crate::paths::{shown, tree_paths};
use crate::vault::Vault;

/// What an apply did.
#[pyclass(frozen, get_all, module = "agentvfs._native")]
pub struct Applied {
    /// Its number, if there was something to do.
    id: Option<u64>,
    /// Each path, and what was done with it.
    files: Vec<(OsString, &'static str)>,
    /// Paths that were left out because programs of the host would run them.
    guarded: Vec<OsString>,
}

/// A vault that is a task, or else an error.
#[pyclass(frozen, module = "agentvfs._native")]
pub struct Task(OwnProcess<agentvfs::Task>);

#[pymethods]
impl Task {
    #[new]
    fn new(py: Python<'_>, vault: &Vault) -> PyResult<Task> {
        let vault = vault.library(py)?;
        detached(py, || {
            Ok(Task(OwnProcess::new(agentvfs::Task::of(vault.clone())?)))
        })
    }

    /// Its name among the tasks of its project.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        self.0.detached(py, |task| Ok(task.name().to_string()))
    }

    /// The directory that it was made from.
    #[getter]
    fn root(&self, py: Python<'_>) -> PyResult<OsString> {
        self.0.detached(py, |task| Ok(task.root().as_os_str().to_owned()))
    }

    /// Writes what the task changed into its directory, or another one: all of it or nothing.
    fn apply(
        &self,
        py: Python<'_>,
        paths: Vec<OsString>,
        on_conflict: &str,
        allowed: Vec<OsString>,
        directory: Option<PathBuf>,
    ) -> PyResult<Applied> {
        let conflicts = match on_conflict {
            "refuse" => OnConflict::Refuse,
            "mark" => OnConflict::Mark,
            "ours" => OnConflict::Ours,
            "theirs" => OnConflict::Theirs,
            other => return Err(own(py, "invalid", format!("on_conflict: there is no '{other}'"))),
        };
        self.0.detached(py, |task| {
            task.vault().store().recover_applies()?;
            let options = ApplyOptions {
                conflicts,
                allowed: tree_paths(&allowed)?,
                ..ApplyOptions::default()
            };
            let selection = Selection {
                paths: tree_paths(&paths)?,
                ..Selection::default()
            };
            let directory = directory.as_deref().unwrap_or(task.root());
            let plan = task.plan_apply_to(directory, &selection, &options)?;
            let guarded = plan.guarded.iter().map(|left_out| shown(&left_out.path));
            let guarded = guarded.collect();
            let applied = plan.carry_out()?;
            let files = applied.files.iter();
            Ok(Applied {
                id: applied.id.map(|id| id.0),
                files: files
                    .map(|file| (shown(&file.path), file.action.as_str()))
                    .collect(),
                guarded,
            })
        })
    }

    /// Where the task and its directory changed the same, and how.
    fn conflicts(&self, py: Python<'_>) -> PyResult<Vec<(OsString, &'static str)>> {
        self.0.detached(py, |task| {
            let plan = task.plan_apply(&Selection::default(), &ApplyOptions::default())?;
            let conflicts = plan.conflicts.iter();
            Ok(conflicts
                .map(|conflict| (shown(&conflict.path), conflict.kind.as_str()))
                .collect())
        })
    }
}
