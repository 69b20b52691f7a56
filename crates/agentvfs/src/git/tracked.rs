//! Tracked files that the rules of a new task would hide: a key or a credential stays hidden, and everything
//! else is opened by a rule for its path alone
//! ([0023](../../../../docs/decisions/0023-hidden-and-tracked.md)).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use avfs_core::rules::{HidingNames, Level, Pattern, Preset, Rule, RuleOrigin, Rules};
use avfs_core::{Labels, TreePath};
use avfs_query::patch::blob_sha1;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::hidden::Levels;
use super::host::HostRepository;
use super::index::{GitIndex, IndexedPath};
use super::place::RepositoryPlace;
use super::secret::{self, Secret};
use avfs_transfer::beneath::HostRoot;

/// The origin of the rules that open tracked files.
const ORIGIN: &str = "tracked by git, and no secret";

/// The maximum number of files that are opened; further ones stay hidden.
const OPENED_MAX: usize = 1000;

/// How many files are inspected, and how much of them.
const LOOKED_AT: usize = 5000;
const READ_MAX: u64 = 64 << 20;

/// A file that rules hide, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenFile {
    /// Its path.
    pub path: TreePath,
    /// What in it should not be seen.
    pub why: Secret,
    /// git shows its contents, or its committed version, to everyone who has the repository.
    pub is_tracked: bool,
}

/// The tracked files that rules would hide, sorted.
#[derive(Debug, Default)]
pub(crate) struct SortedFiles {
    /// One for each file that is opened.
    pub(crate) opening: Vec<Rule>,
    /// The repositories that track such files: the project's own, and submodules.
    pub(crate) repositories: Vec<AffectedRepository>,
}

/// A repository with tracked files that rules would hide.
#[derive(Debug)]
pub(crate) struct AffectedRepository {
    /// Its git directory on the host.
    pub(super) own: PathBuf,
    /// Where in the project its files are.
    pub(super) files: TreePath,
    /// Paths from the root of the project.
    pub(super) opened: Vec<TreePath>,
    pub(super) hidden: Vec<HiddenFile>,
}

impl SortedFiles {
    /// Sorts the tracked files of a project. Files that cannot be read stay as the rules have them.
    pub(crate) fn of(project: &Path, rules: &[Rule]) -> SortedFiles {
        let mut sorting = Sorting {
            project,
            given: rules,
            names: HidingNames::of(rules),
            files: None,
            looked_at: 0,
            read: 0,
            sorted: SortedFiles::default(),
        };
        if project.join(".git").symlink_metadata().is_ok() {
            sorting.repository(&TreePath::root());
        }
        sorting.sorted
    }

    pub(crate) fn hidden(&self) -> impl Iterator<Item = &HiddenFile> {
        self.repositories.iter().flat_map(|repository| &repository.hidden)
    }
}

struct Sorting<'a> {
    project: &'a Path,
    given: &'a [Rule],
    names: HidingNames,
    /// The project's directory, opened on first use.
    files: Option<HostRoot>,
    looked_at: usize,
    read: u64,
    sorted: SortedFiles,
}

/// A tracked path that may be hidden.
struct Suspect {
    path: TreePath,
    /// According to git's record, the file is unchanged since it was committed or added.
    is_version: bool,
    /// The name of the committed or added object.
    object: Vec<u8>,
}

impl Suspect {
    /// Whether the file is unchanged since it was committed or added. Right after a clone, git's record
    /// leaves that open.
    fn is_version(&self, contents: &[u8]) -> bool {
        self.is_version || self.object == blob_sha1(contents)
    }
}

impl Sorting<'_> {
    /// Sorts the tracked files of a repository whose files are at `top`, and of its submodules.
    fn repository(&mut self, top: &TreePath) {
        let directory = self.host(top);
        let Some(place) = RepositoryPlace::of(&directory) else {
            return;
        };
        let (suspects, submodules) = self.suspects(&place, &directory, top);
        if !suspects.is_empty() {
            self.sort(place.own, top, suspects);
        }
        for submodule in submodules {
            // Parents are not searched: a submodule that is not checked out is not a repository.
            if self.host(&submodule).join(".git").symlink_metadata().is_ok() {
                self.repository(&submodule);
            }
        }
    }

    fn host(&self, path: &TreePath) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.project.join(std::ffi::OsStr::from_bytes(path.as_bytes()))
    }

    /// The tracked paths that may be hidden, and the submodules. Only the index is read.
    fn suspects(
        &self,
        place: &RepositoryPlace,
        directory: &Path,
        top: &TreePath,
    ) -> (Vec<Suspect>, Vec<TreePath>) {
        let (mut suspects, mut submodules) = (Vec::new(), Vec::new());
        let is_suspect_above = top.components().any(|name| self.names.may_hide(name.as_bytes()));
        // Most paths have the directory of the one before.
        let mut last: (Vec<u8>, bool) = (Vec::new(), false);
        let mut each = |tracked: IndexedPath<'_>, index: &GitIndex| {
            let at = tracked.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            let (above, name) = tracked.path.split_at(at);
            if last.0 != above {
                let is_suspect = above
                    .split(|byte| *byte == b'/')
                    .any(|name| self.names.may_hide(name));
                last = (above.to_vec(), is_suspect);
            }
            let name = name.strip_prefix(b"/").unwrap_or(name);
            let is_suspect = is_suspect_above || last.1 || self.names.may_hide(name);
            if !tracked.is_submodule && (!is_suspect || tracked.is_left_out) {
                return;
            }
            let Ok(path) = TreePath::parse(tracked.path) else {
                return;
            };
            let path = top.join_path(&path);
            if tracked.is_submodule {
                submodules.push(path);
            } else {
                let found = self.host(&path).symlink_metadata();
                let is_version = found.is_ok_and(|found| tracked.is_version(&found, index));
                suspects.push(Suspect {
                    path,
                    is_version,
                    object: tracked.object.to_vec(),
                });
            }
        };
        match GitIndex::read(&place.own) {
            Some(index) => index.each(&mut |tracked| each(tracked, &index)),
            None => listed_by_git(directory, &mut each),
        }
        // A conflict has a path several times.
        suspects.dedup_by(|a, b| a.path == b.path);
        (suspects, submodules)
    }

    fn sort(&mut self, own: PathBuf, top: &TreePath, suspects: Vec<Suspect>) {
        let without_presets: Vec<Rule> = self
            .given
            .iter()
            .filter(|rule| !is_hidden_by_preset(rule))
            .cloned()
            .collect();
        let (Ok(rules), Ok(otherwise)) = (Rules::shared(self.given.to_vec()), Rules::shared(without_presets))
        else {
            // The rules are invalid, which the caller will report when it uses them.
            return;
        };
        let (mut levels, mut otherwise_levels) = (Levels::new(&rules), Levels::new(&otherwise));
        let mut affected = AffectedRepository {
            own,
            files: top.clone(),
            opened: Vec::new(),
            hidden: Vec::new(),
        };
        for suspect in suspects {
            if levels.of(&suspect.path) > Level::None {
                continue;
            }
            let Some(found) = self.judge(&suspect, &rules) else {
                continue;
            };
            let level = otherwise_levels.of(&suspect.path);
            let rule = Pattern::exactly(&suspect.path).map(|pattern| Rule::new(pattern, level));
            match (found, rule.filter(|_| level > Level::None)) {
                (None, Some(rule)) if self.sorted.opening.len() < OPENED_MAX => {
                    self.sorted
                        .opening
                        .push(rule.with_origin(RuleOrigin::new(ORIGIN)));
                    affected.opened.push(suspect.path);
                }
                (why, _) => {
                    let why = why.unwrap_or(Secret::Unknown);
                    affected.hidden.push(HiddenFile {
                        path: suspect.path,
                        why,
                        is_tracked: true,
                    });
                }
            }
        }
        if !affected.opened.is_empty() || !affected.hidden.is_empty() {
            self.sorted.repositories.push(affected);
        }
    }

    /// Why a file stays hidden, or that it does not. `None`: it is not there.
    fn judge(&mut self, suspect: &Suspect, rules: &Rules) -> Option<Option<Secret>> {
        let explained = rules.explain(&suspect.path, |_| Labels::default());
        let mut about = explained
            .deciding
            .iter()
            .chain(explained.beaten.iter().map(|beaten| &beaten.rule));
        let is_presets = about.all(|rule| rule.level > Level::None || is_of_preset(rule));
        let contents = match self.contents(&suspect.path) {
            Ok(contents) => Ok(contents),
            Err(Some(why)) => Err(why),
            Err(None) => return None,
        };
        let why = match contents {
            _ if !is_presets || explained.deciding.is_none() => Some(Secret::Rule),
            Err(why) => Some(why),
            Ok(contents) => judged(suspect, &contents),
        };
        Some(why)
    }

    /// The contents of a file, if it is not too large; no path to it leads out of the project. `Err(None)`:
    /// it does not exist.
    fn contents(&mut self, path: &TreePath) -> Result<Vec<u8>, Option<Secret>> {
        self.looked_at += 1;
        // Files that cannot be examined within the limits count as secrets: they stay hidden.
        if self.looked_at > LOOKED_AT || self.read > READ_MAX {
            return Err(Some(Secret::Unreadable));
        }
        let unless_gone = |errno: Errno| match errno {
            Errno::NOENT | Errno::NOTDIR => None,
            _ => Some(Secret::Unreadable),
        };
        let project = self.project;
        let files = match &mut self.files {
            Some(files) => files,
            none => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let top = rustix::fs::open(project, flags, Mode::empty()).map_err(unless_gone)?;
                none.insert(HostRoot::new(top, project))
            }
        };
        let (parent, name) = path.split_last().ok_or(None)?;
        let parent = files.open_directory(parent.as_bytes()).map_err(unless_gone)?;
        let file = files
            .open_file(parent.as_fd(), name.as_bytes())
            .map_err(unless_gone)?;
        let file = File::from(file);
        let unreadable = |_| Some(Secret::Unreadable);
        let found = file.metadata().map_err(unreadable)?;
        match found.is_file() {
            true if found.len() > secret::LARGEST => return Err(Some(Secret::TooLarge)),
            true => {}
            false => return Err(Some(Secret::Unreadable)),
        }
        let mut contents = Vec::new();
        self.read += file
            .take(secret::LARGEST + 1)
            .read_to_end(&mut contents)
            .map_err(unreadable)? as u64;
        if contents.len() as u64 > secret::LARGEST {
            Err(Some(Secret::TooLarge))
        } else {
            Ok(contents)
        }
    }
}

fn judged(suspect: &Suspect, contents: &[u8]) -> Option<Secret> {
    let path = suspect.path.as_bytes();
    let text = String::from_utf8_lossy(contents);
    let is_of_tests = secret::is_for_tests(path) && suspect.is_version(contents);
    match secret::certain(&text) {
        Some(token @ Secret::Token(_)) => Some(token),
        _ if is_of_tests => None,
        Some(key) => Some(key),
        None if Preset::names_secret(&suspect.path) => Some(Secret::Name),
        None => suspect.path.name().map_or(Some(Secret::Unknown), |name| {
            secret::judge(name.as_bytes(), contents)
        }),
    }
}

pub(super) fn is_of_preset(rule: &Rule) -> bool {
    rule.origin.as_str().starts_with("preset ")
}

pub(super) fn is_hidden_by_preset(rule: &Rule) -> bool {
    rule.level == Level::None && is_of_preset(rule)
}

/// For an index that only git can read.
fn listed_by_git(directory: &Path, told: &mut dyn FnMut(IndexedPath<'_>, &GitIndex)) {
    let Ok(host) = HostRepository::open(directory) else {
        return;
    };
    let Ok(listed) = host
        .git("listing files")
        .args(["ls-files", "-z", "-s", "-t"])
        .output()
    else {
        return;
    };
    let unread = GitIndex::unread();
    for line in listed.split(|byte| *byte == 0) {
        // `H 100644 NAME 0\tPATH`
        let Some(at) = line.iter().position(|byte| *byte == b'\t') else {
            continue;
        };
        let (about, path) = (&line[..at], &line[at + 1..]);
        let is_submodule = about.get(2..).is_some_and(|rest| rest.starts_with(b"160000"));
        told(
            IndexedPath::unknown(path, is_submodule, about.starts_with(b"S")),
            &unread,
        );
    }
}
