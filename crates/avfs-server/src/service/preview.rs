//! What a command would change that waits for an approval.

use std::sync::Arc;

use agentvfs::approvals::ApprovalId;
use agentvfs::exec::RunContext;
use agentvfs::exec::sandbox::Cancel;

use super::error::{ServiceError, ServiceResult};
use super::tenant::Tenant;

/// What a command did in a fork that was thrown away.
pub struct ApprovalPreview {
    /// What it changed, for `git apply`.
    pub patch: Vec<u8>,
    /// Its exit status, unless a signal ended it.
    pub exit_code: Option<i32>,
    /// What it wrote.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// The variables that it did not have, because they look like secrets.
    pub withheld: Vec<String>,
}

/// Ends a preview for which nobody waits.
struct CancelWhenDropped(Cancel);

impl Drop for CancelWhenDropped {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What the commands of a tenant would change.
#[derive(Clone, Copy)]
pub struct TenantPreviews<'a> {
    pub(super) tenant: &'a Arc<Tenant>,
}

impl TenantPreviews<'_> {
    /// Runs the command of a request in a fork that is thrown away, without network and secrets. When this is dropped before
    /// its end, the command is killed.
    pub async fn of(&self, id: ApprovalId) -> ServiceResult<ApprovalPreview> {
        self.tenant.check_open()?;
        let turn = self.tenant.queue().turn().await?;
        let cancel = Cancel::new().map_err(|error| ServiceError::host("preparing a preview", &error))?;
        let _stopping = CancelWhenDropped(cancel.clone());
        let (told, heard) = tokio::sync::oneshot::channel();
        let tenant = Arc::clone(self.tenant);
        let thread = std::thread::Builder::new().name("preview".into());
        let spawned = thread.spawn(move || {
            let _turn = turn;
            // Whoever waited may be gone.
            let _ = told.send(run(&tenant, &id, &cancel));
        });
        spawned.map_err(|error| ServiceError::host("starting a thread", &error))?;
        heard.await.unwrap_or_else(|_| Err(ServiceError::ending()))
    }
}

fn run(tenant: &Tenant, id: &ApprovalId, cancel: &Cancel) -> ServiceResult<ApprovalPreview> {
    let approval = tenant.store().approval(id)?;
    let mut watch = ();
    let context = RunContext::new(tenant.options().inside.clone(), cancel, &mut watch);
    let previewed = tenant.store().preview(&approval, context)?;
    if let Some(error) = ServiceError::of_run(&previewed.run) {
        return Err(error);
    }
    let result = previewed.run.envelope().result.unwrap_or_default();
    Ok(ApprovalPreview {
        patch: previewed.patch,
        exit_code: result.exit_code,
        stdout: result.stdout.stdout,
        stderr: result.stderr.stderr,
        withheld: previewed.withheld,
    })
}
