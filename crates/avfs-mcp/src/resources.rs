//! Files as resources: `avfs://WORKSPACE/path`.
//!
//! A client that subscribes to a file is told when it changes: at once if a tool of this server changed it, and soon if
//! something else did.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use agentvfs::{EntryKind, ReadError, TreePath};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    CacheScope, ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};

use crate::paths::show;
use crate::server::Shared;
use crate::tool_error::ToolError;
use crate::workspaces::Workspace;

const SCHEME: &str = "avfs://";
/// The most bytes of a file that are read as one resource.
const MOST: u64 = 4 << 20;
/// How many files a list has.
const LISTED: usize = 200;
/// How often a watched file is looked at that no tool of this server has changed.
const PERIOD: Duration = Duration::from_secs(1);

/// The files at the root of the default workspace. Others are found by the tools, and read by their addresses.
pub(crate) async fn list(
    shared: &Arc<Shared>,
    _cursor: Option<String>,
) -> Result<ListResourcesResult, ErrorData> {
    let looked_at = Arc::clone(shared);
    let listed = shared
        .on_a_thread(move || match looked_at.workspaces.default_already()? {
            Some(workspace) => files_at_root(&workspace),
            // Nothing is made for a client that only looks around.
            None => Ok(Vec::new()),
        })
        .await;
    let resources = listed.map_err(|error| internal(&error))?;
    Ok(ListResourcesResult::with_all_items(resources)
        .with_ttl_ms(0)
        .with_cache_scope(CacheScope::Private))
}

fn files_at_root(workspace: &Workspace) -> Result<Vec<Resource>, ToolError> {
    let reader = workspace.vault.reader()?;
    let mut resources = Vec::new();
    for entry in reader.list(&TreePath::root())?.take(LISTED) {
        let (name, found) = entry?;
        if let EntryKind::File { size, .. } = found.entry.kind {
            let path = TreePath::root().join(&name);
            resources.push(Resource::new(address(&workspace.name, &path), show(&path)).with_size(size));
        }
    }
    Ok(resources)
}

pub(crate) fn templates() -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new("avfs://{workspace}/{+path}", "file")
        .with_title("A file of a workspace")
        .with_description("The contents of a file, or the entries of a directory.");
    ListResourceTemplatesResult::with_all_items(vec![template])
        .with_ttl_ms(60 * 60 * 1000)
        .with_cache_scope(CacheScope::Private)
}

/// The contents of a file, or the entries of a directory.
pub(crate) async fn read(
    shared: &Arc<Shared>,
    uri: String,
    client: String,
) -> Result<ReadResourceResult, ErrorData> {
    let place = Place::parse(&uri).ok_or_else(|| not_found(&uri))?;
    let looked_at = Arc::clone(shared);
    let asked = uri.clone();
    let contents = shared.on_a_thread(move || {
        let workspace = looked_at.workspaces.named(Some(&place.workspace), &client)?;
        contents(&workspace, &place.path, &asked)
    });
    match contents.await {
        Ok(contents) => Ok(ReadResourceResult::new(vec![contents])
            .with_ttl_ms(0)
            .with_cache_scope(CacheScope::Private)),
        Err(error)
            if matches!(
                error.code(),
                "not-found" | "unknown-workspace" | "not-a-directory"
            ) =>
        {
            Err(not_found(&uri))
        }
        Err(error) => Err(internal(&error)),
    }
}

fn contents(workspace: &Workspace, path: &TreePath, uri: &str) -> Result<ResourceContents, ToolError> {
    let reader = workspace.vault.reader()?;
    let found = reader.find(path)?;
    match &found.entry.kind {
        EntryKind::File { size, .. } if *size > MOST => {
            let text = format!("the file has {size} bytes; the tool `read` reads parts of it");
            Err(ToolError::new("too-large", text))
        }
        EntryKind::File { .. } => {
            let bytes = reader.read(path)?;
            Ok(match std::str::from_utf8(&bytes) {
                // Bytes with NUL are no text to anyone, even where they are UTF-8.
                Ok(text) if !bytes.contains(&0) => ResourceContents::text(text, uri),
                _ => ResourceContents::blob(STANDARD.encode(&bytes), uri)
                    .with_mime_type("application/octet-stream"),
            })
        }
        EntryKind::Directory { .. } => {
            let mut lines = String::new();
            for entry in reader.list(path)? {
                let (name, found) = entry?;
                let slash = if found.entry.is_directory() { "/" } else { "" };
                lines.push_str(&format!("{}{slash}\n", avfs_core::printable(name.as_bytes())));
            }
            Ok(ResourceContents::text(lines, uri).with_mime_type("inode/directory"))
        }
        EntryKind::Symlink { target } => {
            let target = avfs_core::printable(target);
            Ok(ResourceContents::text(target, uri).with_mime_type("inode/symlink"))
        }
        _ => Err(ToolError::new(
            "not-a-file",
            "it is neither a file nor a directory",
        )),
    }
}

/// Calls `changed` with each address whose contents are no longer what they were, until it answers `false`.
pub(crate) async fn watch(shared: &Arc<Shared>, uris: Vec<String>, changed: impl AsyncFn(String) -> bool) {
    // Before the first wait: what changes from here on is told.
    let mut known: HashMap<String, u64> = seen(shared, &uris).await;
    loop {
        tokio::select! {
            // A tool has changed something; others, such as mounts, are noticed by the period.
            () = shared.changed.notified() => {}
            () = tokio::time::sleep(PERIOD) => {}
        }
        let now = seen(shared, &uris).await;
        for (uri, mark) in &now {
            if known.get(uri) != Some(mark) && !changed(uri.clone()).await {
                return;
            }
        }
        known = now;
    }
}

/// A mark of what is at each address: another one as soon as something else is there.
async fn seen(shared: &Arc<Shared>, uris: &[String]) -> HashMap<String, u64> {
    let (looked_at, uris) = (Arc::clone(shared), uris.to_vec());
    let marks = shared.on_a_thread(move || {
        let marked = uris.into_iter().map(|uri| {
            let mark = mark(&looked_at, &uri);
            (uri, mark)
        });
        Ok(marked.collect())
    });
    marks.await.unwrap_or_default()
}

fn mark(shared: &Shared, uri: &str) -> u64 {
    let found = Place::parse(uri).and_then(|place| {
        // A workspace that is gone has the same mark as a file that is.
        let workspace = shared.workspaces.named(Some(&place.workspace), "").ok()?;
        let reader = workspace.vault.reader().ok()?;
        match reader.find(&place.path) {
            // The entry has the id of the contents, so that no bytes are read to compare them.
            Ok(found) => Some(format!("{:?}", found.entry)),
            Err(ReadError::NotFound { .. }) => None,
            Err(error) => Some(error.to_string()),
        }
    });
    let mut hasher = DefaultHasher::new();
    found.hash(&mut hasher);
    hasher.finish()
}

/// What an address names.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    workspace: String,
    path: TreePath,
}

impl Place {
    fn parse(uri: &str) -> Option<Place> {
        let rest = uri.strip_prefix(SCHEME)?;
        let (workspace, path) = rest.split_once('/').unwrap_or((rest, ""));
        Some(Place {
            workspace: String::from_utf8(unescaped(workspace)?).ok()?,
            path: TreePath::parse(&unescaped(path)?).ok()?,
        })
    }
}

/// The address of a file.
fn address(workspace: &str, path: &TreePath) -> String {
    format!(
        "{SCHEME}{}/{}",
        escaped(workspace.as_bytes(), b""),
        escaped(path.as_bytes(), b"/")
    )
}

/// Percent encoding of everything that is not unreserved, nor in `also`.
fn escaped(bytes: &[u8], also: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || also.contains(byte) {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(behind.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &behind[2..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    Some(bytes)
}

fn not_found(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(
        "there is no such resource",
        Some(serde_json::json!({ "uri": uri })),
    )
}

fn internal(error: &ToolError) -> ErrorData {
    ErrorData::internal_error(
        error.message().to_owned(),
        Some(serde_json::json!({ "code": error.code() })),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn an_address_names_the_place_that_it_was_made_for() {
        for (workspace, file) in [("web", "src/main.rs"), ("web/task-1", "a b/ü%.txt"), ("w", "")] {
            let place = Place::parse(&address(workspace, &path(file))).unwrap();
            assert_eq!(
                place,
                Place {
                    workspace: workspace.into(),
                    path: path(file)
                }
            );
        }
    }

    #[test]
    fn an_address_that_leads_out_names_nothing() {
        for uri in [
            "avfs://w/../x",
            "avfs://w/%2e%2e/x",
            "avfs://w/a%2",
            "file:///etc/passwd",
            "avfs://w/a%00b",
        ] {
            assert_eq!(Place::parse(uri), None, "{uri}");
        }
    }
}
