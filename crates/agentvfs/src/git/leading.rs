//! The files to which git of the host is led: by settings that name programs or further settings, by links in
//! the repository, and by tracked links. Nothing that is found is run.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::{TreePath, printable};

use super::host::HostRepository;
use super::index::GitIndex;
use super::program::Git;
use crate::error::GitError;

/// A file or directory to which git is led, and by what.
pub(crate) struct GitLead {
    pub(crate) by: String,
    pub(crate) to: PathBuf,
}

/// The files to which a repository on the host leads.
pub(crate) struct GitLeads {
    /// Where its files are.
    pub(crate) top: PathBuf,
    pub(crate) named: Vec<GitLead>,
    /// The symbolic links that it tracks, from where its files are.
    pub(crate) links: Vec<TreePath>,
}

/// Entries of a git directory that may be links.
const OWN_FILES: [&str; 4] = ["config", "config.worktree", "hooks", "info/attributes"];

impl GitLeads {
    /// For the repository that contains a directory; `None` if there is none.
    pub(crate) fn around(directory: &Path) -> Result<Option<GitLeads>, GitError> {
        directory
            .ancestors()
            .find_map(|above| GitLeads::of(above).transpose())
            .transpose()
    }

    /// Of the repository of a directory.
    pub(crate) fn of(top: &Path) -> Result<Option<GitLeads>, GitError> {
        let Ok(host) = HostRepository::open(top) else {
            return Ok(None);
        };
        let mut named = settings(&host)?
            .iter()
            .flat_map(|setting| setting.leads(top))
            .collect::<Vec<_>>();
        for directory in [host.place(), host.common()] {
            named.extend(
                OWN_FILES
                    .iter()
                    .filter_map(|name| link(directory, OsStr::new(name))),
            );
            let hooks = directory.join("hooks");
            let names = fs::read_dir(&hooks)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.file_name());
            named.extend(names.filter_map(|name| link(directory, Path::new("hooks").join(name).as_os_str())));
        }
        Ok(Some(GitLeads {
            top: top.to_owned(),
            named,
            links: tracked_links(&host),
        }))
    }
}

/// A symbolic link in a git directory.
fn link(directory: &Path, name: &OsStr) -> Option<GitLead> {
    let to = directory.join(name);
    let is_link = to.symlink_metadata().is_ok_and(|found| found.is_symlink());
    is_link.then(|| GitLead {
        by: printable(name.as_bytes()),
        to,
    })
}

fn tracked_links(host: &HostRepository) -> Vec<TreePath> {
    let mut links = Vec::new();
    let mut take = |path: &[u8]| links.extend(TreePath::parse(path).ok());
    if let Some(index) = GitIndex::read(host.place()) {
        index.each(&mut |tracked| {
            if tracked.is_link() {
                take(tracked.path);
            }
        });
    } else if let Ok(listed) = host.git("listing files").args(["ls-files", "-z", "-s"]).output() {
        // `100644 NAME 0\tPATH`
        for line in listed
            .split(|byte| *byte == 0)
            .filter(|line| line.starts_with(b"120000 "))
        {
            if let Some(at) = line.iter().position(|byte| *byte == b'\t') {
                take(&line[at + 1..]);
            }
        }
    }
    links
}

/// The settings that hold in a repository, those of the user and the system among them. Without the program git,
/// nothing follows any.
fn settings(host: &HostRepository) -> Result<Vec<GitSetting>, GitError> {
    let git = || {
        let git = host
            .git("reading settings")
            .with_user_settings()
            .with_system_settings();
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
    Ok(GitSetting::parse(&told.unwrap_or_default()))
}

#[derive(Debug, PartialEq, Eq)]
struct GitSetting {
    /// The file that it is in.
    origin: PathBuf,
    key: String,
    value: Vec<u8>,
}

impl GitSetting {
    /// From `SCOPE\0ORIGIN\0KEY\nVALUE\0…`. Settings that this program passes on the command line are not the
    /// user's.
    fn parse(told: &[u8]) -> Vec<GitSetting> {
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
            all.push(GitSetting {
                origin,
                key,
                value: pair[at + 1..].to_vec(),
            });
        }
        all
    }

    /// The files that it names, in a repository whose files are in `top`.
    fn leads(&self, top: &Path) -> Vec<GitLead> {
        let places = match SettingMeaning::of(&self.key, &self.value) {
            SettingMeaning::Nothing => Vec::new(),
            SettingMeaning::Settings => vec![self.origin.with_file_name("").join(at_home(&self.value))],
            SettingMeaning::Place => vec![top.join(at_home(&self.value))],
            SettingMeaning::Command => named_by_command(&self.value, top),
        };
        let by = || printable(self.key.as_bytes());
        places.into_iter().map(|to| GitLead { by: by(), to }).collect()
    }
}

/// The meaning of a setting's value.
#[derive(Debug, PartialEq, Eq)]
enum SettingMeaning {
    Nothing,
    /// A file with further settings, from the one that names it.
    Settings,
    /// A file or a directory.
    Place,
    /// A command for a shell.
    Command,
}

/// The last parts of keys whose values are commands.
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

impl SettingMeaning {
    fn of(key: &str, value: &[u8]) -> SettingMeaning {
        let section = key.split('.').next().unwrap_or_default();
        let last = key.rsplit('.').next().unwrap_or_default();
        match (section, last) {
            ("include" | "includeif", "path") => SettingMeaning::Settings,
            ("core", "attributesfile") | ("init", "templatedir") => SettingMeaning::Place,
            _ if last.ends_with("path") => SettingMeaning::Place,
            ("alias", _) | ("submodule", "update") if !value.starts_with(b"!") => SettingMeaning::Nothing,
            ("alias" | "pager", _) | ("submodule", "update") => SettingMeaning::Command,
            _ if COMMANDS.iter().any(|end| last.ends_with(end)) => SettingMeaning::Command,
            _ => SettingMeaning::Nothing,
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

/// A part of a command that may be the name of a file.
struct CommandWord<'a> {
    text: &'a [u8],
    /// A part that is known only at run time precedes it, or is in it: a variable, the output of a command.
    has_unknown_start: bool,
}

/// The parts of a command that may be names of files.
fn words(command: &[u8]) -> impl Iterator<Item = CommandWord<'_>> {
    let is_between = |byte: &u8| byte.is_ascii_whitespace() || b"!;|&()<>\"'`=$,:{}".contains(byte);
    let mut at = 0;
    let pieces = command.split(is_between).map(move |text| {
        let start = at;
        at += text.len() + 1;
        (start, text)
    });
    pieces
        .filter(|(_, text)| !text.is_empty() && !text.starts_with(b"-"))
        .map(|(start, text)| CommandWord {
            text,
            has_unknown_start: match start.checked_sub(1).map(|before| command[before]) {
                Some(b'$') => true,
                Some(b')' | b'}' | b'`' | b'"' | b'\'') => text.starts_with(b"/"),
                _ => false,
            },
        })
}

/// In how many directories the words of one command are looked for.
const DIRECTORIES_MAX: usize = 32;

/// The files to which a command may refer. It may change to a directory that it names, and use the following
/// words from there.
fn named_by_command(command: &[u8], top: &Path) -> Vec<PathBuf> {
    let mut directories = vec![top.to_owned()];
    let mut named = Vec::new();
    for word in words(command) {
        let mut entered = Vec::new();
        for directory in &directories {
            let places = named_by(&word, directory);
            let plain = directory.join(at_home(word.text));
            entered.extend(
                places
                    .iter()
                    .chain([&plain])
                    .filter(|place| place.is_dir())
                    .cloned(),
            );
            named.extend(places);
        }
        for place in entered {
            if directories.len() < DIRECTORIES_MAX && !directories.contains(&place) {
                directories.push(place);
            }
        }
    }
    named
}

/// The files to which a word of a command may refer. The part before a path may be a variable, or the output
/// of a command.
fn named_by(word: &CommandWord<'_>, top: &Path) -> Vec<PathBuf> {
    let text = word.text;
    let place = top.join(at_home(text));
    let found = place.symlink_metadata();
    let Some(slash) = text.iter().position(|byte| *byte == b'/') else {
        // Most words are not paths, so a name alone must be that of a file, or look like one.
        let looks_like_one = text.iter().skip(1).any(|byte| *byte == b'.');
        let is_file = found.as_ref().is_ok_and(|found| !found.is_dir());
        let is_directory = found.is_ok_and(|found| found.is_dir());
        return if is_file || (looks_like_one && !is_directory) {
            vec![place]
        } else {
            Vec::new()
        };
    };
    let rest = text[slash..]
        .iter()
        .position(|byte| *byte != b'/')
        .map_or(&b""[..], |at| &text[slash + at..]);
    let behind = top.join(OsStr::from_bytes(rest));
    let is_behind = !rest.is_empty()
        && (word.has_unknown_start || rest.contains(&b'/') || behind.symlink_metadata().is_ok());
    match found {
        Ok(_) if !word.has_unknown_start => vec![place],
        Ok(_) | Err(_) if is_behind => vec![place, behind],
        Ok(_) | Err(_) => vec![place],
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
        let expected = GitSetting {
            origin,
            key: "core.hookspath".into(),
            value: b"hooks".to_vec(),
        };
        assert_eq!(GitSetting::parse(told), [expected]);
    }

    #[test]
    fn settings_that_run_something_are_told_from_those_that_do_not() {
        for (key, meaning) in [
            ("core.hookspath", SettingMeaning::Place),
            ("includeif.gitdir:~/work/.path", SettingMeaning::Settings),
            ("difftool.x.path", SettingMeaning::Place),
            ("hook.lint.command", SettingMeaning::Command),
            ("trailer.sign.cmd", SettingMeaning::Command),
            ("pager.log", SettingMeaning::Command),
            ("core.alternaterefscommand", SettingMeaning::Command),
            ("uploadpack.packobjectshook", SettingMeaning::Command),
            ("core.worktree", SettingMeaning::Nothing),
            ("remote.origin.url", SettingMeaning::Nothing),
            ("submodule.lib.update", SettingMeaning::Nothing),
            ("alias.st", SettingMeaning::Nothing),
        ] {
            assert_eq!(SettingMeaning::of(key, b"value"), meaning, "{key}");
        }
        assert_eq!(SettingMeaning::of("alias.st", b"!value"), SettingMeaning::Command);
    }
}
