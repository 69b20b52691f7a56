//! The repositories that git trusts inside a run: the project's own, since the user started the run there, and repositories
//! in it that the user or the system declares safe.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use super::inside::Setting;
use super::program::Git;
use super::recent_answer::RecentAnswer;
use crate::error::GitError;

const KEY: &str = "safe.directory";
const ASKING: &str = "asking which directories are safe";
/// Represents every directory, alone or at the end of a path.
const ALL: &str = "*";
static RECENT: RecentAnswer<(), Vec<String>> = RecentAnswer::new();

/// The settings that let git work in a project even if its files belong to another user.
pub fn safe_directories(project: &Path) -> Vec<Setting> {
    // If its path is not text, git decides by itself.
    let own = std::str::from_utf8(project.as_os_str().as_bytes())
        .ok()
        .map(str::to_owned);
    let others = RECENT
        .recall(Instant::now(), &(), called_safe)
        .unwrap_or_default()
        .into_iter()
        .filter(|value| concerns(value, project));
    own.into_iter().chain(others).map(|value| (KEY, value)).collect()
}

/// The directories that the user and the system declare safe, as whole paths.
fn called_safe() -> Result<Vec<String>, GitError> {
    let git = Git::new(Path::new("/dev/null"), ASKING)
        .with_user_settings()
        .with_system_settings();
    match git
        .args(["config", "--null", "--type=path", "--get-all", KEY])
        .output()
    {
        Ok(told) => Ok(parse(&String::from_utf8_lossy(&told))),
        // No such setting exists.
        Err(GitError::Failed { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// From `VALUE\0…`. An empty one resets all before it.
fn parse(text: &str) -> Vec<String> {
    let values: Vec<&str> = text.split_terminator('\0').collect();
    let first = values
        .iter()
        .rposition(|value| value.is_empty())
        .map_or(0, |empty| empty + 1);
    values[first..].iter().map(|value| (*value).to_owned()).collect()
}

/// Whether a value applies to a directory in the project.
fn concerns(value: &str, project: &Path) -> bool {
    let below = value.strip_suffix(ALL).and_then(|value| value.strip_suffix('/'));
    let is_around = below.is_some_and(|directory| project.starts_with(directory));
    value == ALL || is_around || (Path::new(value).starts_with(project) && Path::new(value) != project)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_the_user_declares_safe_come_along_and_nothing_else() {
        let project = Path::new("/srv/web");
        let values = parse("/srv/web\0\0/srv/web\0/srv/web/lib\0/srv/website\0/srv/*\0/opt/*\0*\0/etc\0");
        let kept: Vec<&String> = values.iter().filter(|value| concerns(value, project)).collect();
        assert_eq!(kept, ["/srv/web/lib", "/srv/*", "*"]);
        assert_eq!(parse("/a\0*\0\0"), Vec::<String>::new());
    }
}
