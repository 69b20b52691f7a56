//! Mounts on which everything belongs to one user: a program that runs under a different user id finds files
//! of its own.

/// The user who appears to own everything on a mount. New entries belong to the owner of their directory, and
/// ownership cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneOwner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl OneOwner {
    /// Whether ownership may be set to these: only to the apparent owner.
    pub(super) fn may_be_given(self, uid: Option<u32>, gid: Option<u32>) -> bool {
        uid.is_none_or(|uid| uid == self.uid) && gid.is_none_or(|gid| gid == self.gid)
    }
}
