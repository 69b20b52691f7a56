//! What happens in directories. The state of a directory is compared with the one before, so changes that were made and
//! undone between two looks are not told, and a renamed file is one that is gone and one that is new.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use futures_util::stream::unfold;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::access::Inside;
use super::connect::{Call, CallError, Messages, Sent, answer, refuse};
use super::follow::rhythm;
use super::{entry, place};
use crate::random;
use crate::server::Server;
use crate::service::{FileInfo, FileKind, Files, ServiceError};

/// How often a stream looks.
const LOOKING: Duration = Duration::from_millis(200);
/// The most entries that are watched at a time.
const SEEN_MAX: usize = 20_000;
/// The most watchers of a sandbox that clients ask for what happened.
const WATCHERS_MAX: usize = 64;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/filesystem.Filesystem/WatchDir", post(watch))
        .route("/filesystem.Filesystem/CreateWatcher", post(create))
        .route("/filesystem.Filesystem/GetWatcherEvents", post(events))
        .route("/filesystem.Filesystem/RemoveWatcher", post(remove))
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WatchRequest {
    path: String,
    recursive: bool,
    include_entry: bool,
}

/// One entry, as far as changes show.
type Seen = BTreeMap<String, FileInfo>;

/// A directory that is watched.
struct Watched {
    /// From the root of the vault.
    path: String,
    asked: WatchRequest,
    seen: Seen,
}

impl Watched {
    fn begin(files: &Files, asked: WatchRequest) -> Result<Watched, CallError> {
        let mut watched = Watched {
            path: place::inner(&asked.path)?,
            asked,
            seen: Seen::new(),
        };
        if files.stat(&watched.path)?.kind != FileKind::Directory {
            let path = place::outer(&watched.path);
            return Err(CallError::invalid(format!("'{path}' is no directory")));
        }
        watched.seen = watched.look(files)?;
        Ok(watched)
    }

    fn look(&self, files: &Files) -> Result<Seen, CallError> {
        let depth = if self.asked.recursive { usize::MAX } else { 1 };
        let found = files.list(&self.path, depth, None, SEEN_MAX + 1)?;
        if found.len() > SEEN_MAX {
            let text = format!("more than {SEEN_MAX} entries cannot be watched");
            return Err(CallError::new("resource_exhausted", text));
        }
        Ok(found.into_iter().map(|info| (info.path.clone(), info)).collect())
    }

    /// What has happened since the last time.
    fn changes(&mut self, files: &Files) -> Result<Vec<Value>, CallError> {
        let now = self.look(files)?;
        let told = changes(&self.seen, &now).into_iter();
        let told = told.map(|(what, path)| self.event(files, what, &path, now.get(&path)));
        let told = told.collect();
        self.seen = now;
        Ok(told)
    }

    fn event(&self, files: &Files, what: &str, path: &str, info: Option<&FileInfo>) -> Value {
        let below = path.strip_prefix(self.path.as_str()).unwrap_or(path);
        let mut event = json!({ "name": below.trim_start_matches('/'), "type": what });
        if let Some(info) = info.filter(|_| self.asked.include_entry) {
            event["entry"] = entry::describe(files, info);
        }
        event
    }
}

/// What differs between two looks, in the order of the paths.
fn changes(before: &Seen, now: &Seen) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for (path, info) in now {
        let mut tell = |what| found.push((what, path.clone()));
        match before.get(path) {
            None => {
                tell("EVENT_TYPE_CREATE");
                if info.kind == FileKind::File && info.size > 0 {
                    // As an upload is told elsewhere: its owner and its bytes come after its name.
                    tell("EVENT_TYPE_CHMOD");
                    tell("EVENT_TYPE_WRITE");
                }
            }
            Some(old) if old.kind != info.kind || old.target != info.target => {
                tell("EVENT_TYPE_REMOVE");
                tell("EVENT_TYPE_CREATE");
            }
            Some(old) => {
                let is_file = info.kind == FileKind::File;
                if is_file && (old.size, old.modified) != (info.size, info.modified) {
                    tell("EVENT_TYPE_WRITE");
                }
                if old.mode != info.mode {
                    tell("EVENT_TYPE_CHMOD");
                }
            }
        }
    }
    let gone = before.keys().filter(|path| !now.contains_key(*path));
    found.extend(gone.map(|path| ("EVENT_TYPE_REMOVE", path.clone())));
    found
}

/// Directories that clients ask about from time to time.
#[derive(Default)]
pub(super) struct Watchers(Mutex<HashMap<String, Watcher>>);

struct Watcher {
    sandbox: String,
    tenant: String,
    watched: Arc<Mutex<Watched>>,
}

impl Watchers {
    fn add(&self, inside: &Inside, watched: Watched) -> Result<String, CallError> {
        let number =
            random::bytes::<16>().map_err(|error| ServiceError::host("asking for random bytes", &error))?;
        let id = random::hex(&number);
        let mut table = self.lock();
        // Those of sandboxes that have ended go with the next one of the same tenant.
        table.retain(|_, known| {
            known.tenant != inside.tenant.name || inside.tenant.sandbox(&known.sandbox).is_ok()
        });
        let is_same = |known: &&Watcher| known.sandbox == inside.sandbox.id;
        if table.values().filter(is_same).count() >= WATCHERS_MAX {
            let text = format!("a sandbox has at most {WATCHERS_MAX} watchers");
            return Err(CallError::new("resource_exhausted", text));
        }
        let watcher = Watcher {
            sandbox: inside.sandbox.id.clone(),
            tenant: inside.tenant.name.clone(),
            watched: Arc::new(Mutex::new(watched)),
        };
        table.insert(id.clone(), watcher);
        Ok(id)
    }

    fn find(&self, inside: &Inside, id: &str) -> Result<Arc<Mutex<Watched>>, CallError> {
        let table = self.lock();
        let found = table.get(id).filter(|known| known.sandbox == inside.sandbox.id);
        let found = found.map(|known| Arc::clone(&known.watched));
        found.ok_or_else(|| CallError::new("not_found", "there is no such watcher"))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Watcher>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WatcherRequest {
    watcher_id: String,
}

async fn create(
    inside: Inside,
    State(server): State<Arc<Server>>,
    Call(asked): Call<WatchRequest>,
) -> Result<Json<Value>, CallError> {
    let watched = inside
        .clone()
        .with_files(move |files| Watched::begin(files, asked))
        .await?;
    let id = server.e2b.watchers.add(&inside, watched)?;
    Ok(Json(json!({ "watcherId": id })))
}

async fn events(
    inside: Inside,
    State(server): State<Arc<Server>>,
    Call(asked): Call<WatcherRequest>,
) -> Result<Json<Value>, CallError> {
    let watched = server.e2b.watchers.find(&inside, &asked.watcher_id)?;
    let found = inside.with_files(move |files| {
        let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.changes(files)
    });
    Ok(Json(json!({ "events": found.await? })))
}

async fn remove(
    inside: Inside,
    State(server): State<Arc<Server>>,
    Call(asked): Call<WatcherRequest>,
) -> Result<Json<Value>, CallError> {
    server.e2b.watchers.find(&inside, &asked.watcher_id)?;
    server.e2b.watchers.lock().remove(&asked.watcher_id);
    Ok(Json(json!({})))
}

/// A stream of what happens, until the client goes away.
struct Watching {
    inside: Inside,
    watched: Arc<Mutex<Watched>>,
    waiting: std::vec::IntoIter<Value>,
    last: Instant,
    rhythm: Duration,
}

async fn watch(inside: Inside, headers: HeaderMap, messages: Messages) -> Response {
    let begun = async {
        let asked: WatchRequest = messages.only().await?;
        inside
            .clone()
            .with_files(move |files| Watched::begin(files, asked))
            .await
    };
    let watched = match begun.await {
        Ok(watched) => watched,
        Err(error) => return refuse(error),
    };
    let watching = Watching {
        inside,
        watched: Arc::new(Mutex::new(watched)),
        waiting: vec![json!({ "start": {} })].into_iter(),
        last: Instant::now(),
        rhythm: rhythm(&headers),
    };
    answer(unfold(Some(watching), |watching| async move {
        let mut watching = watching?;
        match watching.next().await {
            Ok(message) => Some((Ok(message), Some(watching))),
            Err(error) => Some((Err(error), None)),
        }
    }))
}

impl Watching {
    async fn next(&mut self) -> Sent {
        loop {
            if let Some(message) = self.waiting.next() {
                self.last = Instant::now();
                return Ok(message);
            }
            if self.last.elapsed() >= self.rhythm {
                self.last = Instant::now();
                return Ok(json!({ "keepalive": {} }));
            }
            tokio::time::sleep(LOOKING).await;
            // A sandbox that ends ends the streams about it.
            self.inside.tenant.sandbox(&self.inside.sandbox.id)?;
            let watched = Arc::clone(&self.watched);
            let looked = self.inside.clone().with_files(move |files| {
                let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
                watched.changes(files)
            });
            let found = looked.await?;
            let events: Vec<Value> = found
                .into_iter()
                .map(|event| json!({ "filesystem": event }))
                .collect();
            self.waiting = events.into_iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(entries: &[(&str, FileKind, u64, u32)]) -> Seen {
        let info = |(path, kind, size, mode): &(&str, FileKind, u64, u32)| {
            let info = FileInfo {
                path: (*path).to_owned(),
                kind: *kind,
                size: *size,
                mode: *mode,
                modified: 0,
                target: None,
                attributes: BTreeMap::new(),
                version: None,
            };
            ((*path).to_owned(), info)
        };
        entries.iter().map(info).collect()
    }

    #[test]
    fn difference_between_two_looks_is_what_happened() {
        use FileKind::{Directory, File};
        let before = seen(&[
            ("/changed", File, 1, 0o644),
            ("/gone", File, 1, 0o644),
            ("/kind", File, 1, 0o644),
            ("/mode", File, 1, 0o644),
            ("/same", Directory, 0, 0o755),
        ]);
        let now = seen(&[
            ("/changed", File, 2, 0o644),
            ("/empty", File, 0, 0o644),
            ("/kind", Directory, 0, 0o644),
            ("/mode", File, 1, 0o600),
            ("/new", File, 1, 0o644),
            ("/same", Directory, 0, 0o755),
        ]);
        let found = changes(&before, &now);
        let found: Vec<String> = found
            .iter()
            .map(|(what, path)| format!("{} {path}", what.trim_start_matches("EVENT_TYPE_")))
            .collect();
        assert_eq!(
            found,
            [
                "WRITE /changed",
                "CREATE /empty",
                "REMOVE /kind",
                "CREATE /kind",
                "CHMOD /mode",
                "CREATE /new",
                "CHMOD /new",
                "WRITE /new",
                "REMOVE /gone",
            ]
        );
        assert_eq!(changes(&now, &now), []);
    }
}
