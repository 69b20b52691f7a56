//! Files in a project that contain its absolute path, so that a copy of it elsewhere leads back into it.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

/// How many entries are examined, and how deep below the top. Only the usual files near the top of projects
/// are read, never all.
const ENTRIES: usize = 4_000;
const DEPTH: usize = 3;

/// Never looked into: many files, and none that others run.
const PASSED_OVER: &[&str] = &[".git", "node_modules", "target"];

/// Files by which a directory is known to name its own place.
const SIGNS: &[(&str, &str)] = &[
    (
        "pyvenv.cfg",
        "a Python environment, whose programs name their own place",
    ),
    (
        "CMakeCache.txt",
        "a build directory of CMake, which names its own place",
    ),
    ("build.ninja", "a build directory, which names its own place"),
    ("config.status", "a build directory, which names its own place"),
];

/// Something that leads back, in words for the user.
#[derive(Debug, PartialEq, Eq)]
pub struct LeadsBack {
    root: PathBuf,
    /// From the top of the project.
    path: PathBuf,
    what: &'static str,
}

impl LeadsBack {
    /// The first such thing near the top of a project.
    pub fn find(root: &Path) -> Option<LeadsBack> {
        let found = |path: &Path, what| {
            let path = path.strip_prefix(root).unwrap_or(path).to_owned();
            LeadsBack {
                root: root.to_owned(),
                path,
                what,
            }
        };
        if let Some(what) = sign(root) {
            return Some(found(root, what));
        }
        let mut directories = VecDeque::from([(root.to_owned(), 0)]);
        let mut left = ENTRIES;
        while let Some((directory, depth)) = directories.pop_front() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                left = left.checked_sub(1)?;
                let path = entry.path();
                if is_link_into(root, &entry) {
                    return Some(found(&path, "a link with an absolute path"));
                }
                if is_looked_into(&entry) {
                    if let Some(what) = sign(&path) {
                        return Some(found(&path, what));
                    }
                    directories.extend((depth < DEPTH).then_some((path, depth + 1)));
                }
            }
        }
        None
    }
}

fn sign(directory: &Path) -> Option<&'static str> {
    SIGNS
        .iter()
        .find(|(sign, _)| directory.join(sign).exists())
        .map(|(_, what)| *what)
}

fn is_link_into(root: &Path, entry: &DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_symlink())
        && fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(root))
}

fn is_looked_into(entry: &DirEntry) -> bool {
    let passed_over = |name: &OsStr| PASSED_OVER.iter().any(|other| name == *other);
    entry.file_type().is_ok_and(|kind| kind.is_dir()) && !passed_over(&entry.file_name())
}

impl fmt::Display for LeadsBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printable = |path: &Path| crate::escape::printable_os(path.as_os_str()).to_string();
        let path = if self.path.as_os_str().is_empty() {
            "the project"
        } else {
            &printable(&self.path)
        };
        write!(
            f,
            "a copy elsewhere would lead back into {}: {path} is {}",
            printable(&self.root),
            self.what
        )
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[track_caller]
    fn check(make: impl FnOnce(&Path), expected: Option<&str>) {
        let project = tempfile::tempdir().unwrap();
        let root = project.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("src/deep/deeper")).unwrap();
        make(&root);
        let found = LeadsBack::find(&root).map(|found| found.path.display().to_string());
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn files_and_links_that_name_their_own_place_are_found() {
        check(|_| {}, None);
        check(|root| fs::write(root.join("pyvenv.cfg"), "").unwrap(), Some(""));
        let venv = |root: &Path| {
            fs::create_dir_all(root.join("backend/.venv")).unwrap();
            fs::write(root.join("backend/.venv/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
        };
        check(venv, Some("backend/.venv"));
        check(
            |root| symlink(root.join("src"), root.join("current")).unwrap(),
            Some("current"),
        );
    }

    #[test]
    fn links_within_or_out_of_the_project_are_not_found() {
        check(|root| symlink("src", root.join("current")).unwrap(), None);
        check(
            |root| symlink("/usr/bin/python3", root.join("python")).unwrap(),
            None,
        );
        let packages = |root: &Path| {
            fs::create_dir_all(root.join("node_modules/a")).unwrap();
            fs::write(root.join("node_modules/a/CMakeCache.txt"), "").unwrap();
        };
        check(packages, None);
    }

    #[test]
    fn many_files_end_the_look_and_hide_nothing_near_the_top() {
        let many = |root: &Path| {
            fs::create_dir(root.join("data")).unwrap();
            (0..ENTRIES).for_each(|number| fs::write(root.join(format!("data/{number}")), "").unwrap());
        };
        check(many, None);
        let many_beside = |root: &Path| {
            many(root);
            fs::create_dir(root.join(".venv")).unwrap();
            fs::write(root.join(".venv/pyvenv.cfg"), "").unwrap();
        };
        check(many_beside, Some(".venv"));
    }
}
