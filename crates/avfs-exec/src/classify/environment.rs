//! Variables that change the behaviour of programs.

use std::sync::LazyLock;

use super::class::{Class, Classes};
use super::script::ShellWord;

/// One name on a line's right, with `*` for any part of it.
static NAMES: LazyLock<Vec<(Classes, VariablePattern)>> = LazyLock::new(|| {
    let lines = include_str!("tools/environment.names").lines();
    let lines = lines
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.flat_map(of_line).collect()
});

struct VariablePattern(&'static str);

fn of_line(line: &'static str) -> impl Iterator<Item = (Classes, VariablePattern)> {
    let (classes, names) = line.split_once(" : ").expect("a test reads every line");
    let classes = Classes::parse(classes.trim()).expect("a test reads every line");
    names
        .split_whitespace()
        .map(move |name| (classes, VariablePattern(name)))
}

impl VariablePattern {
    fn fits(&self, name: &str) -> bool {
        match self.0.split_once('*') {
            Some((start, end)) => name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
            None => name == self.0,
        }
    }
}

/// Values that are harmless in a variable that names a program.
const HARMLESS_PROGRAMS: [&str; 9] = [
    "",
    "cat",
    "true",
    ":",
    "less",
    "/bin/cat",
    "/bin/true",
    "sccache",
    "ccache",
];

/// Options of languages that load code before the program, in variables that contain arbitrary options.
const LOADS_CODE: [&str; 11] = [
    "-r",
    "--require",
    "--import",
    "--loader",
    "--experimental-loader",
    "-javaagent",
    "-agentlib",
    "-agentpath",
    "-XX:OnError",
    "-XX:OnOutOfMemoryError",
    "--eval",
];
const OPTIONS: [&str; 5] = [
    "MAKEFLAGS",
    "NODE_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
];

/// The effect of setting a variable. A variable that affects programs may have been exported before: it
/// counts the same whether or not it is exported here. Other variables have an effect only if a program sees
/// them.
pub(crate) fn classes(name: &str, value: &ShellWord, exported: bool) -> Classes {
    let found = NAMES
        .iter()
        .find(|(_, pattern)| pattern.fits(name))
        .map(|(classes, _)| *classes);
    let names_a_program =
        name.ends_with("PAGER") || name.ends_with("EDITOR") || name == "VISUAL" || name.ends_with("_WRAPPER");
    let harmless = value
        .literal()
        .is_some_and(|value| HARMLESS_PROGRAMS.contains(&value));
    match found {
        Some(_) if names_a_program && harmless => Classes::READ_ONLY,
        Some(classes) if OPTIONS.contains(&name) && loads_code(value) => classes.with(Class::HostEscapeRisk),
        Some(classes) => classes,
        None if exported => Class::Mutating.into(),
        None => Classes::READ_ONLY,
    }
}

fn loads_code(value: &ShellWord) -> bool {
    let is = |option: &str, known: &&str| {
        option
            .strip_prefix(*known)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '=']))
    };
    value
        .text
        .split_whitespace()
        .any(|option| LOADS_CODE.iter().any(|known| is(option, known)))
}

/// Whether programs may see a variable that a line sets without exporting it: it may be in the environment
/// already. By convention, lower-case names are the shell's own.
pub(crate) fn may_be_seen(name: &str) -> bool {
    let is_small = name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    !is_small || NAMES.iter().any(|(_, pattern)| pattern.fits(name))
}

/// A variable that affects the shell itself, or how programs are found.
pub(crate) fn steers(name: &str) -> bool {
    classes(name, &ShellWord::unknown(), false).contains(Class::HostEscapeRisk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, exported: bool, expected: &str) {
        assert_eq!(
            classes(name, &ShellWord::exact(value), exported).to_string(),
            expected,
            "{name}"
        );
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
        check("NODE_OPTIONS", "--require x", true, "mutating+host_escape_risk");
        check(
            "NODE_OPTIONS",
            "--require=./x",
            false,
            "mutating+host_escape_risk",
        );
        check("NODE_OPTIONS", "--max-old-space-size=4096", true, "mutating");
        check(
            "JAVA_TOOL_OPTIONS",
            "-Xmx1g -javaagent:x.jar",
            true,
            "mutating+host_escape_risk",
        );
        check("MAKEFLAGS", "-j4", true, "mutating");
        check(
            "MAKEFLAGS",
            "--eval=$(shell x)",
            true,
            "mutating+host_escape_risk",
        );
        check(
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER",
            "./x",
            true,
            "host_escape_risk",
        );
        check("CARGO_TARGET_DIR", "out", true, "mutating");
        check("PYTHONPATH", "evil", false, "mutating");
        check("PERL5OPT", "-Mx", false, "host_escape_risk");
        check("RUSTC_WRAPPER", "sccache", true, "read_only");
        check("RUSTC_WRAPPER", "./x", true, "host_escape_risk");
        check("SOMETHING", "x", true, "mutating");
        check("SOMETHING", "x", false, "read_only");
    }
}
