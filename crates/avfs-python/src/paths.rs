//! Paths of a vault as Python writes them: text, with `surrogateescape` for bytes that are none, as for paths of the host.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use agentvfs::TreePath;
use agentvfs::error::FileError;

/// A path from the root of the vault.
pub fn tree_path(text: &OsStr) -> agentvfs::Result<TreePath> {
    TreePath::parse(text.as_bytes()).map_err(|source| {
        FileError::BadPath {
            text: detail(text),
            source,
        }
        .into()
    })
}

pub fn tree_paths(texts: &[OsString]) -> agentvfs::Result<Vec<TreePath>> {
    texts.iter().map(|text| tree_path(text)).collect()
}

/// A path as Python gets it, with its slash in front.
pub fn shown(path: &TreePath) -> OsString {
    let mut bytes = vec![b'/'];
    bytes.extend_from_slice(path.as_bytes());
    OsString::from_vec(bytes)
}

/// A path as it is written into the history.
pub fn detail(text: &OsStr) -> String {
    agentvfs::printable(text.as_bytes())
}
