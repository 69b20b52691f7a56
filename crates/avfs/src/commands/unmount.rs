//! `avfs unmount`: end a mount.

use std::path::{Path, PathBuf};

use agentvfs::error::StorageError;
use agentvfs::mount::{MountError, UnmountMode};
use agentvfs::{Error, KnownMount, Unmounted, Vault};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;

/// Unmount a directory
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Waits a while for programs that use the directory. When the command returns, everything is stored.

Examples:
  avfs unmount ~/web
  avfs unmount ~/web --force"
)]
pub struct UnmountArgs {
    /// The directory
    dir: PathBuf,
    /// Unmount even while programs use the directory; what they still write is stored
    #[arg(long, short)]
    force: bool,
}

#[derive(Serialize)]
struct UnmountBody {
    vault: String,
    dir: String,
    lingers: bool,
}

pub fn run(context: &mut Context<'_>, args: &UnmountArgs) -> Result<ExitStatus> {
    let dir = whole_name(&args.dir);
    // Before anything that is dead is cleaned up.
    let shown = agentvfs::mount::vault_at(&dir)?;
    let (vault, left) = match by_its_owner(context, args, &dir, shown) {
        Ok(ended) => ended,
        Err(error) => {
            // Its disk may be dead or read-only. The kernel can remove the mount nevertheless.
            if is_about_the_store(&error) && agentvfs::mount::is_here(&dir)? {
                agentvfs::mount::unmount(&dir, args.force)?;
                let shown = dir.display();
                context.out.warn(format_args!(
                    "{shown} is unmounted; what was not stored yet may be lost"
                ));
            }
            return Err(error);
        }
    };
    if context.out.is_json() {
        let lingers = left == Unmounted::Here;
        let body = UnmountBody {
            vault,
            dir: dir.display().to_string(),
            lingers,
        };
        context.out.object("unmount", &body)?;
    } else {
        context.out.talk(format_args!("{} is unmounted", dir.display()));
        warn_if_it_lingers(context, args, left);
    }
    Ok(ExitStatus::Success)
}

/// Asks the process that serves a mount to end it. Returns the vault of the mount.
fn by_its_owner(
    context: &Context<'_>,
    args: &UnmountArgs,
    dir: &Path,
    shown: Option<String>,
) -> Result<(String, Unmounted)> {
    let store = context.store()?;
    store.mounts().clean_up(&mut agentvfs::mount::take_away)?;
    let found = store
        .mounts()
        .list()?
        .into_iter()
        .find(|known| known.mount.dir == dir);
    match (found, shown) {
        (Some(KnownMount { vault, .. }), _) => {
            let left = end(&store.vault(vault.as_str())?, dir, args.force)?;
            Ok((vault.to_string(), left))
        }
        // It was of a process that died.
        (None, Some(vault)) if agentvfs::mount::vault_at(dir)?.is_none() => Ok((vault, Unmounted::Wholly)),
        // On a disk that is read-only, mounts cannot be written down.
        (None, Some(vault)) if store.is_read_only() => {
            agentvfs::mount::unmount(dir, args.force)?;
            Ok((vault, Unmounted::Wholly))
        }
        (None, _) => Err(Error::from(MountError::NotMounted {
            path: args.dir.clone(),
        })
        .into()),
    }
}

/// Whether the store itself cannot be used, so that the owner could not be asked.
fn is_about_the_store(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(Error::Host { .. } | Error::Storage(StorageError::Store(_)))
    )
}

/// A user who used force already knows.
fn warn_if_it_lingers(context: &mut Context<'_>, args: &UnmountArgs, left: Unmounted) {
    if left == Unmounted::Here && !args.force {
        context
            .out
            .warn("a container or another namespace of mounts has it still; it is served until that ends");
    }
}

/// Ends one mount of a vault.
pub fn end(vault: &Vault, dir: &Path, force: bool) -> Result<Unmounted, Error> {
    let how = if force {
        UnmountMode::Detach
    } else {
        UnmountMode::IfUnused
    };
    match vault.ask_owner(|owner| owner.unmount(dir, how))? {
        Some(left) => Ok(left),
        // It has ended since, and its mounts with it.
        None => vault
            .store()
            .mounts()
            .clean_up(&mut agentvfs::mount::take_away)
            .map(|()| Unmounted::Wholly),
    }
}

/// The absolute name of a directory, without accessing the mount: it may not answer.
pub fn whole_name(dir: &Path) -> PathBuf {
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    match (absolute.parent(), absolute.file_name()) {
        // Only the directory above is resolved: at the mount point itself, a dead mount answers nothing.
        (Some(parent), Some(name)) => match std::fs::canonicalize(parent) {
            Ok(parent) => parent.join(name),
            Err(_) => absolute,
        },
        _ => absolute,
    }
}
