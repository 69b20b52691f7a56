//! Merges and what is hidden or guarded: a merge may make of such a file what a clean merge makes of it, and nothing else. To take
//! one parent's version where the other parent alone has changed it deletes a key, or brings an old one back.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Change, DIFFERENCES, Found, MARK, Watch, parse_change};
use crate::git::error::GitError;
use crate::git::names::ObjectName;
use crate::git::program::GIVING;
use crate::git::quarantine::Quarantine;

/// The version of a path that is not there.
const ABSENT: &str = "0";

/// A commit with several parents.
struct Merge {
    commit: ObjectName,
    parents: Vec<ObjectName>,
}

/// The new merges, and how each differs from its parents.
pub(super) struct Merges {
    merges: Vec<Merge>,
    differences: Vec<Difference>,
}

/// A path that a merge has in another version than a parent.
struct Difference {
    /// The numbers of the merge and of the parent.
    merge: usize,
    parent: usize,
    change: Change,
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
    pub(super) fn differences(&self) -> impl Iterator<Item = &Change> + Clone {
        self.differences.iter().map(|difference| &difference.change)
    }

    /// What they make of hidden or guarded paths that a clean merge does not.
    pub(super) fn changes(
        &self,
        suspects: &Quarantine,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<(Change, Found)>, GitError> {
        let mut found = Vec::new();
        for ((at, raw), changed) in self.changed(watch)? {
            let merge = &self.merges[at];
            let before: Vec<String> = (0..merge.parents.len())
                .map(|parent| changed.before.get(&parent).unwrap_or(&changed.after).clone())
                .collect();
            if is_clean(suspects, merge, &raw, &before, &changed.after)? {
                continue;
            }
            let is_new = !before.contains(&changed.after);
            let change = Change {
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

    fn changed(&self, watch: &mut Watch<'_>) -> Result<AllChanged, GitError> {
        let mut all = AllChanged::new();
        for Difference { merge, parent, change } in &self.differences {
            let Some(why) = watch.finds(&change.path, &change.after)? else { continue };
            let of = || Changed { why, before: HashMap::new(), after: change.after.clone() };
            let one = all.entry((*merge, change.path.clone())).or_insert_with(of);
            one.before.extend(change.before.iter().map(|before| (*parent, before.clone())));
        }
        Ok(all)
    }
}

fn merges(suspects: &Quarantine, tip: &ObjectName, known: &[ObjectName]) -> Result<Vec<Merge>, GitError> {
    let git = suspects.git("looking for merges").args(["rev-list", "--merges", "--parents", "--stdin"]);
    let listed = git.output_of(|input| {
        let excluded = known.iter().map(|known| format!("^{known}\n"));
        for line in [format!("{tip}\n")].into_iter().chain(excluded) {
            input.write_all(line.as_bytes()).map_err(GitError::host(GIVING))?;
        }
        Ok(())
    });
    let listed = listed.map_err(GitError::refused)?;
    let merge = |line: &[u8]| {
        let mut names = line.split(|byte| *byte == b' ').filter_map(ObjectName::new);
        Some(Merge { commit: names.next()?, parents: names.collect() })
    };
    Ok(listed.split(|byte| *byte == b'\n').filter_map(merge).collect())
}

/// A hidden or guarded path that a merge has in another version than some of its parents.
struct Changed {
    why: Found,
    /// By the number of the parent, where it is another one.
    before: HashMap<usize, String>,
    after: String,
}

/// By the number of the merge, and the path.
type AllChanged = BTreeMap<(usize, Vec<u8>), Changed>;

fn differences(suspects: &Quarantine, merges: &[Merge]) -> Result<Vec<Difference>, GitError> {
    let mut all = Vec::new();
    if merges.is_empty() {
        return Ok(all);
    }
    let pairs: Vec<(usize, usize)> = merges
        .iter()
        .enumerate()
        .flat_map(|(at, merge)| (0..merge.parents.len()).map(move |parent| (at, parent)))
        .collect();
    let git = suspects.git("looking at what merges change").args(["diff-tree", "--stdin", "--always"]);
    let listed = git.args(["--format=%x01%H"]).args(DIFFERENCES).output_of(|input| {
        for (at, parent) in &pairs {
            let Merge { commit, parents } = &merges[*at];
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
                let (Some(raw), Some(&(merge, parent))) = (parts.next(), now) else { break };
                let Some(change) = parse_change(part, raw, None) else { continue };
                all.push(Difference { merge, parent, change });
            }
            _ => {}
        }
    }
    match next.next() {
        None => Ok(all),
        Some(_) => Err(GitError::Refused { reason: "their merges cannot be compared".into() }),
    }
}

/// Whether the version after a merge is the one that a clean merge has: of what only some parents changed, theirs.
fn is_clean(
    suspects: &Quarantine,
    merge: &Merge,
    path: &[u8],
    before: &[String],
    after: &str,
) -> Result<bool, GitError> {
    let mut expected = BTreeSet::new();
    for base in base_versions(suspects, merge, path)? {
        let mut changed: BTreeSet<&String> = before.iter().filter(|version| **version != base).collect();
        let first = changed.pop_first().unwrap_or(&base);
        if !changed.is_empty() {
            return Ok(false);
        }
        expected.insert(first.clone());
    }
    Ok(expected.len() == 1 && expected.contains(after))
}

/// The versions in the commits that the parents come from; absent if they have none in common.
fn base_versions(suspects: &Quarantine, merge: &Merge, path: &[u8]) -> Result<BTreeSet<String>, GitError> {
    let several = (merge.parents.len() > 2).then_some("--octopus");
    let git = suspects.git("looking for where a merge comes from").args(["merge-base", "--all"]);
    let git = git.args(several).args(merge.parents.iter().map(ObjectName::as_str));
    let bases = git.line_if_any()?.unwrap_or_default();
    let mut versions = BTreeSet::new();
    for base in bases.lines().filter_map(|line| ObjectName::new(line.as_bytes())) {
        versions.insert(version(suspects, &base, path)?);
    }
    if versions.is_empty() {
        versions.insert(ABSENT.to_owned());
    }
    Ok(versions)
}

/// `MODE NAME`, as in differences.
fn version(suspects: &Quarantine, commit: &ObjectName, path: &[u8]) -> Result<String, GitError> {
    use std::os::unix::ffi::OsStrExt;
    let git = suspects.git("looking up a file").args(["ls-tree", "-z", "--full-tree", commit.as_str(), "--"]);
    let listed = git.arg(std::ffi::OsStr::from_bytes(path)).output().map_err(GitError::refused)?;
    let line = String::from_utf8_lossy(listed.split(|byte| *byte == b'\t').next().unwrap_or_default());
    let mut fields = line.split(' ');
    Ok(match (fields.next(), fields.nth(1)) {
        (Some(mode), Some(name)) => format!("{mode} {name}"),
        _ => ABSENT.to_owned(),
    })
}
