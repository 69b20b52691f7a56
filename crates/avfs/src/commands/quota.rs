//! `avfs quota`: how much a vault may hold.

mod set;
mod show;

use agentvfs::VaultInfo;
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::printer::Printer;

/// Set or show the limits of a vault
#[derive(Debug, clap::Subcommand)]
pub enum QuotaCommand {
    Set(set::QuotaSetArgs),
    Show(show::QuotaShowArgs),
}

pub fn run(context: &mut Context<'_>, command: &QuotaCommand) -> Result<ExitStatus> {
    match command {
        QuotaCommand::Set(args) => set::run(context, args),
        QuotaCommand::Show(args) => show::run(context, args),
    }
}

/// Limits and usage, in JSON; no limit is `null`.
#[derive(Serialize)]
struct QuotaBody {
    vault: String,
    bytes_used: u64,
    bytes_limit: Option<u64>,
    files_used: u64,
    files_limit: Option<u64>,
}

fn print_object(out: &mut Printer, info: &VaultInfo) -> Result<()> {
    let body = QuotaBody {
        vault: info.name.to_string(),
        bytes_used: info.bytes,
        bytes_limit: info.max_bytes,
        files_used: info.files,
        files_limit: info.max_files,
    };
    Ok(out.object("quota", &body)?)
}
