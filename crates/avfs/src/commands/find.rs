//! `avfs find`: entries by name, type, size and time.

use agentvfs::query::find::{BadTest, Criteria, EntrySort, FindTest, SizeTest, find};
use agentvfs::query::walk::{WalkSelection, WalkVisit};
use anyhow::Result;
use avfs_core::{Timestamp, TreePath};
use clap::ValueEnum;
use serde::Serialize;

use crate::args::{AtArg, PathArg, moment, path_arg};
use crate::context::Context;
use crate::entry::EntryBody;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::json::from_root;
use crate::printer::{PrintError, Printer};
use crate::rule_args::RuleArgs;
use crate::size::parse_size_test;

/// Find files by name, type, size and time
#[derive(Debug, clap::Args)]
#[command(after_help = "Exits with status 1 if nothing is found.

Examples:
  avfs find --name '*.log' --size +10k
  avfs find src --type f --newer 2d
  avfs find --name '*.tmp' -0 | xargs -0 avfs rm")]
pub struct FindArgs {
    /// Search below these paths [default: everywhere]
    #[arg(value_name = "PATH", value_parser = path_arg())]
    paths: Vec<PathArg>,

    /// Match the name; can be repeated, and any match counts
    #[arg(long, value_name = "GLOB")]
    name: Vec<String>,

    /// Match the name and ignore case; can be repeated
    #[arg(long, value_name = "GLOB")]
    iname: Vec<String>,

    /// Match only this type
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<KindArg>,

    /// Match files larger than (+10k), smaller than (-10k) or exactly this size
    #[arg(long, value_name = "SIZE", value_parser = parse_size_test, allow_hyphen_values = true)]
    size: Option<SizeTest>,

    /// Match what changed after this: an age (2d) or a time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    newer: Option<Timestamp>,

    /// Match what last changed before this: an age (2d) or a time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    older: Option<Timestamp>,

    /// Descend at most this many levels
    #[arg(long, value_name = "N")]
    max_depth: Option<usize>,

    /// End each path with a NUL byte instead of a newline
    #[arg(short = '0', long)]
    print0: bool,

    #[command(flatten)]
    at: AtArg,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KindArg {
    #[value(alias = "f")]
    File,
    #[value(alias = "d")]
    Directory,
    #[value(alias = "l")]
    Symlink,
    #[value(alias = "p")]
    Fifo,
    #[value(alias = "s")]
    Socket,
}

#[derive(Serialize)]
struct FindBody {
    vault: String,
    snapshot: String,
    entries: Vec<EntryBody>,
}

pub fn run(context: &mut Context<'_>, args: &FindArgs) -> Result<ExitStatus> {
    let paths = context.paths(&args.paths)?;
    let tests = Tests::of(args).map_err(|bad| Failure::new("bad-pattern", ExitStatus::BadInput, bad))?;
    let view = context.view(&args.at)?;
    let starts = match paths.as_slice() {
        [] => &[TreePath::root()],
        paths => paths,
    };
    let mut bodies = Vec::new();
    let mut found_any = false;
    let everything = WalkSelection::everything();
    for start in starts {
        let visits = find(&view.reader, start, &everything, &tests.criteria);
        for visit in visits.map_err(|error| view.fail(error))? {
            let visit = visit.map_err(|error| view.fail(error))?;
            if !tests.accepts_name(&visit) {
                continue;
            }
            found_any = true;
            if context.out.is_json() {
                bodies.push(EntryBody::new(&visit.path, &visit.found))
            } else {
                print(context.out, &visit, args.print0)?
            }
        }
    }
    if context.out.is_json() {
        let (vault, snapshot) = (view.vault.name()?.to_string(), view.snapshot.to_string());
        context.out.object(
            "find",
            &FindBody {
                vault,
                snapshot,
                entries: bodies,
            },
        )?;
    }
    if found_any {
        Ok(ExitStatus::Success)
    } else {
        Ok(ExitStatus::No)
    }
}

/// The conditions for an entry.
struct Tests {
    criteria: Criteria,
    /// One of them must hold, if there are any.
    names: Vec<FindTest>,
}

impl Tests {
    fn of(args: &FindArgs) -> Result<Tests, BadTest> {
        let names = args.name.iter().map(|glob| FindTest::name(glob, false));
        let names = names.chain(args.iname.iter().map(|glob| FindTest::name(glob, true)));
        let mut tests = Vec::new();
        tests.extend(args.kind.map(|kind| FindTest::Kind(vec![kind.into()])));
        tests.extend(args.size.map(FindTest::Size));
        tests.extend(args.newer.map(FindTest::Newer));
        tests.extend(args.older.map(FindTest::Older));
        let mut criteria = Criteria::new(tests);
        // The root is found only if it is named.
        criteria.min_depth = usize::from(args.paths.is_empty());
        criteria.max_depth = args.max_depth;
        Ok(Tests {
            criteria,
            names: names.collect::<Result<_, _>>()?,
        })
    }

    fn accepts_name(&self, visit: &WalkVisit) -> bool {
        self.names.is_empty()
            || self
                .names
                .iter()
                .any(|test| test.holds(&visit.path, &visit.found))
    }
}

impl From<KindArg> for EntrySort {
    fn from(kind: KindArg) -> EntrySort {
        match kind {
            KindArg::File => EntrySort::File,
            KindArg::Directory => EntrySort::Directory,
            KindArg::Symlink => EntrySort::Symlink,
            KindArg::Fifo => EntrySort::Fifo,
            KindArg::Socket => EntrySort::Socket,
        }
    }
}

/// With NUL bytes at the end, names are exact: another program reads them.
fn print(out: &mut Printer, visit: &WalkVisit, exact: bool) -> Result<(), PrintError> {
    if exact {
        out.bytes(&[&from_root(&visit.path)[..], b"\0"].concat())
    } else {
        out.line(&visit.path)
    }
}
