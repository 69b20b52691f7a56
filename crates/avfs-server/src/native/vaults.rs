//! `/vaults`.

use std::sync::Arc;

use agentvfs::{ConflictPolicy, MergeOptions, VaultLimits, VaultName};
use axum::Json;
use http::{Method, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{About, Api};
use super::input::{Input, Made, Millis, Words, made_body};
use super::listing::PageWords;
use super::subject::Subject;
use super::versions::millis;
use crate::auth::{Caller, Scope};
use crate::problem::Problem;
use crate::service::on_a_thread;

/// How many vaults a page has, unless the client says otherwise, and at most.
const PAGE: [usize; 2] = [100, 1000];

/// How many forks of a vault one request makes at most.
const FORKS_MAX: usize = 100;

pub(super) fn routes(api: &mut Api) {
    let about = About::new("createVault", "Make an empty vault", Scope::Run);
    let about = about
        .takes::<CreateVault>()
        .gives::<VaultBody>(201)
        .made_as("name");
    api.route(Method::POST, "/vaults", about, create);
    let about = About::new("listVaults", "List vaults by name", Scope::Read);
    api.route(
        Method::GET,
        "/vaults",
        about.query::<ListVaults>().gives::<VaultList>(200),
        list,
    );
    let about = About::new("getVault", "Show a vault", Scope::Read).gives::<VaultBody>(200);
    api.route(Method::GET, "/vaults/{vault}", about, get);
    let about = About::new("deleteVault", "Delete a vault with its history", Scope::Admin);
    api.route(Method::DELETE, "/vaults/{vault}", about, delete);
    let about = About::new("forkVault", "Make vaults with the files of this one", Scope::Run);
    let about = about.takes::<ForkVault>().gives::<VaultList>(201);
    api.route(Method::POST, "/vaults/{vault}/forks", about, fork);
    let about = About::new(
        "listVaultForks",
        "List the vaults and sandboxes that were forked from this one",
        Scope::Read,
    );
    let about = about.query::<PageWords>().gives::<VaultList>(200);
    api.route(Method::GET, "/vaults/{vault}/forks", about, forks);
    let about = About::new(
        "mergeIntoVault",
        "Merge what other vaults or sandboxes changed",
        Scope::Admin,
    );
    let about = about.takes::<MergeArgs>().gives::<MergeBody>(200);
    api.route(Method::POST, "/vaults/{vault}/merge", about, merge);
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateVault {
    name: String,
    /// The most bytes that its files may have.
    max_bytes: Option<u64>,
    /// The most files, directories and links that it may have.
    max_files: Option<u64>,
}

/// A vault.
#[derive(Serialize, JsonSchema)]
struct VaultBody {
    name: String,
    /// The id of its present state.
    head: String,
    /// Files, directories and links.
    files: u64,
    bytes: u64,
    /// Milliseconds since 1970.
    created_ms: Millis,
    /// The vault that it was forked from.
    parent: Option<String>,
    max_bytes: Option<u64>,
    max_files: Option<u64>,
    /// Open conflicts in it.
    conflicts: u64,
}

#[derive(Serialize, JsonSchema)]
struct VaultList {
    vaults: Vec<VaultBody>,
    /// The `cursor` with which the list goes on; nothing at its end.
    next: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListVaults {
    /// Where the list goes on: `next` of the page before.
    cursor: Option<String>,
    /// The most vaults of the page; 100, if not said, and at most 1000.
    limit: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForkVault {
    /// The names of the new vaults.
    names: Vec<String>,
    /// The state: `@` (the present one, if not said), a checkpoint, or the id of a snapshot.
    revision: Option<String>,
}

/// What becomes of paths that both sides changed.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OnConflict {
    /// They are marked, and open until somebody decides.
    #[default]
    Mark,
    /// They stay as they are in this vault.
    Ours,
    /// They become what the other one has.
    Theirs,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MergeArgs {
    /// The names of vaults, or the ids of sandboxes.
    from: Vec<String>,
    #[serde(default)]
    on_conflict: OnConflict,
    /// Only tell what would happen.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
struct MergeBody {
    /// How many paths changed.
    changed: usize,
    /// The paths that both sides changed.
    conflicts: Vec<String>,
}

impl From<agentvfs::VaultInfo> for VaultBody {
    fn from(info: agentvfs::VaultInfo) -> VaultBody {
        VaultBody {
            name: info.name.to_string(),
            head: info.head.to_string(),
            files: info.files,
            bytes: info.bytes,
            created_ms: millis(info.created),
            parent: info.parent.map(|name| name.to_string()),
            max_bytes: info.max_bytes,
            max_files: info.max_files,
            conflicts: info.conflicts,
        }
    }
}

async fn create(caller: Caller, Input(asked): Input<CreateVault>) -> Result<Made<VaultBody>, Problem> {
    let made = on_a_thread(move || {
        let limits = VaultLimits {
            bytes: asked.max_bytes,
            files: asked.max_files,
        };
        let name = VaultName::new(&asked.name)?;
        Ok(caller
            .tenant
            .store()
            .create_limited_vault(&name, limits)?
            .info()?)
    });
    Ok(made_body(made.await?.into()))
}

async fn list(caller: Caller, Words(asked): Words<ListVaults>) -> Result<Json<VaultList>, Problem> {
    let limit = asked.limit.unwrap_or(PAGE[0]).clamp(1, PAGE[1]);
    let all = on_a_thread(move || Ok(caller.tenant.store().vaults()?.vaults)).await?;
    let is_later = |info: &agentvfs::VaultInfo| {
        asked
            .cursor
            .as_ref()
            .is_none_or(|after| info.name.as_str() > after.as_str())
    };
    let mut later: Vec<_> = all.into_iter().filter(is_later).take(limit + 1).collect();
    let has_more = later.len() > limit;
    later.truncate(limit);
    let next = later
        .last()
        .filter(|_| has_more)
        .map(|last| last.name.to_string());
    Ok(Json(VaultList {
        vaults: later.into_iter().map(VaultBody::from).collect(),
        next,
    }))
}

async fn get(of: Subject) -> Result<Json<VaultBody>, Problem> {
    let info = of.with_vault(|vault| Ok(vault.info()?)).await?;
    Ok(Json(info.into()))
}

async fn fork(of: Subject, Input(asked): Input<ForkVault>) -> Result<Made<VaultList>, Problem> {
    if !(1..=FORKS_MAX).contains(&asked.names.len()) {
        return Err(Problem::bad_request(format!(
            "`names` has 1 to {FORKS_MAX} names"
        )));
    }
    let made = of.with_vault(move |vault| {
        let names = asked.names.iter().map(|name| VaultName::new(name));
        let names = names.collect::<agentvfs::Result<Vec<VaultName>>>()?;
        let at = vault.alone().revision(asked.revision.as_deref().unwrap_or("@"))?;
        let forks = vault.fork_at(&at, &names)?;
        let bodies = forks.iter().map(|fork| Ok(VaultBody::from(fork.info()?)));
        bodies.collect::<crate::service::ServiceResult<Vec<VaultBody>>>()
    });
    Ok(made_body(VaultList {
        vaults: made.await?,
        next: None,
    }))
}

async fn forks(of: Subject, Words(page): Words<PageWords>) -> Result<Json<VaultList>, Problem> {
    let store = Arc::clone(&of.caller.tenant);
    let found = of.with_vault(move |vault| {
        let name = vault.name()?;
        let all = store.store().vaults()?.vaults;
        let of_it = all.into_iter().filter(|info| info.parent.as_ref() == Some(&name));
        Ok(of_it.map(VaultBody::from).collect())
    });
    let (vaults, next) = page.of(found.await?, |one: &VaultBody| &one.name);
    Ok(Json(VaultList { vaults, next }))
}

async fn delete(of: Subject) -> Result<StatusCode, Problem> {
    of.with_vault(|vault| Ok(vault.clone().delete(false)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn merge(of: Subject, Input(asked): Input<MergeArgs>) -> Result<Json<MergeBody>, Problem> {
    let tenant = Arc::clone(&of.caller.tenant);
    let merged = of.with_vault(move |vault| {
        let named = asked.from.iter().map(|name| match tenant.sandbox(name) {
            Ok(sandbox) => Ok(sandbox.vault().clone()),
            Err(_) => Ok(tenant.store().vault(name)?),
        });
        let others: Vec<agentvfs::Vault> = named.collect::<crate::service::ServiceResult<_>>()?;
        let others: Vec<&agentvfs::Vault> = others.iter().collect();
        let options = MergeOptions {
            dry_run: asked.dry_run,
            conflicts: match asked.on_conflict {
                OnConflict::Mark => ConflictPolicy::Mark,
                OnConflict::Ours => ConflictPolicy::Ours,
                OnConflict::Theirs => ConflictPolicy::Theirs,
            },
            ..MergeOptions::default()
        };
        Ok(vault.merge(&others, &options)?)
    });
    let report = merged.await?;
    let conflicts = report.conflicts.iter().map(|open| open.conflict.path.to_string());
    Ok(Json(MergeBody {
        changed: report.changes.len(),
        conflicts: conflicts.collect(),
    }))
}
