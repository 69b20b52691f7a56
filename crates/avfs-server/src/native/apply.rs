//! From a task to the directory of this machine that it was made from.

use agentvfs::apply::{ApplyOptions, OnConflict, Selection};
use agentvfs::{ErrorKind, Task};
use axum::Json;
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{About, Api};
use super::input::Input;
use super::subject::Subject;
use crate::auth::Scope;
use crate::problem::Problem;
use crate::service::{DEFAULT_TENANT, ServiceError, ServiceResult, shown, tree_path};

pub(super) fn routes(api: &mut Api) {
    let about = About::new(
        "applyTask",
        "Write what a task changed into the directory that it was made from: all of it, or nothing",
        Scope::Admin,
    );
    let about = about.takes::<ApplyArgs>().gives::<AppliedBody>(200);
    api.route(Method::POST, "/vaults/{vault}/apply", about, apply);
}

/// What becomes of files that both sides changed.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ApplyConflicts {
    /// Nothing is applied.
    #[default]
    Refuse,
    /// They get markers.
    Mark,
    /// They stay as they are in the directory.
    Ours,
    /// They become what the task has.
    Theirs,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ApplyArgs {
    /// Only these files, and what is below these directories.
    #[serde(default)]
    paths: Vec<String>,
    /// Files that this machine would run, which are left out otherwise.
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    on_conflict: ApplyConflicts,
    /// Only tell what would happen.
    #[serde(default)]
    dry_run: bool,
}

/// What was done with a file of the directory.
#[derive(Serialize, JsonSchema)]
struct AppliedFile {
    path: String,
    /// `added`, `replaced`, `merged`, `removed`, `renamed` …
    action: String,
}

#[derive(Serialize, JsonSchema)]
struct AppliedBody {
    /// The number of the apply, for `avfs undo --apply`; nothing if there was nothing to do.
    id: Option<u64>,
    files: Vec<AppliedFile>,
    /// Files that were left out because this machine would run them.
    guarded: Vec<String>,
    /// Files that both sides changed.
    conflicts: Vec<String>,
}

async fn apply(of: Subject, Input(asked): Input<ApplyArgs>) -> Result<Json<AppliedBody>, Problem> {
    let is_of_operator = of.caller.tenant.name == DEFAULT_TENANT;
    let applied = of.with_vault(move |vault| {
        if is_of_operator {
            return carry_out(vault.clone(), &asked);
        }
        // Directories of this machine are of the user who runs the server.
        let text = "only the tenant of the user who runs the server has tasks";
        Err(ServiceError::new("missing-scope", ErrorKind::Denied, text))
    });
    applied.await.map(Json)
}

fn carry_out(vault: agentvfs::Vault, asked: &ApplyArgs) -> ServiceResult<AppliedBody> {
    let task = Task::of(vault)?;
    task.vault().store().recover_applies()?;
    let paths = |texts: &[String]| {
        texts
            .iter()
            .map(|text| tree_path(text))
            .collect::<ServiceResult<Vec<_>>>()
    };
    let options = ApplyOptions {
        conflicts: match asked.on_conflict {
            ApplyConflicts::Refuse => OnConflict::Refuse,
            ApplyConflicts::Mark => OnConflict::Mark,
            ApplyConflicts::Ours => OnConflict::Ours,
            ApplyConflicts::Theirs => OnConflict::Theirs,
        },
        allowed: paths(&asked.allow)?,
        ..ApplyOptions::default()
    };
    let selection = Selection {
        paths: paths(&asked.paths)?,
        ..Selection::default()
    };
    let plan = task.plan_apply(&selection, &options)?;
    let guarded = plan
        .guarded
        .iter()
        .map(|left_out| shown(&left_out.path))
        .collect();
    let conflicts = plan
        .conflicts
        .iter()
        .map(|conflict| shown(&conflict.path))
        .collect();
    let mut body = AppliedBody {
        id: None,
        files: Vec::new(),
        guarded,
        conflicts,
    };
    if !asked.dry_run {
        let applied = plan.carry_out().map_err(ServiceError::from)?;
        body.id = applied.id.map(|id| id.0);
        body.files = applied
            .files
            .iter()
            .map(|file| AppliedFile {
                path: shown(&file.path),
                action: file.action.as_str().to_owned(),
            })
            .collect();
    }
    Ok(body)
}
