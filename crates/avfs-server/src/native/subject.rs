//! What a path is about: a sandbox or a vault. Both have files and states, behind the same calls.

use std::sync::Arc;

use agentvfs::Vault;
use axum::extract::FromRequestParts;
use http::request::Parts;

use super::input::part_of_path;
use crate::auth::{Caller, Scope};
use crate::problem::Problem;
use crate::service::{Files, Sandbox, ServiceResult, on_a_thread};

/// The paths under which there are files and states.
pub(super) const BASES: [&str; 2] = ["/sandboxes/{id}", "/vaults/{vault}"];

/// The sandbox that a path names, and who names it.
pub(super) struct OneSandbox {
    pub caller: Caller,
    pub sandbox: Arc<Sandbox>,
}

impl<S: Sync> FromRequestParts<S> for OneSandbox {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<OneSandbox, Problem> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let id = part_of_path(parts, "id").await?;
        let sandbox = caller.tenant.sandbox(&id)?;
        Ok(OneSandbox { caller, sandbox })
    }
}

/// The sandbox or vault that a path names.
pub(super) struct Subject {
    pub caller: Caller,
    named: Named,
}

enum Named {
    Sandbox(Arc<Sandbox>),
    Vault(String),
}

impl<S: Sync> FromRequestParts<S> for Subject {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Subject, Problem> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let named = match part_of_path(parts, "vault").await {
            Ok(name) => Named::Vault(name),
            Err(_) => Named::Sandbox(caller.tenant.sandbox(&part_of_path(parts, "id").await?)?),
        };
        Ok(Subject { caller, named })
    }
}

impl Subject {
    /// Works on the vault, on a thread that may wait.
    pub async fn with_vault<T: Send + 'static>(
        self,
        work: impl FnOnce(&Vault) -> ServiceResult<T> + Send + 'static,
    ) -> Result<T, Problem> {
        let done = on_a_thread(move || match &self.named {
            Named::Sandbox(sandbox) => {
                sandbox.touch();
                work(sandbox.vault())
            }
            Named::Vault(name) => work(&self.caller.tenant.store().vault(name)?),
        });
        Ok(done.await?)
    }

    /// Works on the files. Whoever has the scope `admin` sees all of them, and others what programs see.
    pub async fn with_files<T: Send + 'static>(
        self,
        work: impl FnOnce(Files) -> ServiceResult<T> + Send + 'static,
    ) -> Result<T, Problem> {
        let sees_all = self.caller.scopes.allow(Scope::Admin);
        self.with_vault(move |vault| {
            let files = if sees_all {
                Files::whole(vault)
            } else {
                Files::for_programs(vault)?
            };
            work(files)
        })
        .await
    }
}
