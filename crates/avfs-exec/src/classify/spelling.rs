//! Other spellings of a tool: `python3.11`, `gcc-12`, `git-push`, `grm`.

use super::tools::{self, Tool};

/// The tool to which a name refers.
#[derive(Debug)]
pub(crate) struct ToolSpelling<'a> {
    /// Its name in the tables.
    pub(crate) name: &'a str,
    pub(crate) tool: &'static Tool,
    /// The subcommand in the name, such as `push` of `git-push`.
    pub(crate) sub: Option<&'a str>,
    /// It may also be another program: enough to be stricter, not to call it read-only.
    pub(crate) guessed: bool,
}

/// GNU tools that have a `g` before their name on systems with their own version of the tool.
const GNU: [&str; 26] = [
    "awk", "base64", "basename", "cat", "chmod", "cp", "cut", "dd", "dirname", "du", "find", "grep", "head",
    "ln", "ls", "mkdir", "mv", "readlink", "realpath", "rm", "shuf", "stat", "tail", "touch", "tr", "wc",
];

/// The tool of a plain name, if the tables contain it in some spelling.
pub(crate) fn of(name: &str) -> Option<ToolSpelling<'_>> {
    let exact = tools::find(name).map(|tool| ToolSpelling {
        name,
        tool,
        sub: None,
        guessed: false,
    });
    exact
        .or_else(|| gnu(name))
        .or_else(|| dashed(name))
        .or_else(|| versioned(name))
}

fn gnu(name: &str) -> Option<ToolSpelling<'_>> {
    let name = name.strip_prefix('g').filter(|rest| GNU.contains(rest))?;
    Some(ToolSpelling {
        name,
        tool: tools::find(name)?,
        sub: None,
        guessed: false,
    })
}

/// `git-push` is a program of `git`; for other tools, a program with such a suffix may come from anywhere.
fn dashed(name: &str) -> Option<ToolSpelling<'_>> {
    let (name, sub) = name.split_once('-')?;
    let tool = tools::find(name).filter(|tool| tool.sub(&[sub]).is_some())?;
    Some(ToolSpelling {
        name,
        tool,
        sub: Some(sub),
        guessed: name != "git" && tool.spec.classes.is_read_only(),
    })
}

fn versioned(name: &str) -> Option<ToolSpelling<'_>> {
    let name = shorter_names(name).find(|shorter| tools::find(shorter).is_some())?;
    let tool = tools::find(name)?;
    Some(ToolSpelling {
        name,
        tool,
        sub: None,
        guessed: tool.spec.classes.is_read_only(),
    })
}

/// `pip3.12`: `pip3.1`, `pip3`, `pip`.
fn shorter_names(name: &str) -> impl Iterator<Item = &str> {
    let bare = without_version(name);
    let ends = (bare.len()..name.len())
        .rev()
        .filter(|end| name.is_char_boundary(*end));
    ends.map(|end| &name[..end]).filter(|shorter| !shorter.is_empty())
}

/// A name without the version at its end.
pub(crate) fn without_version(name: &str) -> &str {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match bare.strip_suffix('-') {
        Some(before) if bare.len() < name.len() => before,
        _ => bare,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: &str) {
        let found = of(name).map(|found| format!("{} {}", found.name, found.sub.unwrap_or_default()));
        assert_eq!(found.unwrap_or_default().trim(), expected, "{name}");
    }

    #[test]
    fn a_tool_is_known_in_other_spellings() {
        check("rm", "rm");
        check("grm", "rm");
        check("python3.15", "python3");
        check("pip3.12", "pip3");
        check("pip-3.12", "pip");
        check("gcc-12", "gcc");
        check("clang++-15", "clang++");
        check("node20", "node");
        check("git-push", "git push");
        check("docker-compose", "docker compose");
        check("apt-get", "apt-get");
    }

    #[test]
    fn a_name_that_only_looks_alike_is_another_program() {
        for name in ["", "12", "git-", "git-flow", "gitx", "rmx", "x-rm", "-rm"] {
            check(name, "");
        }
        assert!(of("ls2").is_some_and(|found| found.guessed));
        assert!(of("npm-ls").is_some_and(|found| found.guessed));
    }
}
