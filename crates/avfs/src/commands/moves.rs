//! Shared by `cp` and `mv`: several sources, one target.

use agentvfs::{InodeKind, OpenVault};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use crate::change::{ChangeResult, ChangedBody};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::json::{byte_field, from_root};

byte_field!(FromField, from, from_bytes_hex);
byte_field!(ToField, to, to_bytes_hex);

#[derive(Serialize)]
pub struct MovesBody {
    entries: Vec<MoveBody>,
    #[serde(flatten)]
    changed: ChangedBody,
}

#[derive(Serialize)]
struct MoveBody {
    #[serde(flatten)]
    from: FromField,
    #[serde(flatten)]
    to: ToField,
}

impl MovesBody {
    pub fn new(sources: &[TreePath], targets: &[TreePath], changed: &ChangeResult) -> MovesBody {
        let entries = sources.iter().zip(targets).map(|(from, to)| MoveBody {
            from: FromField::new(&from_root(from)),
            to: ToField::new(&from_root(to)),
        });
        MovesBody {
            entries: entries.collect(),
            changed: changed.body(),
        }
    }
}

/// Several things go into a directory only.
pub fn check_target(open: &OpenVault, sources: &[TreePath], target: &TreePath) -> Result<()> {
    if sources.len() > 1 && (!open.exists(target)? || open.stat(target)?.kind != InodeKind::Directory) {
        let message = format!("{target} is not a directory, and there are several things to put into it");
        return Err(Failure::new("not-a-directory", ExitStatus::BadInput, message).into());
    }
    Ok(())
}
