//! `avfs fsck`: is everything there, and is it what its name says?

use agentvfs::{CheckReport, Error, ErrorKind, LogRepair, RepairReport, Store};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::json::PathField;
use crate::printer::{ERROR, Printer};
use crate::progress::Progress;
use crate::size::HumanSize;
use crate::versions::count;

/// Check the whole store and name the files that are damaged
#[derive(Debug, clap::Args)]
#[command(after_help = "Ends with status 6 if something is damaged, with --repair: if something stays so.

Examples:
  avfs fsck
  avfs fsck --repair")]
pub struct FsckArgs {
    /// Repair what another copy can repair
    #[arg(long)]
    repair: bool,
}

#[derive(Serialize)]
struct FsckBody {
    sound: bool,
    objects: u64,
    bytes: u64,
    vaults: u64,
    problems: Vec<String>,
    affected: Vec<AffectedBody>,
    repaired: Option<RepairBody>,
}

#[derive(Serialize)]
struct AffectedBody {
    vault: String,
    #[serde(flatten)]
    path: PathField,
    states: Vec<String>,
}

#[derive(Serialize)]
struct RepairBody {
    indexed_objects: u64,
    redirected_objects: u64,
    lost_objects: Vec<String>,
    lost_records: Vec<String>,
    /// The last commits are gone.
    lost_commits: bool,
}

pub fn run(context: &mut Context<'_>, args: &FsckArgs) -> Result<ExitStatus> {
    // A store too damaged to be opened has one problem, until it is rebuilt.
    let (store, mut report) = match context.store() {
        Ok(store) => (Some(store.clone()), check(context.out, &store)?),
        Err(error) => (None, CheckReport { problems: vec![damage(error)?], ..CheckReport::default() }),
    };
    let mut repaired = None;
    if args.repair && !report.is_sound() {
        if !context.out.is_json() {
            print_problems(context.out, &report)?;
        }
        repaired = Some(match store {
            Some(store) => store.repair()?,
            None => Store::rebuild(context.home()?)?,
        });
        report = check(context.out, &context.store()?)?;
    }
    match context.out.is_json() {
        true => context.out.object("fsck", &body(&report, repaired.as_ref()))?,
        false => print(context.out, &report, repaired.as_ref())?,
    }
    Ok(if report.is_sound() { ExitStatus::Success } else { ExitStatus::Corrupt })
}

/// The error in words, if it says that the store is damaged.
fn damage(error: anyhow::Error) -> Result<String> {
    match error.downcast_ref::<Error>() {
        Some(cause) if cause.kind() == ErrorKind::Corrupt => Ok(cause.to_string()),
        _ => Err(error),
    }
}

fn check(out: &Printer, store: &Store) -> Result<CheckReport> {
    let progress = Progress::spin(out, "fsck");
    let report = store.check(&mut |done, total| {
        progress.say(|| format!("{} of {}", HumanSize(done), HumanSize(total)));
    })?;
    Ok(report)
}

fn body(report: &CheckReport, repaired: Option<&RepairReport>) -> FsckBody {
    let affected = report.affected.iter().map(|affected| AffectedBody {
        vault: affected.vault.to_string(),
        path: (&affected.path).into(),
        states: affected.states.clone(),
    });
    let repaired = repaired.map(|repaired| RepairBody {
        indexed_objects: repaired.indexed,
        redirected_objects: repaired.redirected,
        lost_objects: repaired.lost.iter().map(|(id, _)| id.to_string()).collect(),
        lost_records: lost_records(repaired),
        lost_commits: repaired.log == LogRepair::Cut,
    });
    FsckBody {
        sound: report.is_sound(),
        objects: report.objects,
        bytes: report.bytes,
        vaults: report.vaults,
        problems: report.problems.clone(),
        affected: affected.collect(),
        repaired,
    }
}

fn lost_records(repaired: &RepairReport) -> Vec<String> {
    repaired.lost_refs.iter().map(|lost| agentvfs::printable(&lost.key)).collect()
}

fn print(out: &mut Printer, report: &CheckReport, repaired: Option<&RepairReport>) -> Result<()> {
    if let Some(repaired) = repaired {
        let (found, mended) = (count(repaired.indexed, "object"), count(repaired.redirected, "object"));
        out.talk(format_args!("repaired: {found} found again, {mended} taken from another copy"));
        if repaired.log == LogRepair::Cut {
            out.warn("the last commits were lost with the log: look at `avfs log` of each vault");
        }
        for record in lost_records(repaired) {
            out.warn(format_args!("the damaged record {record} was removed"));
        }
    }
    print_problems(out, report)?;
    let (objects, vaults) = (count(report.objects, "object"), count(report.vaults, "vault"));
    let bytes = HumanSize(report.bytes);
    match report.is_sound() {
        true => out.talk(format_args!("{objects} ({bytes}) and {vaults} are sound")),
        false => out.talk(format_args!(
            "checked {objects} ({bytes}) and {vaults}: {}, {} affected",
            count(report.problems.len() as u64, "problem"),
            count(report.affected.len() as u64, "path")
        )),
    }
    Ok(())
}

fn print_problems(out: &mut Printer, report: &CheckReport) -> Result<()> {
    for problem in &report.problems {
        let label = out.paint(ERROR, "damaged");
        out.line(format_args!("{label}  {}", printable_line(problem.as_bytes())))?;
    }
    for affected in &report.affected {
        let label = out.paint(ERROR, "affected");
        let states = affected.states.join(", ");
        out.line(format_args!("{label} {}:{} in {states}", affected.vault, affected.path))?;
    }
    Ok(())
}
