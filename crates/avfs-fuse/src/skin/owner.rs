//! Mounts on which everything belongs to one user: what runs under a number of its own finds files that are its.

/// Whom everything on a mount seems to belong to. What is made there belongs to the owner of the directory that it
/// is made in, and nothing can be given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneOwner {
    pub uid: u32,
    pub gid: u32,
}

impl OneOwner {
    /// Whether a file can be given to these: to the one it seems to belong to already.
    pub(super) fn may_be_given(self, uid: Option<u32>, gid: Option<u32>) -> bool {
        uid.is_none_or(|uid| uid == self.uid) && gid.is_none_or(|gid| gid == self.gid)
    }
}
