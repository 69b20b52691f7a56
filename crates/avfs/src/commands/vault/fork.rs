//! `avfs vault fork`: a vault from another one's exact state.

use agentvfs::{Vault, VaultName};
use anyhow::Result;
use serde::Serialize;

use crate::commands::vault::body::VaultInfoBody;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::revision::RevisionArg;

/// Create a vault from the exact state of another; instant, and free until it changes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs vault fork web web-fix --use
  avfs vault fork web old-web --at before-upgrade
  avfs vault fork web try --count 8       creates try-1 to try-8")]
pub struct VaultForkArgs {
    /// The vault to fork
    from: String,

    /// Name of the new vault
    name: String,

    /// Make it the vault that commands work on
    #[arg(long = "use", conflicts_with = "count")]
    choose: bool,

    /// Fork this checkpoint or snapshot instead of the current state
    #[arg(long, value_name = "CHECKPOINT", value_parser = RevisionArg::parse)]
    at: Option<RevisionArg>,

    /// Make this many forks, named NAME-1, NAME-2, …
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: Option<u32>,
}

#[derive(Serialize)]
struct VaultForkBody {
    vaults: Vec<VaultInfoBody>,
}

pub fn run(context: &mut Context<'_>, args: &VaultForkArgs) -> Result<ExitStatus> {
    let names = names(args)?;
    let store = context.store()?;
    let forks = fork(&context.vault_named(&args.from)?, args.at.as_ref(), &names)?;
    if args.choose {
        store.use_vault(&args.name)?;
    }
    if context.out.is_json() {
        let current = context.chosen_vault(&store)?;
        let body = |fork: &Vault| Ok(VaultInfoBody::new(&fork.info()?, current.as_deref()));
        let vaults = forks.iter().map(body).collect::<Result<_>>()?;
        context.out.object("vault-fork", &VaultForkBody { vaults })?;
    }
    match &names[..] {
        [name] => context.out.talk(format_args!("created vault '{name}'")),
        [first, .., last] => {
            context.out.talk(format_args!(
                "created {} vaults, '{first}' to '{last}'",
                names.len()
            ));
        }
        [] => {}
    }
    Ok(ExitStatus::Success)
}

fn names(args: &VaultForkArgs) -> Result<Vec<VaultName>> {
    match args.count {
        None => Ok(vec![VaultName::new(&args.name)?]),
        Some(count) => (1..=count)
            .map(|number| Ok(VaultName::new(&format!("{}-{number}", args.name))?))
            .collect(),
    }
}

fn fork(vault: &Vault, at: Option<&RevisionArg>, names: &[VaultName]) -> Result<Vec<Vault>> {
    let Some(at) = at else {
        return Ok(vault.fork(names)?);
    };
    let revision = vault.revision(&at.to_string())?;
    if revision.vault.id() != vault.id() {
        let message = format!("'{at}' is a state of another vault than '{}'", vault.name()?);
        let hint = Some("fork the vault that has this state".to_owned());
        return Err(Failure::new("usage", ExitStatus::BadInput, message)
            .hint(hint)
            .into());
    }
    Ok(vault.fork_at(&revision, names)?)
}
