//! Differences as text and JSON.

use std::collections::HashSet;

use agentvfs::git::GitSummary;
use agentvfs::patch::{
    ChangeSide, ChangeStatus, FileChange, PatchError, PatchOptions, PatchStat, write_patch,
};
use agentvfs::{IgnoredSummary, ReadError, TreePath};
use anyhow::Result;
use serde::Serialize;

use super::DiffArgs;
use super::patch::{Marks, PatchPrinter};
use crate::entry::kind_name;
use crate::git::GitBody;
use crate::ignored::IgnoredBody;
use crate::json::{PathField, byte_field};
use crate::listing::{self, Item, Listing};
use crate::printer::{GREEN, PrintError, Printer, RED};
use crate::size::HumanSize;
use crate::versions::count;
use crate::view::View;

/// The width of the bar of the largest change in `--stat`.
const BAR: u64 = 40;
/// The maximum width of the column of names.
const STAT_NAME: usize = 80;

pub struct DiffOutput<'a> {
    pub from: &'a View,
    pub to: &'a View,
    pub changes: &'a [FileChange],
    /// For a task: its ignored files, if they are shown.
    pub ignored: &'a [FileChange],
    /// The same, counted, whether it is shown or not.
    pub ignored_places: Option<&'a IgnoredSummary>,
    /// Directories that came or went with everything in them.
    pub whole_directories: &'a HashSet<TreePath>,
    /// Of a task.
    pub git: Option<&'a GitSummary>,
}

byte_field!(OldPathField, old_path, old_path_bytes_hex);
byte_field!(PatchField, patch, patch_bytes_hex);

#[derive(Serialize)]
struct DiffBody {
    from: StateBody,
    to: StateBody,
    changes: Vec<ChangeBody>,
    #[serde(flatten)]
    patch: Option<PatchField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<Vec<PathField>>,
    /// For a task: ignored files, which are omitted or, on request, among the changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    ignored: Option<IgnoredBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git: Option<GitBody>,
}

#[derive(Serialize)]
struct StateBody {
    vault: String,
    snapshot: String,
}

/// One changed file in JSON.
#[derive(Serialize)]
pub struct ChangeBody {
    status: &'static str,
    #[serde(flatten)]
    path: PathField,
    #[serde(flatten)]
    old_path: Option<OldPathField>,
    old_type: Option<&'static str>,
    new_type: Option<&'static str>,
    old_size: Option<u64>,
    new_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    insertions: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deletions: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary: Option<bool>,
    /// Of a file that is too large for its lines to be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignored: Option<bool>,
}

impl ChangeBody {
    pub fn new(change: &FileChange) -> ChangeBody {
        let kind = |side: &Option<ChangeSide>| side.as_ref().map(|side| kind_name((&side.entry.kind).into()));
        let file = |side: &ChangeSide| (!side.entry.is_directory()).then(|| side.entry.size());
        let old_path = change
            .old
            .as_ref()
            .filter(|_| change.status == ChangeStatus::Renamed);
        ChangeBody {
            status: status_name(change.status),
            path: change.path().into(),
            old_path: old_path.map(|side| OldPathField::new(&crate::json::from_root(&side.path))),
            old_type: kind(&change.old),
            new_type: kind(&change.new),
            old_size: change.old.as_ref().and_then(file),
            new_size: change.new.as_ref().and_then(file),
            insertions: None,
            deletions: None,
            binary: None,
            changed_bytes: None,
            ignored: None,
        }
    }

    fn ignored(change: &FileChange) -> ChangeBody {
        ChangeBody {
            ignored: Some(true),
            ..ChangeBody::new(change)
        }
    }

    pub fn with_stat(self, stat: PatchStat) -> ChangeBody {
        match stat {
            PatchStat::Lines {
                insertions,
                deletions,
            } => ChangeBody {
                insertions: Some(insertions),
                deletions: Some(deletions),
                binary: Some(false),
                ..self
            },
            PatchStat::Binary { .. } => ChangeBody {
                binary: Some(true),
                ..self
            },
            PatchStat::Large { changed, .. } => ChangeBody {
                changed_bytes: Some(changed),
                ..self
            },
        }
    }
}

fn status_name(status: ChangeStatus) -> &'static str {
    match status {
        ChangeStatus::Added => "added",
        ChangeStatus::Removed => "removed",
        ChangeStatus::Modified => "modified",
        ChangeStatus::Renamed => "renamed",
        ChangeStatus::TypeChanged => "type-changed",
        ChangeStatus::Attributes => "attributes",
    }
}

impl DiffOutput<'_> {
    pub fn print(&self, out: &mut Printer, args: &DiffArgs) -> Result<()> {
        if out.is_json() {
            return self.print_object(out, args);
        }
        let format = &args.format;
        if format.stat {
            self.print_stat(out)
        } else if format.patch || format.word_diff {
            self.print_patch(out, args)
        } else if format.name_only {
            for change in self.shown() {
                out.line(listing::shown(change.path(), false))?;
            }
            Ok(())
        } else {
            self.print_list(out, args.all)
        }
    }

    /// The files to show: ignored ones come last.
    fn shown(&self) -> impl Iterator<Item = &FileChange> {
        self.changes.iter().chain(self.ignored)
    }

    fn print_list(&self, out: &mut Printer, all: bool) -> Result<()> {
        let items = self
            .changes
            .iter()
            .map(Item::from)
            .chain(self.ignored.iter().map(Item::ignored));
        let items: Vec<Item> = items.collect();
        let listing = if all {
            Listing::every(&items)
        } else {
            let places = self.ignored_places.into_iter().flat_map(IgnoredSummary::places);
            let mut whole = self.whole_directories.clone();
            // Ignored directories are folded as those that are new: nobody reads a list of build products.
            whole.extend(places.filter(|place| place.is_directory).map(|place| place.path));
            Listing::folded(&items, &whole)
        };
        listing.print(out)?;
        if listing.is_folded() {
            out.talk(format_args!("{}; `--all` lists every file", listing.counts()));
        }
        Ok(())
    }

    fn print_object(&self, out: &mut Printer, args: &DiffArgs) -> Result<()> {
        let format = &args.format;
        let ignored = self.ignored.iter().map(ChangeBody::ignored);
        let mut changes: Vec<ChangeBody> = self.changes.iter().map(ChangeBody::new).chain(ignored).collect();
        let all: Vec<FileChange> = self.shown().cloned().collect();
        if format.stat {
            // Both are in the order of `shown`.
            let bodies = changes.into_iter().zip(self.stats()?);
            changes = bodies.map(|(body, stat)| body.with_stat(stat)).collect();
        }
        let (mut patch, mut omitted) = (None, None);
        if format.patch || format.word_diff {
            let mut text = Vec::new();
            let options = PatchOptions {
                number_hunks: args.hunk_numbers,
                ..PatchOptions::default()
            };
            let report = write_patch(self.to.reader.objects(), &all, &options, &mut text);
            let report = report.map_err(|error| self.fail(error))?;
            patch = Some(PatchField::new(&text));
            omitted = Some(report.omitted.iter().map(PathField::from).collect());
        }
        let state = |view: &View| -> Result<StateBody> {
            Ok(StateBody {
                vault: view.vault.name()?.to_string(),
                snapshot: view.snapshot.to_string(),
            })
        };
        let git = self.git.map(GitBody::from);
        let ignored = self.ignored_places.map(IgnoredBody::from);
        let (from, to) = (state(self.from)?, state(self.to)?);
        let body = DiffBody {
            from,
            to,
            changes,
            patch,
            omitted,
            ignored,
            git,
        };
        Ok(out.object("diff", &body)?)
    }

    fn print_patch(&self, out: &mut Printer, args: &DiffArgs) -> Result<()> {
        // In a file, the numbers would be text that `patch` does not expect.
        let number_hunks = args.hunk_numbers || out.is_terminal();
        let options = PatchOptions {
            number_hunks,
            ..PatchOptions::default()
        };
        let marks = if args.format.word_diff {
            Marks::Words
        } else {
            Marks::Lines
        };
        let mut printer = PatchPrinter::new(out, marks);
        let all: Vec<FileChange> = self.shown().cloned().collect();
        let report = write_patch(self.to.reader.objects(), &all, &options, &mut printer);
        // Before the warnings, which belong below the patch; and also if writing it has failed.
        printer.finish()?;
        for path in report.map_err(|error| self.fail(error))?.omitted {
            out.warn(format_args!(
                "{path} differs in a way that a patch cannot represent"
            ));
        }
        Ok(())
    }

    fn print_stat(&self, out: &mut Printer) -> Result<()> {
        let stats = self.stats()?;
        let names: Vec<String> = self.shown().map(|change| stat_name(out, change)).collect();
        let width = names
            .iter()
            .map(|name| name.chars().count())
            .max()
            .unwrap_or(0)
            // Longer names move only their own line.
            .min(STAT_NAME);
        let lines = |stat: &PatchStat| match stat {
            PatchStat::Lines {
                insertions,
                deletions,
            } => (u64::from(*insertions), u64::from(*deletions)),
            PatchStat::Binary { .. } | PatchStat::Large { .. } => (0, 0),
        };
        let largest = stats
            .iter()
            .map(|stat| lines(stat).0 + lines(stat).1)
            .max()
            .unwrap_or(0);
        for (name, stat) in names.iter().zip(&stats) {
            let told = match stat {
                PatchStat::Lines { .. } => bar(out, lines(stat), largest),
                PatchStat::Binary { old, new } => {
                    format!("binary, {} -> {}", HumanSize(*old), HumanSize(*new))
                }
                PatchStat::Large {
                    old: 0, new: size, ..
                }
                | PatchStat::Large {
                    old: size, new: 0, ..
                } => {
                    format!("large, {}", HumanSize(*size))
                }
                PatchStat::Large { old, new, changed } => {
                    let (old, new) = (HumanSize(*old), HumanSize(*new));
                    format!(
                        "large, {old} -> {new}, about {} of it changed",
                        HumanSize(*changed)
                    )
                }
            };
            out.line(format_args!("{name:<width$} | {told}"))?;
        }
        let total = stats
            .iter()
            .map(lines)
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let files = count(stats.len() as u64, "file");
        let (insertions, deletions) = (count(total.0, "insertion"), count(total.1, "deletion"));
        Ok(out.line(format_args!("{files} changed, {insertions}(+), {deletions}(-)"))?)
    }

    fn stats(&self) -> Result<Vec<PatchStat>> {
        let options = PatchOptions::default();
        let stats = self
            .shown()
            .map(|change| PatchStat::of(self.to.reader.objects(), change, &options));
        stats.collect::<Result<_, _>>().map_err(|error| self.fail(error))
    }

    fn fail(&self, error: PatchError) -> anyhow::Error {
        match error {
            PatchError::Object { path, source } => self.to.fail(ReadError::Object { path, source }).into(),
            PatchError::Write(error) => PrintError::from(error).into(),
        }
    }
}

/// One line per file, or per directory with many.
pub fn print_list(out: &mut Printer, changes: &[FileChange]) -> Result<(), PrintError> {
    let items: Vec<Item> = changes.iter().map(Item::from).collect();
    Listing::folded(&items, &HashSet::new()).print(out)
}

/// A name as `--stat` shows it: on a terminal, the end of a very long one.
fn stat_name(out: &Printer, change: &FileChange) -> String {
    let name = match (change.status, &change.old) {
        (ChangeStatus::Renamed, Some(old)) => {
            format!(
                "{} -> {}",
                listing::shown(&old.path, false),
                listing::shown(change.path(), false)
            )
        }
        _ => listing::shown(change.path(), false),
    };
    let length = name.chars().count();
    if out.is_terminal() && length > STAT_NAME {
        format!(
            "…{}",
            // The end tells files apart; the sign for the rest takes one place.
            name.chars().skip(length - STAT_NAME + 1).collect::<String>()
        )
    } else {
        name
    }
}

/// `12 +++++---`, where the largest change of all fills the bar.
fn bar(out: &Printer, (insertions, deletions): (u64, u64), largest: u64) -> String {
    let scaled = |lines: u64| {
        if largest > BAR && lines > 0 {
            // A small change stays visible beside a large one.
            (lines * BAR / largest).max(1)
        } else {
            lines
        }
    };
    let signs = |sign: &str, lines: u64| sign.repeat(scaled(lines) as usize);
    let (plus, minus) = (
        out.paint(GREEN, signs("+", insertions)),
        out.paint(RED, signs("-", deletions)),
    );
    format!("{:>4} {plus}{minus}", insertions + deletions)
        .trim_end()
        .to_owned()
}
