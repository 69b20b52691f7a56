//! `avfs proxy exec`: another name of `avfs exec`.

use super::exec::ExecCommandArgs;

/// Same as `avfs exec`
#[derive(Debug, clap::Subcommand)]
pub enum ProxyCommand {
    Exec(ExecCommandArgs),
}
