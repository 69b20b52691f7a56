//! The author of commits: the user's name and address, and nothing else of the user's git settings.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::host::HostRepository;
use super::inside::Setting;
use super::program::Git;
use super::recent_answer::RecentAnswer;
use crate::error::GitError;

static RECENT: RecentAnswer<PathBuf, Identity> = RecentAnswer::new();

/// The user's identity in git.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The name of the author.
    pub name: Option<String>,
    /// The address of the author.
    pub email: Option<String>,
}

impl Identity {
    /// For work in a directory: from the settings of its repository, if it is in one, and the user's own.
    /// Empty without git.
    pub fn of(directory: &Path) -> Identity {
        let directory = directory.to_owned();
        RECENT
            .recall(Instant::now(), &directory, || Identity::asked_for(&directory))
            .unwrap_or_default()
    }

    fn asked_for(directory: &Path) -> Result<Identity, GitError> {
        let host = directory
            .ancestors()
            .find_map(|above| HostRepository::open(above).ok());
        let git = match &host {
            Some(host) => host.git(ASKING),
            None => Git::new(Path::new("/dev/null"), ASKING),
        };
        Identity::told_by(git)
    }

    pub(super) fn in_repository(host: &HostRepository) -> Result<Identity, GitError> {
        Identity::told_by(host.git(ASKING))
    }

    fn told_by(git: Git) -> Result<Identity, GitError> {
        let git = git.with_user_settings();
        match git
            .args(["config", "--null", "--get-regexp", r"^user\.(name|email)$"])
            .output()
        {
            Ok(told) => Ok(Identity::parse(&String::from_utf8_lossy(&told))),
            Err(GitError::Failed { .. }) => Ok(Identity::default()),
            Err(error) => Err(error),
        }
    }

    /// From `KEY\nVALUE\0…`. Later values take precedence.
    fn parse(text: &str) -> Identity {
        let last = |key: &str| {
            let mut pairs = text.split('\0').filter_map(|entry| entry.split_once('\n'));
            let last = pairs.rfind(|(found, _)| *found == key);
            last.map(|(_, value)| value.to_owned())
                .filter(|value| !value.is_empty())
        };
        Identity {
            name: last("user.name"),
            email: last("user.email"),
        }
    }

    /// The settings with this identity.
    pub fn settings(self) -> Vec<Setting> {
        let known = [("user.name", self.name), ("user.email", self.email)];
        known
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect()
    }
}

const ASKING: &str = "asking who you are";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_and_address_count_and_nothing_else_comes_along() {
        let text = "user.name\nOld\0user.name\nAda L.\0user.email\nada@example.com\0alias.x\n!sh\0";
        let expected = [
            ("user.name", "Ada L.".to_owned()),
            ("user.email", "ada@example.com".to_owned()),
        ];
        assert_eq!(Identity::parse(text).settings(), expected);
        assert!(Identity::parse("").settings().is_empty());
    }
}
