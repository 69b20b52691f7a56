//! `avfs vault fork`: a vault from another one's exact state.

use std::num::NonZeroU32;

use crate::revision::Revision;

/// Make a vault from another one's exact state, at no cost until it is changed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs vault fork web web-fix --use
  avfs vault fork web old-web --at before-upgrade
  avfs vault fork web try --count 8       makes try-1 to try-8")]
pub struct ForkArgs {
    /// The vault to fork
    from: String,

    /// Name of the new vault
    name: String,

    /// Choose it for the commands that follow
    #[arg(long = "use", conflicts_with = "count")]
    choose: bool,

    /// Fork this checkpoint or snapshot instead of the present state
    #[arg(long, value_name = "CHECKPOINT", value_parser = Revision::parse)]
    at: Option<Revision>,

    /// Make this many forks, named NAME-1, NAME-2, …
    #[arg(long, value_name = "N")]
    count: Option<NonZeroU32>,
}
