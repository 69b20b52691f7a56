//! Which programs the words of a command name: for display to a person, and for the scope of an answer.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use avfs_core::{SnapshotId, TreePath};
use avfs_exec::classify::{Class, Classification, Command};
use avfs_exec::plan::{OwnPaths, Toolchain, WORKSPACE, environment};
use avfs_tree::ReadError;

use super::RunSpec;
use super::home::HomeShare;
use crate::approvals::{CommandMeaning, FoundProgram, NamedProgram, StoredBytes};
use crate::error::Result;
use crate::vault::Vault;

/// Words that a shell implements itself.
const BUILTINS: [&str; 39] = [
    ".", ":", "[", "[[", "alias", "bg", "break", "builtin", "cd", "command", "continue", "declare", "echo",
    "eval", "exec", "exit", "export", "false", "fg", "getopts", "jobs", "kill", "let", "local", "printf",
    "pwd", "read", "return", "set", "shift", "source", "test", "trap", "true", "type", "ulimit", "umask",
    "unset", "wait",
];

/// Words in a line that may give other words a different meaning than the system's programs.
const REDEFINES: [&str; 7] = ["()", "function ", "alias ", "enable ", "hash ", "PATH=", "PATH+="];

/// The directories of the system that are the same inside.
const SYSTEM: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];

/// Where the programs are that a command names, each once, in the order of its parts, and where they are looked for.
pub(crate) fn meaning(
    vault: &Vault,
    request: &RunSpec,
    cwd: &Path,
    found: &Classification,
    head: SnapshotId,
) -> Result<CommandMeaning> {
    let toolchains = request.toolchains();
    let share = request.home_share();
    let searched = searched(request, &toolchains, share.as_ref());
    let sight = RunView {
        vault,
        request,
        toolchains: &toolchains,
        share: share.as_ref(),
        head,
    };
    let (line, is_shell) = match &request.command {
        Command::Shell(line) => (line.as_str(), true),
        Command::Argv(_) => ("", false),
    };
    let redefines = REDEFINES.iter().any(|sign| line.contains(sign));
    let moves = found
        .parts
        .iter()
        .any(|part| part.prefix.first().is_some_and(|name| name == "cd"));
    let mut all: Vec<NamedProgram> = Vec::new();
    for (number, part) in found.parts.iter().enumerate() {
        let name = part.prefix.first().filter(|name| !name.is_empty());
        let program = match name {
            // An assignment, or a redirection of nothing.
            None if !part.classes.contains(Class::HostEscapeRisk) => continue,
            None => NamedProgram {
                name: part.text.clone(),
                found: FoundProgram::Unknown,
            },
            Some(name) => {
                let is_read_by_shell = is_shell || number > 0;
                let found = match name {
                    _ if redefines || part.firm => FoundProgram::Unknown,
                    name if is_read_by_shell && BUILTINS.contains(&&**name) => FoundProgram::Builtin,
                    // Where a line moves to is known when it runs.
                    name if name.contains('/') && !name.starts_with('/') && moves => FoundProgram::Unknown,
                    name if name.contains('/') => sight.look(&cwd.join(name))?,
                    name => sight.search(&searched, name)?,
                };
                NamedProgram {
                    name: name.clone(),
                    found,
                }
            }
        };
        if !all.contains(&program) {
            all.push(program);
        }
    }
    let in_vault = searched
        .iter()
        .map(|directory| plain(directory))
        .filter(|place| sight.is_vault(place));
    let searched = in_vault
        .map(|place| StoredBytes::from(place.as_os_str()))
        .collect();
    Ok(CommandMeaning {
        programs: all,
        searched,
    })
}

/// The directories in which the command looks for programs.
fn searched(request: &RunSpec, toolchains: &[Toolchain], share: Option<&HomeShare>) -> Vec<PathBuf> {
    let place = request.own_place();
    let alone = OwnPaths {
        project: place.as_deref(),
        ..OwnPaths::default()
    };
    let own = share.map_or(alone, |share| share.own_paths(place.as_deref()));
    let given: Vec<(OsString, OsString)> = request.env.iter().chain(&request.passed).cloned().collect();
    let env = environment(&request.caller_env, toolchains, own, &given);
    let path = env
        .into_iter()
        .rev()
        .find(|(name, _)| name == "PATH")
        .map(|(_, path)| path);
    std::env::split_paths(&path.unwrap_or_default()).collect()
}

/// The view of a run, from outside.
struct RunView<'a> {
    vault: &'a Vault,
    request: &'a RunSpec,
    toolchains: &'a [Toolchain],
    share: Option<&'a HomeShare>,
    head: SnapshotId,
}

impl RunView<'_> {
    fn search(&self, directories: &[PathBuf], name: &str) -> Result<FoundProgram> {
        for directory in directories {
            let found = self.look(&directory.join(name))?;
            if found != FoundProgram::Unknown {
                return Ok(found);
            }
        }
        Ok(FoundProgram::Unknown)
    }

    /// The entry at an absolute path of the sandbox.
    fn look(&self, path: &Path) -> Result<FoundProgram> {
        let path = plain(path);
        let raw = || path.as_os_str().into();
        let own = self.request.own_place();
        let places = own.iter().map(PathBuf::as_path).chain([Path::new(WORKSPACE)]);
        for place in places {
            if let Ok(below) = path.strip_prefix(place) {
                return Ok(if self.is_in_vault(below)? {
                    FoundProgram::InVault(raw())
                } else {
                    FoundProgram::Unknown
                });
            }
        }
        match self.on_host(&path) {
            Some(host) if is_program(&host) => Ok(FoundProgram::Installed(raw())),
            Some(_) => Ok(FoundProgram::Unknown),
            // Writes of runs to caches stay with the vault.
            None if self
                .share
                .is_some_and(|share| share.may_have_cached(self.vault, &path)) =>
            {
                Ok(FoundProgram::InVault(raw()))
            }
            // The top-level names of the vault are seen from the root as well.
            None if self.is_in_vault(path.strip_prefix("/").unwrap_or(&path))? => {
                Ok(FoundProgram::InVault(raw()))
            }
            None => Ok(FoundProgram::Unknown),
        }
    }

    /// Where a path of the sandbox is on the host, if it is one of a toolchain or of the system.
    fn on_host(&self, path: &Path) -> Option<PathBuf> {
        let of_toolchain = self
            .toolchains
            .iter()
            .find_map(|one| Some(one.from.join(path.strip_prefix(&one.at).ok()?)));
        of_toolchain.or_else(|| {
            SYSTEM
                .iter()
                .any(|top| path.starts_with(top))
                .then(|| path.to_owned())
        })
    }

    /// Whether the entry at a path, now or later, belongs to the vault.
    fn is_vault(&self, path: &Path) -> bool {
        let own = self.request.own_place();
        let is_below = own.is_some_and(|own| path.starts_with(own)) || path.starts_with(WORKSPACE);
        is_below || self.on_host(path).is_none()
    }

    fn is_in_vault(&self, below: &Path) -> Result<bool> {
        let mut bytes = self
            .request
            .path
            .as_ref()
            .map(|top| top.as_bytes().to_vec())
            .unwrap_or_default();
        bytes.push(b'/');
        bytes.extend_from_slice(below.as_os_str().as_bytes());
        let Ok(path) = TreePath::parse(&bytes) else {
            return Ok(false);
        };
        // The target of a link on the way is known only inside the run.
        Ok(!matches!(
            self.vault.reader_at(self.head)?.find(&path),
            Err(ReadError::NotFound { .. })
        ))
    }
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain: Vec<&[u8]> = Vec::new();
    for part in path.as_os_str().as_bytes().split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(plain.pop()),
            name => plain.push(name),
        }
    }
    let mut bytes = vec![b'/'];
    bytes.extend(plain.join(&b'/'));
    OsString::from_vec(bytes).into()
}
