//! Compilers and interpreters that live in the user's home, where the sandbox shows nothing else.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::HOME;

/// A directory with programs, shown read-only at its own path: many of them know where they were installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    /// The directory on the host.
    pub from: PathBuf,
    /// Where it is inside.
    pub at: PathBuf,
    /// What goes to the front of `PATH`.
    pub path: Vec<PathBuf>,
    pub env: Vec<(OsString, OsString)>,
}

/// What is looked for below the home: the directory, what of it belongs in `PATH`, and a variable that names it.
/// Directories that also hold credentials (`.cargo`, `.npm`) are shown in part.
const KNOWN: &[(&str, &[&str], Option<&str>)] = &[
    (".cargo/bin", &[""], None),
    (".rustup", &[], Some("RUSTUP_HOME")),
    (".nvm/versions", &[], None),
    (".npm-global", &["bin"], None),
    (".local/share/fnm", &[], None),
    (".nodenv", &["shims", "bin"], Some("NODENV_ROOT")),
    (".pyenv", &["shims", "bin"], Some("PYENV_ROOT")),
    (".local/share/uv", &[], None),
    ("miniconda3", &[], None),
    ("miniforge3", &[], None),
    (".local/bin", &[""], None),
    (".local/pipx", &[], None),
    (".local/share/pipx", &[], None),
    (".local/share/pnpm", &[""], None),
    (".local/share/mise", &["shims"], None),
    (".asdf", &["shims", "bin"], None),
    (".volta", &["bin"], Some("VOLTA_HOME")),
    (".bun/bin", &[""], None),
    (".deno/bin", &[""], None),
    (".rbenv", &["shims", "bin"], Some("RBENV_ROOT")),
    (".sdkman/candidates", &[], None),
    ("go/bin", &[""], None),
    (".go", &["bin"], None),
    (".ghcup", &["bin"], None),
    (".elan", &["bin"], Some("ELAN_HOME")),
];

/// Finds the toolchains of the user whose home on the host is `home`.
pub fn toolchains(home: &Path) -> Vec<Toolchain> {
    let mut found: Vec<Toolchain> = KNOWN.iter().filter_map(|known| find(home, *known)).collect();
    for toolchain in &mut found {
        if toolchain.at.ends_with(".cargo/bin") {
            // Cargo writes here; its programs are found by `PATH`, its credentials stay outside.
            toolchain.env.push(("CARGO_HOME".into(), format!("{HOME}/.cargo").into()));
        }
    }
    found.extend(cargo_home(&home.join(".cargo")));
    let node = newest_node(home).map(|bin| bin_only(&home.join(".nvm/versions"), bin));
    found.extend(node);
    found
}

/// What cargo has downloaded, so that it builds without a network, and where it was told to look for it. Cargo's home
/// inside is its own: it keeps its locks there.
fn cargo_home(host: &Path) -> Vec<Toolchain> {
    let shown = |part: &str| Toolchain {
        from: host.join(part),
        at: Path::new(HOME).join(".cargo").join(part),
        path: Vec::new(),
        env: Vec::new(),
    };
    let downloaded = ["registry", "git"].into_iter().filter(|part| host.join(part).is_dir());
    let settings = ["config.toml"].into_iter().filter(|part| holds_no_credential(&host.join(part)));
    downloaded.chain(settings).map(shown).collect()
}

/// Cargo reads tokens from its settings too.
fn holds_no_credential(file: &Path) -> bool {
    const SUSPICIOUS: [&str; 5] = ["token", "secret", "password", "credential", "@"];
    let text = std::fs::read_to_string(file).map(|text| text.to_ascii_lowercase());
    text.is_ok_and(|text| !SUSPICIOUS.iter().any(|word| text.contains(word)))
}

fn find(home: &Path, (directory, path, variable): (&str, &[&str], Option<&str>)) -> Option<Toolchain> {
    let at = home.join(directory);
    at.is_dir().then(|| Toolchain {
        from: at.clone(),
        path: path.iter().map(|part| if part.is_empty() { at.clone() } else { at.join(part) }).collect(),
        env: variable.map(|name| (name.into(), at.clone().into())).into_iter().collect(),
        at,
    })
}

/// nvm chooses by shell functions, which a sandbox does not have: it gets the newest version.
fn newest_node(home: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(home.join(".nvm/versions/node")).ok()?;
    let newest = versions.flatten().map(|entry| entry.path()).max_by_key(|path| version_of(path))?;
    Some(newest.join("bin"))
}

fn version_of(path: &Path) -> Vec<u64> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.trim_start_matches('v').split('.').filter_map(|part| part.parse().ok()).collect()
}

fn bin_only(shown: &Path, bin: PathBuf) -> Toolchain {
    Toolchain { from: shown.to_owned(), at: shown.to_owned(), path: vec![bin], env: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_and_credentials_are_not_shown() {
        let home = tempfile::tempdir().unwrap();
        for directory in [".cargo/bin", ".cargo/registry", ".rustup/toolchains", ".ssh"] {
            std::fs::create_dir_all(home.path().join(directory)).unwrap();
        }
        let found = toolchains(home.path());
        let shown: Vec<&Path> = found.iter().map(|one| one.from.strip_prefix(home.path()).unwrap()).collect();
        assert_eq!(shown, [".cargo/bin", ".rustup", ".cargo/registry"].map(Path::new));
        assert_eq!(found[0].path, [home.path().join(".cargo/bin")]);
        assert_eq!(found[0].env, [("CARGO_HOME".into(), "/home/agent/.cargo".into())]);
        assert_eq!(found[1].env, [("RUSTUP_HOME".into(), home.path().join(".rustup").into())]);
    }

    #[test]
    fn what_cargo_has_downloaded_is_shown_in_a_home_of_its_own() {
        let home = tempfile::tempdir().unwrap();
        for directory in [".cargo/registry", ".cargo/git"] {
            std::fs::create_dir_all(home.path().join(directory)).unwrap();
        }
        let at = || toolchains(home.path()).into_iter().map(|one| one.at).collect::<Vec<_>>();
        let own = |part: &str| Path::new("/home/agent/.cargo").join(part);
        assert_eq!(at(), [own("registry"), own("git")]);
        let settings = |text: &str| std::fs::write(home.path().join(".cargo/config.toml"), text).unwrap();
        settings("[net]\ngit-fetch-with-cli = true\n");
        assert_eq!(at(), [own("registry"), own("git"), own("config.toml")]);
        for secret in ["[registries.own]\ntoken = \"t\"\n", "[http]\nproxy = \"http://me:hush@proxy\"\n"] {
            settings(secret);
            assert_eq!(at(), [own("registry"), own("git")], "{secret}");
        }
    }

    #[test]
    fn pyenv_and_uv_are_found() {
        let home = tempfile::tempdir().unwrap();
        for directory in [".pyenv/shims", ".local/share/uv/python", ".local/bin"] {
            std::fs::create_dir_all(home.path().join(directory)).unwrap();
        }
        let found = toolchains(home.path());
        let path: Vec<PathBuf> = found.iter().flat_map(|one| one.path.clone()).collect();
        assert_eq!(path, [".pyenv/shims", ".pyenv/bin", ".local/bin"].map(|part| home.path().join(part)));
        let root = ("PYENV_ROOT".into(), home.path().join(".pyenv").into());
        assert!(found.iter().any(|one| one.env.contains(&root)));
        assert!(found.iter().any(|one| one.at == home.path().join(".local/share/uv")));
    }

    #[test]
    fn the_newest_node_of_nvm_is_in_the_path() {
        let home = tempfile::tempdir().unwrap();
        for version in ["v9.11.2", "v22.1.0", "v18.20.4"] {
            std::fs::create_dir_all(home.path().join(".nvm/versions/node").join(version).join("bin"))
                .unwrap();
        }
        let path: Vec<PathBuf> = toolchains(home.path()).into_iter().flat_map(|one| one.path).collect();
        assert_eq!(path, [home.path().join(".nvm/versions/node/v22.1.0/bin")]);
    }
}
