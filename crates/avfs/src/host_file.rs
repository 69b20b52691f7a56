//! Files of the host that a command writes.

use std::fs::Permissions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agentvfs::transfer::TransferError;
use anyhow::{Context as _, Result};

use crate::escape::printable_path;

/// Modes of new files; the user's umask is taken off.
pub const EVERYONE: u32 = 0o666;
pub const OWNER: u32 = 0o600;

/// Writes a file that gets its name when it is whole. With `replace`, one that is there is replaced then.
pub fn write_whole<T>(
    target: &Path,
    mode: u32,
    replace: bool,
    fill: impl FnOnce(&mut dyn Write) -> Result<T>,
) -> Result<T> {
    let writing = || format!("writing {}", printable_path(target));
    // Checked early, not only after everything is written; the final check is at the end.
    if !replace && target.symlink_metadata().is_ok() {
        return Err(agentvfs::Error::from(TransferError::Exists {
            path: target.to_owned(),
        })
        .into());
    }
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.permissions(Permissions::from_mode(mode));
    let file = builder
        .tempfile_in(parent.unwrap_or(Path::new(".")))
        .with_context(writing)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let value = fill(&mut out)?;
    let file = out
        .into_inner()
        .map_err(|error| error.into_error())
        .with_context(writing)?;
    file.as_file().sync_all().with_context(writing)?;
    let named = if replace {
        file.persist(target)
    } else {
        file.persist_noclobber(target)
    };
    named.map_err(|error| error.error).with_context(writing)?;
    Ok(value)
}
