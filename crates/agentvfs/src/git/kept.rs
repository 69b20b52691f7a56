//! Files that were hidden from a task stay unchanged: no commit that is brought over changes or deletes them.
//! Files that the host runs are changed only if the user named them.
//!
//! A change that the user's own history contains, with the same contents before and after, may be repeated:
//! by a rebase, or a cherry-pick. A branch that was brought from a task does not count as the user's own
//! until it is merged. A merge may contain the result of a clean merge.

mod merges;

use std::collections::{BTreeSet, HashSet};

use avfs_core::TreePath;
use avfs_core::rules::{Level, Rules};
use avfs_tree::ReadError;

use super::guarded::{Arrival, Guards, is_absent};
use super::hidden::Levels;
use super::host::HostRepository;
use super::program::GIVING;
use super::quarantine::Quarantine;
use super::work::Work;
use crate::apply::{GuardReason, Leads};
use crate::error::GitError;
use crate::error::{GuardedChange, HiddenChange};
use crate::git_names::ObjectName;

/// The first byte of a commit's line.
const MARK: u8 = 1;
const DIFFERENCES: [&str; 6] = ["-z", "--raw", "--no-abbrev", "--no-renames", "-r", "--root"];

/// One change of a path, of the contents of each parent into others.
struct CommitChange {
    /// `None` for one between two commits that have others between them.
    commit: Option<ObjectName>,
    path: Vec<u8>,
    before: Vec<String>,
    after: String,
    /// No parent has it so.
    is_new: bool,
}

impl CommitChange {
    /// Whether one of the versions is a file.
    fn is_somewhere(&self) -> bool {
        self.before
            .iter()
            .chain([&self.after])
            .any(|version| !is_absent(version))
    }

    fn pairs(&self) -> impl Iterator<Item = (Vec<u8>, String, String)> {
        self.before
            .iter()
            .map(|before| (self.path.clone(), before.clone(), self.after.clone()))
    }
}

/// [`Work::check_changes`].
pub(super) fn check_changes(
    work: &Work,
    suspects: &Quarantine,
    tip: &ObjectName,
    host: &HostRepository,
    allowed: &[TreePath],
) -> Result<(), GitError> {
    let known = host.tips()?;
    let changes = changes(work, suspects, tip, &known)?;
    let merges = merges::Merges::read(suspects, tip, &known)?;
    let all = || changes.iter().chain(merges.differences());
    let leads = leads(work, suspects, tip, host, all())?;
    let changed = all()
        .filter(|change| change.is_somewhere())
        .map(|change| &change.path[..]);
    let mut watch = WatchedPaths {
        hiding: work.rules().map(|rules| Hiding {
            work,
            levels: Levels::new(rules),
            rules,
        }),
        guards: Guards::of_commits(work, (suspects, tip), leads, changed),
        suspects,
        files: work.files(),
        allowed,
    };
    let mut kept = merges.changes(suspects, &mut watch)?;
    for change in changes {
        if let Some(found) = watch.finds(&change.path, &change.after)? {
            kept.push((change, found));
        }
    }
    if kept.is_empty() {
        return Ok(());
    }
    let known = known_changes(host, kept.iter().map(|(change, _)| &change.path[..]).collect())?;
    kept.retain(|(change, found)| {
        let is_known = change.is_new && change.pairs().any(|pair| known.contains(&pair));
        !is_known || found.is_repository()
    });
    let (mut hidden, mut guarded) = (Vec::new(), Vec::new());
    for (change, found) in kept {
        let is_deleted = is_absent(&change.after);
        let commit = change.commit.unwrap_or_else(|| tip.clone());
        match found {
            Found::Hidden(path) => hidden.push(HiddenChange {
                commit,
                path,
                is_deleted,
            }),
            Found::Guarded(path, reason) => guarded.push(GuardedChange { commit, path, reason }),
        }
    }
    guarded.dedup();
    if !hidden.is_empty() {
        return Err(GitError::ChangesHidden {
            changes: hidden,
            task: None,
            has_files: false,
        });
    }
    if !guarded.is_empty() {
        return Err(GitError::ChangesGuarded {
            changes: guarded,
            task: None,
        });
    }
    Ok(())
}

/// Where guarded names lead, on the host and in any of the commits.
fn leads<'c>(
    work: &Work,
    suspects: &Quarantine,
    tip: &ObjectName,
    host: &HostRepository,
    changes: impl Iterator<Item = &'c CommitChange> + Clone,
) -> Result<Leads, GitError> {
    let whole = |raw: &[u8]| {
        TreePath::parse(raw)
            .ok()
            .map(|path| work.files().join_path(&path))
    };
    let paths: Vec<TreePath> = changes.clone().filter_map(|change| whole(&change.path)).collect();
    let mut leads = Leads::of(host.project(work.files()), paths.iter())?;
    let mut links: BTreeSet<(Vec<u8>, String)> = suspects.links_of(tip)?.into_iter().collect();
    for change in changes {
        let versions = change.before.iter().chain([&change.after]);
        links.extend(versions.map(|version| (change.path.clone(), version.clone())));
    }
    for (raw, version) in links {
        let Some(link) = whole(&raw).filter(Leads::concern) else {
            continue;
        };
        if let Some(target) = suspects.target_of(&version)? {
            leads.add_link(&link, &target);
        }
    }
    Ok(leads)
}

/// The changes of new commits that are not merges.
fn changes(
    work: &Work,
    suspects: &Quarantine,
    tip: &ObjectName,
    known: &[ObjectName],
) -> Result<Vec<CommitChange>, GitError> {
    let git = suspects.git("looking at what commits change");
    let git = git.args(["log", "--no-merges", "--format=%x01%H %P"]);
    let listed = git.args(DIFFERENCES).arg("--stdin").output_of(|input| {
        let excluded = known.iter().map(|known| format!("^{known}\n"));
        for line in [format!("{tip}\n")].into_iter().chain(excluded) {
            input.write_all(line.as_bytes()).map_err(GitError::host(GIVING))?;
        }
        Ok(())
    });
    let (mut changes, has_root) = parse(&listed.map_err(GitError::refused)?);
    // A history without a beginning that the user has can be merged, with everything that it has not.
    if let Some(began) = work.base_refs().head_commit()?.filter(|_| has_root)
        && suspects.is_ancestor(&began, tip)?
    {
        let git = suspects
            .git("comparing commits")
            .arg("diff-tree")
            .args(DIFFERENCES);
        let listed = git
            .args([began.as_str(), tip.as_str()])
            .output()
            .map_err(GitError::refused)?;
        changes.extend(parse(&listed).0);
    }
    Ok(changes)
}

/// Why a path may not be changed.
#[derive(Clone, Debug)]
enum Found {
    Hidden(TreePath),
    /// The path that the user must name.
    Guarded(TreePath, GuardReason),
}

impl Found {
    /// Whether it creates a repository. The user's history may have had the same `HEAD` beside other files.
    fn is_repository(&self) -> bool {
        matches!(self, Found::Guarded(_, GuardReason::NewRepository))
    }
}

/// The paths that commits must not change.
struct WatchedPaths<'a> {
    hiding: Option<Hiding<'a>>,
    guards: Guards<'a>,
    suspects: &'a Quarantine,
    /// Where the files of the repository are.
    files: &'a TreePath,
    allowed: &'a [TreePath],
}

impl WatchedPaths<'_> {
    /// Why a path may not be changed into a version.
    fn finds(&mut self, raw: &[u8], version: &str) -> Result<Option<Found>, GitError> {
        if let Some(hiding) = &mut self.hiding
            && let Some(path) = hiding.hides(raw)?
        {
            return Ok(Some(Found::Hidden(path)));
        }
        // A name that no tree can have is refused later, by git itself.
        let Ok(path) = TreePath::parse(raw) else {
            return Ok(None);
        };
        let path = self.files.join_path(&path);
        let target = self.suspects.target_of(version)?;
        let arrival = Arrival::of_version(version, target.as_deref());
        let found = self.guards.guard(&path, arrival)?;
        let found = found.filter(|(_, reason)| !reason.is_named(&path, self.allowed));
        Ok(found.map(|(named, reason)| Found::Guarded(named, reason)))
    }
}

/// The paths that are hidden from a task.
struct Hiding<'a> {
    work: &'a Work,
    levels: Levels<'a>,
    rules: &'a Rules,
}

impl Hiding<'_> {
    /// The path from the root of the project, if it is hidden: by a rule about paths, or by a label.
    fn hides(&mut self, path: &[u8]) -> Result<Option<TreePath>, GitError> {
        // A name that no tree can have is refused later, by git itself.
        let Ok(path) = TreePath::parse(path) else {
            return Ok(None);
        };
        let path = self.work.files().join_path(&path);
        let has_labels = self.rules.list().iter().any(|rule| rule.label().is_some());
        let is_hidden = self.levels.of(&path) == Level::None || (has_labels && self.is_labelled(&path)?);
        Ok(is_hidden.then_some(path))
    }

    fn is_labelled(&self, path: &TreePath) -> Result<bool, GitError> {
        let base = self.work.base();
        let is_there = |found: Result<_, ReadError>| match found {
            Ok(_) => Ok(true),
            Err(error @ ReadError::Object { .. }) => Err(GitError::from(error)),
            Err(_) => Ok(false),
        };
        Ok(is_there(base.unrestricted().find(path))? && !is_there(base.find(path))?)
    }
}

/// The changes of the user's own history at these paths.
fn known_changes(
    host: &HostRepository,
    paths: HashSet<&[u8]>,
) -> Result<HashSet<(Vec<u8>, String, String)>, GitError> {
    use std::os::unix::ffi::OsStringExt;
    let literal = |path: &[u8]| std::ffi::OsString::from_vec([b":(top,literal)", path].concat());
    let git = host
        .git("looking at your history")
        .args(["log", "-m", "--format=%x01%H %P"]);
    let git = git.args(DIFFERENCES).args(
        host.made_branches()?
            .iter()
            .map(|name| format!("--exclude={name}")),
    );
    let listed = git
        .arg("--glob=refs/*")
        .arg("--")
        .args(paths.into_iter().map(literal))
        .output()?;
    Ok(parse(&listed).0.iter().flat_map(CommitChange::pairs).collect())
}

/// The changes, and whether one of the commits has no parent.
fn parse(listed: &[u8]) -> (Vec<CommitChange>, bool) {
    let (mut changes, mut has_root) = (Vec::new(), false);
    let mut commit = None;
    let mut parts = listed.split(|byte| *byte == 0);
    while let Some(part) = parts.next() {
        let part = part.trim_ascii_start();
        match part.split_first() {
            Some((&MARK, about)) => {
                let mut names = about.split(|byte| *byte == b' ').filter(|name| !name.is_empty());
                commit = names.next().and_then(ObjectName::new);
                has_root |= names.next().is_none();
            }
            Some((b':', _)) => {
                let Some(path) = parts.next() else { break };
                changes.extend(parse_change(part, path, commit.clone()));
            }
            _ => {}
        }
    }
    (changes, has_root)
}

/// `:MODE MODE OLD NEW STATUS`, and for a merge of several parents as many colons, modes and old ones.
fn parse_change(about: &[u8], path: &[u8], commit: Option<ObjectName>) -> Option<CommitChange> {
    let parents = about.iter().take_while(|byte| **byte == b':').count();
    let text = String::from_utf8_lossy(&about[parents..]).into_owned();
    let fields: Vec<&str> = text.split(' ').collect();
    let (modes, names) = fields.split_at_checked(parents + 1)?;
    let names = names.get(..=parents)?;
    let version = |at: usize| {
        if names[at].bytes().all(|byte| byte == b'0') {
            "0".to_owned()
        } else {
            format!("{} {}", modes[at], names[at])
        }
    };
    let before = (0..parents).map(version).collect();
    Some(CommitChange {
        commit,
        path: path.to_vec(),
        before,
        after: version(parents),
        is_new: true,
    })
}
