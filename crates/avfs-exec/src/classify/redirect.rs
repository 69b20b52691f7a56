//! Files that a command opens by `<` and `>`.

use super::class::{Class, Classes};
use super::script::{RedirectKind, ShellRedirect, ShellWord, SimpleCommand};

pub(crate) fn classes(redirect: &ShellRedirect) -> Classes {
    match redirect.kind {
        RedirectKind::HereDocument | RedirectKind::HereString => Classes::READ_ONLY,
        RedirectKind::Read => read(&redirect.target),
        RedirectKind::Write | RedirectKind::Append => written(&redirect.target),
        RedirectKind::Duplicate if is_descriptor(&redirect.target) => Classes::READ_ONLY,
        RedirectKind::Duplicate => written(&redirect.target),
    }
}

/// Whether the command truncates a file: it is written, by a command that prints nothing.
pub(crate) fn empties(simple: &SimpleCommand, redirect: &ShellRedirect) -> bool {
    let words: Option<Vec<&str>> = simple.words.iter().map(ShellWord::literal).collect();
    let prints_nothing = matches!(
        words.as_deref(),
        Some([] | [":" | "true" | "false", ..] | ["echo", "-n"] | ["printf", ""] | ["cat", "/dev/null"])
    );
    let is_file = classes(redirect).contains(Class::Mutating);
    redirect.kind == RedirectKind::Write && is_file && prints_nothing && !simple.of_group
}

fn is_descriptor(target: &ShellWord) -> bool {
    let digits = target.text.strip_suffix('-').unwrap_or(&target.text);
    target.exact && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn read(target: &ShellWord) -> Classes {
    if is_network(&target.text) {
        Class::Networked.into()
    } else {
        Classes::READ_ONLY
    }
}

/// The classes of writing a file by any means.
pub(crate) fn written(target: &ShellWord) -> Classes {
    let text = target.text.as_str();
    let harmless = [
        "/dev/null",
        "/dev/stdout",
        "/dev/stderr",
        "/dev/tty",
        "/dev/fd/1",
        "/dev/fd/2",
    ];
    match target.exact {
        true if harmless.contains(&text) => Classes::READ_ONLY,
        false if text == "/dev/fd/" => Classes::READ_ONLY,
        _ if is_network(text) => Classes::one(Class::Networked),
        _ if is_of_the_kernel(text) || steers_later_commands(text) => Class::HostEscapeRisk.into(),
        _ => Class::Mutating.into(),
    }
}

/// Additional classes if the file is named relative to another directory.
pub(crate) fn written_from(directory: &str, target: &ShellWord) -> Classes {
    let path = format!("{directory}/{}", target.text);
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match part {
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    match parts.first() {
        Some(&("dev" | "proc" | "sys")) => written(&target.rest_of(format!("/{}", parts.join("/")))),
        _ => Classes::READ_ONLY,
    }
}

/// Whether a word names a device that is more than a sink for output.
pub(crate) fn is_device(word: &ShellWord) -> bool {
    let harmless = [
        "null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr",
    ];
    let name = word.text.strip_prefix("/dev/").unwrap_or_default();
    !name.is_empty() && !harmless.contains(&name) && !name.starts_with("fd/") && !name.starts_with("shm")
}

/// Files in a home that shells and ssh read before any input, by their first names below it.
const STEERING: [&str; 16] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".inputrc",
    ".ssh",
    ".gnupg",
];

/// Directories of the machine with programs, settings and libraries that every user runs.
const SYSTEM: [&str; 10] = [
    "etc", "usr", "bin", "sbin", "lib", "lib32", "lib64", "boot", "opt", "efi",
];

/// Whether a path is the whole machine, a whole home, or part of the programs that every user runs.
pub(crate) fn is_of_the_machine(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    let is_home = path.starts_with('~') && path.trim_end_matches(['/', '*']).find('/').is_none();
    if !path.starts_with('/') {
        return is_home;
    }
    match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => true,
        (Some("home" | "Users"), _, None) | (Some("root"), None, _) => true,
        (Some("*"), None, _) => true,
        (Some(top), ..) => SYSTEM.contains(&top),
    }
}

/// Whether a path of a home, or of the whole machine, changes the effect of later commands.
fn steers_later_commands(path: &str) -> bool {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    let below = match &parts[..] {
        ["root", below, ..] if path.starts_with('/') => below,
        ["home" | "Users", _, below, ..] if path.starts_with('/') => below,
        [home, below, ..] if home.starts_with('~') => below,
        _ => return is_of_the_machine(path),
    };
    STEERING.contains(below) || is_of_path(&parts)
}

/// Directories of a home that are searched for programs, usually before those of the system.
const OF_PATH: [&[&str]; 6] = [
    &[".local", "bin"],
    &["bin"],
    &[".cargo", "bin"],
    &["go", "bin"],
    &[".npm-global", "bin"],
    &[".bun", "bin"],
];

fn is_of_path(parts: &[&str]) -> bool {
    let below = match parts {
        ["root", below @ ..] => below,
        ["home" | "Users", _, below @ ..] => below,
        [_, below @ ..] => below,
        [] => return false,
    };
    OF_PATH.iter().any(|directory| below.starts_with(directory))
}

fn is_network(path: &str) -> bool {
    path.starts_with("/dev/tcp") || path.starts_with("/dev/udp")
}

fn is_of_the_kernel(path: &str) -> bool {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    path.starts_with('/') && matches!(parts.first(), Some(&("dev" | "proc" | "sys")))
        || parts.contains(&"proc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: ShellWord, expected: &str) {
        assert_eq!(written(&target).to_string(), expected);
    }

    #[test]
    fn the_target_decides() {
        check(ShellWord::exact("/dev/null"), "read_only");
        check(ShellWord::exact("out"), "mutating");
        check(ShellWord::unknown(), "mutating");
        check(ShellWord::exact("/dev/sda"), "host_escape_risk");
        check(
            ShellWord::exact("/proc/sys/kernel/core_pattern"),
            "host_escape_risk",
        );
        check(ShellWord::exact("/dev/tcp/1.2.3.4/80"), "networked");
        check(ShellWord::starting("/dev/"), "host_escape_risk");
        check(ShellWord::exact("~/.ssh/authorized_keys"), "host_escape_risk");
        check(ShellWord::exact("/home/ana/.bashrc"), "host_escape_risk");
        check(ShellWord::exact("/etc/hosts"), "host_escape_risk");
        check(ShellWord::exact("~/.local/bin/ls"), "host_escape_risk");
        check(ShellWord::exact("~/.local/bin"), "host_escape_risk");
        check(ShellWord::exact("/home/ana/.cargo/bin/cargo"), "host_escape_risk");
        check(ShellWord::exact("~/.local/share/x"), "mutating");
        check(ShellWord::exact("bin/ls"), "mutating");
        check(ShellWord::exact("~/notes/.bashrc"), "mutating");
        check(ShellWord::exact(".ssh/config"), "mutating");
    }

    #[test]
    fn a_directory_that_was_gone_to_counts_by_where_it_is() {
        let check = |directory: &str, target: ShellWord, expected: &str| {
            assert_eq!(
                written_from(directory, &target).to_string(),
                expected,
                "{directory}"
            );
        };
        check("/dev", ShellWord::exact("sda"), "host_escape_risk");
        check("/dev", ShellWord::unknown(), "host_escape_risk");
        check("/a/../proc/sys", ShellWord::exact("kernel/x"), "host_escape_risk");
        check("/dev", ShellWord::exact("null"), "read_only");
        check("/dev", ShellWord::exact("../tmp/x"), "read_only");
        check("/linux/fs/proc", ShellWord::exact("x"), "read_only");
    }

    #[test]
    fn another_descriptor_is_no_file() {
        let duplicate = |text: &str| ShellRedirect {
            kind: RedirectKind::Duplicate,
            target: ShellWord::exact(text),
        };
        assert!(classes(&duplicate("1")).is_read_only());
        assert!(classes(&duplicate("-")).is_read_only());
        assert!(classes(&duplicate("3-")).is_read_only());
        assert!(classes(&duplicate("out")).contains(Class::Mutating));
    }
}
