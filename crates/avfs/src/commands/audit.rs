//! `avfs audit`: the audit log.

mod verify;

use std::collections::VecDeque;
use std::time::Duration;

use agentvfs::{AuditEntry, Store, Vault};
use anyhow::Result;
use avfs_core::Timestamp;
use serde::Serialize;

use crate::args::moment;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::printer::{PrintError, Printer};
use crate::time::show_rfc3339;

/// Show who did what and when, one JSON object per line
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Oldest first. The log of a vault records everything that was done to it; the log of the
store records, among other things, which vaults were deleted.

Examples:
  avfs audit --since 1d
  avfs audit --follow | jq .action
  avfs audit verify"
)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: Option<AuditCommand>,

    /// Keep printing new records as they arrive
    #[arg(short, long)]
    follow: bool,

    /// Show only records after this: an age (2d) or a time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,

    /// Show only the last N records
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,

    /// Use the log of the store itself instead of a vault's
    #[arg(long)]
    store: bool,
}

#[derive(Debug, clap::Subcommand)]
pub enum AuditCommand {
    Verify(verify::VerifyArgs),
}

/// How many entries are read in one step.
const PAGE: usize = 1000;
/// How often `--follow` checks for new entries.
const PAUSE: Duration = Duration::from_millis(200);

pub fn run(context: &mut Context<'_>, args: &AuditArgs) -> Result<ExitStatus> {
    if let Some(AuditCommand::Verify(args)) = &args.command {
        return verify::run(context, args);
    }
    let log = Log::open(context, args.store)?;
    let mut last = show_all(context.out, &log, args)?;
    if !args.follow {
        return Ok(ExitStatus::Success);
    }
    loop {
        context.out.flush()?;
        // An entry may come from any process, also one on a store that is far away: there is no event to wait
        // for.
        std::thread::sleep(PAUSE);
        last = show_after(context.out, &log, last, args.since)?;
    }
}

/// A log that can be read: of a vault, or of the store itself.
enum Log {
    Vault(Vault),
    Store(Store),
}

impl Log {
    fn open(context: &Context<'_>, of_store: bool) -> Result<Log> {
        if of_store {
            Ok(Log::Store(context.store()?))
        } else {
            Ok(Log::Vault(context.vault()?))
        }
    }

    fn page(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>> {
        match self {
            Log::Vault(vault) => Ok(vault.audit(after, limit)?),
            Log::Store(store) => Ok(store.audit(after, limit)?),
        }
    }
}

#[derive(Serialize)]
struct AuditBody<'a> {
    seq: u64,
    time: String,
    actor: &'a str,
    vault: &'a str,
    action: &'a str,
    detail: &'a str,
    snapshot: Option<&'a str>,
    previous: &'a str,
    hash: &'a str,
}

/// Prints the available entries and returns the number of the last one.
fn show_all(out: &mut Printer, log: &Log, args: &AuditArgs) -> Result<u64> {
    let Some(limit) = args.limit else {
        return show_after(out, log, 0, args.since);
    };
    let mut last = 0;
    let mut tail: VecDeque<AuditEntry> = VecDeque::new();
    loop {
        let page = log.page(last, PAGE)?;
        let Some(end) = page.last() else { break };
        last = end.seq;
        tail.extend(page.into_iter().filter(|entry| is_wanted(entry, args.since)));
        tail.drain(..tail.len().saturating_sub(limit));
    }
    tail.iter().try_for_each(|entry| show(out, entry))?;
    Ok(last)
}

fn show_after(out: &mut Printer, log: &Log, mut last: u64, since: Option<Timestamp>) -> Result<u64> {
    loop {
        let page = log.page(last, PAGE)?;
        let Some(end) = page.last() else { return Ok(last) };
        last = end.seq;
        page.iter()
            .filter(|entry| is_wanted(entry, since))
            .try_for_each(|entry| show(out, entry))?;
    }
}

fn is_wanted(entry: &AuditEntry, since: Option<Timestamp>) -> bool {
    since.is_none_or(|since| entry.time >= since)
}

fn show(out: &mut Printer, entry: &AuditEntry) -> Result<(), PrintError> {
    let body = AuditBody {
        seq: entry.seq,
        time: show_rfc3339(entry.time),
        actor: &entry.actor,
        vault: &entry.vault,
        action: &entry.action,
        detail: &entry.detail,
        snapshot: entry.snapshot.as_deref(),
        previous: &entry.previous,
        hash: &entry.hash,
    };
    out.object("audit-entry", &body)
}
