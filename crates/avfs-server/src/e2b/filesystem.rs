//! Entries of directories: `filesystem.Filesystem`.

use std::sync::Arc;

use agentvfs::ErrorKind;
use axum::routing::{any, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::Inside;
use super::connect::{Call, CallError};
use super::{entry, place};
use crate::server::Server;
use crate::service::{FileKind, Files, ServiceError, ServiceResult, on_a_thread};

/// The most entries of one list.
const LIST_MAX: usize = 100_000;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/filesystem.Filesystem/Stat", post(stat))
        .route("/filesystem.Filesystem/ListDir", post(list))
        .route("/filesystem.Filesystem/MakeDir", post(make))
        .route("/filesystem.Filesystem/Move", post(rename))
        .route("/filesystem.Filesystem/Remove", post(remove))
        .route(
            "/filesystem.Filesystem/{call}",
            any(|| async { CallError::absent("such a call") }),
        )
}

impl Inside {
    /// Works on the files as the programs of the sandbox see them, on a thread that may wait.
    pub async fn with_files<T: Send + 'static>(
        self,
        work: impl FnOnce(&Files) -> Result<T, CallError> + Send + 'static,
    ) -> Result<T, CallError> {
        // What fails in the work is an answer, too: only the thread itself can fail otherwise.
        let done = on_a_thread(move || {
            let files = Files::for_programs(self.sandbox.vault())?;
            Ok::<_, ServiceError>(work(&files))
        });
        done.await?
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PathRequest {
    path: String,
}

async fn stat(inside: Inside, Call(asked): Call<PathRequest>) -> Result<Json<Value>, CallError> {
    let found = inside.with_files(move |files| entry::find(files, &asked.path));
    Ok(Json(json!({ "entry": found.await? })))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListRequest {
    path: String,
    depth: usize,
}

async fn list(inside: Inside, Call(asked): Call<ListRequest>) -> Result<Json<Value>, CallError> {
    let found = inside.with_files(move |files| {
        let path = place::inner(&asked.path)?;
        let found = files.list(&path, asked.depth.max(1), None, LIST_MAX + 1)?;
        if found.len() > LIST_MAX {
            let text = format!("there are more than {LIST_MAX} entries");
            return Err(CallError::new("resource_exhausted", text));
        }
        let is_itself = found.len() == 1 && found[0].path == path && found[0].kind != FileKind::Directory;
        if is_itself {
            return Err(CallError::invalid(format!(
                "'{}' is no directory",
                place::outer(&path)
            )));
        }
        let told = found.iter().map(|info| entry::describe(files, info));
        Ok(told.collect::<Vec<Value>>())
    });
    Ok(Json(json!({ "entries": found.await? })))
}

async fn make(inside: Inside, Call(asked): Call<PathRequest>) -> Result<Json<Value>, CallError> {
    let made = inside.with_files(move |files| {
        let path = place::inner(&asked.path)?;
        if files.make_directory(&path)? {
            return entry::find(files, &asked.path);
        }
        let text = format!("directory '{}' exists already", place::outer(&path));
        Err(CallError::new("already_exists", text))
    });
    Ok(Json(json!({ "entry": made.await? })))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MoveRequest {
    source: String,
    destination: String,
}

async fn rename(inside: Inside, Call(asked): Call<MoveRequest>) -> Result<Json<Value>, CallError> {
    let moved = inside.with_files(move |files| {
        files.rename(&place::inner(&asked.source)?, &place::inner(&asked.destination)?)?;
        entry::find(files, &asked.destination)
    });
    Ok(Json(json!({ "entry": moved.await? })))
}

async fn remove(inside: Inside, Call(asked): Call<PathRequest>) -> Result<Json<Value>, CallError> {
    let removed = inside.with_files(move |files| {
        gone_is_well(files.remove(&place::inner(&asked.path)?, None))?;
        Ok(())
    });
    removed.await?;
    Ok(Json(json!({})))
}

/// Clients may remove what is not there.
fn gone_is_well(removed: ServiceResult<()>) -> ServiceResult<()> {
    match removed {
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
