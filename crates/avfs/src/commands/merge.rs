//! `avfs merge`: merges the changes of forks.

mod repositories;

use agentvfs::patch::file_changes;
use agentvfs::{ConflictPolicy, MarkerStyle, MergeOptions, MergeReport, MergedSource, OpenConflict, Vault};
use anyhow::Result;
use serde::Serialize;

use self::repositories::{Parties, RepositoryBody, line};
use crate::conflicts::ConflictBody;
use crate::context::Context;
use crate::escape::printable;
use crate::exit::ExitStatus;
use crate::json::{PathField, from_root};
use crate::versions::{count, short};

/// Merge changes from other vaults into this one
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Merges text line by line, follows files that were moved, and merges attributes one by
one. Where both sides changed the same thing, there is a conflict: it is printed and
stays open until `avfs resolve` resolves it, and the command exits with status 1.
The merge happens in one step or not at all; `avfs undo` undoes it.

Examples:
  avfs merge fix-login
  avfs merge attempt-1 attempt-2 --dry-run
  avfs merge fix-login --into main --conflicts theirs"
)]
pub struct MergeArgs {
    /// The vaults to merge: forks of this one, its parent, forks of the same vault, or tasks of the same project
    #[arg(required = true, value_name = "FROM")]
    from: Vec<String>,

    /// The vault to merge into [default: the one that commands work on]
    #[arg(long, value_name = "VAULT")]
    into: Option<String>,

    /// Show what would happen, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// How to handle conflicts
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    conflicts: MergeConflictsArg,

    /// Show the common base between the two sides of a marked conflict
    #[arg(long)]
    show_base: bool,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum MergeConflictsArg {
    /// Leave them open, with conflict markers in text files
    #[default]
    Mark,
    /// Where both sides changed the same, keep the side that is merged into
    Ours,
    /// Where both sides changed the same, take the side that is merged
    Theirs,
}

impl From<MergeConflictsArg> for ConflictPolicy {
    fn from(arg: MergeConflictsArg) -> ConflictPolicy {
        match arg {
            MergeConflictsArg::Mark => ConflictPolicy::Mark,
            MergeConflictsArg::Ours => ConflictPolicy::Ours,
            MergeConflictsArg::Theirs => ConflictPolicy::Theirs,
        }
    }
}

#[derive(Serialize)]
struct MergeBody {
    vault: String,
    dry_run: bool,
    /// The new snapshot, if there is one.
    snapshot: Option<String>,
    sources: Vec<SourceBody>,
    changes: Vec<ChangedPath>,
    repositories: Vec<RepositoryBody>,
    conflicts: Vec<ConflictBody>,
}

#[derive(Serialize)]
struct SourceBody {
    vault: String,
    base: String,
    snapshot: String,
    changed: u64,
}

#[derive(Serialize)]
struct ChangedPath {
    #[serde(flatten)]
    path: PathField,
    status: &'static str,
}

pub fn run(context: &mut Context<'_>, args: &MergeArgs) -> Result<ExitStatus> {
    let vault = match &args.into {
        Some(name) => context.vault_named(name)?,
        None => context.vault()?,
    };
    let from = args
        .from
        .iter()
        .map(|name| context.vault_named(name))
        .collect::<Result<Vec<_>>>()?;
    let style = if args.show_base {
        MarkerStyle::Diff3
    } else {
        MarkerStyle::Merge
    };
    let options = MergeOptions {
        dry_run: args.dry_run,
        conflicts: args.conflicts.into(),
        style,
    };
    let report = vault.merge(&from.iter().collect::<Vec<_>>(), &options)?;
    tell(context, "merge", &vault, &report, args.dry_run)
}

/// Reports the result of a merge, or of a dry run.
pub fn tell(
    context: &mut Context<'_>,
    kind: &'static str,
    vault: &Vault,
    report: &MergeReport,
    dry_run: bool,
) -> Result<ExitStatus> {
    if context.out.is_json() {
        context.out.object(kind, &body(vault, report, dry_run)?)?
    } else {
        print(context, kind, vault, report, dry_run)?
    }
    Ok(if report.conflicts.is_empty() {
        ExitStatus::Success
    } else {
        ExitStatus::No
    })
}

fn body(vault: &Vault, report: &MergeReport, dry_run: bool) -> Result<MergeBody> {
    let source = |source: &MergedSource| SourceBody {
        vault: source.vault.to_string(),
        base: source.base.to_string(),
        snapshot: source.snapshot.to_string(),
        changed: source.changed,
    };
    let changes = report.changes.iter().map(|change| ChangedPath {
        path: (&change.path).into(),
        status: match (&change.before, &change.after) {
            (None, _) => "added",
            (_, None) => "removed",
            (Some(_), Some(_)) => "changed",
        },
    });
    Ok(MergeBody {
        vault: vault.name()?.to_string(),
        dry_run,
        snapshot: report.saved.as_ref().map(|saved| saved.snapshot.to_string()),
        sources: report.sources.iter().map(source).collect(),
        changes: changes.collect(),
        repositories: report.repositories.iter().map(RepositoryBody::from).collect(),
        conflicts: report.conflicts.iter().map(ConflictBody::new).collect(),
    })
}

fn print(
    context: &mut Context<'_>,
    kind: &str,
    vault: &Vault,
    report: &MergeReport,
    dry_run: bool,
) -> Result<()> {
    for OpenConflict { conflict, .. } in &report.conflicts {
        let path = printable(&from_root(&conflict.path));
        context
            .out
            .line(format_args!("{:<15}  {path}", conflict.kind.name()))?;
    }
    let name = vault.name()?;
    let files = count(file_changes(report.changes.clone()).len() as u64, "file");
    let undo = context.undo_command(vault)?;
    match &report.saved {
        Some(saved) => context.out.talk(format_args!(
            "merged into {name}: {files} changed, now snapshot {} (`{undo}` undoes it)",
            short(saved.snapshot)
        )),
        None if dry_run => context.out.talk(format_args!("would change {files} of {name}")),
        None => context.out.talk(format_args!("{name} has everything already")),
    }
    for merged in &report.repositories {
        let parties = match kind {
            "sync" => Parties {
                from: None,
                into: None,
            },
            _ => Parties {
                from: Some(&merged.from),
                into: Some(name.last_part()),
            },
        };
        context.out.talk(line(merged, parties, dry_run));
    }
    let conflicts = count(report.conflicts.len() as u64, "conflict");
    match report.conflicts.is_empty() {
        true => {}
        false if dry_run => context.out.warn(format_args!("there would be {conflicts}")),
        false => {
            let flag = undo.strip_prefix("avfs undo").unwrap_or_default();
            let [ours, theirs] = match kind {
                "sync" => [("--task", "the task's"), ("--directory", "the directory's")],
                _ => [("--ours", "what was there"), ("--theirs", "what was merged in")],
            };
            let each = if report.conflicts.len() == 1 { "it" } else { "each" };
            context.out.warn(format_args!(
                "{conflicts}: settle {each} with `avfs resolve PATH {}{flag}` ({}) or `{}` ({}); \
                 `avfs resolve --help` has other ways",
                ours.0, ours.1, theirs.0, theirs.1
            ));
        }
    }
    Ok(())
}
