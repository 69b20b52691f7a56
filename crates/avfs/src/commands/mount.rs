//! `avfs mount`: a vault as a directory.

mod background;
mod serve;

use std::path::{Path, PathBuf};

use agentvfs::mount::{MountOptions, Transport};
use agentvfs::{Error, Vault};
use anyhow::Result;
use serde::Serialize;

use super::workspace::LeadsBack;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::rule_args::RuleArgs;

/// Mount a vault as a directory for any program
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Changes in the directory are in the vault immediately, and the other way round: every other \
command works on a mounted vault and sees the same state. A snapshot is taken whenever nothing has changed for a \
moment, and at least every minute.

A process in the background serves the directory until `avfs unmount DIR`. Data that was synced (fsync) survives \
the death of that process and a power loss; everything else is safe within a second.

Examples:
  avfs mount web ~/web
  avfs mount ~/web                          the vault chosen with `avfs vault use`
  avfs mount web /mnt/before --at stable    a checkpoint, read-only
  avfs mount web ~/web --foreground         until Ctrl-C
  avfs mount web ~/web --exclusive          faster, but no other mount, run or session
  avfs mount web ~/agent --preset agent-safe --rule '/docs/**=none' --principal agent"
)]
pub struct MountArgs {
    /// The vault [default: the one that commands work on], and the directory
    #[arg(value_names = ["VAULT", "DIR"], num_args = 1..=2, required = true)]
    place: Vec<PathBuf>,
    /// Do not allow changes
    #[arg(long)]
    read_only: bool,
    /// Show a checkpoint or another earlier state, read-only
    #[arg(long, value_name = "REVISION")]
    at: Option<String>,
    /// Let other users access it; ordinary users need `user_allow_other` in /etc/fuse.conf
    #[arg(long)]
    allow_other: bool,
    /// Make this the only mount of the vault, which is faster: the kernel opens, closes and locks files by itself.
    /// Meanwhile, other mounts, runs and sessions are refused; commands still work
    #[arg(long, alias = "alone", conflicts_with = "at")]
    exclusive: bool,
    /// Stay in the foreground, and unmount on Ctrl-C
    #[arg(long)]
    foreground: bool,
    /// How the kernel sends requests: auto (the default), device or uring; see `avfs doctor`
    #[arg(long, value_name = "WAY", value_parser = parse_transport)]
    transport: Option<Transport>,
    /// Record this name in lists and logs as the principal who works in it
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Said by a process to the one that it starts in the background
    #[arg(long, hide = true)]
    background_child: bool,
}

fn parse_transport(text: &str) -> Result<Transport, String> {
    let known = Transport::ALL
        .into_iter()
        .find(|transport| transport.as_str() == text);
    known.ok_or_else(|| "one of auto, device and uring".to_owned())
}

/// A mount that was made, in JSON.
#[derive(Serialize)]
struct MountBody<'a> {
    vault: &'a str,
    dir: String,
    pid: u32,
    read_only: bool,
}

/// The vault to mount, and the mount point.
pub struct MountPlan {
    vault: Vault,
    dir: PathBuf,
    options: MountOptions,
}

impl MountPlan {
    pub fn new(vault: Vault, dir: &Path, options: MountOptions) -> Result<MountPlan> {
        Ok(MountPlan {
            dir: place(&vault, dir)?,
            vault,
            options,
        })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Mounts it through the process that already owns the vault, or through a new one in the background;
    /// returns the number of that process, or the exit status of one that has failed and reported the reason.
    pub fn mount(&self, context: &mut Context<'_>) -> Result<Result<u32, ExitStatus>> {
        if let Some(pid) = self.vault.mounts().ask_owner(&self.dir, &self.options)? {
            return Ok(Ok(pid));
        }
        Ok(match background::start(context, self)? {
            background::StartedMount::Ready(pid) => Ok(pid),
            background::StartedMount::Failed(status) => Err(status),
        })
    }
}

pub fn run(context: &mut Context<'_>, args: &MountArgs) -> Result<ExitStatus> {
    let plan = plan(context, args)?;
    if args.background_child {
        return serve::in_background(&plan);
    }
    if args.foreground {
        return serve::in_foreground(context, &plan);
    }
    match plan.mount(context)? {
        Ok(pid) => report(context, &plan, pid)?,
        Err(status) => return Ok(status),
    }
    warn_of_ways_back(context, &plan)?;
    Ok(ExitStatus::Success)
}

/// A task elsewhere than at its project's path may lead into the project.
fn warn_of_ways_back(context: &mut Context<'_>, plan: &MountPlan) -> Result<()> {
    let name = plan.vault.name()?;
    let task = plan.vault.store().task(name.as_str());
    if let Some(found) = task.ok().as_ref().and_then(|task| LeadsBack::find(task.root())) {
        context.out.warn(format_args!(
            "{found}; `avfs workspace enter {name}` has it at the project's own path"
        ));
    }
    Ok(())
}

fn plan(context: &Context<'_>, args: &MountArgs) -> Result<MountPlan> {
    let (vault, dir) = match &args.place[..] {
        [vault, dir] => (context.vault_named(&vault.to_string_lossy())?, dir),
        [dir] => (context.whole_vault()?, dir),
        _ => unreachable!("clap asks for one or two"),
    };
    let options = if args.background_child {
        background::told()?
    } else {
        options(context, args, &vault)?
    };
    MountPlan::new(vault, dir, options)
}

fn options(context: &Context<'_>, args: &MountArgs, vault: &Vault) -> Result<MountOptions> {
    let at = args.at.as_ref().map(|at| vault.revision(at)).transpose()?;
    Ok(MountOptions {
        read_only: args.read_only,
        allow_other: args.allow_other,
        at: at.map(|revision| revision.snapshot),
        transport: args.transport.unwrap_or_else(|| context.settings.transport()),
        rules: args.rules.list_for(vault)?,
        principal: args.principal.clone(),
        owner: None,
        exclusive: args.exclusive,
    })
}

/// The directory by its whole name. A store must not be hidden below a mount of one of its own vaults.
fn place(vault: &Vault, dir: &Path) -> Result<PathBuf> {
    let whole = std::fs::canonicalize(dir).map_err(|source| Error::Host {
        action: "looking at",
        place: dir.display().to_string(),
        source,
    })?;
    let home = vault
        .store()
        .home()
        // A mount over the store, or of the store, would wait for itself.
        .and_then(|home| std::fs::canonicalize(home).ok());
    if home.is_some_and(|home| home.starts_with(&whole) || whole.starts_with(&home)) {
        let text = format!("{} and the store lie in one another", whole.display());
        return Err(Failure::new("bad-mount-place", ExitStatus::BadInput, text).into());
    }
    Ok(whole)
}

fn report(context: &mut Context<'_>, plan: &MountPlan, pid: u32) -> Result<()> {
    let name = plan.vault.name()?;
    if context.out.is_json() {
        let read_only = plan.options.is_read_only();
        let dir = plan.dir.display().to_string();
        return Ok(context.out.object(
            "mount",
            &MountBody {
                vault: name.as_str(),
                dir,
                pid,
                read_only,
            },
        )?);
    }
    context
        .out
        .talk(format_args!("vault '{name}' is at {}", plan.dir.display()));
    Ok(())
}
