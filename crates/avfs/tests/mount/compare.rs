//! Whether two directories are equal: everything that a program can see, except properties of the file system
//! (inode numbers, sizes of directories) and of the moment (change times).

#[cfg(test)]
#[path = "compare/tests.rs"]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A directory, and when a scenario worked in it.
pub struct Side {
    pub dir: PathBuf,
    pub span: Span,
}

/// From when to when.
#[derive(Clone, Copy)]
pub struct Span {
    pub from: SystemTime,
    pub to: SystemTime,
}

impl Span {
    /// The clock for file times advances in ticks, and lags behind by one, or by several on a busy machine.
    const TICK: Duration = Duration::from_millis(50);

    fn holds(&self, time: SystemTime) -> bool {
        time >= self.from - Span::TICK && time <= self.to
    }
}

/// What may differ between two runs of the same scenario.
#[derive(Default)]
pub struct Freedom {
    /// Paths that are left out, with everything below them.
    pub left_out: &'static [&'static str],
    /// Files whose bytes and sizes differ each time, by the end of their paths.
    pub own_bytes: &'static [&'static str],
}

impl Freedom {
    fn leaves_out(&self, path: &Path) -> bool {
        self.left_out.iter().any(|start| path.starts_with(start))
    }

    fn allows_own_bytes(&self, path: &Path) -> bool {
        self.own_bytes
            .iter()
            .any(|end| path.as_os_str().as_bytes().ends_with(end.as_bytes()))
    }
}

/// Fails with a list of the differences.
#[track_caller]
pub fn assert_same(control: &Side, other: &Side, freedom: &Freedom) {
    let differences = differences(control, other, freedom);
    let first: Vec<_> = differences.iter().take(30).map(String::as_str).collect();
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        first.join("\n")
    );
}

/// Each difference as a line that names the path and both values, the control's first.
pub fn differences(control: &Side, other: &Side, freedom: &Freedom) -> Vec<String> {
    let (ours, theirs) = (entries(&control.dir, freedom), entries(&other.dir, freedom));
    let mut found = Vec::new();
    for path in theirs.keys().filter(|path| !ours.contains_key(*path)) {
        found.push(format!("{}: not in the control", path.display()));
    }
    for (path, entry) in &ours {
        let Some(twin) = theirs.get(path) else {
            found.push(format!("{}: only in the control", path.display()));
            continue;
        };
        let own_bytes = freedom.allows_own_bytes(path);
        let mut say = |what: &str, values: [String; 2]| {
            if values[0] != values[1] {
                found.push(format!(
                    "{}: {what} {} / {}",
                    path.display(),
                    values[0],
                    values[1]
                ));
            }
        };
        for ((what, one), (_, two)) in entry.facts(own_bytes).into_iter().zip(twin.facts(own_bytes)) {
            say(what, [one, two]);
        }
        say(
            "mtime",
            mtimes([(entry.mtime, control.span), (twin.mtime, other.span)]),
        );
        if entry.kind == "file" && twin.kind == "file" && !own_bytes {
            say("bytes", bytes(&control.dir.join(path), &other.dir.join(path)));
        }
    }
    found
}

/// A time outside of its run was set by a program, and is the same to the nanosecond. A time within the run was
/// set by the file system, and lies within the other run, too.
fn mtimes([(one, one_span), (two, two_span)]: [(SystemTime, Span); 2]) -> [String; 2] {
    let show = |time: SystemTime| match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => format!("{}.{:09}", since.as_secs(), since.subsec_nanos()),
        Err(before) => format!("-{:?}", before.duration()),
    };
    match one_span.holds(one) {
        true if two_span.holds(two) => [String::new(), String::new()],
        true => ["within the run".to_owned(), show(two)],
        false => [show(one), show(two)],
    }
}

/// Nothing if they are the same; otherwise the place where they part.
fn bytes(one: &Path, two: &Path) -> [String; 2] {
    let [one, two] = [one, two].map(|path| fs::read(path).unwrap());
    match one.iter().zip(&two).position(|(a, b)| a != b) {
        Some(at) => [format!("{:#04x} at {at}", one[at]), format!("{:#04x}", two[at])],
        None => [one.len().to_string(), two.len().to_string()],
    }
}

struct Entry {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    /// Of files; how a directory counts its links is the file system's own affair.
    links: Option<u64>,
    /// Of files and symbolic links.
    size: Option<u64>,
    device: u64,
    /// The first of all names of this inode.
    first_name: PathBuf,
    target: Option<PathBuf>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    mtime: SystemTime,
}

impl Entry {
    fn facts(&self, own_bytes: bool) -> [(&'static str, String); 8] {
        let size = self.size.filter(|_| !own_bytes);
        [
            ("kind", self.kind.to_owned()),
            ("mode", format!("{:04o}", self.mode & 0o7777)),
            ("owner", format!("{:?}", self.owner)),
            ("links", format!("{:?}", self.links)),
            ("size", format!("{size:?}")),
            ("device and target", format!("{} {:?}", self.device, self.target)),
            ("one file with", format!("{:?}", self.first_name)),
            ("xattrs", format!("{:?}", self.xattrs)),
        ]
    }
}

fn entries(top: &Path, freedom: &Freedom) -> BTreeMap<PathBuf, Entry> {
    let mut paths = vec![PathBuf::new()];
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        for found in fs::read_dir(top.join(&directory)).unwrap() {
            let found = found.unwrap();
            let path = directory.join(found.file_name());
            if freedom.leaves_out(&path) {
                continue;
            }
            assert_listing_is_true(&found);
            if found.file_type().unwrap().is_dir() {
                open.push(path.clone());
            }
            paths.push(path);
        }
    }
    paths.sort();
    let mut first_names = BTreeMap::new();
    paths
        .into_iter()
        .map(|path| (path.clone(), entry(top, path, &mut first_names)))
        .collect()
}

/// Asserts that a listing and an entry itself report the same.
#[track_caller]
fn assert_listing_is_true(found: &fs::DirEntry) {
    let meta = fs::symlink_metadata(found.path()).unwrap();
    let shown = found.path().display().to_string();
    assert_eq!(
        found.file_type().unwrap(),
        meta.file_type(),
        "the listed kind of {shown}"
    );
    assert_eq!(found.ino(), meta.ino(), "the listed number of {shown}");
}

fn entry(top: &Path, path: PathBuf, first_names: &mut BTreeMap<u64, PathBuf>) -> Entry {
    let place = top.join(&path);
    let meta = fs::symlink_metadata(&place).unwrap();
    let kind = kind(meta.file_type());
    Entry {
        kind,
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        links: (!meta.is_dir()).then(|| meta.nlink()),
        size: (meta.is_file() || meta.is_symlink()).then_some(meta.len()),
        device: meta.rdev(),
        first_name: first_names.entry(meta.ino()).or_insert(path).clone(),
        target: meta.is_symlink().then(|| fs::read_link(&place).unwrap()),
        xattrs: xattrs(&place),
        mtime: meta.modified().unwrap(),
    }
}

fn kind(of: fs::FileType) -> &'static str {
    match of {
        of if of.is_file() => "file",
        of if of.is_dir() => "directory",
        of if of.is_symlink() => "symlink",
        of if of.is_fifo() => "fifo",
        of if of.is_socket() => "socket",
        of if of.is_char_device() => "character device",
        _ => "block device",
    }
}

/// Those that users set.
fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 65_536];
    let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap();
    let names = names[..len]
        .split(|byte| *byte == 0)
        .filter(|name| name.starts_with(b"user."));
    let value = |name: &[u8]| {
        let mut value = vec![0; 65_536];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        value[..len].to_vec()
    };
    names.map(|name| (name.to_vec(), value(name))).collect()
}
