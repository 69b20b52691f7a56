//! Sandboxes that stand still: their processes are stopped, and so is their time. A sandbox with a time at which it ends
//! that has none any more is one that is paused.

use std::sync::{Arc, MutexGuard};

use agentvfs::ErrorKind;
use agentvfs::exec::sandbox::processes::ProcessError;
use serde::{Deserialize, Serialize};

use super::error::{ServiceError, ServiceResult};
use super::sandbox::Sandbox;
use super::sandboxes::serve_on;
use super::tenant::Tenant;
use super::threads::on_a_thread;

/// What happens to a sandbox at the end of its time, if it is not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pausing {
    /// Its processes are kept.
    pub memory: bool,
    /// A request for it lets it go on.
    pub resumes: bool,
    /// For so many seconds then.
    pub seconds: u64,
}

impl Sandbox {
    /// Whether its time is over, and it is to be paused.
    pub fn pause_is_due(&self) -> bool {
        self.spec.pausing.is_some() && self.is_out_of_time()
    }
}

/// Sandboxes of a tenant that stand still.
#[derive(Clone, Copy)]
pub struct TenantPauses<'a> {
    pub(super) tenant: &'a Arc<Tenant>,
}

impl TenantPauses<'_> {
    /// Pauses a sandbox. Without its memory, its processes are ended.
    pub async fn pause(&self, sandbox: &Arc<Sandbox>, memory: bool) -> ServiceResult<()> {
        let (tenant, sandbox) = (Arc::clone(self.tenant), Arc::clone(sandbox));
        on_a_thread(move || {
            let turn = sandbox.pausing();
            pause(&tenant, &sandbox, memory, &turn)
        })
        .await
    }

    /// Lets a sandbox exist for so many seconds from now on, and go on if it was paused. The time of one that runs becomes
    /// no shorter.
    pub async fn resume(&self, sandbox: &Arc<Sandbox>, seconds: u64) -> ServiceResult<()> {
        let (tenant, sandbox) = (Arc::clone(self.tenant), Arc::clone(sandbox));
        on_a_thread(move || {
            let _turn = sandbox.pausing();
            let ends = tenant.now()?.day.after_seconds(seconds).0;
            let before = sandbox.expires();
            if before.is_some_and(|before| before >= ends) {
                return Ok(());
            }
            tenant.set_expires(&sandbox, Some(seconds))?;
            if before.is_none() {
                sandbox
                    .with_open(|open| open.resume())
                    .transpose()
                    .map_err(failed)?;
            }
            Ok(())
        })
        .await
    }
}

/// Pauses a sandbox whose time is over, unless it has got more meanwhile.
pub(super) fn pause_if_due(tenant: &Tenant, sandbox: &Sandbox) -> ServiceResult<()> {
    let turn = sandbox.pausing();
    match sandbox.spec.pausing {
        Some(pausing) if sandbox.pause_is_due() => pause(tenant, sandbox, pausing.memory, &turn),
        Some(_) | None => Ok(()),
    }
}

fn pause(tenant: &Tenant, sandbox: &Sandbox, memory: bool, _turn: &MutexGuard<'_, ()>) -> ServiceResult<()> {
    // First of all, so that no new command begins.
    tenant.set_expires(sandbox, None)?;
    if memory {
        return sandbox
            .with_open(|open| open.pause())
            .transpose()
            .map_err(failed)
            .map(drop);
    }
    sandbox.close().map(serve_on)
}
fn failed(error: ProcessError) -> ServiceError {
    ServiceError::new(error.code(), ErrorKind::Busy, error.to_string())
}
