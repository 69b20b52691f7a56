//! Variables that change what programs do.

use std::sync::LazyLock;

use super::class::{Class, Classes};
use super::script::Word;

/// One name on a line's right, with `*` at its beginning or end.
static NAMES: LazyLock<Vec<(Classes, Pattern)>> = LazyLock::new(|| {
    let lines = include_str!("tools/environment.names").lines();
    let lines = lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.flat_map(of_line).collect()
});

struct Pattern(&'static str);

fn of_line(line: &'static str) -> impl Iterator<Item = (Classes, Pattern)> {
    let (classes, names) = line.split_once(" : ").expect("a test reads every line");
    let classes = Classes::parse(classes.trim()).expect("a test reads every line");
    names.split_whitespace().map(move |name| (classes, Pattern(name)))
}

impl Pattern {
    fn fits(&self, name: &str) -> bool {
        match (self.0.strip_prefix('*'), self.0.strip_suffix('*')) {
            (Some(end), _) => name.ends_with(end),
            (None, Some(start)) => name.starts_with(start),
            (None, None) => name == self.0,
        }
    }
}

/// Values with which a variable that names a program is harmless.
const HARMLESS_PROGRAMS: [&str; 7] = ["", "cat", "true", ":", "less", "/bin/cat", "/bin/true"];

/// What setting a variable means. Only variables that other programs see can steer those.
pub(crate) fn classes(name: &str, value: &Word, exported: bool) -> Classes {
    let found = NAMES.iter().find(|(_, pattern)| pattern.fits(name)).map(|(classes, _)| *classes);
    let names_a_program = name.ends_with("PAGER") || name.ends_with("EDITOR") || name == "VISUAL";
    let harmless = value.literal().is_some_and(|value| HARMLESS_PROGRAMS.contains(&value));
    match found {
        Some(_) if names_a_program && harmless => Classes::READ_ONLY,
        Some(classes) if exported || classes.contains(Class::HostEscapeRisk) => classes,
        None if exported => Class::Mutating.into(),
        Some(_) | None => Classes::READ_ONLY,
    }
}

/// Whether programs may see a variable that a line sets without exporting it: it may be in the environment already. By
/// custom, names in small letters are the shell's own.
pub(crate) fn may_be_seen(name: &str) -> bool {
    let is_small =
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    !is_small || NAMES.iter().any(|(_, pattern)| pattern.fits(name))
}

/// A variable that steers the shell itself, or how programs are found.
pub(crate) fn steers(name: &str) -> bool {
    classes(name, &Word::unknown(), false).contains(Class::HostEscapeRisk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, exported: bool, expected: &str) {
        assert_eq!(classes(name, &Word::exact(value), exported).to_string(), expected, "{name}");
    }

    #[test]
    fn names_decide_and_some_values() {
        check("PATH", "/tmp", false, "host_escape_risk");
        check("LD_PRELOAD", "x.so", true, "host_escape_risk");
        check("GIT_CONFIG_KEY_0", "core.fsmonitor", true, "host_escape_risk");
        check("GIT_PAGER", "cat", true, "read_only");
        check("GIT_PAGER", "sh -c x", true, "host_escape_risk");
        check("GIT_AUTHOR_NAME", "x", true, "read_only");
        check("LC_ALL", "C", true, "read_only");
        check("NODE_OPTIONS", "--require x", true, "mutating");
        check("SOMETHING", "x", true, "mutating");
        check("SOMETHING", "x", false, "read_only");
    }
}
