//! Brings commits from a quarantine repository into the user's: packs them, checks the pack, and makes a branch.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use super::host::HostRepository;
use super::program::GIVING;
use super::quarantine::Quarantine;
use crate::error::GitError;
use crate::git_names::{ObjectName, RefName};

/// A branch to be made.
pub(super) struct Delivery<'a> {
    pub(super) from: &'a Quarantine,
    pub(super) tip: &'a ObjectName,
    pub(super) branch: &'a RefName,
    /// Whether an existing branch may be fast-forwarded.
    pub(super) update: bool,
}

impl Delivery<'_> {
    /// Makes the branch, with everything that it needs; returns how many objects were new. If it fails, the
    /// repository has neither.
    pub(super) fn deliver_to(&self, host: &HostRepository) -> Result<usize, GitError> {
        let known = host.branch(self.branch)?;
        if known.as_ref() == Some(self.tip) {
            return Ok(0);
        }
        let tips = host.tips()?;
        let missing = self.missing(&tips)?;
        let check = Quarantine::new(self.from.format(), Some(host), self.from.bounds())?;
        if !missing.is_empty() {
            self.pack(&missing)?;
            self.check_pack(&check, &tips)?;
        }
        if let Some(old) = &known {
            self.check_update(host, &check, old)?;
        }
        // Git may collect objects that no ref names, so the pack is marked as kept until the branch names its tip.
        let kept = if missing.is_empty() {
            None
        } else {
            Some(host.add_pack(self.packed()?)?)
        };
        host.set_branch(self.branch, self.tip, known.as_ref())?;
        drop(kept);
        Ok(missing.iter().filter(|byte| **byte == b'\n').count())
    }

    fn check_update(
        &self,
        host: &HostRepository,
        check: &Quarantine,
        old: &ObjectName,
    ) -> Result<(), GitError> {
        let branch = self.branch.clone();
        if !self.update || !check.is_ancestor(old, self.tip)? {
            return Err(GitError::BranchExists { branch });
        }
        match host.checked_out(self.branch)? {
            Some(place) => Err(GitError::BranchInUse { branch, place }),
            None => Ok(()),
        }
    }

    /// The objects that the repository does not have, one per line.
    fn missing(&self, tips: &[ObjectName]) -> Result<Vec<u8>, GitError> {
        let git =
            self.from
                .git("listing objects")
                .args(["rev-list", "--objects", "--no-object-names", "--stdin"]);
        git.output_of(|input| self.range(tips, input))
            .map_err(GitError::refused)
    }

    /// Everything reachable from the tip that is not reachable from the repository's own refs.
    fn range(&self, tips: &[ObjectName], input: &mut dyn Write) -> Result<(), GitError> {
        let excluded = tips.iter().map(|tip| format!("^{tip}\n"));
        for line in [format!("{}\n", self.tip)].into_iter().chain(excluded) {
            input.write_all(line.as_bytes()).map_err(GitError::host(GIVING))?;
        }
        Ok(())
    }

    fn pack(&self, missing: &[u8]) -> Result<(), GitError> {
        let file = File::create(self.pack_place()).map_err(GitError::host("writing a pack"))?;
        let list = self.from.place_for("to-pack");
        std::fs::write(&list, missing).map_err(GitError::host("writing a list"))?;
        let list = File::open(list).map_err(GitError::host("reading a list"))?;
        let git = self
            .from
            .git("packing objects")
            .args(["pack-objects", "-q", "--stdout"]);
        git.between(list.into(), file.into())
            .map(drop)
            .map_err(GitError::refused)
    }

    /// Has the pack prove that it is good, in a repository without anything else that was made with it: each object
    /// has the name that its bytes give it, none breaks a rule of git's, and nothing is missing.
    fn check_pack(&self, check: &Quarantine, tips: &[ObjectName]) -> Result<(), GitError> {
        let index = check
            .git("checking objects")
            .args(["index-pack", "--strict", "--stdin"]);
        index
            .between(self.packed()?.into(), Stdio::piped())
            .map_err(GitError::refused)?;
        let walk = check
            .git("checking objects")
            .args(["rev-list", "--objects", "--quiet", "--stdin"]);
        walk.output_of(|input| self.range(tips, input))
            .map(drop)
            .map_err(GitError::refused)
    }

    fn packed(&self) -> Result<File, GitError> {
        File::open(self.pack_place()).map_err(GitError::host("reading a pack"))
    }

    fn pack_place(&self) -> PathBuf {
        self.from.place_for("to-check.pack")
    }
}
