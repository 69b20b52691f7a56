//! The environment of a program under test.

use std::ffi::OsString;
use std::path::Path;

/// Where the programs of a system are.
const PROGRAMS: &str = "/usr/bin:/bin:/usr/sbin:/sbin";

/// Everything that a program under test finds in its environment: a home, and what a test adds. Nothing comes from the
/// machine, so that a test does the same everywhere. It is given to a command whose environment was cleared:
/// `command.env_clear().envs(&environment)`.
#[derive(Clone, Debug)]
pub struct TestEnv {
    variables: Vec<(OsString, OsString)>,
}

impl TestEnv {
    /// With a home, and no programs.
    pub fn of_home(home: impl AsRef<Path>) -> TestEnv {
        TestEnv {
            variables: vec![("HOME".into(), home.as_ref().into())],
        }
    }

    /// The same, with the programs of the system.
    pub fn with_programs(self) -> TestEnv {
        self.with("PATH", PROGRAMS)
    }

    /// The same, with a store at a place of its own instead of the one in the home.
    pub fn with_store(self, store: impl AsRef<Path>) -> TestEnv {
        self.with("AVFS_HOME", store.as_ref())
    }

    /// The same, with one more variable.
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> TestEnv {
        self.variables.push((name.into(), value.into()));
        self
    }
}

impl<'a> IntoIterator for &'a TestEnv {
    type Item = (&'a OsString, &'a OsString);
    type IntoIter = std::iter::Map<
        std::slice::Iter<'a, (OsString, OsString)>,
        fn(&'a (OsString, OsString)) -> (&'a OsString, &'a OsString),
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.variables.iter().map(|(name, value)| (name, value))
    }
}
