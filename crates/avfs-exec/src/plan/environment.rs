//! The environment of a command: an allow-list of the caller's variables, and the given ones.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::caches::{HostCache, variables};
use super::credentials::holds_secret_address;
use super::{HOME, Toolchain};

/// Variables of the caller about the presentation for people. They grant no access.
const INHERITED: [&str; 9] = [
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "FORCE_COLOR",
];

/// Variables of the caller that define what is built and with which tools. Build tools record some of them:
/// with other values, everything would be built again.
const OF_BUILDS: [&str; 41] = [
    "AR",
    "CARGO_BUILD_JOBS",
    "CARGO_BUILD_TARGET",
    "CARGO_INCREMENTAL",
    "CARGO_TERM_COLOR",
    "CC",
    "CFLAGS",
    "CGO_CFLAGS",
    "CGO_ENABLED",
    "CGO_LDFLAGS",
    "CI",
    "CMAKE_BUILD_TYPE",
    "CMAKE_GENERATOR",
    "CPPFLAGS",
    "CXX",
    "CXXFLAGS",
    "GO111MODULE",
    "GOARCH",
    "GOEXPERIMENT",
    "GOFLAGS",
    "GOOS",
    "GOTOOLCHAIN",
    "GOWORK",
    "JAVA_HOME",
    "LD",
    "LDFLAGS",
    "MAKEFLAGS",
    "NODE_ENV",
    "NODENV_VERSION",
    "PKG_CONFIG_PATH",
    "PYENV_VERSION",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "RUSTC_WRAPPER",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
    "RUST_BACKTRACE",
    "RUST_LOG",
];

/// Read-only commands should change nothing and use no network: git does not refresh its index, and tools do
/// not check for newer versions.
const QUIET: [(&str, &str); 4] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("npm_config_update_notifier", "false"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("CHECKPOINT_DISABLE", "1"),
];

const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The directories of the system that are the same inside.
const SYSTEM: [&str; 3] = ["/usr", "/bin", "/sbin"];

/// The parts of the host that are inside at their own paths, beside toolchains.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnPaths<'a> {
    /// The directory that the workspace stands for.
    pub project: Option<&'a Path>,
    /// The user's home.
    pub home: Option<&'a Path>,
    /// The visible parts of the home.
    pub caches: &'a [HostCache],
}

impl OwnPaths<'_> {
    fn has(&self, path: &Path) -> bool {
        let is_cached = |home: &Path| {
            let below = path.strip_prefix(home);
            below.is_ok_and(|below| {
                self.caches
                    .iter()
                    .any(|cache| below.starts_with(&cache.below_home))
            })
        };
        self.project.is_some_and(|project| path.starts_with(project)) || self.home.is_some_and(is_cached)
    }
}

/// The environment inside: the allowed part of `caller`, variables of toolchains, and `given`, which takes
/// precedence.
pub fn environment(
    caller: &[(OsString, OsString)],
    toolchains: &[Toolchain],
    own: OwnPaths<'_>,
    given: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let mut env = fixed();
    let searched = caller
        .iter()
        .find(|(name, _)| name == "PATH")
        .map(|(_, path)| path.as_os_str());
    let path = (
        "PATH".into(),
        search_path(searched.unwrap_or_default(), toolchains, own),
    );
    let of_toolchains = toolchains.iter().flat_map(|toolchain| &toolchain.env);
    let allowed = caller.iter().filter(|(name, value)| is_inherited(name, value));
    // An activated environment must exist inside.
    let activated = caller
        .iter()
        .filter(|(name, value)| name == "VIRTUAL_ENV" && own.has(Path::new(value)));
    let of_caches = own
        .home
        .map(|home| variables(home, own.caches, caller))
        .unwrap_or_default();
    let of_caller = allowed.chain(activated).chain(&of_caches);
    for (name, value) in of_caller.chain(of_toolchains).chain([&path]).chain(given) {
        set(&mut env, name, value);
    }
    env
}

fn fixed() -> Vec<(OsString, OsString)> {
    let pairs = [
        ("HOME", HOME),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
        ("SHELL", "/bin/bash"),
        ("TMPDIR", "/tmp"),
        ("PATH", SYSTEM_PATH),
        ("LANG", "C.UTF-8"),
    ];
    pairs
        .into_iter()
        .chain(QUIET)
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// Whether a variable of the caller is passed on. A variable with a credential never is.
pub fn is_inherited(name: &OsStr, value: &OsStr) -> bool {
    let is_of_builds = |name: &str| OF_BUILDS.contains(&name);
    let is_known = is_for_people(name) || name.to_str().is_some_and(is_of_builds);
    is_known && !holds_secret_address(value.as_bytes())
}

/// Whether a variable only concerns the presentation for people: language, terminal, colours.
pub fn is_for_people(name: &OsStr) -> bool {
    name.to_str()
        .is_some_and(|name| INHERITED.contains(&name) || name.starts_with("LC_"))
}

/// The search path for programs. The caller has chosen one of several versions of a toolchain by the order of
/// `PATH`, so those of its directories that exist inside come first; then those of toolchains, then the
/// system's.
fn search_path(caller: &OsStr, toolchains: &[Toolchain], own: OwnPaths<'_>) -> OsString {
    let is_shown =
        |path: &PathBuf| toolchains.iter().any(|toolchain| path.starts_with(&toolchain.at)) || own.has(path);
    let is_system = |path: &PathBuf| SYSTEM.iter().any(|top| path.starts_with(top));
    let (system, elsewhere): (Vec<PathBuf>, Vec<PathBuf>) =
        std::env::split_paths(caller).partition(is_system);
    // A directory may be in `PATH` through a link that does not exist inside: to a home, or of a version
    // manager.
    let chosen = elsewhere.into_iter().filter_map(|path| {
        if is_shown(&path) {
            Some(path)
        } else {
            path.canonicalize().ok().filter(is_shown)
        }
    });
    let of_toolchains = toolchains
        .iter()
        .flat_map(|toolchain| toolchain.path.iter().cloned());
    let usual = std::env::split_paths(SYSTEM_PATH);
    let mut all: Vec<PathBuf> = Vec::new();
    for directory in chosen.chain(of_toolchains).chain(system).chain(usual) {
        if !all.contains(&directory) {
            all.push(directory);
        }
    }
    let words: Vec<&[u8]> = all
        .iter()
        .map(|directory| directory.as_os_str().as_bytes())
        .collect();
    OsString::from_vec(words.join(&b':'))
}

fn set(env: &mut Vec<(OsString, OsString)>, name: &OsStr, value: &OsStr) {
    match env.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value.to_owned(),
        None => env.push((name.to_owned(), value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        list.iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    fn value<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a str> {
        env.iter()
            .find(|(known, _)| known == name)
            .and_then(|(_, value)| value.to_str())
    }

    fn project(path: &str) -> OwnPaths<'_> {
        OwnPaths {
            project: Some(Path::new(path)),
            ..OwnPaths::default()
        }
    }

    #[test]
    fn build_settings_come_along_unless_they_hold_a_credential() {
        let caller = pairs(&[
            ("RUSTFLAGS", "-Cdebuginfo=1"),
            ("GOFLAGS", "-x=https://me:pw@host/"),
        ]);
        let env = environment(&caller, &[], OwnPaths::default(), &[]);
        assert_eq!(
            (value(&env, "RUSTFLAGS"), value(&env, "GOFLAGS")),
            (Some("-Cdebuginfo=1"), None)
        );
    }

    #[test]
    fn variables_that_name_what_is_inside_come_along() {
        let caches = [HostCache {
            below_home: ".local/share/pnpm".into(),
            from: None,
            also_at: None,
        }];
        let home = Some(Path::new("/home/ada"));
        let own = OwnPaths {
            home,
            caches: &caches,
            ..project("/home/ada/web")
        };
        let caller = pairs(&[
            ("VIRTUAL_ENV", "/home/ada/web/.venv"),
            ("CARGO_HOME", "/home/ada/cargo"),
            ("GOPATH", "/srv/go"),
            (
                "PATH",
                "/home/ada/web/.venv/bin:/home/ada/.local/share/pnpm:/home/ada/scripts:/usr/bin",
            ),
        ]);
        let env = environment(&caller, &[], own, &[]);
        assert_eq!(value(&env, "VIRTUAL_ENV"), Some("/home/ada/web/.venv"));
        assert_eq!(
            (value(&env, "CARGO_HOME"), value(&env, "GOPATH")),
            (Some("/home/ada/cargo"), None)
        );
        let path = value(&env, "PATH").unwrap();
        assert!(
            path.starts_with("/home/ada/web/.venv/bin:/home/ada/.local/share/pnpm:/usr/bin:"),
            "{path}"
        );
        let elsewhere = environment(&pairs(&[("VIRTUAL_ENV", "/srv/venv")]), &[], own, &[]);
        assert_eq!(value(&elsewhere, "VIRTUAL_ENV"), None);
    }

    #[test]
    fn a_link_in_the_path_is_followed_to_what_is_shown() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        std::fs::create_dir_all(place.join("fnm/v22/bin")).unwrap();
        std::os::unix::fs::symlink(place.join("fnm/v22"), place.join("chosen")).unwrap();
        let fnm = place.join("fnm");
        let shown = Toolchain {
            from: fnm.clone(),
            at: fnm.clone(),
            path: Vec::new(),
            env: Vec::new(),
        };
        let caller = [("PATH".into(), place.join("chosen/bin").into_os_string())];
        let env = environment(&caller, &[shown], OwnPaths::default(), &[]);
        let first = value(&env, "PATH").unwrap().split(':').next().map(PathBuf::from);
        assert_eq!(first, Some(fnm.join("v22/bin")));
    }

    #[test]
    fn secrets_and_loaders_of_the_caller_stay_outside() {
        let names = [
            "AWS_SECRET_ACCESS_KEY",
            "SSH_AUTH_SOCK",
            "LD_PRELOAD",
            "BASH_ENV",
            "PATH",
            "HOME",
        ];
        let caller: Vec<(&str, &str)> = names.iter().map(|name| (*name, "leak")).collect();
        let env = environment(&pairs(&caller), &[], OwnPaths::default(), &[]);
        assert!(env.iter().all(|(_, value)| value != "leak"), "{env:?}");
    }

    #[test]
    fn the_language_comes_along_and_what_is_given_wins() {
        let caller = pairs(&[("LANG", "de_DE.UTF-8"), ("LC_TIME", "C"), ("TERM", "xterm")]);
        let env = environment(
            &caller,
            &[],
            OwnPaths::default(),
            &pairs(&[("TERM", "dumb"), ("CI", "1")]),
        );
        assert_eq!(value(&env, "LANG"), Some("de_DE.UTF-8"));
        assert_eq!(value(&env, "LC_TIME"), Some("C"));
        assert_eq!(value(&env, "TERM"), Some("dumb"));
        assert_eq!(value(&env, "CI"), Some("1"));
    }

    #[test]
    fn the_caller_chooses_among_what_is_shown_by_the_own_path() {
        let node = |at: &str, first: &str| Toolchain {
            from: at.into(),
            at: at.into(),
            path: vec![first.into()],
            env: Vec::new(),
        };
        let toolchains = [
            node("/home/ada/.nvm", "/home/ada/.nvm/v22/bin"),
            node("/home/ada/bin", "/home/ada/bin"),
        ];
        let path = "/home/ada/.nvm/v20/bin:.:/home/ada/.ssh:/usr/local/go/bin:/src/web/.venv/bin:/usr/bin";
        let env = environment(&pairs(&[("PATH", path)]), &toolchains, project("/src/web"), &[]);
        assert_eq!(
            value(&env, "PATH"),
            Some(
                "/home/ada/.nvm/v20/bin:/src/web/.venv/bin:/home/ada/.nvm/v22/bin:/home/ada/bin:\
                 /usr/local/go/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin"
            )
        );
    }
}
