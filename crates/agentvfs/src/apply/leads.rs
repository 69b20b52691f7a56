//! Files that the host runs under another name: a link of the user's (`.vscode` that leads to `tools/vscode`)
//! or a setting of git (`core.hooksPath`) refers to them. Changing them changes what is run.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use avfs_core::rules::Preset;
use avfs_core::spelling::{folded_path, is_git_directory};
use avfs_core::{EntryName, TreePath};

use crate::error::GuardReason;
use crate::git::{GitError, GitLeads};

/// How many links are followed on one path, as in the kernel.
const LINKS_MAX: usize = 40;
/// How deep directories such as `.idea` are searched.
const DEPTH_MAX: usize = 8;

/// Where guarded names of the host lead to in a project.
#[derive(Debug, Default)]
pub(crate) struct Leads {
    project: PathBuf,
    all: BTreeSet<Lead>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lead {
    /// Folded: some file systems do not distinguish all names.
    to: TreePath,
    by: LedBy,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LedBy {
    /// A symbolic link at a name that tools look for.
    Link(TreePath),
    /// A setting of git, or a link in a repository.
    Git(String),
}

/// The result of a change at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Becomes {
    Nothing,
    Directory,
    File,
    /// Its contents come from elsewhere: a symbolic link, or a submodule.
    Link,
}

impl Leads {
    /// Examines a project on the host, for changes of these paths: the links in the directories on the way to
    /// them, the links that git tracks, and the files to which git's settings refer.
    pub(crate) fn of<'p>(
        project: &Path,
        changed: impl Iterator<Item = &'p TreePath>,
    ) -> Result<Leads, GitError> {
        let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
        let mut leads = Leads {
            project: project.clone(),
            all: BTreeSet::new(),
        };
        let around = GitLeads::around(&project)?;
        let outside = around.as_ref().map_or(&project, |git| &git.top).clone();
        for top in project
            .ancestors()
            .skip(1)
            .take_while(|above| above.starts_with(&outside))
        {
            leads.look_into(top, &TreePath::root(), 0);
        }
        around.into_iter().for_each(|git| leads.take(git));
        for directory in directories_above(changed) {
            leads.look_into(&project, &directory, 0);
            let place = on_host(&project, &directory);
            if !directory.is_root() && place.join(".git").symlink_metadata().is_ok() {
                GitLeads::of(&place)?.into_iter().for_each(|git| leads.take(git));
            }
        }
        Ok(leads)
    }

    fn take(&mut self, git: GitLeads) {
        for lead in git.named {
            self.follow(lead.to, &LedBy::Git(lead.by));
        }
        for link in git.links.iter().filter(|link| is_looked_for(link)) {
            self.follow(on_host(&git.top, link), &LedBy::Link(link.clone()));
        }
    }

    /// A link that is not on the host, but would be.
    pub(crate) fn add_link(&mut self, link: &TreePath, target: &[u8]) {
        let above = link.split_last().map(|(above, _)| above).unwrap_or_default();
        let to = on_host(&self.project, &above).join(OsStr::from_bytes(target));
        self.follow(to, &LedBy::Link(link.clone()));
    }

    /// Whether a link at a path is relevant.
    pub(crate) fn concern(link: &TreePath) -> bool {
        is_looked_for(link)
    }

    /// Looks for links at names that tools look for, in a directory below `top` and in those that tools look into.
    fn look_into(&mut self, top: &Path, directory: &TreePath, depth: usize) {
        for entry in fs::read_dir(on_host(top, directory))
            .into_iter()
            .flatten()
            .flatten()
        {
            let Ok(name) = EntryName::new(entry.file_name().as_bytes()) else {
                continue;
            };
            let path = directory.join(&name);
            if is_git_directory(name.as_bytes()) || !is_looked_for(&path) {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => self.follow(entry.path(), &LedBy::Link(path)),
                Ok(kind) if kind.is_dir() && depth < DEPTH_MAX => self.look_into(top, &path, depth + 1),
                _ => {}
            }
        }
    }

    /// Notes where a path of the host leads, and each link on the way.
    fn follow(&mut self, path: PathBuf, by: &LedBy) {
        let mut rest: VecDeque<OsString> = names(&path);
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            let place = at.join(&name);
            match fs::read_link(&place) {
                Ok(target) if links < LINKS_MAX => {
                    links += 1;
                    self.note(&place, by);
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                    }
                    names(&target)
                        .into_iter()
                        .rev()
                        .for_each(|name| rest.push_front(name));
                }
                // No link, or nothing yet.
                Ok(_) | Err(_) => at = place,
            }
        }
        self.note(&at, by);
    }

    fn note(&mut self, place: &Path, by: &LedBy) {
        let Ok(below) = place.strip_prefix(&self.project) else {
            return;
        };
        let Ok(to) = TreePath::parse(below.as_os_str().as_bytes()) else {
            return;
        };
        // A setting that names the project itself would guard everything.
        let is_everything = to.is_root() && matches!(by, LedBy::Git(_));
        let is_itself = matches!(by, LedBy::Link(link) if *link == to);
        if !is_everything && !is_itself {
            self.all.insert(Lead {
                to: in_one_spelling(&to),
                by: by.clone(),
            });
        }
    }

    /// Why a change of a path changes what the host runs.
    pub(crate) fn reason(&self, path: &TreePath, becomes: Becomes) -> Option<GuardReason> {
        let folded = in_one_spelling(path);
        self.all
            .iter()
            .find_map(|lead| lead.reason(path, &folded, becomes))
    }
}

impl Lead {
    fn reason(&self, path: &TreePath, folded: &TreePath, becomes: Becomes) -> Option<GuardReason> {
        let replaces_way = self.to.starts_with(folded)
            && matches!(becomes, Becomes::File | Becomes::Link)
            && !path.is_root();
        match &self.by {
            LedBy::Git(name) if replaces_way || folded.starts_with(&self.to) => {
                Some(GuardReason::NamedByGit(name.clone()))
            }
            LedBy::Link(link) if replaces_way => Some(GuardReason::LedTo(link.clone())),
            LedBy::Link(link) if folded.starts_with(&self.to) => {
                let below = path.components().skip(self.to.components().count());
                let other = below.fold(link.clone(), |above, name| above.join(&name));
                let is_run = match becomes {
                    Becomes::Link => is_looked_for(&other),
                    Becomes::Nothing | Becomes::Directory | Becomes::File => {
                        in_any_spelling(&other, Preset::names_run_by_host)
                    }
                };
                is_run.then_some(GuardReason::LedTo(other))
            }
            LedBy::Git(_) | LedBy::Link(_) => None,
        }
    }
}

/// Whether tools of the host look for a name, or for others below it.
fn is_looked_for(path: &TreePath) -> bool {
    in_any_spelling(path, |path| {
        Preset::names_run_by_host(path) || Preset::may_hold_run_by_host(path)
    })
}

fn in_one_spelling(path: &TreePath) -> TreePath {
    folded_path(path).unwrap_or_else(|| path.clone())
}

fn in_any_spelling(path: &TreePath, is_so: impl Fn(&TreePath) -> bool) -> bool {
    is_so(path) || folded_path(path).is_some_and(|folded| is_so(&folded))
}

fn on_host(top: &Path, path: &TreePath) -> PathBuf {
    top.join(OsStr::from_bytes(path.as_bytes()))
}

fn names(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

/// The root, and every directory above one of the paths.
fn directories_above<'p>(paths: impl Iterator<Item = &'p TreePath>) -> BTreeSet<TreePath> {
    let mut directories = BTreeSet::from([TreePath::root()]);
    for path in paths {
        let mut above = path.split_last();
        while let Some((directory, _)) = above {
            above = directory.split_last();
            if !directories.insert(directory) {
                break;
            }
        }
    }
    directories
}
