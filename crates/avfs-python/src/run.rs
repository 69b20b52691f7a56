//! What became of a command, as values for Python.

use agentvfs::exec::sandbox::limits::ReachedLimit;
use agentvfs::exec::{ErrorBody, FinishedRun, ProcessOutcome, RunCheckpoint, RunOutcome};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::changes::Change;
use crate::errors;

/// What became of a command.
#[pyclass(frozen, get_all, module = "agentvfs._native")]
pub struct RunReport {
    run: String,
    exit_code: i32,
    timed_out: bool,
    stdout: Py<PyBytes>,
    stderr: Py<PyBytes>,
    truncated: bool,
    seconds: f64,
    cpu_seconds: Option<f64>,
    memory: Option<u64>,
    limits_hit: Vec<&'static str>,
    refused: Vec<String>,
    changed: Vec<Change>,
    checkpoint: Option<String>,
    decision: Option<Decision>,
}

/// What the policy decided: action, class of the command, and rule.
pub type Decision = (&'static str, &'static str, String);

impl RunReport {
    /// The report of a run that has ended, or the exception for one that did not take place.
    pub fn of(py: Python<'_>, finished: &FinishedRun) -> PyResult<RunReport> {
        let outcome = &finished.outcome;
        match (&finished.error, &outcome.process) {
            (Some(error), _) => Err(errors::of_run(py, error, outcome)),
            (None, None) => Err(errors::own(py, "internal", "the command has no end")),
            (None, Some(process)) => Ok(RunReport::new(py, outcome, process)),
        }
    }

    pub fn status(&self) -> i32 {
        self.exit_code
    }

    fn new(py: Python<'_>, outcome: &RunOutcome, process: &ProcessOutcome) -> RunReport {
        RunReport {
            run: outcome.run.clone(),
            exit_code: process.status(),
            timed_out: process.timed_out(),
            stdout: PyBytes::new(py, &process.stdout.bytes()).unbind(),
            stderr: PyBytes::new(py, &process.stderr.bytes()).unbind(),
            truncated: process.stdout.truncated() || process.stderr.truncated(),
            seconds: process.duration.as_secs_f64(),
            cpu_seconds: process.usage.cpu.map(|time| time.as_secs_f64()),
            memory: process.usage.memory,
            limits_hit: process.limits_hit.iter().copied().map(limit).collect(),
            refused: process
                .refusals
                .iter()
                .map(|refusal| refusal.target.clone())
                .collect(),
            changed: outcome.changed_files.iter().map(Change::from).collect(),
            checkpoint: match &outcome.checkpoint {
                RunCheckpoint::Taken { name, .. } => Some(name.to_string()),
                RunCheckpoint::Skipped { .. } => None,
            },
            decision: decided(outcome),
        }
    }
}

fn decided(outcome: &RunOutcome) -> Option<Decision> {
    let decision = outcome.decision.as_ref()?;
    Some((
        decision.action.as_str(),
        decision.class.as_str(),
        decision.rule.to_string(),
    ))
}

/// What was decided about a run that was not to take place.
pub fn decision(py: Python<'_>, finished: &FinishedRun) -> PyResult<Decision> {
    if let Some(error) = &finished.error {
        return Err(errors::of_run(py, error, &finished.outcome));
    }
    decided(&finished.outcome).ok_or_else(|| errors::own(py, "internal", "nothing was decided"))
}

fn limit(limit: ReachedLimit) -> &'static str {
    match limit {
        ReachedLimit::Memory => "memory",
        ReachedLimit::Pids => "processes",
        ReachedLimit::CpuTime => "cpu",
    }
}

/// What a preview would have done: its status, its output, and the patch.
pub type PreviewParts = (Option<i32>, Vec<u8>, Vec<u8>, Vec<u8>);

/// The parts of a preview; one whose command could not run has none.
pub fn preview_parts(run: &FinishedRun, patch: Vec<u8>) -> Result<PreviewParts, ErrorBody> {
    if let Some(error) = &run.error {
        return Err(error.body());
    }
    let process = run.outcome.process.as_ref();
    let (stdout, stderr) = process
        .map(|process| (process.stdout.bytes(), process.stderr.bytes()))
        .unwrap_or_default();
    Ok((process.map(ProcessOutcome::status), stdout, stderr, patch))
}
