//! agentvfs: vaults that fork, checkpoint, diff and roll back in the time of what changed.

pub mod transfer;
