//! One directory for each action, each level and each user, all with the same contents, and their contents
//! afterwards.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::XattrFlags;

const CONTENTS: &str = "contents";

/// The user who performs an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    Root,
    Nobody,
}

impl User {
    pub const ALL: [User; 2] = [User::Root, User::Nobody];

    pub fn name(self) -> &'static str {
        match self {
            User::Root => "root",
            User::Nobody => "nobody",
        }
    }

    pub fn uid(self) -> u32 {
        match self {
            User::Root => 0,
            User::Nobody => 65_534,
        }
    }

    /// Runs work as this user, in a separate thread: to the kernel, credentials belong to a thread.
    pub fn run<T: Send>(self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(|| self.become_it_and(work)).join().unwrap())
    }

    fn become_it_and<T>(self, work: impl FnOnce() -> T) -> T {
        if self != User::Root {
            use rustix::fs::{Gid, Uid};
            let (user, group) = (Uid::from_raw(self.uid()), Gid::from_raw(self.uid()));
            rustix::thread::set_thread_groups(&[]).expect("root is needed to take on another user");
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        }
        work()
    }
}

/// Lays a cell out, for a user to work in.
pub fn lay_out(cell: &Path, user: User) {
    fs::create_dir(cell).unwrap();
    for kind in ["subject", "plain"] {
        let at = |name: &str| cell.join(format!("{kind}-{name}"));
        fs::write(at("file"), CONTENTS).unwrap();
        rustix::fs::setxattr(at("file"), "user.tag", b"first", XattrFlags::empty()).unwrap();
        fs::create_dir(at("dir")).unwrap();
        fs::write(at("dir").join("inner"), CONTENTS).unwrap();
        symlink("subject-file", at("link")).unwrap();
    }
    fs::create_dir(cell.join("subject-empty")).unwrap();
    fs::write(cell.join("subject-program"), "#!/bin/true\n").unwrap();
    fs::set_permissions(cell.join("subject-program"), fs::Permissions::from_mode(0o755)).unwrap();
    give_to(cell, user);
}

/// All of it belongs to the user, and is old.
fn give_to(place: &Path, user: User) {
    let kind = fs::symlink_metadata(place).unwrap().file_type();
    if kind.is_dir() {
        fs::read_dir(place)
            .unwrap()
            .for_each(|entry| give_to(&entry.unwrap().path(), user));
    }
    if user == User::Root {
        return;
    }
    if kind.is_symlink() {
        std::os::unix::fs::lchown(place, Some(user.uid()), Some(user.uid())).unwrap()
    } else {
        chown(place, Some(user.uid()), Some(user.uid())).unwrap()
    }
}

/// Everything that is in a cell, without times and places of its creation.
pub fn left_in(cell: &Path) -> String {
    let mut left = String::new();
    add(&mut left, cell, "");
    left
}

fn add(left: &mut String, place: &Path, name: &str) {
    let meta = fs::symlink_metadata(place).unwrap();
    let (mode, links) = (meta.mode(), if meta.is_dir() { 0 } else { meta.nlink() });
    let is_ancient = meta.modified().unwrap() < SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    let age = if is_ancient { "ancient" } else { "new" };
    _ = write!(left, "{name} {mode:o} {links} {age}");
    let kind = meta.file_type();
    if kind.is_file() {
        _ = write!(left, " {:?} {:?}", fs::read_to_string(place).unwrap(), tag(place));
    }
    if kind.is_symlink() {
        _ = write!(left, " -> {}", fs::read_link(place).unwrap().display());
    }
    left.push_str(if kind.is_fifo() || kind.is_socket() {
        " special\n"
    } else {
        "\n"
    });
    if kind.is_dir() {
        let mut names: Vec<_> = fs::read_dir(place).unwrap().map(|entry| entry.unwrap()).collect();
        names.sort_by_key(fs::DirEntry::file_name);
        for entry in names {
            add(
                left,
                &entry.path(),
                &format!("{name}/{}", entry.file_name().display()),
            );
        }
    }
}

fn tag(file: &Path) -> Option<String> {
    let mut value = vec![0; 64];
    let length = rustix::fs::getxattr(file, "user.tag", &mut value[..]).ok()?;
    value.truncate(length);
    Some(String::from_utf8(value).unwrap())
}
