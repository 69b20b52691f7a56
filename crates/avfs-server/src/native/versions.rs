//! States of a sandbox or vault: checkpoints, history, differences.

use agentvfs::exec::ChangedFile;
use agentvfs::patch::{FileChange, PatchOptions, file_changes, write_patch};
use agentvfs::{CheckpointName, Vault};
use axum::Json;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Method, StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{About, Api};
use super::exec::ChangedBody;
use super::input::{Input, Made, Millis, Words, made_body, part_of_path};
use super::listing::PageWords;
use super::subject::Subject;
use crate::auth::Scope;
use crate::problem::Problem;
use crate::service::{ServiceError, ServiceResult};

/// How many states a page has, unless the client says otherwise, and at most.
const PAGE: [usize; 2] = [100, 1000];

pub(super) fn routes(api: &mut Api, base: &str) {
    let at = |rest: &str| format!("{base}{rest}");
    let about = About::new("listCheckpoints", "List checkpoints", Scope::Read);
    let about = about.query::<PageWords>().gives::<CheckpointList>(200);
    api.route(Method::GET, &at("/checkpoints"), about, list);
    let about = About::new(
        "saveCheckpoint",
        "Save the present state under a name",
        Scope::Run,
    );
    let about = about
        .takes::<SaveCheckpoint>()
        .gives::<CheckpointBody>(201)
        .made_as("name");
    api.route(Method::POST, &at("/checkpoints"), about, save);
    let about = About::new("deleteCheckpoint", "Delete a checkpoint", Scope::Run);
    api.route(Method::DELETE, &at("/checkpoints/{checkpoint}"), about, delete);
    let about = About::new("restore", "Make an earlier state the present one", Scope::Run);
    let about = about.takes::<RestoreArgs>().gives::<RestoredBody>(200);
    api.route(Method::POST, &at("/restore"), about, restore);
    let about = About::new("listHistory", "List states, the newest first", Scope::Read);
    let about = about.query::<HistoryWords>().gives::<HistoryList>(200);
    api.route(Method::GET, &at("/history"), about, history);
    let about = About::new("diff", "Compare two states", Scope::Read)
        .query::<DiffWords>()
        .gives::<DiffBody>(200);
    api.route(Method::GET, &at("/diff"), about, diff);
    let about = About::new(
        "patch",
        "Compare two states, as a patch for `git apply`",
        Scope::Read,
    );
    let about = about.query::<DiffWords>().gives_other("text/x-diff");
    api.route(Method::GET, &at("/patch"), about, patch);
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SaveCheckpoint {
    name: String,
    message: Option<String>,
}

/// A state with a name.
#[derive(Serialize, JsonSchema)]
struct CheckpointBody {
    name: String,
    snapshot: String,
    /// Milliseconds since 1970.
    time_ms: Millis,
    actor: String,
    message: Option<String>,
    /// It was saved before a command, and not by somebody.
    automatic: bool,
}

#[derive(Serialize, JsonSchema)]
struct CheckpointList {
    checkpoints: Vec<CheckpointBody>,
    /// The `cursor` with which the list goes on; nothing at its end.
    next: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RestoreArgs {
    /// `@~N` for N states ago, a checkpoint, or the id of a snapshot.
    revision: String,
}

#[derive(Serialize, JsonSchema)]
struct RestoredBody {
    /// How many paths changed.
    changed: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HistoryWords {
    /// Where the list goes on: `next` of the page before.
    cursor: Option<u64>,
    /// The most states of the page; 100, if not said, and at most 1000.
    limit: Option<usize>,
}

/// One state.
#[derive(Serialize, JsonSchema)]
struct HistoryBody {
    seq: u64,
    snapshot: String,
    /// Milliseconds since 1970.
    time_ms: Millis,
    actor: String,
    action: String,
}

#[derive(Serialize, JsonSchema)]
struct HistoryList {
    history: Vec<HistoryBody>,
    /// The `cursor` with which the list goes on; nothing at its end.
    next: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DiffWords {
    /// A checkpoint, `@~N`, or the id of a snapshot; the state in which the files were made, if not said.
    from: Option<String>,
    /// The same; the present state, if not said.
    to: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct DiffBody {
    changes: Vec<ChangedBody>,
}

pub(super) fn millis(time: agentvfs::Timestamp) -> Millis {
    time.seconds * 1000 + i64::from(time.nanos / 1_000_000)
}

impl From<agentvfs::Checkpoint> for CheckpointBody {
    fn from(checkpoint: agentvfs::Checkpoint) -> CheckpointBody {
        CheckpointBody {
            name: checkpoint.name.to_string(),
            snapshot: checkpoint.snapshot.to_string(),
            time_ms: millis(checkpoint.time),
            actor: checkpoint.actor,
            message: checkpoint.message,
            automatic: checkpoint.automatic,
        }
    }
}

async fn list(of: Subject, Words(page): Words<PageWords>) -> Result<Json<CheckpointList>, Problem> {
    let all = of.with_vault(|vault| Ok(vault.checkpoints()?)).await?;
    let all = all.into_iter().map(CheckpointBody::from).collect();
    let (checkpoints, next) = page.of(all, |one| &one.name);
    Ok(Json(CheckpointList { checkpoints, next }))
}

async fn save(of: Subject, Input(asked): Input<SaveCheckpoint>) -> Result<Made<CheckpointBody>, Problem> {
    let saved = of.with_vault(move |vault| {
        let name = CheckpointName::new(&asked.name)?;
        Ok(vault.save_checkpoint(&name, asked.message.as_deref())?)
    });
    Ok(made_body(saved.await?.into()))
}

/// The name of a checkpoint in a path.
struct NamedCheckpoint(String);

impl<S: Sync> FromRequestParts<S> for NamedCheckpoint {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<NamedCheckpoint, Problem> {
        part_of_path(parts, "checkpoint").await.map(NamedCheckpoint)
    }
}

async fn delete(of: Subject, NamedCheckpoint(name): NamedCheckpoint) -> Result<StatusCode, Problem> {
    of.with_vault(move |vault| Ok(vault.delete_checkpoint(&name)?))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn restore(of: Subject, Input(asked): Input<RestoreArgs>) -> Result<Json<RestoredBody>, Problem> {
    let restored = of.with_vault(move |vault| {
        let text = &asked.revision;
        Ok(vault.restore(&vault.alone().revision(text)?, text)?)
    });
    Ok(Json(RestoredBody {
        changed: restored.await?.changed,
    }))
}

async fn history(of: Subject, Words(asked): Words<HistoryWords>) -> Result<Json<HistoryList>, Problem> {
    let limit = asked.limit.unwrap_or(PAGE[0]).clamp(1, PAGE[1]);
    let read = of.with_vault(move |vault| Ok(vault.history().entries(asked.cursor, limit + 1)?));
    let mut entries = read.await?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| has_more).map(|last| last.seq);
    let bodies = entries.into_iter().map(|entry| HistoryBody {
        seq: entry.seq,
        snapshot: entry.snapshot.to_string(),
        time_ms: millis(entry.time),
        actor: entry.actor,
        action: entry.action,
    });
    Ok(Json(HistoryList {
        history: bodies.collect(),
        next,
    }))
}

async fn diff(of: Subject, Words(asked): Words<DiffWords>) -> Result<Json<DiffBody>, Problem> {
    let changes = of
        .with_files(move |files| differing(files.vault(), &asked))
        .await?;
    let changes = changes
        .into_iter()
        .map(|change| ChangedBody::from(&ChangedFile::from(change)));
    Ok(Json(DiffBody {
        changes: changes.collect(),
    }))
}

async fn patch(of: Subject, Words(asked): Words<DiffWords>) -> Result<Response, Problem> {
    let text = of.with_files(move |files| {
        let changes = differing(files.vault(), &asked)?;
        let mut text = Vec::new();
        let objects = files.vault().store().objects();
        write_patch(objects, &changes, &PatchOptions::default(), &mut text)
            .map_err(|error| ServiceError::host("comparing the states", &std::io::Error::other(error)))?;
        Ok(text)
    });
    Ok(([(header::CONTENT_TYPE, "text/x-diff")], text.await?).into_response())
}

fn differing(vault: &Vault, asked: &DiffWords) -> ServiceResult<Vec<FileChange>> {
    let from = match &asked.from {
        Some(from) => from.clone(),
        None => first_state(vault)?,
    };
    let to = asked.to.as_deref().unwrap_or("@");
    let (from, to) = (vault.revision(&from)?, vault.revision(to)?);
    Ok(file_changes(from.diff(&to)?))
}

/// The state in which a vault was made.
fn first_state(vault: &Vault) -> ServiceResult<String> {
    if let Some(base) = vault.info()?.fork_base {
        return Ok(base.to_string());
    }
    let mut first = vault.head()?;
    // The newest is first: the last one that is seen is the oldest.
    vault.for_each_entry(|entry| {
        first = entry.snapshot;
        Ok(true)
    })?;
    Ok(first.to_string())
}
