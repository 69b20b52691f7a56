//! `avfs audit verify`: whether the record was tampered with.

use anyhow::Result;
use serde::Serialize;

use super::Log;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::versions::count;

/// Check that no record in the log was changed, removed or inserted
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints the hash at the end of the log. Anyone who can write to the store's files could
replace the whole log: keep the hash elsewhere, and check it with --expect.
Exits with status 6 if the log is broken.

Examples:
  avfs audit verify
  avfs audit verify --expect 9f2c…        a hash that was kept elsewhere"
)]
pub struct VerifyArgs {
    /// Require the log to contain the record with this hash
    #[arg(long, value_name = "HASH")]
    expect: Option<String>,

    /// Use the log of the store itself instead of a vault's
    #[arg(long)]
    store: bool,
}

#[derive(Serialize)]
struct VerifiedBody {
    /// `None`: the log of the store.
    vault: Option<String>,
    entries: u64,
    head: String,
}

pub fn run(context: &mut Context<'_>, args: &VerifyArgs) -> Result<ExitStatus> {
    let log = Log::open(context, args.store)?;
    let expect = args.expect.as_deref();
    let (entries, vault) = match &log {
        Log::Vault(vault) => (vault.verify_audit(expect)?, Some(vault.name()?.to_string())),
        Log::Store(store) => (store.verify_audit(expect)?, None),
    };
    let end = log.page(entries.saturating_sub(1), 1)?;
    let head = end.into_iter().next().map(|entry| entry.hash).unwrap_or_default();
    if context.out.is_json() {
        context
            .out
            .object("audit-verified", &VerifiedBody { vault, entries, head })?;
        return Ok(ExitStatus::Success);
    }
    context.out.line(head)?;
    let log = vault.map_or_else(|| "the store".to_owned(), |name| format!("vault '{name}'"));
    let whole = count(entries, "record");
    context.out.talk(format_args!(
        "the log of {log} is whole: {whole}, ending in the hash above"
    ));
    Ok(ExitStatus::Success)
}
