//! `rm` and `mkdir`

use avfs_vfs::{Kind, VfsError};

use super::chmod::changed_mode;
use super::options::Known;
use super::{GnuCall, Report, base_name, words};
use crate::command::CommandResult;

const RM: Known = Known {
    short: "dfirRvI",
    long: &[
        ("dir", 'd'),
        ("force", 'f'),
        ("interactive[=", 'i'),
        ("no-preserve-root", 'N'),
        ("one-file-system", 'x'),
        ("preserve-root[=", 'P'),
        ("recursive", 'r'),
        ("verbose", 'v'),
    ],
};
const MKDIR: Known = Known {
    short: "m:pvZ",
    long: &[("mode=", 'm'), ("parents", 'p'), ("verbose", 'v')],
};

pub(super) fn rm(call: &GnuCall<'_>) -> CommandResult {
    let given = match RM.read(call, 1) {
        Ok(given) => given,
        Err(wrong) => return wrong,
    };
    if given.arguments.is_empty() && !given.has('f') {
        return CommandResult::failure(1, "rm: missing operand\n");
    }
    let is_recursive = given.has('r') || given.has('R');
    let mut report = Report::default();
    for argument in &given.arguments {
        let place = call.place(argument);
        if matches!(base_name(argument), "." | "..") {
            report.fail(
                1,
                format!("rm: refusing to remove '.' or '..' directory: skipping '{argument}'"),
            );
            continue;
        }
        if place == "/" && !given.has('N') {
            report.fail(1, "rm: it is dangerous to operate recursively on '/'");
            report.fail(1, "rm: use --no-preserve-root to override this failsafe");
            continue;
        }
        let stat = match call.vfs().lstat(&place) {
            Ok(stat) => stat,
            Err(VfsError::NotFound { .. } | VfsError::NotADirectory { .. }) if given.has('f') => continue,
            Err(error) => {
                report.fail(1, format!("rm: cannot remove '{argument}': {}", words(&error)));
                continue;
            }
        };
        let is_directory = stat.kind == Kind::Directory;
        if is_directory && !is_recursive && !given.has('d') {
            report.fail(1, format!("rm: cannot remove '{argument}': Is a directory"));
            continue;
        }
        // What is below goes with it, and is told before.
        let below = if given.has('v') && is_directory {
            call.vfs().walk(&place).unwrap_or_default()
        } else {
            Vec::new()
        };
        match call.vfs().remove(&place, is_recursive) {
            Ok(()) if given.has('v') => {
                for (path, entry) in below.iter().skip(1).rev() {
                    let path = format!("/{}", String::from_utf8_lossy(path.as_bytes()));
                    let shown = format!("{argument}{}", &path[place.len()..]);
                    report.say(removed(&shown, entry.kind == Kind::Directory));
                }
                report.say(removed(argument, is_directory));
            }
            Ok(()) => {}
            Err(error) => report.fail(1, format!("rm: cannot remove '{argument}': {}", words(&error))),
        }
    }
    report.end()
}

fn removed(shown: &str, is_directory: bool) -> String {
    format!(
        "removed {}'{shown}'",
        if is_directory { "directory " } else { "" }
    )
}

pub(super) fn mkdir(call: &GnuCall<'_>) -> CommandResult {
    let given = match MKDIR.read(call, 1) {
        Ok(given) => given,
        Err(wrong) => return wrong,
    };
    if given.arguments.is_empty() {
        return CommandResult::failure(1, "mkdir: missing operand\n");
    }
    let mode = match given.value('m').map(|text| changed_mode(text, 0o777, true)) {
        None => None,
        Some(Some(mode)) => Some(mode),
        Some(None) => {
            let text = given.value('m').unwrap_or_default();
            return CommandResult::failure(1, format!("mkdir: invalid mode '{text}'\n"));
        }
    };
    let mut report = Report::default();
    for argument in &given.arguments {
        let made = if given.has('p') {
            with_parents(argument)
        } else {
            vec![argument.as_str()]
        };
        for shown in made {
            let place = call.place(shown);
            if given.has('p') && call.is_directory(&place) {
                continue;
            }
            if let Err(error) = call.vfs().mkdir(&place, false, false) {
                report.fail(
                    1,
                    format!("mkdir: cannot create directory '{shown}': {}", words(&error)),
                );
                break;
            }
            if given.has('v') {
                report.say(format!("mkdir: created directory '{shown}'"));
            }
            if let Some(mode) = mode
                && shown == argument
                && let Err(error) = call.vfs().set_mode(&place, mode)
            {
                report.fail(
                    1,
                    format!("mkdir: cannot set permissions of '{shown}': {}", words(&error)),
                );
            }
        }
    }
    report.end()
}

/// `a`, `a/b` and `a/b/c` for the last one.
fn with_parents(path: &str) -> Vec<&str> {
    let ends = path
        .char_indices()
        .filter(|(at, letter)| *letter == '/' && *at > 0 && !path[..*at].ends_with('/'));
    let mut parents: Vec<&str> = ends.map(|(at, _)| &path[..at]).collect();
    if !path.ends_with('/') {
        parents.push(path);
    }
    parents
}
