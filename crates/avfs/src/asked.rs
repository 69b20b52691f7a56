//! The state of a vault that a question is put to.

use agentvfs::{Error, ReadError, Revision, SnapshotId, TreeReader, Vault};
use anyhow::Result;

use crate::args::AtArg;
use crate::context::Context;

/// One state, to be read. Its errors name the vault.
pub struct Asked {
    pub vault: Vault,
    pub snapshot: SnapshotId,
    pub reader: TreeReader,
}

impl Asked {
    /// The state that `--at` names, or the present one.
    pub fn open(context: &Context<'_>, at: &AtArg) -> Result<Asked> {
        let revision = at.at.as_ref().map_or_else(|| "@".to_owned(), ToString::to_string);
        Asked::of(context.vault()?.revision(&revision)?)
    }

    pub fn of(revision: Revision) -> Result<Asked> {
        let Revision { vault, snapshot, .. } = revision;
        Ok(Asked { reader: vault.reader_at(snapshot)?, vault, snapshot })
    }

    pub fn fail(&self, source: ReadError) -> Error {
        let vault = self.vault.name().map(|name| name.to_string()).unwrap_or_default();
        Error::Read { vault, source }
    }
}
