//! The files that git of the host is led to: by settings that name programs or further settings, by links in the
//! repository, and by tracked links. Nothing of what is found is run.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::{TreePath, printable};

use super::error::GitError;
use super::host::HostRepository;
use super::index::Index;
use super::program::Git;

/// A file or directory that git is led to, by what.
pub(crate) struct GitLead {
    pub(crate) by: String,
    pub(crate) to: PathBuf,
}

/// What a repository on the host leads to.
pub(crate) struct GitLeads {
    /// Where its files are.
    pub(crate) top: PathBuf,
    pub(crate) named: Vec<GitLead>,
    /// The symbolic links that it tracks, from where its files are.
    pub(crate) links: Vec<TreePath>,
}

/// What is in a git directory and may be a link to somewhere else.
const OWN_FILES: [&str; 4] = ["config", "config.worktree", "hooks", "info/attributes"];

impl GitLeads {
    /// Of the repository whose files a directory is in; `None` if there is none.
    pub(crate) fn around(directory: &Path) -> Result<Option<GitLeads>, GitError> {
        directory.ancestors().find_map(|above| GitLeads::of(above).transpose()).transpose()
    }

    /// Of the repository of a directory.
    pub(crate) fn of(top: &Path) -> Result<Option<GitLeads>, GitError> {
        let Ok(host) = HostRepository::open(top) else { return Ok(None) };
        let mut named = settings(&host)?.iter().flat_map(|setting| setting.leads(top)).collect::<Vec<_>>();
        for directory in [host.place(), host.common()] {
            named.extend(OWN_FILES.iter().filter_map(|name| link(directory, OsStr::new(name))));
            let hooks = directory.join("hooks");
            let names = fs::read_dir(&hooks).into_iter().flatten().flatten().map(|entry| entry.file_name());
            named.extend(names.filter_map(|name| link(directory, Path::new("hooks").join(name).as_os_str())));
        }
        Ok(Some(GitLeads { top: top.to_owned(), named, links: tracked_links(&host) }))
    }
}

/// A symbolic link in a git directory.
fn link(directory: &Path, name: &OsStr) -> Option<GitLead> {
    let to = directory.join(name);
    let is_link = to.symlink_metadata().is_ok_and(|found| found.is_symlink());
    is_link.then(|| GitLead { by: printable(name.as_bytes()), to })
}

fn tracked_links(host: &HostRepository) -> Vec<TreePath> {
    let mut links = Vec::new();
    let mut take = |path: &[u8]| links.extend(TreePath::parse(path).ok());
    if let Some(index) = Index::read(host.place()) {
        index.each(&mut |tracked| {
            if tracked.is_link() {
                take(tracked.path);
            }
        });
    } else if let Ok(listed) = host.git("listing files").args(["ls-files", "-z", "-s"]).output() {
        // `100644 NAME 0\tPATH`
        for line in listed.split(|byte| *byte == 0).filter(|line| line.starts_with(b"120000 ")) {
            if let Some(at) = line.iter().position(|byte| *byte == b'\t') {
                take(&line[at + 1..]);
            }
        }
    }
    links
}

/// The settings that hold in a repository, those of the user and the system among them. Without the program git,
/// nothing follows any.
fn settings(host: &HostRepository) -> Result<Vec<Setting>, GitError> {
    let git = || {
        let git = host.git("reading settings").with_user_settings().with_system_settings();
        git.args(["config", "--list", "--null", "--show-scope", "--show-origin"])
    };
    let listed = |git: Git| match git.output() {
        Ok(listed) => Ok(Some(listed)),
        Err(GitError::Failed { .. } | GitError::NoProgram(_)) => Ok(None),
        Err(error) => Err(error),
    };
    // A file that is included may be damaged, and a task may mend it: which one it is has to be known.
    let told = match listed(git())? {
        Some(told) => Some(told),
        None => listed(git().arg("--no-includes"))?,
    };
    Ok(Setting::parse(&told.unwrap_or_default()))
}

#[derive(Debug, PartialEq, Eq)]
struct Setting {
    /// The file that it is in.
    origin: PathBuf,
    key: String,
    value: Vec<u8>,
}

impl Setting {
    /// From `SCOPE\0ORIGIN\0KEY\nVALUE\0…`. What this program says on the command line is none of the user's.
    fn parse(told: &[u8]) -> Vec<Setting> {
        let mut fields = told.split(|byte| *byte == 0);
        let mut all = Vec::new();
        while let (Some(scope), Some(origin), Some(pair)) = (fields.next(), fields.next(), fields.next()) {
            let at = pair.iter().position(|byte| *byte == b'\n');
            let (Some(at), Some(origin)) =
                (at.filter(|_| scope != b"command"), origin.strip_prefix(b"file:"))
            else {
                continue;
            };
            let origin = PathBuf::from(OsStr::from_bytes(origin));
            let key = String::from_utf8_lossy(&pair[..at]).into_owned();
            all.push(Setting { origin, key, value: pair[at + 1..].to_vec() });
        }
        all
    }

    /// What it names, in a repository whose files are in `top`.
    fn leads(&self, top: &Path) -> Vec<GitLead> {
        let places = match Meaning::of(&self.key, &self.value) {
            Meaning::Nothing => Vec::new(),
            Meaning::Settings => vec![self.origin.with_file_name("").join(at_home(&self.value))],
            Meaning::Place => vec![top.join(at_home(&self.value))],
            Meaning::Command => words(&self.value).flat_map(|word| named_by(word, top)).collect(),
        };
        let by = || printable(self.key.as_bytes());
        places.into_iter().map(|to| GitLead { by: by(), to }).collect()
    }
}

/// What the value of a setting is.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    Nothing,
    /// A file with further settings, from the one that names it.
    Settings,
    /// A file or a directory.
    Place,
    /// What a shell runs.
    Command,
}

/// How the last parts of keys end whose values are commands.
const COMMANDS: [&str; 22] = [
    "command",
    "cmd",
    "helper",
    "program",
    "editor",
    "pager",
    "hook",
    "clean",
    "smudge",
    "process",
    "textconv",
    "driver",
    "external",
    "fsmonitor",
    "askpass",
    "gitproxy",
    "difffilter",
    "uploadpack",
    "receivepack",
    "browser",
    "httpd",
    "smtpserver",
];

impl Meaning {
    fn of(key: &str, value: &[u8]) -> Meaning {
        let section = key.split('.').next().unwrap_or_default();
        let last = key.rsplit('.').next().unwrap_or_default();
        match (section, last) {
            ("include" | "includeif", "path") => Meaning::Settings,
            ("core", "attributesfile") | ("init", "templatedir") => Meaning::Place,
            _ if last.ends_with("path") => Meaning::Place,
            ("alias", _) | ("submodule", "update") if !value.starts_with(b"!") => Meaning::Nothing,
            ("alias" | "pager", _) | ("submodule", "update") => Meaning::Command,
            _ if COMMANDS.iter().any(|end| last.ends_with(end)) => Meaning::Command,
            _ => Meaning::Nothing,
        }
    }
}

/// A path as git reads it: `~` is the home.
fn at_home(value: &[u8]) -> PathBuf {
    let path = PathBuf::from(OsStr::from_bytes(value));
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(below), Some(home)) => PathBuf::from(home).join(below),
        _ => path,
    }
}

/// The parts of a command that may be names of files.
fn words(command: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_between = |byte: &u8| byte.is_ascii_whitespace() || b"!;|&()<>\"'`=$,:{}".contains(byte);
    command.split(is_between).filter(|word| !word.is_empty() && !word.starts_with(b"-"))
}

/// The files that a word of a command can mean. What stands before a path may be a variable, or the output of a command.
fn named_by(word: &[u8], top: &Path) -> Vec<PathBuf> {
    let place = top.join(at_home(word));
    let found = place.symlink_metadata();
    let Some(slash) = word.iter().position(|byte| *byte == b'/') else {
        // Most words are none, so a name alone has to be that of a file, or to look like one.
        let looks_like_one = word.iter().skip(1).any(|byte| *byte == b'.');
        let is_file = found.as_ref().is_ok_and(|found| !found.is_dir());
        let is_directory = found.is_ok_and(|found| found.is_dir());
        return if is_file || (looks_like_one && !is_directory) { vec![place] } else { Vec::new() };
    };
    let rest = word[slash..].iter().position(|byte| *byte != b'/').map_or(&b""[..], |at| &word[slash + at..]);
    let behind = top.join(OsStr::from_bytes(rest));
    let is_behind = !rest.is_empty() && (rest.contains(&b'/') || behind.symlink_metadata().is_ok());
    match found {
        Ok(_) => vec![place],
        Err(_) if is_behind => vec![place, behind],
        Err(_) => vec![place],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_told_with_the_files_they_are_in() {
        let told = b"local\0file:/p/.git/config\0core.hookspath\nhooks\0command\0command line:\0core.fsmonitor\nfalse\0\
            global\0file:/home/a/.gitconfig\0alias.x\0";
        let origin = PathBuf::from("/p/.git/config");
        let expected = Setting { origin, key: "core.hookspath".into(), value: b"hooks".to_vec() };
        assert_eq!(Setting::parse(told), [expected]);
    }

    #[test]
    fn settings_that_run_something_are_told_from_those_that_do_not() {
        for (key, meaning) in [
            ("core.hookspath", Meaning::Place),
            ("includeif.gitdir:~/work/.path", Meaning::Settings),
            ("difftool.x.path", Meaning::Place),
            ("hook.lint.command", Meaning::Command),
            ("trailer.sign.cmd", Meaning::Command),
            ("pager.log", Meaning::Command),
            ("core.alternaterefscommand", Meaning::Command),
            ("uploadpack.packobjectshook", Meaning::Command),
            ("core.worktree", Meaning::Nothing),
            ("remote.origin.url", Meaning::Nothing),
            ("submodule.lib.update", Meaning::Nothing),
            ("alias.st", Meaning::Nothing),
        ] {
            assert_eq!(Meaning::of(key, b"value"), meaning, "{key}");
        }
        assert_eq!(Meaning::of("alias.st", b"!value"), Meaning::Command);
    }
}
