//! Who commits inside: the user's name and address, and nothing else of the user's git settings.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// What of git's settings comes along.
const KEYS: [&str; 2] = ["user.name", "user.email"];

/// The variables that tell git inside who the user is. Nothing without git, or if git does not know.
pub fn git_identity(directory: &Path) -> Vec<(OsString, OsString)> {
    let mut git = Command::new("git");
    git.args(["config", "--null", "--get-regexp", r"^user\.(name|email)$"]).current_dir(directory);
    let output = git.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    variables(&text)
}

/// From `KEY\nVALUE\0…`. What comes later counts.
fn variables(text: &str) -> Vec<(OsString, OsString)> {
    let pairs = || text.split('\0').filter_map(|entry| entry.split_once('\n'));
    let known = KEYS
        .iter()
        .filter_map(|key| pairs().rfind(|(found, _)| found == key).map(|(_, value)| (*key, value)));
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    for (index, (key, value)) in known.enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{index}").into(), key.into()));
        variables.push((format!("GIT_CONFIG_VALUE_{index}").into(), value.into()));
    }
    if !variables.is_empty() {
        variables.push(("GIT_CONFIG_COUNT".into(), (variables.len() / 2).to_string().into()));
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_and_address_count_and_nothing_else_comes_along() {
        let text = "user.name\nOld\0user.name\nAda L.\0user.email\nada@example.com\0alias.x\n!sh\0";
        let found = variables(text);
        let text: Vec<String> =
            found.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect();
        let expected = [
            "GIT_CONFIG_KEY_0=user.name",
            "GIT_CONFIG_VALUE_0=Ada L.",
            "GIT_CONFIG_KEY_1=user.email",
            "GIT_CONFIG_VALUE_1=ada@example.com",
            "GIT_CONFIG_COUNT=2",
        ];
        assert_eq!(text, expected);
        assert!(variables("").is_empty());
    }
}
