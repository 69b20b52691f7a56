//! `avfs fsck`: checks that everything is present and intact.

use agentvfs::{CheckReport, Error, ErrorKind, JournalRepair, LogRepair, Repaired, Store};
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

/// Check the whole store and list damaged files
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exits with status 6 if something is damaged; with --repair, if something stays damaged or is lost.

Examples:
  avfs fsck
  avfs fsck --repair"
)]
pub struct FsckArgs {
    /// Repair everything that has an intact copy
    #[arg(long)]
    repair: bool,
}

#[derive(Serialize)]
struct FsckBody {
    sound: bool,
    /// An earlier repair may have lost records, and `gc` waits for `--after-repair`.
    may_lack_records: bool,
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
    restored_records: u64,
    lost_objects: Vec<String>,
    lost_records: Vec<String>,
    /// The last commits are gone.
    lost_commits: bool,
    /// Other records may be gone than those that are named.
    may_lack_records: bool,
    recovered_vaults: Vec<String>,
    journals: Vec<JournalBody>,
}

#[derive(Serialize)]
struct JournalBody {
    vault: String,
    problem: String,
    /// The original journal.
    kept: Option<String>,
    lost: bool,
}

impl From<&JournalRepair> for JournalBody {
    fn from(journal: &JournalRepair) -> JournalBody {
        JournalBody {
            vault: journal.vault.to_string(),
            problem: journal.problem.clone(),
            kept: journal.kept.as_ref().map(|kept| kept.display().to_string()),
            lost: journal.lost,
        }
    }
}

pub fn run(context: &mut Context<'_>, args: &FsckArgs) -> Result<ExitStatus> {
    let mut report = check(context)?;
    let (mut repaired, mut told) = (None, CheckReport::default());
    if args.repair && !report.is_sound() {
        // Before the repair, which may take long or fail; in JSON there is one object at the end.
        if !context.out.is_json() {
            print_problems(context.out, &report, &told)?;
        }
        // What was listed is listed again only if it is still there.
        told = report;
        repaired = Some(Store::repair_at(context.home()?, &context.store_options())?);
        report = check(context)?;
    }
    if context.out.is_json() {
        context.out.object("fsck", &body(&report, repaired.as_ref()))?
    } else {
        print(context.out, &report, &told, repaired.as_ref())?
    }
    let has_losses = repaired.is_some_and(|repaired| repaired.has_losses());
    Ok(if report.is_sound() && !has_losses {
        ExitStatus::Success
    } else {
        ExitStatus::Corrupt
    })
}

/// Checks the store, which is closed again afterwards. One too damaged to be opened has one problem, until it is
/// rebuilt.
fn check(context: &Context<'_>) -> Result<CheckReport> {
    let store = match Store::open_with(context.home()?, context.store_options()) {
        Ok(store) => store,
        Err(error) => {
            return Ok(CheckReport {
                // Only damage is a finding. A store that is missing or busy is an error of the command.
                problems: vec![damage(error)?],
                ..CheckReport::default()
            });
        }
    };
    let progress = Progress::spin(context.out, "fsck");
    Ok(store.integrity().check(&mut |done, total| {
        progress.say(|| format!("{} of {}", HumanSize(done), HumanSize(total)));
    })?)
}

/// The message of the error, if it reports damage to the store.
fn damage(error: Error) -> Result<String> {
    match error.kind() {
        ErrorKind::Corrupt => Ok(error.to_string()),
        _ => Err(error.into()),
    }
}

fn body(report: &CheckReport, repaired: Option<&Repaired>) -> FsckBody {
    let affected = report.affected.iter().map(|affected| AffectedBody {
        vault: affected.vault.to_string(),
        path: (&affected.path).into(),
        states: affected.states.clone(),
    });
    let repaired = repaired.map(|repaired| RepairBody {
        indexed_objects: repaired.store.indexed,
        redirected_objects: repaired.store.redirected,
        restored_records: repaired.store.restored_refs,
        lost_objects: repaired.store.lost.iter().map(|(id, _)| id.to_string()).collect(),
        lost_records: lost_records(repaired),
        lost_commits: repaired.store.log == LogRepair::Cut,
        may_lack_records: repaired.store.may_lack_refs,
        recovered_vaults: repaired.recovered.iter().map(|name| name.to_string()).collect(),
        journals: repaired.journals.iter().map(JournalBody::from).collect(),
    });
    FsckBody {
        sound: report.is_sound(),
        may_lack_records: report.may_lack_refs,
        objects: report.objects,
        bytes: report.bytes,
        vaults: report.vaults,
        problems: report.problems.clone(),
        affected: affected.collect(),
        repaired,
    }
}

fn lost_records(repaired: &Repaired) -> Vec<String> {
    repaired
        .store
        .lost_refs
        .iter()
        .map(|lost| agentvfs::printable(&lost.key))
        .collect()
}

fn print_repair(out: &mut Printer, repaired: &Repaired) {
    let store = &repaired.store;
    let (found, mended) = (count(store.indexed, "object"), count(store.redirected, "object"));
    let restored = count(store.restored_refs, "record");
    out.talk(format_args!(
        "repaired: {found} found again, {mended} taken from another copy, {restored} put back"
    ));
    for mended in &repaired.mended_refs {
        out.talk(format_args!("repaired: {mended}"));
    }
    for dropped in &repaired.dropped {
        out.warn(format_args!(
            "{} was not readable and was removed; it is recreated when needed",
            dropped.display()
        ));
    }
    if store.log == LogRepair::Cut {
        out.warn("the last commits were lost with the log: check `avfs log` of each vault");
    }
    for (id, place) in &store.lost {
        out.warn(format_args!("object {id} is lost; it was at {place}"));
    }
    for record in lost_records(repaired) {
        out.warn(format_args!("the record {record} is lost"));
    }
    for journal in &repaired.journals {
        print_journal(out, journal);
    }
    if !repaired.recovered.is_empty() {
        let names: Vec<&str> = repaired.recovered.iter().map(|name| name.as_str()).collect();
        out.warn(format_args!(
            "states that no longer belonged to a vault are vaults now: {}",
            names.join(", ")
        ));
    }
    if repaired.unreferenced > 0 {
        out.warn(format_args!(
            "{} that no vault has were left alone, because they are not whole or too many",
            count(repaired.unreferenced, "snapshot")
        ));
    }
    if store.has_lost_refs() {
        out.warn("records may be lost: `avfs gc` waits until `avfs gc --after-repair` accepts the result");
    }
}

fn print_journal(out: &mut Printer, journal: &JournalRepair) {
    let JournalRepair {
        vault,
        problem,
        kept,
        lost,
    } = journal;
    match (lost, kept) {
        (false, _) => out.talk(format_args!("repaired: {problem}, and nothing of it is lost")),
        (true, Some(kept)) => out.warn(format_args!(
            "vault '{vault}': {problem}; what is whole before that counts, and the journal is kept as {}",
            kept.display()
        )),
        (true, None) => out.warn(format_args!(
            "vault '{vault}': {problem}; the stored states are as before"
        )),
    }
}

fn print(
    out: &mut Printer,
    report: &CheckReport,
    told: &CheckReport,
    repaired: Option<&Repaired>,
) -> Result<()> {
    if let Some(repaired) = repaired {
        print_repair(out, repaired);
    }
    print_problems(out, report, told)?;
    let (objects, vaults) = (count(report.objects, "object"), count(report.vaults, "vault"));
    let bytes = HumanSize(report.bytes);
    if report.is_sound() {
        out.talk(format_args!("{objects} ({bytes}) and {vaults} are sound"))
    } else {
        out.talk(format_args!(
            "checked {objects} ({bytes}) and {vaults}: {}, {} affected",
            count(report.problems.len() as u64, "problem"),
            count(report.affected.len() as u64, "path")
        ))
    }
    Ok(())
}

/// Lists the problems that were not reported before.
fn print_problems(out: &mut Printer, report: &CheckReport, told: &CheckReport) -> Result<()> {
    for problem in report
        .problems
        .iter()
        .filter(|problem| !told.problems.contains(problem))
    {
        let label = out.paint(ERROR, "damaged");
        out.line(format_args!("{label}  {}", printable_line(problem.as_bytes())))?;
    }
    for affected in report
        .affected
        .iter()
        .filter(|affected| !told.affected.contains(affected))
    {
        let label = out.paint(ERROR, "affected");
        let states = affected.states.join(", ");
        out.line(format_args!(
            "{label} {}:{} in {states}",
            affected.vault, affected.path
        ))?;
    }
    Ok(())
}
