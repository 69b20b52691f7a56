//! The attributes of an entry as rules show them, for stored trees and working trees.

use avfs_core::rules::{Level, Rules};
use avfs_core::{Labels, Meta};

const WRITE_BITS: u32 = 0o222;
const ALL_BITS: u32 = 0o777;
const PASSABLE_MODE: u32 = 0o555;

/// Whether these rules cannot hide anything, whatever its name and labels.
pub(crate) fn shows_all(rules: &Rules) -> bool {
    let root = rules.root(&Labels::default());
    let names_labels = rules.list().iter().any(|rule| rule.label().is_some());
    root.level() > Level::None && rules.is_all_below(&root, Level::View) && !names_labels
}

/// The attributes of anything but a directory.
pub(crate) fn file_meta(meta: &Meta, level: Level) -> Meta {
    let mut meta = meta.clone();
    meta.mode &= match level {
        Level::None | Level::View => !ALL_BITS,
        Level::Read => !WRITE_BITS,
        Level::Append | Level::Write => !0,
    };
    meta
}

/// The attributes of a directory. A directory in which names can be created is shown as writable, whatever
/// its own level.
pub(crate) fn directory_meta(meta: &Meta, takes_names: bool) -> Meta {
    let mut meta = meta.clone();
    if !takes_names {
        meta.mode &= !WRITE_BITS;
    }
    meta
}

/// A directory that is only visible because of entries below it shows nothing about itself.
pub(crate) fn passable_meta(meta: &Meta) -> Meta {
    Meta {
        mode: PASSABLE_MODE,
        uid: meta.uid,
        gid: meta.gid,
        ..Meta::default()
    }
}
