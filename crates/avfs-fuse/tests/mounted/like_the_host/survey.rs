//! The visible state of a directory, in a form in which two of them can be compared.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};

/// Times before this were set explicitly; later ones are times of changes.
const SET_TIMES: i64 = 1000;

/// Attributes of an inode.
#[derive(Debug, PartialEq)]
pub struct Seen {
    kind: FileType,
    mode: u32,
    names: u64,
    owner: (u32, u32),
    /// `None` for a directory, whose size differs between file systems.
    size: Option<i64>,
    /// `None` if it was changed after the last explicit setting, or never set.
    modified: Option<(i64, u64)>,
}

impl Seen {
    pub fn of(stat: &Stat) -> Seen {
        let kind = FileType::from_raw_mode(stat.st_mode);
        Seen {
            kind,
            mode: stat.st_mode & 0o7777,
            names: stat.st_nlink,
            owner: (stat.st_uid, stat.st_gid),
            size: (kind != FileType::Directory).then_some(stat.st_size),
            modified: (stat.st_mtime < SET_TIMES).then_some((stat.st_mtime, stat.st_mtime_nsec)),
        }
    }
}

/// One name in a directory.
#[derive(Debug, PartialEq)]
pub struct Found {
    seen: Seen,
    /// The first name of the same inode.
    same_as: PathBuf,
    /// For a file its bytes, for a symbolic link its target, for a directory empty.
    contents: Vec<u8>,
    attributes: BTreeMap<String, Vec<u8>>,
}

/// Everything below a directory.
pub fn survey(root: &Path) -> BTreeMap<PathBuf, Found> {
    let mut paths = Vec::new();
    walk(root, &mut paths);
    let mut first_names = BTreeMap::new();
    let found = paths.into_iter().map(|path| {
        let name = path.strip_prefix(root).unwrap().to_owned();
        let stat = rustix::fs::lstat(&path).unwrap();
        let same_as = first_names
            .entry(stat.st_ino)
            .or_insert_with(|| name.clone())
            .clone();
        let (contents, attributes) = inside(&path, &stat);
        (
            name,
            Found {
                seen: Seen::of(&stat),
                same_as,
                contents,
                attributes,
            },
        )
    });
    found.collect()
}

fn walk(directory: &Path, paths: &mut Vec<PathBuf>) {
    let mut below: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    below.sort();
    for path in below {
        let is_directory = path.symlink_metadata().unwrap().is_dir();
        paths.push(path.clone());
        if is_directory {
            walk(&path, paths);
        }
    }
}

fn inside(path: &Path, stat: &Stat) -> (Vec<u8>, BTreeMap<String, Vec<u8>>) {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => (
            std::fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec(),
            BTreeMap::new(),
        ),
        FileType::Directory => (Vec::new(), attributes(path)),
        _ => (std::fs::read(path).unwrap(), attributes(path)),
    }
}

/// Attributes that belong to programs; a host may add others by itself.
fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = [0; 1024];
    let length = rustix::fs::listxattr(path, &mut names[..]).unwrap();
    let names = std::str::from_utf8(&names[..length]).unwrap();
    let of_programs = names
        .split_terminator('\0')
        .filter(|name| name.starts_with("user."));
    of_programs
        .map(|name| (name.to_owned(), attribute(path, name).unwrap()))
        .collect()
}

pub fn attribute(path: &Path, name: &str) -> rustix::io::Result<Vec<u8>> {
    let mut value = vec![0; 256];
    let length = rustix::fs::getxattr(path, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}
