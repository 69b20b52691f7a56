//! Files that a command opens by `<` and `>`.

use super::class::{Class, Classes};
use super::script::{Redirect, RedirectKind, Word};

pub(crate) fn classes(redirect: &Redirect) -> Classes {
    match redirect.kind {
        RedirectKind::HereDocument | RedirectKind::HereString => Classes::READ_ONLY,
        RedirectKind::Read => read(&redirect.target),
        RedirectKind::Write => written(&redirect.target),
        RedirectKind::Duplicate if is_descriptor(&redirect.target) => Classes::READ_ONLY,
        RedirectKind::Duplicate => written(&redirect.target),
    }
}

fn is_descriptor(target: &Word) -> bool {
    let digits = target.text.strip_suffix('-').unwrap_or(&target.text);
    target.exact && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn read(target: &Word) -> Classes {
    match is_network(&target.text) {
        true => Class::Networked.into(),
        false => Classes::READ_ONLY,
    }
}

/// What it means that a file is written, however that is done.
pub(crate) fn written(target: &Word) -> Classes {
    let text = target.text.as_str();
    let harmless = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/1", "/dev/fd/2"];
    match target.exact {
        true if harmless.contains(&text) => Classes::READ_ONLY,
        false if text == "/dev/fd/" => Classes::READ_ONLY,
        _ if is_network(text) => Classes::one(Class::Networked),
        _ if is_of_the_kernel(text) => Class::HostEscapeRisk.into(),
        _ => Class::Mutating.into(),
    }
}

/// What it means beyond that when the file is named from another directory.
pub(crate) fn written_from(directory: &str, target: &Word) -> Classes {
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

fn is_network(path: &str) -> bool {
    path.starts_with("/dev/tcp") || path.starts_with("/dev/udp")
}

fn is_of_the_kernel(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    path.starts_with('/') && matches!(parts.first(), Some(&("dev" | "proc" | "sys")))
        || parts.contains(&"proc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: Word, expected: &str) {
        assert_eq!(written(&target).to_string(), expected);
    }

    #[test]
    fn the_target_decides() {
        check(Word::exact("/dev/null"), "read_only");
        check(Word::exact("out"), "mutating");
        check(Word::unknown(), "mutating");
        check(Word::exact("/dev/sda"), "host_escape_risk");
        check(Word::exact("/proc/sys/kernel/core_pattern"), "host_escape_risk");
        check(Word::exact("/dev/tcp/1.2.3.4/80"), "networked");
        check(Word::starting("/dev/"), "host_escape_risk");
    }

    #[test]
    fn a_directory_that_was_gone_to_counts_by_where_it_is() {
        let check = |directory: &str, target: Word, expected: &str| {
            assert_eq!(written_from(directory, &target).to_string(), expected, "{directory}");
        };
        check("/dev", Word::exact("sda"), "host_escape_risk");
        check("/dev", Word::unknown(), "host_escape_risk");
        check("/a/../proc/sys", Word::exact("kernel/x"), "host_escape_risk");
        check("/dev", Word::exact("null"), "read_only");
        check("/dev", Word::exact("../tmp/x"), "read_only");
        check("/linux/fs/proc", Word::exact("x"), "read_only");
    }

    #[test]
    fn another_descriptor_is_no_file() {
        let duplicate = |text: &str| Redirect { kind: RedirectKind::Duplicate, target: Word::exact(text) };
        assert!(classes(&duplicate("1")).is_read_only());
        assert!(classes(&duplicate("-")).is_read_only());
        assert!(classes(&duplicate("3-")).is_read_only());
        assert!(classes(&duplicate("out")).contains(Class::Mutating));
    }
}
