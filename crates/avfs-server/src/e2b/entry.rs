//! What is at a path, as clients are told it.

use serde_json::{Map, Value, json};

use super::connect::CallError;
use super::{moment, place};
use crate::service::{FileInfo, FileKind, Files};

/// With what the names of attributes begin that are a client's metadata of a file.
pub(super) const METADATA: &str = "user.e2b.";
/// The size of directories, as the file systems of most machines have it.
const DIRECTORY_SIZE: u64 = 4096;

/// The description of an entry. A link is described as what it leads to, with its target.
pub(super) fn describe(files: &Files, info: &FileInfo) -> Value {
    let path = place::outer(&info.path);
    let mut entry = json!({
        "name": path.rsplit('/').next(),
        "type": kind(files, info),
        "path": path,
        // Numbers of 64 bits are texts in this protocol.
        "size": size(info).to_string(),
        "mode": info.mode & 0o7777,
        "permissions": permissions(info),
        "owner": "user",
        "group": "user",
        "modifiedTime": moment::show(info.modified),
    });
    if let Some(target) = &info.target {
        let found = place_of_target(info).filter(|path| place::inner(path).is_ok());
        entry["symlinkTarget"] = found.unwrap_or_else(|| target.clone()).into();
        entry["isSymlink"] = true.into();
    }
    if let Some(metadata) = metadata(info) {
        entry["metadata"] = metadata;
    }
    entry
}

fn size(info: &FileInfo) -> u64 {
    match info.kind {
        FileKind::Directory => DIRECTORY_SIZE,
        FileKind::File | FileKind::Link | FileKind::Other => info.size,
    }
}

/// What a client has kept with a file; nothing, if that is nothing.
pub(super) fn metadata(info: &FileInfo) -> Option<Value> {
    let of_clients = info.attributes.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix(METADATA)?;
        Some((name.to_owned(), Value::from(value.as_str())))
    });
    let metadata: Map<String, Value> = of_clients.collect();
    (!metadata.is_empty()).then(|| metadata.into())
}

/// What is at a path, or why nothing is.
pub(super) fn find(files: &Files, path: &str) -> Result<Value, CallError> {
    let info = files.stat(&place::inner(path)?)?;
    Ok(describe(files, &info))
}

fn kind(files: &Files, info: &FileInfo) -> &'static str {
    match info.kind {
        FileKind::File => "FILE_TYPE_FILE",
        FileKind::Directory => "FILE_TYPE_DIRECTORY",
        FileKind::Other => "FILE_TYPE_UNSPECIFIED",
        FileKind::Link => match target(files, info).map(|info| info.kind) {
            Some(FileKind::File) => "FILE_TYPE_FILE",
            Some(FileKind::Directory) => "FILE_TYPE_DIRECTORY",
            _ => "FILE_TYPE_SYMLINK",
        },
    }
}

/// Where a link leads in one step, if that is in the vault.
fn target(files: &Files, info: &FileInfo) -> Option<FileInfo> {
    let path = place_of_target(info)?;
    files.stat(&place::inner(&path).ok()?).ok()
}

/// Where a link leads in one step, from the root of the sandbox.
fn place_of_target(info: &FileInfo) -> Option<String> {
    let target = info.target.as_deref()?;
    let (above, _) = info.path.rsplit_once('/')?;
    Some(if target.starts_with('/') {
        target.to_owned()
    } else {
        place::normal(&format!("{}/{target}", place::outer(above)))
    })
}

/// The mode, as `ls` shows it.
fn permissions(info: &FileInfo) -> String {
    let first = match info.kind {
        FileKind::Directory => 'd',
        FileKind::Link => 'l',
        FileKind::File | FileKind::Other => '-',
    };
    let bits = (0..9).rev().zip("rwxrwxrwx".chars());
    let bits = bits.map(|(bit, letter)| if (info.mode >> bit) & 1 == 1 { letter } else { '-' });
    std::iter::once(first).chain(bits).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn modes_are_shown_as_ls_does() {
        let shown = |kind, mode| {
            permissions(&FileInfo {
                path: "/a".to_owned(),
                kind,
                size: 0,
                mode,
                modified: 0,
                target: None,
                attributes: BTreeMap::new(),
                version: None,
            })
        };
        assert_eq!(shown(FileKind::File, 0o644), "-rw-r--r--");
        assert_eq!(shown(FileKind::Directory, 0o755), "drwxr-xr-x");
        assert_eq!(shown(FileKind::Link, 0o777), "lrwxrwxrwx");
    }
}
