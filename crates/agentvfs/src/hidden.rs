//! What rules hide in a project, by name and with the reason: for whoever wants to know before an agent works there.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use avfs_core::rules::{HidingNames, Level, Preset, Rule, Rules, Standing};
use avfs_core::{EntryName, Labels, TreePath};

use crate::error::Result;
use crate::git::{Secret, Sorted, untracked_secrets};
use crate::project::for_tasks;
use crate::task::Task;

pub use crate::git::HiddenFile;

/// What tools make, and can make again.
const MADE: [&[u8]; 6] = [b"node_modules", b"target", b".venv", b"venv", b"__pycache__", b"site-packages"];

/// What is hidden in a project.
#[derive(Clone, Debug, Default)]
pub struct Hidden {
    /// By path.
    pub files: Vec<HiddenFile>,
    /// Whether everything was looked at. What git tracks always is.
    pub is_complete: bool,
}

/// How far is looked for files that git does not track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Everything,
    /// So many entries, those near the top first, and none of what tools make.
    Entries(usize),
}

/// The files of a project that rules hide from a task: those that git tracks and that are keys or credentials, and of all
/// others those whose names the rules are about, and those that hold a key or a credential near the top. The rules may be those that a new task would be made with, or a task's own.
pub fn hidden_in(project: &Path, rules: &[Rule], extent: Extent) -> Result<Hidden> {
    let sorted = Sorted::of(project, rules);
    let (hiding, untracked) = untracked_secrets(project, rules);
    let all: Vec<Rule> = rules.iter().chain(&sorted.opening).chain(&hiding).cloned().collect();
    beside_tracked(project, &all, sorted.hidden().cloned().chain(untracked).collect(), extent)
}

impl Task {
    /// The files of its project that these rules hide. What git tracks of them is known for a task that was just made.
    pub fn hidden(&self, rules: &[Rule], extent: Extent) -> Result<Hidden> {
        match self.hidden_and_tracked() {
            Some(tracked) => beside_tracked(self.root(), rules, tracked.to_vec(), extent),
            None => hidden_in(self.root(), rules, extent),
        }
    }
}

/// What is hidden, if that of it is known which git tracks.
fn beside_tracked(
    project: &Path,
    rules: &[Rule],
    tracked: Vec<HiddenFile>,
    extent: Extent,
) -> Result<Hidden> {
    let mut files: HashMap<TreePath, HiddenFile> =
        tracked.into_iter().map(|file| (file.path.clone(), file)).collect();
    let rules = Rules::new(rules.to_vec())?;
    let mut walk = Walk { rules: &rules, names: HidingNames::of(rules.list()), extent, looked_at: 0 };
    let is_complete = walk.below(project, &mut |path| {
        let file = HiddenFile { why: why(&rules, &path), path: path.clone(), is_tracked: false };
        files.entry(path).or_insert(file);
    });
    let mut files: Vec<HiddenFile> = files.into_values().collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Hidden { files, is_complete })
}

/// The rules that a task with these rules would have: what tools of the host run may be written, and what git tracks is opened unless it is a key or a credential.
pub fn with_tracked_opened(project: &Path, rules: &[Rule]) -> Vec<Rule> {
    let rules = for_tasks(rules);
    let sorted = Sorted::of(project, &rules);
    let (hiding, _) = untracked_secrets(project, &rules);
    rules.into_iter().chain(sorted.opening).chain(hiding).collect()
}

fn why(rules: &Rules, path: &TreePath) -> Secret {
    let decided = rules.explain(path, |_| Labels::default()).deciding;
    let is_presets = decided.is_some_and(|rule| rule.origin.as_str().starts_with("preset "));
    if is_presets || Preset::names_secret(path) { Secret::Name } else { Secret::Rule }
}

struct Walk<'a> {
    rules: &'a Rules,
    names: HidingNames,
    extent: Extent,
    looked_at: usize,
}

/// A directory, and whether a name on the way to it may hide what is in it.
struct Directory {
    path: TreePath,
    standing: Standing,
    is_suspect: bool,
}

impl Walk<'_> {
    /// Calls for each file that is hidden; says whether that is all. What cannot be listed has nothing to be told.
    fn below(&mut self, project: &Path, hidden: &mut dyn FnMut(TreePath)) -> bool {
        let none = Labels::default();
        let root = Directory { path: TreePath::root(), standing: self.rules.root(&none), is_suspect: false };
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
                let Ok(name) = EntryName::new(name.as_bytes()) else { continue };
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
                    true => open.push_back(Directory { path, standing, is_suspect }),
                    false if standing.level() == Level::None => hidden(path),
                    false => {}
                }
            }
        }
        is_complete
    }
}
