//! A vault with files in it, mounted twice: for its owner, and through rules for another user.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::ground::{Ground, Mount};
use crate::program::await_that;

/// How long a mount may take to learn of changes through another one, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

pub struct Scene {
    pub ground: Ground,
    /// Without rules: the control of everything.
    pub host: Mount,
    /// Through rules.
    pub agent: Mount,
}

impl Scene {
    /// A name that ends with `/` is a directory; any other file has a text in it.
    pub fn new(names: &[&str], flags: &[&str]) -> Scene {
        Scene::with(names, flags, |_| ())
    }

    /// The same with more that is there before the rules are.
    pub fn with(names: &[&str], flags: &[&str], more: impl FnOnce(&Path)) -> Scene {
        let ground = Ground::with_vault("work");
        let host = ground.mount("work", "host");
        for name in names {
            match name.strip_suffix('/') {
                Some(directory) => fs::create_dir_all(host.path(directory)).unwrap(),
                None => put(&host.path(name), &text_of(name)),
            }
        }
        more(&host.dir);
        let agent = ground.mount_with("work", "agent", flags);
        Scene { ground, host, agent }
    }

    pub fn host(&self, name: &str) -> PathBuf {
        self.host.path(name)
    }

    pub fn agent(&self, name: &str) -> PathBuf {
        self.agent.path(name)
    }

    /// The agent is refused; the same in the owner's mount succeeds, afterwards, so that it would have been possible.
    #[track_caller]
    pub fn only_host<T>(&self, errno: Errno, act: impl Fn(&Path) -> io::Result<T>) {
        assert_eq!(errno_of(act(&self.agent.dir)), Some(errno), "by the agent");
        if let Err(error) = act(&self.host.dir) {
            panic!("by the host: {error}");
        }
    }
}

pub fn text_of(name: &str) -> String {
    format!("the text of {name}\n")
}

/// Writes a file and makes the directories above it.
pub fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub fn errno_of<T>(result: io::Result<T>) -> Option<Errno> {
    result.err().map(|error| crate::acts::errno_of(&error))
}

#[track_caller]
pub fn refused<T>(result: io::Result<T>, errno: Errno) {
    assert_eq!(errno_of(result), Some(errno));
}

pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(
        CWD,
        one,
        CWD,
        other,
        RenameFlags::EXCHANGE,
    )?)
}

/// The names in a directory, in order.
#[track_caller]
pub fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Waits until a mount has learned of a change through another one.
#[track_caller]
pub fn soon(what: &str, holds: impl FnMut() -> bool) {
    await_that(what, SOON, holds);
}
