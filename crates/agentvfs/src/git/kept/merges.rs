//! Merges and hidden or guarded files: the result must be that of a clean merge. Taking one parent's version
//! where only the other parent has changed it would delete a key, or restore an old one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{CommitChange, DIFFERENCES, Found, MARK, WatchedPaths, parse_change};
use crate::error::GitError;
use crate::git::program::GIVING;
use crate::git::quarantine::Quarantine;
use crate::git_names::ObjectName;

/// The version of a path that is not there.
const ABSENT: &str = "0";

/// A commit with several parents.
struct MergeCommit {
    commit: ObjectName,
    parents: Vec<ObjectName>,
}

/// The new merges, and how each differs from its parents.
pub(super) struct Merges {
    merges: Vec<MergeCommit>,
    differences: Vec<Difference>,
}

/// A path that a merge has in another version than a parent.
struct Difference {
    /// The numbers of the merge and of the parent.
    merge: usize,
    parent: usize,
    change: CommitChange,
}

impl Merges {
    pub(super) fn read(
        suspects: &Quarantine,
        tip: &ObjectName,
        known: &[ObjectName],
    ) -> Result<Merges, GitError> {
        let merges = merges(suspects, tip, known)?;
        let differences = differences(suspects, &merges)?;
        Ok(Merges { merges, differences })
    }

    /// Every path that differs, from each parent.
    pub(super) fn differences(&self) -> impl Iterator<Item = &CommitChange> + Clone {
        self.differences.iter().map(|difference| &difference.change)
    }

    /// The changes of hidden or guarded paths that a clean merge does not have.
    pub(super) fn changes(
        &self,
        suspects: &Quarantine,
        watch: &mut WatchedPaths<'_>,
    ) -> Result<Vec<(CommitChange, Found)>, GitError> {
        let mut found = Vec::new();
        for ((at, raw), changed) in self.changed(watch)? {
            let merge = &self.merges[at];
            let before: Vec<String> = (0..merge.parents.len())
                // A parent from which nothing differs has the version of the merge.
                .map(|parent| changed.before.get(&parent).unwrap_or(&changed.after).clone())
                .collect();
            if is_clean(suspects, merge, &raw, &before, &changed.after)? {
                continue;
            }
            let is_new = !before.contains(&changed.after);
            let change = CommitChange {
                commit: Some(merge.commit.clone()),
                path: raw,
                before,
                after: changed.after,
                is_new,
            };
            found.push((change, changed.why));
        }
        Ok(found)
    }

    fn changed(&self, watch: &mut WatchedPaths<'_>) -> Result<AllChanged, GitError> {
        let mut all = AllChanged::new();
        for Difference {
            merge,
            parent,
            change,
        } in &self.differences
        {
            let Some(why) = watch.finds(&change.path, &change.after)? else {
                continue;
            };
            let of = || MergedPath {
                why,
                before: HashMap::new(),
                after: change.after.clone(),
            };
            let one = all.entry((*merge, change.path.clone())).or_insert_with(of);
            one.before
                .extend(change.before.iter().map(|before| (*parent, before.clone())));
        }
        Ok(all)
    }
}

fn merges(
    suspects: &Quarantine,
    tip: &ObjectName,
    known: &[ObjectName],
) -> Result<Vec<MergeCommit>, GitError> {
    let git = suspects
        .git("looking for merges")
        .args(["rev-list", "--merges", "--parents", "--stdin"]);
    let listed = git.output_of(|input| {
        // Through the input and not as arguments: a repository may have thousands of refs.
        let excluded = known.iter().map(|known| format!("^{known}\n"));
        for line in [format!("{tip}\n")].into_iter().chain(excluded) {
            input.write_all(line.as_bytes()).map_err(GitError::host(GIVING))?;
        }
        Ok(())
    });
    let listed = listed.map_err(GitError::refused)?;
    let merge = |line: &[u8]| {
        let mut names = line.split(|byte| *byte == b' ').filter_map(ObjectName::new);
        Some(MergeCommit {
            commit: names.next()?,
            parents: names.collect(),
        })
    };
    Ok(listed.split(|byte| *byte == b'\n').filter_map(merge).collect())
}

/// A hidden or guarded path that a merge has in another version than some of its parents.
struct MergedPath {
    why: Found,
    /// By the number of the parent, where it is another one.
    before: HashMap<usize, String>,
    after: String,
}

/// By the number of the merge, and the path.
type AllChanged = BTreeMap<(usize, Vec<u8>), MergedPath>;

fn differences(suspects: &Quarantine, merges: &[MergeCommit]) -> Result<Vec<Difference>, GitError> {
    let mut all = Vec::new();
    if merges.is_empty() {
        return Ok(all);
    }
    // One process compares all pairs, and answers in the order in which it is asked.
    let pairs: Vec<(usize, usize)> = merges
        .iter()
        .enumerate()
        .flat_map(|(at, merge)| (0..merge.parents.len()).map(move |parent| (at, parent)))
        .collect();
    let git = suspects
        .git("looking at what merges change")
        // `--always`: a pair without a difference has a line as well, so that answers can be counted.
        .args(["diff-tree", "--stdin", "--always"]);
    let listed = git
        .args(["--format=%x01%H"])
        .args(DIFFERENCES)
        .output_of(|input| {
            for (at, parent) in &pairs {
                let MergeCommit { commit, parents } = &merges[*at];
                writeln!(input, "{commit} {}", parents[*parent]).map_err(GitError::host(GIVING))?;
            }
            Ok(())
        });
    let listed = listed.map_err(GitError::refused)?;
    let (mut next, mut now) = (pairs.iter(), None);
    let mut parts = listed.split(|byte| *byte == 0);
    while let Some(part) = parts.next() {
        let part = part.trim_ascii_start();
        match part.first() {
            Some(&MARK) => now = next.next(),
            Some(b':') => {
                let (Some(raw), Some(&(merge, parent))) = (parts.next(), now) else {
                    break;
                };
                let Some(change) = parse_change(part, raw, None) else {
                    continue;
                };
                all.push(Difference {
                    merge,
                    parent,
                    change,
                });
            }
            _ => {}
        }
    }
    match next.next() {
        None => Ok(all),
        // An answer is missing: what was not compared is not let through.
        Some(_) => Err(GitError::Refused {
            reason: "their merges cannot be compared".into(),
        }),
    }
}

/// Whether the version after a merge is that of a clean merge: if only some parents changed it, theirs.
fn is_clean(
    suspects: &Quarantine,
    merge: &MergeCommit,
    path: &[u8],
    before: &[String],
    after: &str,
) -> Result<bool, GitError> {
    let mut expected = BTreeSet::new();
    for base in base_versions(suspects, merge, path)? {
        let mut changed: BTreeSet<&String> = before.iter().filter(|version| **version != base).collect();
        let first = changed.pop_first().unwrap_or(&base);
        // Parents that changed it differently: a clean merge of those needs contents, and a person has to
        // look.
        if !changed.is_empty() {
            return Ok(false);
        }
        expected.insert(first.clone());
    }
    Ok(expected.len() == 1 && expected.contains(after))
}

/// The versions in the commits that the parents come from; absent if they have none in common.
fn base_versions(
    suspects: &Quarantine,
    merge: &MergeCommit,
    path: &[u8],
) -> Result<BTreeSet<String>, GitError> {
    let several = (merge.parents.len() > 2).then_some("--octopus");
    let git = suspects
        .git("looking for where a merge comes from")
        .args(["merge-base", "--all"]);
    let git = git
        .args(several)
        .args(merge.parents.iter().map(ObjectName::as_str));
    let bases = git.line_if_any()?.unwrap_or_default();
    let mut versions = BTreeSet::new();
    for base in bases.lines().filter_map(|line| ObjectName::new(line.as_bytes())) {
        versions.insert(version(suspects, &base, path)?);
    }
    if versions.is_empty() {
        // Histories without a common beginning: the path is new in both.
        versions.insert(ABSENT.to_owned());
    }
    Ok(versions)
}

/// `MODE NAME`, as in differences.
fn version(suspects: &Quarantine, commit: &ObjectName, path: &[u8]) -> Result<String, GitError> {
    use std::os::unix::ffi::OsStrExt;
    let git = suspects
        .git("looking up a file")
        .args(["ls-tree", "-z", "--full-tree", commit.as_str(), "--"]);
    let listed = git
        .arg(std::ffi::OsStr::from_bytes(path))
        .output()
        .map_err(GitError::refused)?;
    let line = String::from_utf8_lossy(listed.split(|byte| *byte == b'\t').next().unwrap_or_default());
    let mut fields = line.split(' ');
    Ok(match (fields.next(), fields.nth(1)) {
        (Some(mode), Some(name)) => format!("{mode} {name}"),
        _ => ABSENT.to_owned(),
    })
}
