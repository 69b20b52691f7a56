//! Commands of files with the options of the GNU ones, where those of the interpreter lack them.

mod calendar;
mod chmod;
mod copy;
mod diff;
mod list;
mod options;
mod remove;
mod stat;

use std::collections::BTreeMap;

use avfs_vfs::{Kind, Stat, Vfs, VfsError};

use crate::command::{CommandCall, CommandResult};

/// One use of such a command.
pub(crate) struct GnuCall<'a> {
    pub call: &'a CommandCall,
    /// What is in the pipes of process substitutions, which are no files of the filesystem.
    pub pipes: BTreeMap<String, Vec<u8>>,
}

pub(crate) type GnuCommand = fn(&GnuCall<'_>) -> CommandResult;

/// The commands by name.
pub(crate) const COMMANDS: [(&str, GnuCommand); 8] = [
    ("chmod", chmod::chmod),
    ("cp", copy::cp),
    ("diff", diff::diff),
    ("ls", list::ls),
    ("mkdir", remove::mkdir),
    ("mv", copy::mv),
    ("rm", remove::rm),
    ("stat", stat::stat),
];

/// Where the pipes of process substitutions are.
pub(crate) const PIPES: &str = "/dev/fd/";

impl GnuCall<'_> {
    fn vfs(&self) -> &Vfs {
        &self.call.vfs
    }

    /// A path of an argument from the root, without `.` and `..`.
    fn place(&self, argument: &str) -> String {
        let mut names: Vec<&str> = Vec::new();
        let start = if argument.starts_with('/') {
            ""
        } else {
            &self.call.cwd
        };
        for name in start.split('/').chain(argument.split('/')) {
            match name {
                "" | "." => {}
                ".." => drop(names.pop()),
                name => names.push(name),
            }
        }
        format!("/{}", names.join("/"))
    }

    /// What is at a path, behind the last link; nothing, if nothing is there.
    fn found(&self, place: &str) -> Option<Stat> {
        self.vfs().stat(place).ok()
    }

    fn is_directory(&self, place: &str) -> bool {
        self.found(place).is_some_and(|stat| stat.kind == Kind::Directory)
    }
}

/// What a command says while it works, and how it ends.
#[derive(Default)]
struct Report {
    stdout: String,
    stderr: String,
    status: i32,
}

impl Report {
    fn say(&mut self, line: impl AsRef<str>) {
        self.stdout.push_str(line.as_ref());
        self.stdout.push('\n');
    }

    /// One argument failed; the others are done all the same.
    fn fail(&mut self, status: i32, line: impl AsRef<str>) {
        self.stderr.push_str(line.as_ref());
        self.stderr.push('\n');
        self.status = self.status.max(status);
    }

    fn end(self) -> CommandResult {
        CommandResult {
            stdout: self.stdout.into_bytes(),
            stderr: self.stderr.into_bytes(),
            exit_code: self.status,
        }
    }
}

/// An error in the words of the operating system.
fn words(error: &VfsError) -> String {
    match error {
        VfsError::NotFound { .. } => "No such file or directory",
        VfsError::Exists { .. } => "File exists",
        VfsError::NotADirectory { .. } => "Not a directory",
        VfsError::IsADirectory { .. } => "Is a directory",
        VfsError::NotEmpty { .. } => "Directory not empty",
        VfsError::Denied { .. } => "Permission denied",
        VfsError::TooManyLinks { .. } => "Too many levels of symbolic links",
        VfsError::OverLimit { .. } => "No space left on device",
        VfsError::Root { .. } | VfsError::Mounted { .. } => "Device or resource busy",
        VfsError::BadPath(_) | VfsError::TooDeep { .. } => "File name too long",
        VfsError::NotALink { .. } | VfsError::Invalid(_) | VfsError::IntoItself { .. } => "Invalid argument",
        other => return avfs_core::with_causes(other),
    }
    .to_owned()
}

/// The last name of an argument.
fn base_name(argument: &str) -> &str {
    let trimmed = argument.trim_end_matches('/');
    trimmed.rsplit('/').next().unwrap_or(trimmed)
}

/// A path below a directory.
fn below(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}
