//! The values in the shell of a session that an approved command needs: variables, as the shell reports them.
//!
//! The agent controls the shell, which may report anything. The reported values are shown to the person who
//! is asked, and the command runs with them, in a separate shell; so a lie gains nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use avfs_exec::classify::{Command, named_variables, steers_programs};

use crate::exec::inner_environment::{DOOR_VARIABLE, TASK_VARIABLE, VAULT_VARIABLE};

/// How many variables are passed on, and how many bytes of them: as much as a person can read.
const MOST: usize = 64;
const MOST_BYTES: usize = 32 << 10;

/// Variables of the shell itself, and those that the sandbox sets for each run.
const NOT_CARRIED: [&str; 8] = [
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    VAULT_VARIABLE,
    DOOR_VARIABLE,
    TASK_VARIABLE,
    "NODE_USE_ENV_PROXY",
];

/// The values that a command is run with.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    /// Variables that the command names and that differ from the session's initial values.
    pub carried: Vec<(OsString, OsString)>,
    /// The names of others that differ, which are not passed on: any of them may affect a program.
    pub left_out: Vec<String>,
}

/// The commands for the shell to print its exported variables, and the variables that the command names, each
/// followed by a NUL. Negated, so that `set -e` has no effect.
pub(super) fn question(command: &Command) -> Vec<u8> {
    let mut text = "! { \\builtin command /usr/bin/env -0".to_owned();
    for name in named(command) {
        text.push_str(&format!(
            "; [[ ${{{name}+x}} ]] && \\builtin printf '%s=%s\\0' {name} \"${{{name}}}\""
        ));
    }
    text.push_str("; }");
    text.into_bytes()
}

/// The variables that a command names, up to a limit.
fn named(command: &Command) -> Vec<String> {
    match command {
        Command::Shell(line) => named_variables(line).into_iter().take(MOST).collect(),
        Command::Argv(_) => Vec::new(),
    }
}

impl Values {
    /// For a shell that did not answer, or sent too much.
    pub(super) fn unknown() -> Values {
        Values {
            carried: Vec::new(),
            left_out: vec!["all variables of its shell".to_owned()],
        }
    }

    /// Parses the shell's answer; `None` if it is too much for a person to read.
    pub(super) fn read(told: &[u8], start: &[(OsString, OsString)], command: &Command) -> Option<Values> {
        let named = named(command);
        let mut last = BTreeMap::new();
        for entry in told.split(|byte| *byte == 0) {
            let Some(at) = entry.iter().position(|byte| *byte == b'=') else {
                continue;
            };
            let (name, value) = (&entry[..at], &entry[at + 1..]);
            if is_name(name) {
                last.insert(name.to_vec(), value.to_vec());
            }
        }
        let mut values = Values::default();
        let mut bytes = 0;
        for (name, value) in last {
            let text = String::from_utf8_lossy(&name).into_owned();
            let was = start.iter().rev().find(|(own, _)| own.as_bytes() == name);
            let is_proxy = text.to_ascii_lowercase().ends_with("_proxy");
            if NOT_CARRIED.contains(&&*text)
                || is_proxy
                || was.is_some_and(|(_, own)| own.as_bytes() == value)
            {
                continue;
            }
            if steers_programs(&text) || !named.contains(&text) {
                values.left_out.push(text);
                continue;
            }
            bytes += name.len() + value.len();
            values
                .carried
                .push((OsStr::from_bytes(&name).to_owned(), OsString::from_vec(value)));
        }
        if let Some(more) = values.left_out.len().checked_sub(MOST).filter(|more| *more > 0) {
            values.left_out.truncate(MOST);
            values.left_out.push(format!("{more} more"));
        }
        (bytes <= MOST_BYTES).then_some(values)
    }
}

fn is_name(name: &[u8]) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    name.first().is_some_and(is_first)
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_values_are_carried_if_they_differ_and_the_command_names_them() {
        let curl = Command::Shell("curl $URL $LANG $PATH".to_owned());
        let start = [("LANG".into(), "C".into()), ("PATH".into(), "/usr/bin".into())];
        let told = b"LANG=C\0PATH=/tmp/evil\0URL=https://a\nb\0BASH_FUNC_curl%%=() { :\n}\0LD_PRELOAD=x\0\
                     BASH_ENV=x\0HTTPS_PROXY=x\0_=y\0NODE_OPTIONS=-r x\0no equals sign\0URL=https://c\0";
        let values = Values::read(told, &start, &curl).unwrap();
        assert_eq!(values.carried, [("URL".into(), "https://c".into())]);
        assert_eq!(
            values.left_out,
            ["BASH_ENV", "LD_PRELOAD", "NODE_OPTIONS", "PATH"]
        );
        let flood: Vec<u8> = (0..100)
            .flat_map(|number| format!("V{number}=x\0").into_bytes())
            .collect();
        let values = Values::read(&[&flood[..], b"URL=u\0"].concat(), &start, &curl).unwrap();
        assert_eq!((values.carried.len(), values.left_out.len()), (1, MOST + 1));
        assert_eq!(values.left_out.last().unwrap(), "36 more");
        let long = format!("URL={}\0", "x".repeat(MOST_BYTES));
        assert_eq!(Values::read(long.as_bytes(), &start, &curl), None);
    }

    #[test]
    fn shell_is_asked_for_the_variables_that_a_line_names() {
        let text = |line: &str| String::from_utf8(question(&Command::Shell(line.to_owned()))).unwrap();
        assert!(text("curl $URL").contains("[[ ${URL+x} ]]"));
        assert_eq!(text("curl x"), "! { \\builtin command /usr/bin/env -0; }");
    }
}
