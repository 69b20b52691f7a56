//! What differs between two states.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use agentvfs::exec::{ChangeKind, ChangedFile};
use pyo3::prelude::*;

/// One changed file or directory.
#[pyclass(frozen, get_all, module = "agentvfs._native")]
#[derive(Clone)]
pub struct Change {
    path: OsString,
    kind: &'static str,
    moved_from: Option<OsString>,
    size_before: Option<u64>,
    size_after: Option<u64>,
}

impl From<&ChangedFile> for Change {
    fn from(file: &ChangedFile) -> Change {
        Change {
            path: path(&file.path.path, file.path.path_bytes_hex.as_deref()),
            kind: match file.kind {
                ChangeKind::Added => "added",
                ChangeKind::Modified => "modified",
                ChangeKind::Deleted => "deleted",
                ChangeKind::Renamed => "renamed",
                ChangeKind::Metadata => "metadata",
            },
            moved_from: (file.from.as_ref()).map(|from| path(from, file.from_bytes_hex.as_deref())),
            size_before: file.size_before,
            size_after: file.size_after,
        }
    }
}

/// A path; its bytes count where they are no text.
fn path(text: &str, hex: Option<&str>) -> OsString {
    let Some(hex) = hex else { return text.into() };
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    OsString::from_vec(
        digits
            .chunks_exact(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect(),
    )
}
