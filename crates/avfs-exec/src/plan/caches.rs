//! Caches of tools in the user's home, with earlier downloads and builds: shown inside, with a layer of the
//! run's own for all writes.
//!
//! As an allow-list: a directory that also holds credentials is shown in part.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::credentials::holds_credential;
use super::layout::can_have_cache;

/// One directory of a cache, or a file that tools keep beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCache {
    /// Its path inside, relative to the home there.
    pub below_home: PathBuf,
    /// The directory of the host, with links resolved; `None`: the host has none.
    pub from: Option<PathBuf>,
    /// Its own path outside of the home, at which it is also shown inside.
    pub also_at: Option<PathBuf>,
}

/// Caches of one tool.
struct KnownCache {
    /// The variable that contains their path.
    variable: Option<&'static str>,
    /// Their default path below the home.
    usual: &'static str,
    /// The parts that are caches; an empty name means all of it.
    parts: &'static [&'static str],
}

const fn known(
    variable: Option<&'static str>,
    usual: &'static str,
    parts: &'static [&'static str],
) -> KnownCache {
    KnownCache {
        variable,
        usual,
        parts,
    }
}

/// Entries of the directory for caches that programs share.
const IN_CACHE_HOME: &[&str] = &[
    "Cypress",
    "JNA",
    "bazel",
    "bazelisk",
    "black",
    "bun",
    "cabal",
    "ccache",
    "composer",
    "coursier",
    "deno",
    "electron",
    "electron-builder",
    "fontconfig",
    "go-build",
    "golangci-lint",
    "gopls",
    "hatch",
    "huggingface/datasets",
    "huggingface/hub",
    "matplotlib",
    "mise",
    "ms-playwright",
    "mypy",
    "nix",
    "node",
    "node-gyp",
    "nvim-lint",
    "pdm",
    "pip",
    "pip-tools",
    "pnpm",
    "pre-commit",
    "prisma",
    "puppeteer",
    "pylint",
    "pypoetry",
    "rebar3",
    "ruff",
    "rust-analyzer",
    "sccache",
    "staticcheck",
    "swc",
    "torch",
    "trunk",
    "turbo",
    "typescript",
    "uv",
    "virtualenv",
    "vscode-ripgrep",
    "wasm-pack",
    ".wasm-pack",
    "yarn",
    "zig",
];

/// Sources of dependencies. Builds record their paths: if these differed inside, everything would be built
/// again. So they keep the paths from the user's variables.
struct CachedSources {
    /// The variable of the cache.
    cache: &'static str,
    /// Their paths in it.
    parts: &'static [&'static str],
    /// The variable that names them inside. The variable of the cache may include more, which would have to
    /// be writable.
    variable: &'static str,
    /// The suffix of that variable's value after the path of the cache.
    below: &'static str,
}

const SOURCES: &[CachedSources] = &[
    CachedSources {
        cache: "CARGO_HOME",
        parts: &["registry", "git"],
        variable: "CARGO_HOME",
        below: "",
    },
    CachedSources {
        cache: "GOMODCACHE",
        parts: &[""],
        variable: "GOMODCACHE",
        below: "",
    },
    CachedSources {
        cache: "GOPATH",
        parts: &["pkg/mod"],
        variable: "GOMODCACHE",
        below: "pkg/mod",
    },
];

/// More specific entries come first.
const KNOWN: &[KnownCache] = &[
    known(
        Some("CARGO_HOME"),
        ".cargo",
        // The files are its locks and its records of last use.
        &[
            "registry",
            "git",
            ".package-cache",
            ".package-cache-mutate",
            ".global-cache",
        ],
    ),
    known(
        Some("npm_config_cache"),
        ".npm",
        &["_cacache", "_npx", "_prebuilds", "_libvips"],
    ),
    known(Some("PIP_CACHE_DIR"), ".cache/pip", &[""]),
    known(Some("UV_CACHE_DIR"), ".cache/uv", &[""]),
    known(Some("GOCACHE"), ".cache/go-build", &[""]),
    known(Some("GOMODCACHE"), "go/pkg/mod", &[""]),
    known(Some("GOPATH"), "go", &["pkg/mod", "pkg/sumdb"]),
    known(
        Some("GRADLE_USER_HOME"),
        ".gradle",
        &["caches", "wrapper", "native", "jdks", "build-scan-data"],
    ),
    known(Some("YARN_CACHE_FOLDER"), ".cache/yarn", &[""]),
    known(Some("CCACHE_DIR"), ".cache/ccache", &[""]),
    known(Some("SCCACHE_DIR"), ".cache/sccache", &[""]),
    known(Some("DENO_DIR"), ".cache/deno", &[""]),
    known(Some("PLAYWRIGHT_BROWSERS_PATH"), ".cache/ms-playwright", &[""]),
    known(Some("PRE_COMMIT_HOME"), ".cache/pre-commit", &[""]),
    known(Some("PNPM_HOME"), ".local/share/pnpm", &[""]),
    known(Some("NUGET_PACKAGES"), ".nuget/packages", &[""]),
    known(Some("XDG_CACHE_HOME"), ".cache", IN_CACHE_HOME),
    known(None, ".m2", &["repository", "wrapper"]),
    known(None, ".ivy2", &["cache", "local"]),
    known(None, ".sbt", &["boot", "launchers"]),
    known(None, ".ccache", &[""]),
    known(None, ".yarn", &["berry"]),
    known(None, ".bun", &["install"]),
    known(None, ".local/share/virtualenvs", &[""]),
    known(None, ".virtualenvs", &[""]),
    known(None, ".local/share/hatch", &["env"]),
    known(None, ".local/share/NuGet", &["v3-cache", "http-cache"]),
    known(None, ".pub-cache", &["hosted", "hosted-hashes", "git"]),
    known(None, ".hex", &["packages", "cache.ets"]),
    known(None, ".mix", &["archives", "elixir"]),
    known(None, ".cabal", &["packages", "store"]),
    known(None, ".stack", &["pantry", "snapshots"]),
    known(None, ".konan", &["cache", "dependencies"]),
    known(None, ".electron-gyp", &[""]),
    known(None, ".node-gyp", &[""]),
];

/// Settings of tools, which are shown if they contain nothing that looks like a credential.
const SETTINGS: &[&str] = &[
    ".cargo/config.toml",
    ".cargo/config",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".config/pnpm/rc",
    ".bunfig.toml",
    ".config/pip/pip.conf",
    ".pip/pip.conf",
    ".config/uv/uv.toml",
    ".config/pypoetry/config.toml",
    ".config/go/env",
    ".condarc",
    ".config/ccache/ccache.conf",
];

/// The caches of the user whose home on the host is `home`, and whose environment is `caller`.
pub fn caches(home: &Path, caller: &[(OsString, OsString)]) -> Vec<HostCache> {
    let mut found: Vec<HostCache> = Vec::new();
    let named = |known: &KnownCache| known.variable.and_then(|name| variable_path(caller, name));
    // Directories named by variables come before the default ones, which may be at the same path inside.
    let mut known: Vec<(&KnownCache, Option<PathBuf>)> =
        KNOWN.iter().map(|known| (known, named(known))).collect();
    known.sort_by_key(|(_, named)| named.is_none());
    for (
        KnownCache {
            variable,
            usual,
            parts,
        },
        named,
    ) in known
    {
        // A directory outside of the home is shown where the tool expects it without the variable.
        let inside = named
            .as_deref()
            .and_then(|path| path.strip_prefix(home).ok())
            .unwrap_or(Path::new(usual));
        let from = named.clone().unwrap_or_else(|| home.join(usual));
        for part in *parts {
            let below_home = joined(inside, part);
            // Two layers over one directory would hide each other's contents.
            if below_home.as_os_str().is_empty() || found.iter().any(|other| overlap(other, &below_home)) {
                continue;
            }
            let path = joined(&from, part);
            let from = directory(&path, home);
            let holds_sources = variable.is_some_and(|name| is_sources(name, part));
            let is_elsewhere = holds_sources && from.is_some() && !path.starts_with(home);
            let also_at = (is_elsewhere && can_have_cache(&path)).then_some(path);
            found.push(HostCache {
                below_home,
                from,
                also_at,
            });
        }
    }
    found
}

fn is_sources(cache: &str, part: &str) -> bool {
    SOURCES
        .iter()
        .any(|sources| sources.cache == cache && sources.parts.contains(&part))
}

/// The settings of tools that can be shown, relative to the home.
pub fn tool_settings(home: &Path) -> Vec<PathBuf> {
    let is_plain = |path: &&&str| {
        let file = home.join(path);
        let is_file = file.symlink_metadata().is_ok_and(|found| found.is_file());
        // A link is left out as well: what it leads to was not inspected.
        is_file && std::fs::read(&file).is_ok_and(|bytes| !holds_credential(&bytes))
    };
    SETTINGS.iter().filter(is_plain).map(PathBuf::from).collect()
}

/// The variables that name a path which is the same inside: one below the home, or sources that are shown
/// there.
pub(super) fn variables(
    home: &Path,
    shown: &[HostCache],
    caller: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let named = KNOWN.iter().filter_map(|known| known.variable);
    let kept = named.filter_map(|name| Some((name, variable_path(caller, name)?)));
    let in_home = kept.filter(|(_, path)| {
        path.strip_prefix(home)
            .is_ok_and(|below| !below.as_os_str().is_empty())
    });
    let of_sources = SOURCES.iter().filter_map(|sources| {
        let path = variable_path(caller, sources.cache)?;
        let is_shown = |part: &&str| {
            shown
                .iter()
                .any(|cache| cache.also_at == Some(joined(&path, part)))
        };
        sources
            .parts
            .iter()
            .any(is_shown)
            .then(|| (sources.variable, joined(&path, sources.below)))
    });
    in_home
        .chain(of_sources)
        .map(|(name, path)| (name.into(), path.into()))
        .collect()
}

fn joined(path: &Path, part: &str) -> PathBuf {
    if part.is_empty() {
        path.to_owned()
    } else {
        path.join(part)
    }
}

fn variable_path(caller: &[(OsString, OsString)], name: &str) -> Option<PathBuf> {
    let value = caller
        .iter()
        .find(|(known, _)| known == OsStr::new(name))
        .map(|(_, value)| value)?;
    let path = PathBuf::from(value);
    // `..` could lead out of the directory that is shown.
    let is_plain = path.components().all(|part| {
        matches!(
            part,
            std::path::Component::RootDir | std::path::Component::Normal(_)
        )
    });
    (path.is_absolute() && is_plain).then_some(path)
}

fn overlap(other: &HostCache, below_home: &Path) -> bool {
    other.below_home.starts_with(below_home) || below_home.starts_with(&other.below_home)
}

/// The user's own links are followed here, once. A link to the home or above it would show everything.
fn directory(path: &Path, home: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok().filter(|real| real.is_dir())?;
    (!home.starts_with(&real)).then_some(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(home: &Path, caller: &[(&str, &Path)]) -> Vec<(String, Option<PathBuf>)> {
        let caller: Vec<(OsString, OsString)> = caller
            .iter()
            .map(|(name, path)| (name.into(), path.into()))
            .collect();
        let all = caches(home, &caller).into_iter();
        all.map(|cache| (cache.below_home.display().to_string(), cache.from))
            .collect()
    }

    fn from(all: &[(String, Option<PathBuf>)], below_home: &str) -> Option<PathBuf> {
        let known = all.iter().find(|(path, _)| path == below_home);
        known
            .unwrap_or_else(|| panic!("{below_home} is no cache"))
            .1
            .clone()
    }

    #[test]
    fn caches_are_where_tools_look_for_them() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (home, disk) = (place.join("home"), place.join("disk"));
        for directory in [
            home.join(".cargo/registry"),
            home.join(".cargo/mine/git"),
            disk.join("pip"),
        ] {
            std::fs::create_dir_all(directory).unwrap();
        }
        let all = found(&home, &[]);
        assert_eq!(from(&all, ".cargo/registry"), Some(home.join(".cargo/registry")));
        assert_eq!(from(&all, ".npm/_cacache"), None, "kept in the layer alone");
        // Another directory in the home is at its own path; one outside is at the default path.
        let all = found(
            &home,
            &[
                ("CARGO_HOME", &home.join(".cargo/mine")),
                ("XDG_CACHE_HOME", &disk),
            ],
        );
        assert_eq!(from(&all, ".cargo/mine/git"), Some(home.join(".cargo/mine/git")));
        assert_eq!(from(&all, ".cache/typescript"), None);
        // The user's own links are followed, but not to the home itself.
        std::os::unix::fs::symlink(&disk, home.join(".cache")).unwrap();
        assert_eq!(from(&found(&home, &[]), ".cache/pip"), Some(disk.join("pip")));
        std::fs::create_dir_all(disk.join("huggingface")).unwrap();
        std::os::unix::fs::symlink(&place, disk.join("uv")).unwrap();
        assert_eq!(from(&found(&home, &[]), ".cache/uv"), None);
    }

    #[test]
    fn sources_keep_the_paths_that_builds_remember() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (home, disk) = (place.join("home"), place.join("disk"));
        for directory in [
            "home",
            "disk/cargo/registry",
            "disk/go/pkg/mod",
            "disk/npm/_cacache",
        ] {
            std::fs::create_dir_all(place.join(directory)).unwrap();
        }
        let pair = |name: &str, path: &str| (OsString::from(name), disk.join(path).into_os_string());
        let caller = [
            pair("CARGO_HOME", "cargo"),
            pair("GOPATH", "go"),
            pair("npm_config_cache", "npm"),
        ];
        let all = caches(&home, &caller);
        let also: Vec<&Path> = all.iter().filter_map(|cache| cache.also_at.as_deref()).collect();
        assert_eq!(also, [disk.join("cargo/registry"), disk.join("go/pkg/mod")]);
        let from = |below: &str| {
            all.iter()
                .find(|cache| cache.below_home == Path::new(below))
                .unwrap()
        };
        assert_eq!(
            from("go/pkg/mod").from,
            Some(disk.join("go/pkg/mod")),
            "and not what the home would have"
        );
        assert_eq!(from(".npm/_cacache").from, Some(disk.join("npm/_cacache")));
        let env = variables(&home, &all, &caller);
        assert_eq!(
            env,
            [pair("CARGO_HOME", "cargo"), pair("GOMODCACHE", "go/pkg/mod")]
        );
    }

    #[test]
    fn nothing_with_credentials_is_a_cache_or_beside_one() {
        let home = Path::new("/home/ada");
        let all = caches(home, &[]);
        for secret in [
            ".cargo/credentials.toml",
            ".npmrc",
            ".config/pip/pip.conf",
            ".local/share/uv/credentials/credentials.toml",
            ".gradle/gradle.properties",
            ".m2/settings.xml",
            ".m2/settings-security.xml",
            ".cache/huggingface/token",
            ".pub-cache/credentials.json",
            ".hex/hex.config",
            ".ivy2/.credentials",
            ".ssh/id_ed25519",
        ] {
            assert!(
                !all.iter()
                    .any(|cache| Path::new(secret).starts_with(&cache.below_home)),
                "{secret}"
            );
        }
    }

    #[test]
    fn settings_without_credentials_are_shown_and_links_are_not() {
        let home = tempfile::tempdir().unwrap();
        let settings = |text: &str| std::fs::write(home.path().join(".npmrc"), text).unwrap();
        settings("fund=false\n");
        assert_eq!(tool_settings(home.path()), [PathBuf::from(".npmrc")]);
        settings("//registry.npmjs.org/:_authToken=x\n");
        assert_eq!(tool_settings(home.path()), Vec::<PathBuf>::new());
        std::fs::remove_file(home.path().join(".npmrc")).unwrap();
        std::fs::write(home.path().join("elsewhere"), "").unwrap();
        std::os::unix::fs::symlink("elsewhere", home.path().join(".npmrc")).unwrap();
        assert_eq!(tool_settings(home.path()), Vec::<PathBuf>::new());
    }
}
