//! Shared by the tests of transfers: a store in memory, a directory with one of everything, and all the facts
//! about a host directory that can be compared.

#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use avfs_core::{Entry, NodeId, Root, Totals, TreePath, map};
use avfs_store::MemoryStore;
use avfs_transfer::{
    DirectoryExport, DirectoryImport, ImportedTree, TarImport, TransferError, TransferReport,
    export_directory, export_tar, import_directory, import_tar,
};
use avfs_tree::{ObjectWriter, Objects, TreeReader};
use rustix::fs::{AtFlags, FileType, Mode, SeekFrom, Timespec, Timestamps, XattrFlags};

pub struct Place {
    pub objects: Objects,
    pub writer: ObjectWriter,
}

impl Place {
    pub fn new() -> Place {
        let objects = Objects::new(Arc::new(MemoryStore::new()));
        let writer = ObjectWriter::new(&objects);
        Place { objects, writer }
    }

    pub fn import(&self, from: &Path) -> Result<ImportedTree, TransferError> {
        self.import_with(from, &DirectoryImport::default())
    }

    pub fn import_with(
        &self,
        from: &Path,
        options: &DirectoryImport<'_>,
    ) -> Result<ImportedTree, TransferError> {
        import_directory(&self.objects, &self.writer, from, &TreePath::root(), options, &())
    }

    pub fn import_tar(&self, archive: &[u8], options: &TarImport<'_>) -> Result<ImportedTree, TransferError> {
        import_tar(
            &self.objects,
            &self.writer,
            archive,
            &TreePath::root(),
            options,
            &(),
        )
    }

    /// Everything exact, as from a directory.
    pub fn import_tar_exactly(&self, archive: &[u8]) -> Tree {
        let options = TarImport {
            devices: true,
            keep_privileges: true,
            ..TarImport::default()
        };
        self.tree(self.import_tar(archive, &options).unwrap())
    }

    pub fn tree(&self, imported: ImportedTree) -> Tree {
        let edits = imported
            .links
            .into_iter()
            .map(|(id, file)| (id.key().into(), Some(file)))
            .collect();
        let links = map::apply(&self.objects, &mut &self.writer, None, &edits).unwrap();
        self.writer.flush().unwrap();
        Tree {
            directory: imported.directory,
            links: links.map(|root| root.id),
        }
    }

    pub fn reader(&self, tree: &Tree) -> TreeReader {
        let root = Root {
            directory: tree.directory.clone(),
            links: tree.links,
            totals: Totals::default(),
        };
        TreeReader::new(self.objects.clone(), root)
    }

    pub fn export(&self, tree: &Tree, to: &Path) -> Result<TransferReport, TransferError> {
        let reader = self.reader(tree);
        export_directory(&reader, &TreePath::root(), to, &DirectoryExport::default(), &())
    }

    pub fn export_tar(&self, tree: &Tree) -> Vec<u8> {
        let mut archive = Vec::new();
        export_tar(&self.reader(tree), &TreePath::root(), &mut archive, &()).unwrap();
        archive
    }
}

/// Equal trees are equal values: the ids of everything below are in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    pub directory: Entry,
    pub links: Option<NodeId>,
}

/// A place for many small files: in memory, where the machine has one.
pub fn roomy_place() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub fn path(raw: &str) -> TreePath {
    TreePath::parse(raw.as_bytes()).unwrap()
}

pub fn set_mtime(path: &Path, seconds: i64, nanos: i64) {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: seconds,
            tv_nsec: nanos,
        },
    };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

/// A file with data at the given places, one page each, and holes elsewhere.
pub fn sparse_file(path: &Path, size: u64, pages: &[u64]) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::create(path).unwrap();
    file.set_len(size).unwrap();
    for page in pages {
        let len = 4096.min(size - page * 4096) as usize;
        file.write_all_at(&vec![(*page % 250) as u8 + 1; len], page * 4096)
            .unwrap();
    }
}

/// Makes one of everything in a new directory.
pub fn one_of_everything(top: &Path) {
    for directory in ["sub/deeper", "empty", "closed"] {
        fs::create_dir_all(top.join(directory)).unwrap();
    }
    fs::write(top.join("small"), b"hello").unwrap();
    fs::write(top.join("nothing"), b"").unwrap();
    fs::write(top.join("large"), pattern(3 << 20)).unwrap();
    fs::write(top.join("sub/secret"), b"x").unwrap();
    set_mode(&top.join("sub/secret"), 0o400);
    fs::write(top.join("sub/program"), b"#!").unwrap();
    set_mode(&top.join("sub/program"), 0o6755);
    sparse_file(&top.join("sparse"), 40 << 20, &[0, 5, 6, 9000]);
    sparse_file(&top.join("all hole"), 1 << 20, &[]);
    sparse_file(&top.join("hole at the end"), 10_000, &[0]);
    sparse_file(&top.join("hole at the start"), 9_000, &[2]);
    links(top);
    names(top);
    set_xattr(&top.join("small"), "user.a", b"one\ntwo\0");
    set_xattr(&top.join("small"), "user.with=and%", b"=");
    set_xattr(&top.join("small"), "user.empty", b"");
    set_xattr(&top.join("sub"), "user.directory", &[7; 1500]);
    nodes(top);
    if is_root() {
        privileged(top);
    }
    set_mtime(&top.join("small"), 1_234_567_890, 123_456_789);
    set_mtime(&top.join("nothing"), -100, 500_000_000);
    set_mtime(&top.join("closed"), 1_000_000_000, 1);
    set_mtime(&top.join("sub"), 1_000_000_001, 0);
    set_mtime(&top.join("dangling"), 1_000_000_002, 999_999_999);
    set_mode(&top.join("closed"), 0o555);
    set_mtime(top, 999_999_999, 42);
}

fn links(top: &Path) {
    symlink("nowhere at all", top.join("dangling")).unwrap();
    symlink("/etc/passwd", top.join("absolute")).unwrap();
    symlink("round", top.join("round")).unwrap();
    symlink("t".repeat(300), top.join("long target")).unwrap();
    fs::hard_link(top.join("small"), top.join("sub/also small")).unwrap();
    fs::hard_link(top.join("small"), top.join("sub/deeper/a third name")).unwrap();
    fs::hard_link(top.join("sparse"), top.join("empty/../sub/sparse too")).unwrap();
    fs::write(top.join("closed/inside"), b"in a read-only directory").unwrap();
    fs::hard_link(top.join("closed/inside"), top.join("outside")).unwrap();
    rustix::fs::linkat(
        rustix::fs::CWD,
        top.join("dangling"),
        rustix::fs::CWD,
        top.join("dangling again"),
        AtFlags::empty(),
    )
    .unwrap();
}

fn names(top: &Path) {
    fs::write(top.join("n".repeat(255)), b"long").unwrap();
    fs::create_dir(top.join("d".repeat(255))).unwrap();
    fs::write(
        top.join("d".repeat(255)).join("e".repeat(255)),
        b"long below long",
    )
    .unwrap();
    fs::write(top.join(std::ffi::OsStr::from_bytes(b"not \xff utf-8")), b"bytes").unwrap();
    fs::write(top.join("line\nbreak \\ \u{202e}"), b"text").unwrap();
    fs::write(top.join(" "), b"space").unwrap();
    let long = [&b"\xfe"[..], &[b'x'; 200]].concat();
    fs::write(top.join(std::ffi::OsStr::from_bytes(&long)), b"long bytes").unwrap();
    fs::hard_link(
        top.join(std::ffi::OsStr::from_bytes(&long)),
        top.join("short name of it"),
    )
    .unwrap();
}

fn nodes(top: &Path) {
    let make = |name: &str, kind, mode| {
        let mode = Mode::from_raw_mode(mode);
        rustix::fs::mknodat(rustix::fs::CWD, top.join(name), kind, mode, 0).unwrap();
    };
    make("fifo", FileType::Fifo, 0o640);
    set_mode(&top.join("fifo"), 0o622);
}

pub fn add_socket(top: &Path) {
    std::os::unix::net::UnixListener::bind(top.join("socket")).unwrap();
    set_mode(&top.join("socket"), 0o711);
}

fn privileged(top: &Path) {
    let device = rustix::fs::makedev(1, 3);
    let mode = Mode::from_raw_mode(0o600);
    for (name, kind) in [
        ("char", FileType::CharacterDevice),
        ("block", FileType::BlockDevice),
    ] {
        rustix::fs::mknodat(rustix::fs::CWD, top.join(name), kind, mode, device).unwrap();
    }
    let chown =
        |name: &str, uid, gid| std::os::unix::fs::lchown(top.join(name), Some(uid), Some(gid)).unwrap();
    chown("nothing", 1234, 70_000);
    chown("large", 3_000_000, 4_000_000);
    chown("absolute", 5, 6);
    chown("empty", 77, 88);
    chown("sub/program", 1000, 1000);
    set_mode(&top.join("sub/program"), 0o6755);
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    set_xattr(&top.join("sub/program"), "security.capability", &capability);
}

pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 + index / 4096) as u8).collect()
}

/// Everything that can be known about each entry of a directory, as text.
pub fn facts(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut facts = BTreeMap::new();
    let mut first_names: BTreeMap<u64, PathBuf> = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    let mut found = Vec::new();
    while let Some(directory) = open.pop() {
        found.push(directory.clone());
        for entry in fs::read_dir(top.join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let relative = directory.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                open.push(relative)
            } else {
                found.push(relative)
            }
        }
    }
    found.sort();
    for relative in found {
        let meta = fs::symlink_metadata(top.join(&relative)).unwrap();
        let first = if meta.is_dir() {
            relative.clone()
        } else {
            first_names
                .entry(meta.ino())
                .or_insert_with(|| relative.clone())
                .clone()
        };
        let attributes = format!(
            "mode {:o} owner {}:{} mtime {}.{:09} same as {first:?} device {}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.rdev()
        );
        facts.insert(
            relative.clone(),
            format!("{attributes} {}", contents(&top.join(&relative), &meta)),
        );
    }
    facts
}

fn contents(path: &Path, meta: &fs::Metadata) -> String {
    if meta.is_symlink() {
        return format!("to {:?}", fs::read_link(path).unwrap());
    }
    if meta.is_dir() {
        return format!("{:?}", xattrs(path));
    }
    if !meta.is_file() {
        return String::new();
    }
    let hash = blake3::hash(&fs::read(path).unwrap());
    format!(
        "size {} {hash} {:?} data at {:?}",
        meta.len(),
        xattrs(path),
        data_runs(path)
    )
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 4096];
    let len = rustix::fs::listxattr(path, &mut names[..]).unwrap();
    let names = names[..len]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 4096];
        let len = rustix::fs::getxattr(path, name, &mut value[..]).unwrap();
        value[..len].to_vec()
    };
    names.map(|name| (name.to_vec(), value(name))).collect()
}

pub fn data_runs(path: &Path) -> Vec<(u64, u64)> {
    let file = fs::File::open(path).unwrap();
    let mut runs = Vec::new();
    let mut position = 0;
    while let Ok(start) = rustix::fs::seek(&file, SeekFrom::Data(position)) {
        position = rustix::fs::seek(&file, SeekFrom::Hole(start)).unwrap();
        runs.push((start, position));
    }
    runs
}

/// Fails with the entries that differ, not with all of them.
#[track_caller]
pub fn assert_same(one: &BTreeMap<PathBuf, String>, other: &BTreeMap<PathBuf, String>) {
    let differing = |a: &BTreeMap<PathBuf, String>, b: &BTreeMap<PathBuf, String>| -> Vec<_> {
        a.iter()
            .filter(|(path, fact)| b.get(*path) != Some(fact))
            .map(|(p, f)| format!("{p:?}: {f}"))
            .collect()
    };
    assert_eq!(differing(one, other), differing(other, one));
}

/// If this test binary runs as root, runs it again as an ordinary user, without the test named `except`.
pub fn again_as_an_ordinary_user(except: &str) {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    set_mode(place.path(), 0o755);
    let binary = place.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    set_mode(&binary, 0o755);
    let home = place.path().join("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&binary)
        .args(["--skip", except])
        .env("TMPDIR", &home)
        .current_dir(&home)
        .output()
        .expect("setpriv is installed");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("test result: ok. ") && !text.contains("ok. 0 passed"),
        "{text}"
    );
}
