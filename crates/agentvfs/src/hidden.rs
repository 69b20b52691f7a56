//! The files that rules hide in a project, with the reasons: for users who want to know before an agent works
//! there.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use avfs_core::rules::{HidingNames, Level, Preset, Rule, RuleState, Rules};
use avfs_core::{EntryName, Labels, TreePath};

use crate::error::Result;
use crate::git::{Secret, SortedFiles, hides_untracked_secret, untracked_secrets};
use crate::project::for_tasks;
use crate::task::TaskWork;

pub use crate::git::HiddenFile;

/// Directories that tools create, and can recreate.
const MADE: [&[u8]; 6] = [
    b"node_modules",
    b"target",
    b".venv",
    b"venv",
    b"__pycache__",
    b"site-packages",
];

/// The hidden files of a project.
#[derive(Clone, Debug, Default)]
pub struct Hidden {
    /// By path.
    pub files: Vec<HiddenFile>,
    /// Whether everything was examined. Tracked files always are.
    pub is_complete: bool,
}

/// How far to search for untracked files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of the history.
    Everything,
    /// This many entries, those near the top first, and none that tools create.
    Entries(usize),
}

/// The files of a project that rules hide from a task: tracked files that are keys or credentials, and of all
/// others those whose names the rules match, and those near the top that hold a key or a credential. The
/// rules may be those of a new task, or a task's own.
pub fn hidden_in(project: &Path, rules: &[Rule], extent: Extent) -> Result<Hidden> {
    let sorted = SortedFiles::of(project, rules);
    // The rules of a task hide such files already: the reason is found again without those.
    let given: Vec<Rule> = rules
        .iter()
        .filter(|rule| !hides_untracked_secret(rule))
        .cloned()
        .collect();
    let (hiding, untracked) = untracked_secrets(project, &given);
    let hiding = hiding.iter().filter(|rule| !rules.contains(rule));
    let all: Vec<Rule> = rules
        .iter()
        .chain(&sorted.opening)
        .chain(hiding)
        .cloned()
        .collect();
    beside_tracked(
        project,
        &all,
        sorted.hidden().cloned().chain(untracked).collect(),
        extent,
    )
}

impl TaskWork<'_> {
    /// The files of its project that these rules hide. The tracked ones are known for a task that was just
    /// made.
    pub fn hidden_files(&self, rules: &[Rule], extent: Extent) -> Result<Hidden> {
        match self.task.hidden_and_tracked() {
            Some(tracked) => beside_tracked(self.task.root(), rules, tracked.to_vec(), extent),
            None => hidden_in(self.task.root(), rules, extent),
        }
    }
}

/// The hidden files, given the tracked ones.
fn beside_tracked(
    project: &Path,
    rules: &[Rule],
    tracked: Vec<HiddenFile>,
    extent: Extent,
) -> Result<Hidden> {
    let mut files: HashMap<TreePath, HiddenFile> = tracked
        .into_iter()
        .map(|file| (file.path.clone(), file))
        .collect();
    let rules = Rules::shared(rules.to_vec())?;
    let mut walk = HiddenWalk {
        rules: &rules,
        names: HidingNames::of(rules.list()),
        extent,
        looked_at: 0,
    };
    let is_complete = walk.below(project, &mut |path| {
        let file = HiddenFile {
            why: why(&rules, &path),
            path: path.clone(),
            is_tracked: false,
        };
        files.entry(path).or_insert(file);
    });
    let mut files: Vec<HiddenFile> = files.into_values().collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Hidden { files, is_complete })
}

/// The rules that a task with these rules would have: files that tools of the host run may be written, and
/// tracked files are opened unless they are keys or credentials.
pub fn with_tracked_opened(project: &Path, rules: &[Rule]) -> Vec<Rule> {
    let rules = for_tasks(rules);
    let sorted = SortedFiles::of(project, &rules);
    let (hiding, _) = untracked_secrets(project, &rules);
    rules.into_iter().chain(sorted.opening).chain(hiding).collect()
}

fn why(rules: &Rules, path: &TreePath) -> Secret {
    let decided = rules.explain(path, |_| Labels::default()).deciding;
    let is_presets = decided.is_some_and(|rule| rule.origin.as_str().starts_with("preset "));
    if is_presets || Preset::names_secret(path) {
        Secret::Name
    } else {
        Secret::Rule
    }
}

struct HiddenWalk<'a> {
    rules: &'a Rules,
    names: HidingNames,
    extent: Extent,
    looked_at: usize,
}

/// A directory, and whether a name on the way to it may hide its contents.
struct SearchedDirectory {
    path: TreePath,
    standing: RuleState,
    is_suspect: bool,
}

impl HiddenWalk<'_> {
    /// Calls `hidden` for each hidden file; returns whether all were examined. A directory that cannot be
    /// listed is skipped.
    fn below(&mut self, project: &Path, hidden: &mut dyn FnMut(TreePath)) -> bool {
        let none = Labels::default();
        let root = SearchedDirectory {
            path: TreePath::root(),
            standing: self.rules.root(&none),
            is_suspect: false,
        };
        let mut open = VecDeque::from([root]);
        let mut is_complete = true;
        while let Some(directory) = open.pop_front() {
            let place = project.join(OsStr::from_bytes(directory.path.as_bytes()));
            for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
                self.looked_at += 1;
                if self.extent != Extent::Everything && Extent::Entries(self.looked_at) == self.extent {
                    return false;
                }
                let name = entry.file_name();
                let Ok(name) = EntryName::new(name.as_bytes()) else {
                    continue;
                };
                let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let is_suspect = directory.is_suspect || self.names.may_hide(name.as_bytes());
                if !is_directory && !is_suspect || name.as_bytes() == b".git" {
                    continue;
                }
                let is_made = MADE.contains(&name.as_bytes());
                if is_directory && is_made && self.extent != Extent::Everything {
                    is_complete = false;
                    continue;
                }
                let standing = self.rules.child(&directory.standing, name.as_bytes(), &none);
                let path = directory.path.join(&name);
                match is_directory {
                    true => open.push_back(SearchedDirectory {
                        path,
                        standing,
                        is_suspect,
                    }),
                    false if standing.level() == Level::None => hidden(path),
                    false => {}
                }
            }
        }
        is_complete
    }
}
