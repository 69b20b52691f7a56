//! The container runtimes that can build sandboxes, and where they are.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::launch::LaunchError;

/// A runtime that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRuntime {
    program: PathBuf,
}

/// In the order of the search.
const NAMES: [&str; 2] = ["runc", "crun"];

/// The usual places. Not searched in `PATH`, which may lead into a project.
const PLACES: [&str; 5] = [
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/run/current-system/sw/bin",
];

impl ContainerRuntime {
    /// The first one that is installed.
    pub fn find() -> Result<Self, LaunchError> {
        NAMES
            .iter()
            .find_map(|name| Self::installed(name))
            .ok_or_else(|| LaunchError::NoRuntime {
                wanted: NAMES.join(" and "),
            })
    }

    /// The one that a setting names: by its name, or by an absolute path.
    pub fn named(name: &str) -> Result<Self, LaunchError> {
        let found = match Path::new(name) {
            path if path.is_absolute() => path.is_file().then(|| Self {
                program: path.to_owned(),
            }),
            _ => Self::installed(name),
        };
        found.ok_or_else(|| LaunchError::NoRuntime {
            wanted: name.to_owned(),
        })
    }

    fn installed(name: &str) -> Option<Self> {
        let is_name = Path::new(name).file_name() == Some(OsStr::new(name));
        PLACES
            .iter()
            .map(|place| Path::new(place).join(name))
            .find(|program| is_name && program.is_file())
            .map(|program| Self { program })
    }

    /// Where it is installed.
    pub fn program(&self) -> &Path {
        &self.program
    }

    pub(super) fn name(&self) -> String {
        let name = self.program.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The words after the name of the program that run a bundle, with `passed` descriptors.
    pub(super) fn arguments(&self, bundle: &Path, id: &OsStr, passed: usize) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["--root".into(), bundle.join("state").into()];
        if self.name().starts_with("crun") {
            // Limits are set from outside, as for every run, and crun gives up on groups that it does not know.
            arguments.push("--cgroup-manager=disabled".into());
        }
        arguments.extend(["run".into(), "--bundle".into(), bundle.into()]);
        arguments.extend(["--pid-file".into(), bundle.join(super::PID).into()]);
        arguments.extend(["--preserve-fds".into(), passed.to_string().into()]);
        arguments.push(id.to_owned());
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_found_by_its_name_or_its_path_and_never_elsewhere() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("runc-next");
        std::fs::write(&program, "").unwrap();
        let found = ContainerRuntime::named(program.to_str().unwrap()).unwrap();
        assert_eq!((found.program(), &*found.name()), (&*program, "runc-next"));
        for absent in ["no-such-runtime", "../bin/runc", "", "/no/such/runc"] {
            let error = ContainerRuntime::named(absent).unwrap_err();
            assert_eq!(error.code(), "cannot_isolate", "{absent:?}");
            assert!(error.to_string().contains(absent), "{error}");
        }
    }
}
