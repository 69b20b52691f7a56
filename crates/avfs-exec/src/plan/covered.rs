//! Files in directories of toolchains that hold credentials, and are covered inside by something that holds none.
//!
//! Directories of toolchains are shown by accept-list, but some of what is in them is settings of the user: `npm config set -g`
//! writes into the installation of node. Only where such files are put is looked for them: not among packages and libraries,
//! of which there are too many, and which nobody writes credentials into.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Toolchain;
use super::credentials::{INSPECTED_BYTES, is_inspected, is_secret};

/// A file that something else is shown in place of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Covered {
    /// The file on the host.
    pub(crate) from: PathBuf,
    /// Where it would be inside.
    pub(crate) at: PathBuf,
}

impl Covered {
    /// What is shown in its place: as little as its tool can read.
    pub(crate) fn contents(&self) -> &'static [u8] {
        match self.at.extension().and_then(|extension| extension.to_str()) {
            Some("json") => b"{}\n",
            Some("xml") => b"<settings/>\n",
            _ => b"",
        }
    }
}

/// How far below the directory of a toolchain settings are.
const DEEPEST: usize = 6;

/// Entries of directories that are looked at, for all toolchains of a run together.
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

/// Directories of which only the files are settings: what is below them are packages.
const FLAT: [&str; 3] = ["bin", "conda-meta", "pkgs"];

/// The one package that the user writes settings into, below a directory for libraries or among packages.
const NPM: [&str; 2] = ["node_modules/npm/npmrc", "npm/npmrc"];

/// What is covered of these toolchains.
pub(crate) fn covered(toolchains: &[Toolchain]) -> Vec<Covered> {
    let mut walk = Walk { left: MOST_ENTRIES, found: BTreeSet::new() };
    let places: BTreeSet<&Path> = toolchains.iter().map(|toolchain| toolchain.from.as_path()).collect();
    places.into_iter().for_each(|place| walk.place(place));
    let cover = |file: PathBuf| {
        let shown = toolchains.iter().filter_map(|toolchain| {
            let below = below(&file, &toolchain.from)?;
            Some(Covered { from: file.clone(), at: toolchain.at.join(below) })
        });
        shown.collect::<Vec<_>>()
    };
    let mut covered: Vec<Covered> = walk.found.into_iter().flat_map(cover).collect();
    covered.dedup();
    covered
}

fn below(file: &Path, place: &Path) -> Option<PathBuf> {
    let real = || file.strip_prefix(place.canonicalize().ok()?).map(Path::to_owned).ok();
    file.strip_prefix(place).map(Path::to_owned).ok().or_else(real)
}

/// What of a directory can be shown by somebody who can only show and not cover: all of it, or everything in it but the
/// covered files.
pub(crate) fn beside(place: &Path, covered: &[Covered]) -> Vec<PathBuf> {
    let is_below = |one: &Covered| one.from.starts_with(place);
    if !covered.iter().any(is_below) {
        return vec![place.to_owned()];
    }
    // What cannot be listed is a file, or closed to everybody.
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    entries.flat_map(|entry| beside(&entry.path(), covered)).collect()
}

struct Walk {
    left: usize,
    found: BTreeSet<PathBuf>,
}

impl Walk {
    fn place(&mut self, place: &Path) {
        match place.is_dir() {
            true => self.directory(place, DEEPEST),
            false => self.file(place),
        }
    }

    fn directory(&mut self, directory: &Path, depth: usize) {
        let is = |names: &[&str]| names.iter().any(|name| directory.ends_with(name));
        if is(&NOT_SETTINGS) {
            return NPM.iter().for_each(|npm| self.file(&directory.join(npm)));
        }
        // What the user of the run may not list either has nothing to cover.
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            let Some(left) = self.left.checked_sub(1) else { return };
            self.left = left;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth > 1 && !is(&FLAT) => {
                    self.directory(&entry.path(), depth - 1);
                }
                Ok(kind) if kind.is_dir() => {}
                Ok(_) | Err(_) => self.file(&entry.path()),
            }
        }
    }

    /// Links are followed: what they lead to may be shown under a name of its own.
    fn file(&mut self, path: &Path) {
        if !is_inspected(path.as_os_str().as_bytes()) {
            return;
        }
        let Ok(found) = path.symlink_metadata() else { return };
        let real = if found.is_symlink() { path.canonicalize().ok() } else { Some(path.to_owned()) };
        if let Some(real) = real.filter(|real| real.is_file() && looks_secret(path, real)) {
            self.found.insert(real);
        }
    }
}

/// What is too large to be looked into, or cannot be read, is in doubt.
fn looks_secret(path: &Path, real: &Path) -> bool {
    let is_small = real.metadata().is_ok_and(|found| found.len() <= INSPECTED_BYTES);
    let bytes = is_small.then(|| std::fs::read(real).ok()).flatten();
    bytes.is_none_or(|bytes| is_secret(path.as_os_str().as_bytes(), &bytes))
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
        let toolchain = Toolchain { from, at: "/at".into(), path: Vec::new(), env: Vec::new() };
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
            ("venvs/own/pipx_metadata.json", "{\"a\":\"https://me:x@pypi.example.com\"}"),
        ]);
        std::os::unix::fs::symlink("v1/etc/npmrc", place.path().join("tool/node/.npmrc")).unwrap();
        let covered = covered(&toolchains);
        let shown: Vec<(&str, &[u8])> =
            covered.iter().map(|one| (one.at.to_str().unwrap(), one.contents())).collect();
        let expected: [(&str, &[u8]); 3] = [
            ("/at/node/v1/etc/npmrc", b""),
            ("/at/node/v1/lib/node_modules/npm/npmrc", b""),
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
        assert_eq!(covered.iter().map(|one| &*one.at).collect::<Vec<_>>(), [Path::new("/at/node/v1/mine")]);
    }

    #[test]
    fn whoever_cannot_cover_shows_what_is_beside() {
        let (place, toolchains) =
            place(&[("a/etc/npmrc", SECRET), ("a/etc/x", ""), ("a/bin/y", ""), ("b/z", "")]);
        let tool = place.path().join("tool");
        let mut shown = beside(&tool, &covered(&toolchains));
        shown.sort();
        assert_eq!(shown, ["a/bin", "a/etc/x", "b"].map(|name| tool.join(name)));
        assert_eq!(beside(&tool, &[]), [tool]);
    }
}
