//! Requests about what a source has promised and nobody has looked at yet.

use avfs_core::rules::Level;

use super::Skin;
use crate::request::{Operation, Request};
use crate::service::Wait;

impl Skin {
    /// Asks the source for what a request needs, if nobody did before. What goes wrong then goes wrong again when
    /// the request is served, and is told there.
    pub(super) fn owed_to(&self, request: &Request<'_>) -> Option<Wait> {
        let needed = match request.operation {
            Operation::Lookup { .. }
            | Operation::OpenDirectory(_)
            | Operation::ReadDirectory(_)
            | Operation::ReadDirectoryPlus(_)
            | Operation::Symlink { .. }
            | Operation::MakeNode { .. }
            | Operation::MakeDirectory { .. }
            | Operation::Create { .. }
            | Operation::Unlink { .. }
            | Operation::RemoveDirectory { .. }
            | Operation::Rename { .. }
            | Operation::Link { .. } => Level::View,
            Operation::Open(_) | Operation::Read(_) => Level::Read,
            Operation::Write { .. } | Operation::Allocate(_) => Level::Append,
            _ => return None,
        };
        let ino = self.nodes.ino(request.nodeid).ok()?;
        let is_owed = self.tree.is_owed(ino).unwrap_or(false) && self.check(ino, needed).is_ok();
        let tree = self.tree.clone();
        is_owed.then(|| Box::new(move || drop(tree.settle_owed(ino))) as Wait)
    }
}
