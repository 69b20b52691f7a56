//! Requests about what a source has promised and nobody has looked at yet.

use avfs_core::rules::Level;
use avfs_tree::Wanted;

use super::Skin;
use super::error::SkinError;
use crate::request::{Operation, Request};

impl Skin {
    /// What has to be asked of a source before a request can be served, if nobody did before. Who may not have it
    /// does not make anybody ask.
    pub(super) fn owed_to(&self, request: &Request<'_>) -> Option<Wanted> {
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
        match self.tree.is_owed(ino) {
            Ok(false) => None,
            Ok(true) => match self.check(ino, needed) {
                Ok(_) => Some(Wanted::Owed(ino)),
                Err(error) => SkinError::from(error).wanted(),
            },
            Err(error) => error.wanted(),
        }
    }
}
