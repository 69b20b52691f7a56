//! How the changes of a sandbox get back into the vault that it was made from, and what changed there into the sandbox.
//!
//! Both ways are merges: what only one side has changed is taken, whoever was first. Where both have changed the same, the
//! sandbox keeps what it has until it ends. Then its version wins, if that was asked for; otherwise the conflict stays
//! open in the vault, with both versions.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentvfs::{ConflictPolicy, MergeOptions, MergeReport, SnapshotId, Vault};
use serde::{Deserialize, Serialize};

use super::error::ServiceResult;
use super::sandbox::{Sandbox, SandboxSpec};
use super::tenant::Tenant;
use super::threads::on_a_thread;

/// What becomes of changes when somebody else has changed the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GivesBack {
    /// Conflicts stay open in the vault, and are told.
    #[default]
    Conflicts,
    /// The version of the sandbox wins.
    LastWriterWins,
}

impl GivesBack {
    fn options(self) -> MergeOptions {
        MergeOptions {
            conflicts: match self {
                GivesBack::Conflicts => ConflictPolicy::Mark,
                GivesBack::LastWriterWins => ConflictPolicy::Theirs,
            },
            ..MergeOptions::default()
        }
    }
}

/// What is left to tell of a sandbox that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxEnd {
    /// The vault that its changes are in; nothing, if they went nowhere.
    pub vault: Option<String>,
    /// Paths that it and somebody else have changed, each in its own way. They are open conflicts of the vault.
    pub conflicts: Vec<String>,
}

impl SandboxEnd {
    fn of(vault: Option<&str>, report: &MergeReport) -> SandboxEnd {
        let paths = report.conflicts.iter().map(|open| open.conflict.path.to_string());
        SandboxEnd {
            vault: vault.map(str::to_owned),
            conflicts: paths.collect(),
        }
    }
}

/// One exchange with a vault after the other: what was looked at is what is merged. Vaults share locks.
#[derive(Default)]
pub(super) struct Turns([Mutex<()>; 32]);

impl Turns {
    fn of(&self, vault: &Vault) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        vault.id().0.hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % self.0.len() as u64).unwrap_or_default();
        self.0[at].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The states of a sandbox and of its vault that know everything of each other.
pub(super) type Exchanged = Option<(SnapshotId, SnapshotId)>;

/// Changes between the sandboxes of a tenant and their vaults.
#[derive(Clone, Copy)]
pub struct TenantExchanges<'a> {
    pub(super) tenant: &'a Arc<Tenant>,
}

impl TenantExchanges<'_> {
    /// Merges what a sandbox and its vault have changed since the last time, both ways. Nothing is done where the two
    /// have conflicts, and where the sandbox gives nothing back.
    pub async fn merge(&self, sandbox: &Arc<Sandbox>) -> ServiceResult<()> {
        if sandbox.spec.gives_back.is_none() {
            return Ok(());
        }
        let (tenant, sandbox) = (Arc::clone(self.tenant), Arc::clone(sandbox));
        on_a_thread(move || exchange_now(&tenant, &sandbox)).await
    }
}

fn exchange_now(tenant: &Tenant, sandbox: &Sandbox) -> ServiceResult<()> {
    let above = vault_above(tenant, sandbox.parent.as_deref())?;
    let (Some(gives_back), Some(vault)) = (sandbox.spec.gives_back, above) else {
        return Ok(());
    };
    let _turn = tenant.turns().of(&vault);
    let mut exchanged = sandbox.exchanged();
    let own = sandbox.vault().alone();
    let heads = (own.head()?, vault.head()?);
    if *exchanged == Some(heads) {
        return Ok(());
    }
    let options = gives_back.options();
    if gives_back == GivesBack::Conflicts {
        let looking = MergeOptions {
            dry_run: true,
            ..options.clone()
        };
        if !vault.merge(&[&own], &looking)?.conflicts.is_empty() {
            return Ok(());
        }
    }
    let report = vault.merge(&[&own], &options)?;
    // Only if somebody has changed a file of the vault since it was looked at.
    let end = SandboxEnd::of(sandbox.parent.as_deref(), &report);
    tenant.tell_end(&sandbox.id, &end);
    // It has everything of the sandbox now, so this has no conflicts.
    own.merge(&[&vault], &options)?;
    *exchanged = Some((own.head()?, vault.head()?));
    Ok(())
}

/// Merges the changes of a sandbox that has ended into the vault that it was made from.
pub(super) fn give_back(
    tenant: &Tenant,
    spec: &SandboxSpec,
    parent: Option<&str>,
    own: &Vault,
) -> ServiceResult<SandboxEnd> {
    let (Some(gives_back), Some(vault)) = (spec.gives_back, vault_above(tenant, parent)?) else {
        return Ok(SandboxEnd::default());
    };
    let _turn = tenant.turns().of(&vault);
    let report = vault.merge(&[&own.alone()], &gives_back.options())?;
    Ok(SandboxEnd::of(parent, &report))
}

/// The vault that a sandbox was made from, if that still exists.
fn vault_above(tenant: &Tenant, parent: Option<&str>) -> ServiceResult<Option<Vault>> {
    let Some(name) = parent else {
        return Ok(None);
    };
    if !tenant.store().has_vault(name)? {
        return Ok(None);
    }
    Ok(Some(tenant.store().vault(name)?.alone()))
}
