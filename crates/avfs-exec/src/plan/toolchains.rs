//! Compilers and interpreters in the user's home, of which the sandbox otherwise shows nothing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A directory with programs, shown read-only at its own path: many programs depend on where they were
/// installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// The directory on the host.
    pub from: PathBuf,
    /// Its path inside.
    pub at: PathBuf,
    /// Directories for the front of `PATH`.
    pub path: Vec<PathBuf>,
    /// Variables that its programs need.
    pub env: Vec<(OsString, OsString)>,
}

/// A known directory below the home. Only the parts that its programs need are shown: tools also keep
/// settings, logs, keys and credentials there.
struct KnownToolchain {
    directory: &'static str,
    /// Directories and files of it that are shown; an empty name means all of it.
    parts: &'static [&'static str],
    /// Directories for `PATH`.
    path: &'static [&'static str],
    /// A variable that names the directory.
    variable: Option<&'static str>,
}

const fn known(
    directory: &'static str,
    parts: &'static [&'static str],
    path: &'static [&'static str],
    variable: Option<&'static str>,
) -> KnownToolchain {
    KnownToolchain {
        directory,
        parts,
        path,
        variable,
    }
}

/// All of it: it contains only programs and their libraries.
const WHOLE: &[&str] = &[""];

/// Version managers with shims, all of the same form.
const OF_SHIMS: &[&str] = &["shims", "bin"];

/// An installation of conda, or of something that works like it.
const CONDA: &[&str] = &[
    "bin",
    "compiler_compat",
    "conda-meta",
    "condabin",
    "envs",
    "etc",
    "include",
    "lib",
    "lib64",
    "libexec",
    "pkgs",
    "sbin",
    "share",
    "shell",
    "ssl",
    "x86_64-conda-linux-gnu",
    "aarch64-conda-linux-gnu",
];

const KNOWN: &[KnownToolchain] = &[
    known(".cargo/bin", WHOLE, &[""], None),
    known(
        ".rustup",
        &["toolchains", "settings.toml", "update-hashes"],
        &[],
        Some("RUSTUP_HOME"),
    ),
    known(".nvm/versions", WHOLE, &[], None),
    known(".config/nvm/versions", WHOLE, &[], None),
    known(".npm-global", &["bin", "lib"], &["bin"], None),
    known(".local/share/fnm", &["node-versions", "aliases"], &[], None),
    known(
        ".nodenv",
        &[
            "bin", "libexec", "nodenv.d", "plugins", "shims", "version", "versions",
        ],
        OF_SHIMS,
        Some("NODENV_ROOT"),
    ),
    known(
        ".pyenv",
        &[
            "bin",
            "completions",
            "libexec",
            "plugins",
            "pyenv.d",
            "shims",
            "version",
            "versions",
        ],
        OF_SHIMS,
        Some("PYENV_ROOT"),
    ),
    known(".local/share/uv/python", WHOLE, &[], None),
    known(".local/share/uv/tools", WHOLE, &[], None),
    known("miniconda3", CONDA, &[], None),
    known("miniforge3", CONDA, &[], None),
    known("anaconda3", CONDA, &[], None),
    known("micromamba", CONDA, &[], None),
    known(".local/bin", WHOLE, &[""], None),
    known(".local/pipx", &["py", "shared", "venvs"], &[], None),
    known(".local/share/pipx", &["py", "shared", "venvs"], &[], None),
    known(
        ".local/share/mise",
        &["installs", "plugins", "shims"],
        &["shims"],
        None,
    ),
    known(
        ".asdf",
        &[
            "asdf.sh",
            "bin",
            "defaults",
            "installs",
            "internal",
            "lib",
            "libexec",
            "plugins",
            "shims",
            "version.txt",
        ],
        OF_SHIMS,
        None,
    ),
    known(
        ".volta",
        &["bin", "tools", "layout.v2", "layout.v3", "layout.v4"],
        &["bin"],
        Some("VOLTA_HOME"),
    ),
    known(".bun/bin", WHOLE, &[""], None),
    known(".deno/bin", WHOLE, &[""], None),
    known(
        ".rbenv",
        &[
            "bin",
            "completions",
            "libexec",
            "plugins",
            "rbenv.d",
            "shims",
            "version",
            "versions",
        ],
        OF_SHIMS,
        Some("RBENV_ROOT"),
    ),
    known(".sdkman/candidates", WHOLE, &[], None),
    known(
        ".dotnet",
        &[
            "dotnet",
            "host",
            "library-packs",
            "metadata",
            "packs",
            "sdk",
            "sdk-manifests",
            "shared",
            "templates",
            "tools",
        ],
        &["", "tools"],
        Some("DOTNET_ROOT"),
    ),
    known("go/bin", WHOLE, &[""], None),
    known(
        ".go",
        &["VERSION", "api", "bin", "go.env", "lib", "misc", "pkg", "src"],
        &["bin"],
        None,
    ),
    known(".ghcup", &["bin", "ghc", "hls", "share"], &["bin"], None),
    known(
        ".elan",
        &["bin", "settings.toml", "toolchains"],
        &["bin"],
        Some("ELAN_HOME"),
    ),
];

/// Where programs are installed beside the system, each in a directory of its own.
const BESIDE_SYSTEM: [&str; 2] = ["/opt", "/home/linuxbrew"];

/// The usual directories of the environments of a project's interpreter.
const ENVIRONMENTS: [&str; 3] = [".venv", "venv", "env"];

/// Finds the toolchains of the user whose home on the host is `home`, and whose environment is `caller`.
/// Directories in `PATH` outside of the home and the system are included, and so is the interpreter of the
/// project's environment.
pub fn toolchains(home: &Path, caller: &[(OsString, OsString)], project: Option<&Path>) -> Vec<Toolchain> {
    let variable = |name: &str| {
        caller
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| &**value)
    };
    let mut found: Vec<Toolchain> = KNOWN
        .iter()
        .flat_map(|known| find(home, known, &variable))
        .collect();
    if let Some(bin) = variable("CARGO_HOME").map(|cargo| Path::new(cargo).join("bin")) {
        found.extend(shown(bin.clone(), vec![bin], Vec::new()));
    }
    found.extend(newest_node(home).map(|bin| bin_only(&home.join(".nvm/versions"), bin)));
    let search = variable("PATH").unwrap_or_default();
    found.extend(std::env::split_paths(search).filter_map(|searched| beside_system(&searched)));
    let activated = variable("VIRTUAL_ENV").map(PathBuf::from);
    let usual = project
        .into_iter()
        .flat_map(|root| ENVIRONMENTS.map(|name| root.join(name)));
    let interpreters = activated
        .into_iter()
        .chain(usual)
        .filter_map(|environment| interpreter(&environment));
    for prefix in interpreters {
        let is_there = is_in_system(&prefix) || found.iter().any(|one| prefix.starts_with(&one.at));
        if !is_there && !home.starts_with(&prefix) {
            found.extend(shown(prefix, Vec::new(), Vec::new()));
        }
    }
    found
}

fn is_in_system(path: &Path) -> bool {
    ["/usr", "/bin", "/nix/store"]
        .iter()
        .any(|top| path.starts_with(top))
}

/// The directory of a program that is installed beside the system.
fn beside_system(searched: &Path) -> Option<Toolchain> {
    let top = BESIDE_SYSTEM.iter().find(|top| searched.starts_with(top))?;
    let name = searched.strip_prefix(top).ok()?.components().next()?;
    let installed = Path::new(top).join(name);
    shown(installed, Vec::new(), Vec::new())
}

/// Where the interpreter of an environment is installed. The environment is part of the project, which may be
/// untrusted: only a real installation of Python is accepted.
fn interpreter(environment: &Path) -> Option<PathBuf> {
    let program = environment.join("bin/python").canonicalize().ok()?;
    let bin = program.parent().filter(|bin| bin.ends_with("bin"))?;
    let prefix = bin.parent()?;
    let name = program.file_name()?.to_str()?;
    let has_library = |library: std::fs::DirEntry| {
        library
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with("python"))
            && library.path().join("os.py").is_file()
    };
    let libraries = std::fs::read_dir(prefix.join("lib")).ok()?;
    let is_python = name.starts_with("python") && libraries.flatten().any(has_library);
    (is_python && prefix.parent().is_some()).then(|| prefix.to_owned())
}

fn shown(at: PathBuf, path: Vec<PathBuf>, env: Vec<(OsString, OsString)>) -> Option<Toolchain> {
    (at.is_dir() && !is_in_system(&at)).then(|| Toolchain {
        from: at.clone(),
        at,
        path,
        env,
    })
}

/// The existing parts at the path of the user's variable, or at the default path.
fn find<'v>(
    home: &Path,
    known: &KnownToolchain,
    value: &impl Fn(&str) -> Option<&'v OsStr>,
) -> Vec<Toolchain> {
    let named = known.variable.and_then(value).map(PathBuf::from);
    let top = named
        // A relative path would mean something else inside, where the working directory is another one.
        .filter(|at| at.is_absolute() && at.is_dir())
        .unwrap_or_else(|| home.join(known.directory));
    let below = |part: &&str| {
        if part.is_empty() {
            top.clone()
        } else {
            top.join(part)
        }
    };
    // A variable that names the home itself, or a directory above it, names no toolchain.
    let is_shown = |at: &PathBuf| at.exists() && !home.starts_with(at);
    let parts = known.parts.iter().map(below).filter(is_shown);
    let part = |at: PathBuf| Toolchain {
        from: at.clone(),
        at,
        path: Vec::new(),
        env: Vec::new(),
    };
    let mut found: Vec<Toolchain> = if home.starts_with(&top) {
        Vec::new()
    } else {
        parts.map(part).collect()
    };
    // Variables and search paths belong to the directory as a whole, so they are given once, with its first
    // part.
    if let Some(first) = found.first_mut() {
        first.path = known.path.iter().map(below).collect();
        first.env = known
            .variable
            .map(|name| (name.into(), top.clone().into()))
            .into_iter()
            .collect();
    }
    found
}

/// nvm chooses through shell functions, which a sandbox does not have: it gets the newest version.
fn newest_node(home: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(home.join(".nvm/versions/node")).ok()?;
    let newest = versions
        .flatten()
        .map(|entry| entry.path())
        // By number: as text, `v9` would be newer than `v18`.
        .max_by_key(|path| version_of(path))?;
    Some(newest.join("bin"))
}

fn version_of(path: &Path) -> Vec<u64> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    name.trim_start_matches('v')
        .split('.')
        .filter_map(|part| part.parse().ok())
        .collect()
}

fn bin_only(shown: &Path, bin: PathBuf) -> Toolchain {
    Toolchain {
        from: shown.to_owned(),
        at: shown.to_owned(),
        path: vec![bin],
        env: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_found_and_credentials_are_not_shown() {
        let home = tempfile::tempdir().unwrap();
        for directory in [
            ".cargo/bin",
            ".cargo/registry",
            ".rustup/toolchains",
            ".rustup/own",
            ".ssh",
            ".local/share/uv/credentials",
            ".dotnet/corefx/cryptography",
            ".npm-global/etc",
            ".volta/log",
            "miniconda3/condarc.d",
        ] {
            std::fs::create_dir_all(home.path().join(directory)).unwrap();
        }
        std::fs::write(home.path().join(".rustup/settings.toml"), "").unwrap();
        let found = toolchains(home.path(), &[], None);
        let shown: Vec<&Path> = found
            .iter()
            .map(|one| one.from.strip_prefix(home.path()).unwrap())
            .collect();
        assert_eq!(
            shown,
            [".cargo/bin", ".rustup/toolchains", ".rustup/settings.toml"].map(Path::new)
        );
        assert_eq!(found[0].path, [home.path().join(".cargo/bin")]);
        assert_eq!(
            found[1].env,
            [("RUSTUP_HOME".into(), home.path().join(".rustup").into())]
        );
    }

    #[test]
    fn variables_of_the_user_say_where_toolchains_are() {
        let (home, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for directory in ["cargo/bin", "toolchains"] {
            std::fs::create_dir_all(disk.path().join(directory)).unwrap();
        }
        let pair = |name: &str, path: PathBuf| (OsString::from(name), OsString::from(path));
        let caller = [
            pair("RUSTUP_HOME", disk.path().to_owned()),
            pair("CARGO_HOME", disk.path().join("cargo")),
        ];
        let found = toolchains(home.path(), &caller, None);
        let shown: Vec<&Path> = found.iter().map(|one| one.at.as_path()).collect();
        assert_eq!(
            shown,
            [&disk.path().join("toolchains"), &disk.path().join("cargo/bin")]
        );
        assert_eq!(found[0].env, [pair("RUSTUP_HOME", disk.path().to_owned())]);
        let above = pair("RUSTUP_HOME", home.path().parent().unwrap().to_owned());
        assert!(
            toolchains(home.path(), &[above], None).is_empty(),
            "the home would be in it"
        );
    }

    #[test]
    fn the_interpreter_of_an_environment_is_shown_if_it_is_one() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (home, project) = (place.join("home"), place.join("home/project"));
        for directory in [
            "home/project/.venv/bin",
            "python/bin",
            "python/lib/python3.12",
            "home/.ssh/bin",
        ] {
            std::fs::create_dir_all(place.join(directory)).unwrap();
        }
        for file in [
            "python/bin/python3.12",
            "python/lib/python3.12/os.py",
            "home/.ssh/bin/python3",
        ] {
            std::fs::write(place.join(file), "").unwrap();
        }
        let link = project.join(".venv/bin/python");
        std::os::unix::fs::symlink(place.join("python/bin/python3.12"), &link).unwrap();
        let shown = || {
            toolchains(&home, &[], Some(&project))
                .into_iter()
                .map(|one| one.at)
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(), [place.join("python")]);
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(home.join(".ssh/bin/python3"), &link).unwrap();
        assert_eq!(shown(), Vec::<PathBuf>::new());
    }

    #[test]
    fn pyenv_and_uv_are_found() {
        let home = tempfile::tempdir().unwrap();
        for directory in [".pyenv/shims", ".local/share/uv/python", ".local/bin"] {
            std::fs::create_dir_all(home.path().join(directory)).unwrap();
        }
        let found = toolchains(home.path(), &[], None);
        let path: Vec<PathBuf> = found.iter().flat_map(|one| one.path.clone()).collect();
        assert_eq!(
            path,
            [".pyenv/shims", ".pyenv/bin", ".local/bin"].map(|part| home.path().join(part))
        );
        let root = ("PYENV_ROOT".into(), home.path().join(".pyenv").into());
        assert!(found.iter().any(|one| one.env.contains(&root)));
        assert!(
            found
                .iter()
                .any(|one| one.at == home.path().join(".local/share/uv/python"))
        );
    }

    #[test]
    fn the_newest_node_of_nvm_is_in_the_path() {
        let home = tempfile::tempdir().unwrap();
        for version in ["v9.11.2", "v22.1.0", "v18.20.4"] {
            std::fs::create_dir_all(home.path().join(".nvm/versions/node").join(version).join("bin"))
                .unwrap();
        }
        let path: Vec<PathBuf> = toolchains(home.path(), &[], None)
            .into_iter()
            .flat_map(|one| one.path)
            .collect();
        assert_eq!(path, [home.path().join(".nvm/versions/node/v22.1.0/bin")]);
    }
}
