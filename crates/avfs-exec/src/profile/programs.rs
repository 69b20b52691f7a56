//! Finds the program to run, and what must be shown so that it is found inside.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Profile;
use crate::plan::Toolchain;

/// The parts of the host that every sandbox has.
const EVERYWHERE: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store"];

/// Packages of node find each other by their paths below this.
const NODE_MODULES: &str = "lib/node_modules";

/// The programs of a profile below the home, and the directories of the program that are elsewhere. `shown`
/// is there anyway; `search` is the caller's `PATH`.
pub fn programs(
    profile: &Profile,
    home: &Path,
    program: &OsStr,
    search: &OsStr,
    shown: &[PathBuf],
) -> Vec<Toolchain> {
    let directories = profile
        .programs
        .iter()
        .map(|below| home.join(below))
        .filter(|at| at.is_dir());
    let mut all: Vec<Toolchain> = directories.map(|at| at_own_path(at, None)).collect();
    let Some(found) = find(program, search) else {
        return all;
    };
    let mut seen: Vec<PathBuf> = EVERYWHERE.iter().map(PathBuf::from).collect();
    seen.extend(shown.iter().cloned().chain(all.iter().map(|one| one.at.clone())));
    let real = found.canonicalize().unwrap_or_else(|_| found.clone());
    for path in [&found, &real] {
        if !seen.iter().any(|place| path.starts_with(place)) {
            let at = to_show(path, home);
            seen.push(at.clone());
            let searched = (path == &found)
                .then(|| path.parent().map(Path::to_owned))
                .flatten();
            all.push(at_own_path(at, searched));
        }
    }
    all
}

/// The program that a name refers to for the caller.
fn find(program: &OsStr, search: &OsStr) -> Option<PathBuf> {
    let named = Path::new(program);
    if named.components().count() > 1 {
        // As a shell does it: a name with a slash is a path, and is not searched for.
        return std::path::absolute(named).ok();
    }
    let is_program = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(search)
        .map(|directory| directory.join(named))
        .find(is_program)
}

/// The minimum that the program needs: its own directory, or the tree of packages or the virtual environment
/// of Python that contains it. Never the home, nor a directory above it.
fn to_show(path: &Path, home: &Path) -> PathBuf {
    let modules = || path.ancestors().find(|above| above.ends_with(NODE_MODULES));
    let environment = path.ancestors().find(|above| above.join("pyvenv.cfg").is_file());
    let tree = environment
        .or_else(modules)
        .or_else(|| path.parent())
        .filter(|tree| !home.starts_with(tree));
    tree.unwrap_or(path).to_owned()
}

fn at_own_path(at: PathBuf, searched: Option<PathBuf>) -> Toolchain {
    Toolchain {
        from: at.clone(),
        at,
        path: searched.into_iter().collect(),
        env: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profiles;

    fn executable(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn shown(home: &Path, program: &str, search: &Path) -> Vec<String> {
        let profiles = Profiles::load(None).unwrap();
        let profile = profiles.named("codex").unwrap().unwrap();
        let all = programs(profile, home, OsStr::new(program), search.as_os_str(), &[]);
        all.iter()
            .map(|one| one.at.strip_prefix(home).unwrap().display().to_string())
            .collect()
    }

    #[test]
    fn a_program_is_shown_with_its_packages_and_the_home_is_not() {
        let home = tempfile::tempdir().unwrap();
        let home = &home.path().canonicalize().unwrap();
        let script = home.join("npm/lib/node_modules/@openai/codex/bin/codex.js");
        executable(&script);
        std::fs::create_dir_all(home.join("npm/bin")).unwrap();
        std::os::unix::fs::symlink(&script, home.join("npm/bin/codex")).unwrap();
        assert_eq!(
            shown(home, "codex", &home.join("npm/bin")),
            ["npm/bin", "npm/lib/node_modules"]
        );
        let script = home.join("tools/aider/bin/aider");
        executable(&script);
        std::fs::write(home.join("tools/aider/pyvenv.cfg"), "").unwrap();
        std::fs::create_dir_all(home.join("py")).unwrap();
        std::os::unix::fs::symlink(&script, home.join("py/aider")).unwrap();
        assert_eq!(shown(home, "aider", &home.join("py")), ["py", "tools/aider"]);
        executable(&home.join("agent"));
        assert_eq!(shown(home, "agent", home), ["agent"]);
        assert_eq!(shown(home, "missing", home), [""; 0]);
    }

    #[test]
    fn program_of_the_system_needs_no_toolchain() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(shown(home.path(), "env", Path::new("/usr/bin")), [""; 0]);
    }
}
