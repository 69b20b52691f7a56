//! `avfs find`: entries by name, type, size and time.

use agentvfs::query::find::{BadTest, Criteria, EntrySort, SizeTest, Test, find};
use agentvfs::query::walk::{Selection, Visit};
use anyhow::Result;
use avfs_core::{Timestamp, TreePath};
use clap::ValueEnum;
use serde::Serialize;

use crate::args::{AtArg, moment, vault_path};
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
#[command(after_help = "Ends with status 1 if nothing is found.

Examples:
  avfs find --name '*.log' --size +10k
  avfs find src --type f --newer 2d
  avfs find --name '*.tmp' -0 | xargs -0 avfs rm")]
pub struct FindArgs {
    /// Where to look [default: everywhere]
    #[arg(value_name = "PATH", value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// The name matches; can be repeated: any of them
    #[arg(long, value_name = "GLOB")]
    name: Vec<String>,

    /// As --name, whatever the case of the letters
    #[arg(long, value_name = "GLOB")]
    iname: Vec<String>,

    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<KindArg>,

    /// Larger (+10k), smaller (-10k) or exactly
    #[arg(long, value_name = "SIZE", value_parser = parse_size_test, allow_hyphen_values = true)]
    size: Option<SizeTest>,

    /// Changed since: an age (2d) or a time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    newer: Option<Timestamp>,

    /// Last changed before: an age (2d) or a time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    older: Option<Timestamp>,

    /// Only this many levels down
    #[arg(long, value_name = "N")]
    max_depth: Option<usize>,

    /// End each path with a NUL byte instead of a line end
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
    let tests = Tests::of(args).map_err(|bad| Failure::new("bad-pattern", ExitStatus::BadInput, bad))?;
    let view = context.view(&args.at)?;
    let starts = match args.paths.as_slice() {
        [] => &[TreePath::root()],
        paths => paths,
    };
    let mut bodies = Vec::new();
    let mut found_any = false;
    let everything = Selection::everything();
    for start in starts {
        let visits = find(&view.reader, start, &everything, &tests.criteria);
        for visit in visits.map_err(|error| view.fail(error))? {
            let visit = visit.map_err(|error| view.fail(error))?;
            if !tests.accepts_name(&visit) {
                continue;
            }
            found_any = true;
            match context.out.is_json() {
                true => bodies.push(EntryBody::new(&visit.path, &visit.found)),
                false => print(context.out, &visit, args.print0)?,
            }
        }
    }
    if context.out.is_json() {
        let (vault, snapshot) = (view.vault.name()?.to_string(), view.snapshot.to_string());
        context.out.object("find", &FindBody { vault, snapshot, entries: bodies })?;
    }
    if found_any { Ok(ExitStatus::Success) } else { Ok(ExitStatus::No) }
}

/// What an entry must be like.
struct Tests {
    criteria: Criteria,
    /// One of them must hold, if there are any.
    names: Vec<Test>,
}

impl Tests {
    fn of(args: &FindArgs) -> Result<Tests, BadTest> {
        let names = args.name.iter().map(|glob| Test::name(glob, false));
        let names = names.chain(args.iname.iter().map(|glob| Test::name(glob, true)));
        let mut tests = Vec::new();
        tests.extend(args.kind.map(|kind| Test::Kind(vec![kind.into()])));
        tests.extend(args.size.map(Test::Size));
        tests.extend(args.newer.map(Test::Newer));
        tests.extend(args.older.map(Test::Older));
        let mut criteria = Criteria::new(tests);
        // The root is found only by those who name it.
        criteria.min_depth = usize::from(args.paths.is_empty());
        criteria.max_depth = args.max_depth;
        Ok(Tests { criteria, names: names.collect::<Result<_, _>>()? })
    }

    fn accepts_name(&self, visit: &Visit) -> bool {
        self.names.is_empty() || self.names.iter().any(|test| test.holds(&visit.path, &visit.found))
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
fn print(out: &mut Printer, visit: &Visit, exact: bool) -> Result<(), PrintError> {
    match exact {
        true => out.bytes(&[&from_root(&visit.path)[..], b"\0"].concat()),
        false => out.line(&visit.path),
    }
}
