//! Files in directories of toolchains that hold credentials, and are covered inside by harmless replacements.
//!
//! Directories of toolchains are shown as an allow-list, but some files in them are settings of the user:
//! `npm config set -g` writes into the installation of node. Only the usual places of such files are
//! searched: not packages and libraries, which are too many, and into which people do not write credentials.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Toolchain;
use super::credentials::{INSPECTED_BYTES, is_inspected_in_toolchain, is_secret_in_toolchain};

/// A file that is replaced inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CoveredFile {
    /// The file on the host.
    pub(crate) from: PathBuf,
    /// Its path inside.
    pub(crate) at: PathBuf,
}

impl CoveredFile {
    /// The replacement: the shortest contents that its tool accepts.
    pub(crate) fn contents(&self) -> &'static [u8] {
        match self.at.extension().and_then(|extension| extension.to_str()) {
            Some("json") => b"{}\n",
            None if self.at.ends_with("conda-meta/state") => b"{}\n",
            Some("xml") => b"<settings/>\n",
            _ => b"",
        }
    }
}

/// How deep below the directory of a toolchain settings may be.
const DEEPEST: usize = 6;

/// Directory entries that are examined, for all toolchains of a run together.
const MOST_ENTRIES: usize = 50_000;

/// Directories of packages and libraries.
const NOT_SETTINGS: [&str; 12] = [
    "Lib",
    "doc",
    "docs",
    "include",
    "lib",
    "lib64",
    "man",
    "node_modules",
    "objects",
    "share",
    "site-packages",
    "src",
];

/// The only one of them whose directories may be repositories: `pip install -e git+https://…` puts them
/// there.
const SOURCES: &str = "src";

/// Directories of which only the files are settings: their subdirectories are packages.
const FLAT: [&str; 3] = ["bin", "conda-meta", "pkgs"];

/// The only package into which the user writes settings, below a directory for libraries or among packages.
const NPM: [&str; 2] = ["node_modules/npm/npmrc", "npm/npmrc"];

/// The covered files of these toolchains.
pub(crate) fn covered(toolchains: &[Toolchain]) -> Vec<CoveredFile> {
    let mut walk = CoveredSearch {
        top: PathBuf::new(),
        left: MOST_ENTRIES,
        found: BTreeSet::new(),
    };
    // Parts of one installation can be listed more than once.
    let places: BTreeSet<&Path> = toolchains
        .iter()
        .map(|toolchain| toolchain.from.as_path())
        .collect();
    places.into_iter().for_each(|place| walk.place(place));
    let cover = |file: PathBuf| {
        let shown = toolchains.iter().filter_map(|toolchain| {
            let below = below(&file, &toolchain.from)?;
            Some(CoveredFile {
                from: file.clone(),
                at: toolchain.at.join(below),
            })
        });
        shown.collect::<Vec<_>>()
    };
    let mut covered: Vec<CoveredFile> = walk.found.into_iter().flat_map(cover).collect();
    covered.dedup();
    covered
}

fn below(file: &Path, place: &Path) -> Option<PathBuf> {
    let real = || {
        file.strip_prefix(place.canonicalize().ok()?)
            .map(Path::to_owned)
            .ok()
    };
    file.strip_prefix(place).map(Path::to_owned).ok().or_else(real)
}

/// The parts of a directory to show if covering is impossible: the whole directory, or everything in it but
/// the covered files.
pub(crate) fn beside(place: &Path, covered: &[CoveredFile]) -> Vec<PathBuf> {
    let is_below = |one: &CoveredFile| one.from.starts_with(place);
    if !covered.iter().any(is_below) {
        return vec![place.to_owned()];
    }
    // If it cannot be listed, it is a file or inaccessible.
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    entries.flat_map(|entry| beside(&entry.path(), covered)).collect()
}

struct CoveredSearch {
    /// The directory above the searched one: paths are evaluated relative to it.
    top: PathBuf,
    left: usize,
    found: BTreeSet<PathBuf>,
}

impl CoveredSearch {
    fn place(&mut self, place: &Path) {
        // The parts of an installation are shown one by one: the name of a part is relevant as well.
        self.top = place.parent().unwrap_or(place).to_owned();
        if place.is_dir() {
            self.directory(place, DEEPEST)
        } else {
            self.file(place)
        }
    }

    /// Downloaded sources are shown with the repositories that they came from.
    fn sources(&mut self, directory: &Path) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let Some(left) = self.left.checked_sub(1) else {
                return;
            };
            self.left = left;
            let source = entry.path();
            let git = source.join(".git");
            self.file(&source.join(".gitmodules"));
            if git.is_dir() {
                self.directory(&git, DEEPEST);
            }
        }
    }

    fn directory(&mut self, directory: &Path, depth: usize) {
        let is = |names: &[&str]| names.iter().any(|name| directory.ends_with(name));
        if is(&NOT_SETTINGS) {
            if directory.ends_with(SOURCES) {
                self.sources(directory);
            }
            return NPM.iter().for_each(|npm| self.file(&directory.join(npm)));
        }
        // A directory that the user of the run cannot list needs no covering.
        let Ok(entries) = std::fs::read_dir(directory) else {
            return;
        };
        for entry in entries.flatten() {
            let Some(left) = self.left.checked_sub(1) else {
                return;
            };
            self.left = left;
            match entry.file_type() {
                // A link to a directory is not one here: `file_type` does not follow it, so the walk cannot
                // loop.
                Ok(kind) if kind.is_dir() && depth > 1 && !is(&FLAT) => {
                    self.directory(&entry.path(), depth - 1);
                }
                Ok(kind) if kind.is_dir() => {}
                Ok(_) | Err(_) => self.file(&entry.path()),
            }
        }
    }

    /// Links are followed: their target may be shown under a name of its own.
    fn file(&mut self, path: &Path) {
        let below = path
            .strip_prefix(&self.top)
            .unwrap_or(path)
            .as_os_str()
            .as_bytes();
        if !is_inspected_in_toolchain(below) {
            return;
        }
        let Ok(found) = path.symlink_metadata() else {
            return;
        };
        let real = if found.is_symlink() {
            path.canonicalize().ok()
        } else {
            Some(path.to_owned())
        };
        if let Some(real) = real.filter(|real| real.is_file() && looks_secret(below, real)) {
            self.found.insert(real);
        }
    }
}

/// A file that is too large to inspect, or unreadable, counts as secret.
fn looks_secret(below: &[u8], real: &Path) -> bool {
    let is_small = real.metadata().is_ok_and(|found| found.len() <= INSPECTED_BYTES);
    let bytes = is_small.then(|| std::fs::read(real).ok()).flatten();
    // In doubt it is covered: a tool that misses its settings is a smaller harm than a shown credential.
    bytes.is_none_or(|bytes| is_secret_in_toolchain(below, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(files: &[(&str, &str)]) -> (tempfile::TempDir, Vec<Toolchain>) {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = place.path().join("tool").join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let from = place.path().join("tool");
        let toolchain = Toolchain {
            from,
            at: "/at".into(),
            path: Vec::new(),
            env: Vec::new(),
        };
        (place, vec![toolchain])
    }

    const SECRET: &str = "//npm.example.com/:_authToken=x\n";

    #[test]
    fn settings_with_credentials_are_covered_and_others_are_not() {
        let (place, toolchains) = place(&[
            ("node/v1/etc/npmrc", SECRET),
            ("node/v2/etc/npmrc", "fund=false\n"),
            ("node/v1/lib/node_modules/npm/npmrc", SECRET),
            ("node/v1/lib/node_modules/other/.npmrc", SECRET),
            (
                "venvs/own/pipx_metadata.json",
                "{\"a\":\"https://me:x@pypi.example.com\"}",
            ),
            (
                "envs/e/src/own/.git/config",
                "url = https://me:x@git.example.com/o/r\n",
            ),
            (
                "envs/e/src/own/.git/logs/refs/heads/main",
                "clone: from https://me:x@git.example.com/o/r\n",
            ),
            (
                "envs/e/src/plain/.git/config",
                "url = https://git.example.com/o/r\n",
            ),
            ("python/v1/etc/own/x.cfg", "api_token: x\n"),
        ]);
        std::os::unix::fs::symlink("v1/etc/npmrc", place.path().join("tool/node/.npmrc")).unwrap();
        let covered = covered(&toolchains);
        let shown: Vec<(&str, &[u8])> = covered
            .iter()
            .map(|one| (one.at.to_str().unwrap(), one.contents()))
            .collect();
        let expected: [(&str, &[u8]); 6] = [
            ("/at/envs/e/src/own/.git/config", b""),
            ("/at/envs/e/src/own/.git/logs/refs/heads/main", b""),
            ("/at/node/v1/etc/npmrc", b""),
            ("/at/node/v1/lib/node_modules/npm/npmrc", b""),
            ("/at/python/v1/etc/own/x.cfg", b""),
            ("/at/venvs/own/pipx_metadata.json", b"{}\n"),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_link_to_a_credential_under_another_name_does_not_show_it() {
        let (place, toolchains) = place(&[("node/v1/mine", SECRET)]);
        std::fs::create_dir(place.path().join("tool/node/v1/etc")).unwrap();
        std::os::unix::fs::symlink("../mine", place.path().join("tool/node/v1/etc/npmrc")).unwrap();
        let covered = covered(&toolchains);
        assert_eq!(
            covered.iter().map(|one| &*one.at).collect::<Vec<_>>(),
            [Path::new("/at/node/v1/mine")]
        );
    }

    #[test]
    fn without_covering_only_the_files_beside_are_shown() {
        let (place, toolchains) = place(&[
            ("a/etc/npmrc", SECRET),
            ("a/etc/x", ""),
            ("a/bin/y", ""),
            ("b/z", ""),
        ]);
        let tool = place.path().join("tool");
        let mut shown = beside(&tool, &covered(&toolchains));
        shown.sort();
        assert_eq!(shown, ["a/bin", "a/etc/x", "b"].map(|name| tool.join(name)));
        assert_eq!(beside(&tool, &[]), [tool]);
    }
}
