//! The user's list of paths to ignore in every repository: git's `core.excludesFile`.
//!
//! Only settings of the user and of the system are read. A repository could name any file of the host, and
//! programs in a task control the one there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Longer files are not lists written by people.
const MAX: u64 = 1 << 20;
/// The depth of nested includes of settings.
const DEPTH: usize = 8;

/// The user's list; empty if it does not exist.
pub(super) fn excludes(environment: &dyn Fn(&str) -> Option<OsString>) -> Vec<u8> {
    let place = |name: &str| {
        environment(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let home = place("HOME");
    let settings = place("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let settings = settings.map(|directory| directory.join("git"));
    let mut files = vec![PathBuf::from("/etc/gitconfig")];
    match place("GIT_CONFIG_GLOBAL") {
        Some(file) => files.push(file),
        None => {
            files.extend(settings.as_ref().map(|directory| directory.join("config")));
            files.extend(home.as_ref().map(|home| home.join(".gitconfig")));
        }
    }
    let named = files
        .iter()
        .filter_map(|file| excludes_file(file, home.as_deref(), DEPTH))
        .next_back();
    let list = named.or_else(|| Some(settings?.join("ignore")));
    list.and_then(|list| read(&list)).unwrap_or_default()
}

fn read(file: &Path) -> Option<Vec<u8>> {
    let file = File::open(file)
        .ok()
        .filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    let mut bytes = Vec::new();
    file.take(MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The value in a settings file, and in the files that it includes. The last one counts.
fn excludes_file(settings: &Path, home: Option<&Path>, depth: usize) -> Option<PathBuf> {
    let text = read(settings)?;
    let mut section = Vec::new();
    let mut found = None;
    for line in text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if let Some(heading) = line.strip_prefix(b"[") {
            let end = heading
                .iter()
                .position(|byte| *byte == b']')
                .unwrap_or(heading.len());
            section = heading[..end].trim_ascii().to_ascii_lowercase();
            continue;
        }
        let Some(equals) = line.iter().position(|byte| *byte == b'=') else {
            continue;
        };
        let key = line[..equals].trim_ascii().to_ascii_lowercase();
        let value = || path(&value(line[equals + 1..].trim_ascii()), settings, home);
        match (&section[..], &key[..]) {
            (b"core", b"excludesfile") => found = value(),
            (b"include", b"path") if depth > 0 => {
                found = value()
                    .and_then(|file| excludes_file(&file, home, depth - 1))
                    .or(found);
            }
            _ => {}
        }
    }
    found
}

/// A value without its quotes and without a trailing comment.
fn value(raw: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut is_quoted = false;
    let mut bytes = raw.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\\' => plain.extend(bytes.next()),
            b'#' | b';' if !is_quoted => break,
            other => plain.push(*other),
        }
    }
    plain.trim_ascii_end().to_owned()
}

/// `~/` is the user's home, and a relative path is one from the settings that name it.
fn path(value: &[u8], settings: &Path, home: Option<&Path>) -> Option<PathBuf> {
    if value.is_empty() {
        return None;
    }
    match value.strip_prefix(b"~/") {
        Some(below) => Some(home?.join(OsStr::from_bytes(below))),
        None => Some(settings.parent()?.join(OsString::from_vec(value.to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(files: &[(&str, &str)]) -> String {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = home.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let environment = |name: &str| (name == "HOME").then(|| home.path().as_os_str().to_owned());
        String::from_utf8(excludes(&environment)).unwrap()
    }

    #[test]
    fn the_list_is_found_where_git_finds_it() {
        assert_eq!(list(&[]), "");
        assert_eq!(list(&[(".config/git/ignore", "a")]), "a");
        let named = "[core]\n\texcludesFile = \"~/mine\" # here\n";
        assert_eq!(
            list(&[(".gitconfig", named), ("mine", "b"), (".config/git/ignore", "a")]),
            "b"
        );
        assert_eq!(
            list(&[
                (".config/git/config", "[Core]\nExcludesfile=../list\n"),
                (".config/list", "c")
            ]),
            "c"
        );
        let including = "[include]\npath = more\n";
        assert_eq!(
            list(&[(".gitconfig", including), ("more", named), ("mine", "d")]),
            "d"
        );
        assert_eq!(
            list(&[(".gitconfig", "[user]\nexcludesfile = ~/mine\n"), ("mine", "e")]),
            ""
        );
        assert_eq!(list(&[(".gitconfig", "[include]\npath = .gitconfig\n")]), "");
    }
}
