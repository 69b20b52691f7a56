//! Requests that a person, or a program on their behalf, answers.

use agentvfs::approvals::{Allowance, ApprovalId, SavePlace};
use agentvfs::exec::RunContext;
use agentvfs::exec::sandbox::Cancel;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors::{of_parent, own};
use crate::forked::OwnProcess;
use crate::inside;
use crate::run::{PreviewParts, preview_parts};
use crate::store::Store;
use crate::waiting::wait;

/// The requests of a store.
#[pyclass(frozen, module = "agentvfs._native")]
pub struct Approvals(OwnProcess<agentvfs::Store>);

#[pymethods]
impl Approvals {
    #[new]
    fn new(py: Python<'_>, store: &Store) -> PyResult<Approvals> {
        Ok(Approvals(OwnProcess::new(store.library(py)?.clone())))
    }

    /// The command of a request, and why it is asked for.
    fn describe(&self, py: Python<'_>, id: &str) -> PyResult<(String, String)> {
        let approval = self
            .0
            .detached(py, |store| store.approval(&ApprovalId::parse(id)?))?;
        Ok((approval.binding.command.shown(), approval.reason))
    }

    /// Lets a request run: `once`, `session` or `always`.
    fn allow(&self, py: Python<'_>, id: &str, scope: &str) -> PyResult<()> {
        let allowance = match scope {
            "once" => Allowance::Once,
            "session" => Allowance::Session,
            "always" => Allowance::Always {
                edits: Vec::new(),
                place: SavePlace::Vault,
            },
            other => {
                return Err(own(
                    py,
                    "invalid",
                    format!("'{other}' is not once, session or always"),
                ));
            }
        };
        self.0.detached(py, |store| {
            store.allow(&ApprovalId::parse(id)?, &allowance).map(drop)
        })
    }

    fn deny(&self, py: Python<'_>, id: &str, reason: Option<&str>) -> PyResult<()> {
        self.0
            .detached(py, |store| store.deny(&ApprovalId::parse(id)?, reason).map(drop))
    }

    /// Runs what is asked for in a fork that is thrown away, without a network.
    fn preview(&self, py: Python<'_>, id: &str) -> PyResult<PreviewParts> {
        let inside = inside::find(py)?;
        let cancel = Cancel::new().map_err(|error| PyOSError::new_err(error.to_string()))?;
        let store = self.0.get().ok_or_else(|| of_parent(py))?;
        let previewed = wait(py, &cancel, || {
            let approval = store.approval(&ApprovalId::parse(id)?)?;
            let mut watch = ();
            let context = RunContext::new(inside, &cancel, &mut watch);
            let preview = store.preview(&approval, context)?;
            Ok::<_, agentvfs::Error>(preview_parts(&preview.run, preview.patch))
        })?;
        let parts = previewed.map_err(|error| crate::errors::raised(py, &error))?;
        parts.map_err(|body| own(py, &body.code, body.message))
    }
}
