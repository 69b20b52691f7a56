//! Entries of a vault as listings show them.

use agentvfs::rules::Level;
use agentvfs::{EntryKind, FoundEntry, InodeKind, TreePath};
use serde::Serialize;

use crate::json::{PathField, byte_field};
use crate::mode::show_mode;
use crate::printer::{DIRECTORY, Painted, Printer, SYMLINK};
use crate::time::show_rfc3339;

byte_field!(TargetField, target, target_bytes_hex);

/// The fields of one entry, the same in all listings.
#[derive(Serialize)]
pub struct EntryBody {
    #[serde(flatten)]
    path: PathField,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: String,
    uid: u32,
    gid: u32,
    names: u32,
    size: u64,
    mtime: String,
    #[serde(flatten)]
    target: Option<TargetField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<u64>,
}

impl EntryBody {
    pub fn new(path: &TreePath, found: &FoundEntry) -> EntryBody {
        let meta = &found.entry.meta;
        let kind = InodeKind::from(&found.entry.kind);
        let device = match kind {
            InodeKind::CharDevice { device } | InodeKind::BlockDevice { device } => Some(device),
            _ => None,
        };
        EntryBody {
            path: path.into(),
            kind: kind_name(kind),
            mode: octal(meta.mode),
            uid: meta.uid,
            gid: meta.gid,
            names: names(found),
            size: found.entry.size(),
            mtime: show_rfc3339(meta.mtime),
            target: target(found).map(TargetField::new),
            device,
        }
    }
}

pub fn kind_name(kind: InodeKind) -> &'static str {
    match kind {
        InodeKind::File => "file",
        InodeKind::Directory => "directory",
        InodeKind::Symlink => "symlink",
        InodeKind::Fifo => "fifo",
        InodeKind::Socket => "socket",
        InodeKind::CharDevice { .. } => "char-device",
        InodeKind::BlockDevice { .. } => "block-device",
    }
}

pub fn octal(mode: u32) -> String {
    format!("{mode:04o}")
}

/// The number of names of the entry.
pub fn names(found: &FoundEntry) -> u32 {
    found.link.map_or(1, |(_, names)| names)
}

/// The target of a symbolic link, if it may be read.
pub fn target(found: &FoundEntry) -> Option<&[u8]> {
    match &found.entry.kind {
        EntryKind::Symlink { target } if found.level >= Level::Read => Some(target),
        _ => None,
    }
}

/// Kind and permissions, as `ls -l` begins.
pub fn letters(found: &FoundEntry) -> String {
    show_mode(InodeKind::from(&found.entry.kind), found.entry.meta.mode)
}

/// A name in the colour of its kind.
pub fn painted(out: &Printer, found: &FoundEntry, name: String) -> Painted<String> {
    match &found.entry.kind {
        EntryKind::Directory { .. } => out.paint(DIRECTORY, name),
        EntryKind::Symlink { .. } => out.paint(SYMLINK, name),
        _ => out.paint(anstyle::Style::new(), name),
    }
}
