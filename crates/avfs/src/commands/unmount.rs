//! `avfs unmount`: end a mount.

use std::path::{Path, PathBuf};

use agentvfs::mount::MountError;
use agentvfs::{Error, KnownMount, Unmounted, Vault};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;

/// End a mount
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Waits a while for programs that use the directory. When it returns, everything is stored.

Examples:
  avfs unmount ~/web
  avfs unmount ~/web --force"
)]
pub struct UnmountArgs {
    /// The directory
    dir: PathBuf,
    /// Take the directory away even from programs that use it; what they write goes on to be stored
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
    let store = context.store()?;
    store.clean_up_mounts(&mut agentvfs::mount::take_away)?;
    let found = store.mounts()?.into_iter().find(|known| known.mount.dir == dir);
    let (vault, left) = match (found, shown) {
        (Some(KnownMount { vault, .. }), _) => {
            let left = end(&store.vault(vault.as_str())?, &dir, args.force)?;
            (vault.to_string(), left)
        }
        // It was of a process that died.
        (None, Some(vault)) if agentvfs::mount::vault_at(&dir)?.is_none() => (vault, Unmounted::Wholly),
        (None, _) => return Err(Error::from(MountError::NotMounted { path: args.dir.clone() }).into()),
    };
    if context.out.is_json() {
        let lingers = left == Unmounted::Here;
        let body = UnmountBody { vault, dir: dir.display().to_string(), lingers };
        context.out.object("unmount", &body)?;
    } else {
        context.out.talk(format_args!("{} is unmounted", dir.display()));
        warn_if_it_lingers(context, args, left);
    }
    Ok(ExitStatus::Success)
}

/// Who asked for it by force knows.
fn warn_if_it_lingers(context: &mut Context<'_>, args: &UnmountArgs, left: Unmounted) {
    if left == Unmounted::Here && !args.force {
        context
            .out
            .warn("a container or another namespace of mounts has it still; it is served until that ends");
    }
}

/// Ends one mount of a vault.
pub fn end(vault: &Vault, dir: &Path, force: bool) -> Result<Unmounted, Error> {
    match vault.live_owner()? {
        Some(owner) => owner.unmount(dir, force),
        // It has ended since, and its mounts with it.
        None => vault.store().clean_up_mounts(&mut agentvfs::mount::take_away).map(|()| Unmounted::Wholly),
    }
}

/// The name of a directory without asking what is mounted there: it may not answer.
pub fn whole_name(dir: &Path) -> PathBuf {
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => match std::fs::canonicalize(parent) {
            Ok(parent) => parent.join(name),
            Err(_) => absolute,
        },
        _ => absolute,
    }
}
