//! Codebases: vaults that a client names as it likes, and from which it makes sandboxes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agentvfs::query::walk::{EntryWalk, WalkSelection};
use agentvfs::{EntryKind, ErrorKind, SnapshotId, TreePath, Vault, VaultLimits, VaultName};

use super::error::{ServiceError, ServiceResult};
use super::files::Files;
use super::tenant::Tenant;
use super::threads::on_a_thread;
use crate::clock::UnixMillis;
use crate::random;
use crate::state::CodebaseRecord;

/// A codebase as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codebase {
    /// `cb_` and 16 hexadecimal digits; also the name of its vault.
    pub id: String,
    /// What its client calls it. Several may have the same name.
    pub name: String,
    /// Whose it is, in the words of its client.
    pub owner: String,
    /// Bytes of all files.
    pub bytes: u64,
    /// How many files and links there are.
    pub files: u64,
    /// Milliseconds since 1970.
    pub created: i64,
    /// When something was last changed in it.
    pub updated: i64,
}

/// Some codebases, and where the next ones begin.
pub struct CodebasePage {
    /// In the order in which they were made.
    pub codebases: Vec<Codebase>,
    /// What to ask for next; nothing at the end.
    pub next: Option<String>,
}

/// How many files a codebase had in a state: they are counted once for each.
#[derive(Default)]
pub(super) struct FileCounts(Mutex<HashMap<String, (SnapshotId, u64)>>);

impl FileCounts {
    fn of(&self, id: &str, vault: &Vault, head: SnapshotId) -> ServiceResult<u64> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, count)) = lock().get(id).copied()
            && known == head
        {
            return Ok(count);
        }
        let count = count_files(vault)?;
        lock().insert(id.to_owned(), (head, count));
        Ok(count)
    }

    fn forget(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

fn count_files(vault: &Vault) -> ServiceResult<u64> {
    let files = Files::whole(vault);
    let reader = vault.reader()?;
    let selection = WalkSelection::everything();
    let walk = EntryWalk::new(&reader, &TreePath::root(), &selection);
    let walk = walk.map_err(|error| files.unreadable(error))?;
    let mut count = 0;
    for visit in walk {
        let visit = visit.map_err(|error| files.unreadable(error))?;
        count += u64::from(!matches!(visit.found.entry.kind, EntryKind::Directory { .. }));
    }
    Ok(count)
}

/// The codebases of a tenant.
#[derive(Clone, Copy)]
pub struct TenantCodebases<'a> {
    pub(super) tenant: &'a Arc<Tenant>,
}

impl TenantCodebases<'_> {
    /// Makes an empty codebase.
    pub async fn create(&self, name: String, owner: String) -> ServiceResult<Codebase> {
        let tenant = Arc::clone(self.tenant);
        on_a_thread(move || {
            tenant.check_open()?;
            let bytes = random::bytes::<8>();
            let bytes = bytes.map_err(|error| ServiceError::host("asking for random bytes", &error))?;
            let record = CodebaseRecord {
                id: format!("cb_{}", random::hex(&bytes)),
                name,
                owner,
                created: UnixMillis::now().0,
            };
            // One without a vault is forgotten by the next server.
            tenant.state().put_codebase(&record)?;
            let limits = VaultLimits {
                bytes: tenant.limits().disk,
                files: None,
            };
            let made = VaultName::new(&record.id)
                .and_then(|name| tenant.store().create_limited_vault(&name, limits));
            if let Err(error) = made {
                tenant.state().remove_codebase(&record.id)?;
                return Err(error.into());
            }
            describe(&tenant, record)
        })
        .await
    }

    /// The codebase with this id.
    pub async fn get(&self, id: &str) -> ServiceResult<Codebase> {
        let (tenant, id) = (Arc::clone(self.tenant), id.to_owned());
        on_a_thread(move || {
            let record = tenant.state().codebase(&id)?;
            describe(&tenant, record.ok_or_else(|| unknown(&id))?)
        })
        .await
    }

    /// Some of them, from a cursor on; only those of an owner, if one is named.
    pub async fn list(
        &self,
        owner: Option<String>,
        cursor: Option<String>,
        limit: usize,
    ) -> ServiceResult<CodebasePage> {
        let tenant = Arc::clone(self.tenant);
        on_a_thread(move || {
            let after = cursor
                .as_deref()
                .map(super::sandboxes::parse_cursor)
                .transpose()?;
            let after = after.unwrap_or((i64::MIN, String::new()));
            let mut found =
                tenant
                    .state()
                    .codebases(owner.as_deref(), (after.0, &after.1), limit.saturating_add(1))?;
            let has_more = found.len() > limit;
            found.truncate(limit);
            let last = found.last().filter(|_| has_more);
            let next = last.map(|last| format!("{}.{}", last.created, last.id));
            let described = found.into_iter().map(|record| describe(&tenant, record));
            // One that is deleted meanwhile is not in the list.
            let codebases =
                described.filter(|one| !matches!(one, Err(error) if error.kind == ErrorKind::NotFound));
            Ok(CodebasePage {
                codebases: codebases.collect::<ServiceResult<_>>()?,
                next,
            })
        })
        .await
    }

    /// Deletes a codebase with its files. Sandboxes that are made from it have to end first: their changes belong in it.
    pub async fn delete(&self, id: &str) -> ServiceResult<()> {
        let (tenant, id) = (Arc::clone(self.tenant), id.to_owned());
        on_a_thread(move || {
            let vault = codebase_vault(&tenant, &id)?;
            let has_sandboxes = |parent: Option<&str>| parent == Some(id.as_str());
            let made_from = tenant.all_sandboxes();
            let made_from: Vec<&str> = made_from
                .iter()
                .filter(|sandbox| has_sandboxes(sandbox.parent.as_deref()))
                .map(|sandbox| sandbox.id.as_str())
                .collect();
            if let Some(first) = made_from.first() {
                let text = format!(
                    "codebase {id} has {} sandboxes, whose changes belong in it; destroy them first ({first})",
                    made_from.len()
                );
                return Err(ServiceError::new("codebase-in-use", ErrorKind::Conflict, text));
            }
            vault.delete(true)?;
            tenant.counts().forget(&id);
            Ok(tenant.state().remove_codebase(&id)?)
        })
        .await
    }

    /// The vault of a codebase, without any rules.
    pub fn vault(&self, id: &str) -> ServiceResult<Vault> {
        codebase_vault(self.tenant, id)
    }
}

/// The vault of a codebase, without any rules.
fn codebase_vault(tenant: &Tenant, id: &str) -> ServiceResult<Vault> {
    // Not every vault is a codebase.
    if tenant.state().codebase(id)?.is_none() {
        return Err(unknown(id));
    }
    let vault = tenant.store().vault(id).map_err(|error| match error.kind() {
        ErrorKind::NotFound => unknown(id),
        _ => error.into(),
    })?;
    Ok(vault.alone())
}

fn describe(tenant: &Tenant, record: CodebaseRecord) -> ServiceResult<Codebase> {
    let vault = codebase_vault(tenant, &record.id)?;
    let info = vault.info()?;
    let changed = tenant.store().objects().snapshot(info.head);
    let changed =
        changed.map(|snapshot| snapshot.time.seconds * 1000 + i64::from(snapshot.time.nanos / 1_000_000));
    Ok(Codebase {
        files: tenant.counts().of(&record.id, &vault, info.head)?,
        id: record.id,
        name: record.name,
        owner: record.owner,
        bytes: info.bytes,
        created: record.created,
        updated: changed.unwrap_or(record.created).max(record.created),
    })
}

/// Forgets codebases whose vault was never made, or was deleted by other means.
pub(super) fn recover_codebases(tenant: &Tenant) -> ServiceResult<()> {
    for record in tenant.state().codebases(None, (i64::MIN, ""), usize::MAX)? {
        if !tenant.store().has_vault(&record.id)? {
            tenant.state().remove_codebase(&record.id)?;
        }
    }
    Ok(())
}
fn unknown(id: &str) -> ServiceError {
    let id = avfs_core::printable(id.as_bytes());
    let text = format!("there is no codebase '{id}'");
    ServiceError::new("unknown-codebase", ErrorKind::NotFound, text)
}
