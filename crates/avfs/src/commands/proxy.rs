//! `avfs proxy exec`: the older name of `avfs exec`.

use super::exec::ExecArgs;

/// The older name of `avfs exec`
#[derive(Debug, clap::Subcommand)]
pub enum ProxyCommand {
    Exec(ExecArgs),
}
