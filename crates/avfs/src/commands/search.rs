//! `avfs search`: ranked full-text search.

use std::cell::{Cell, RefCell};
use std::fmt::Write;

use agentvfs::error::StorageError;
use agentvfs::git::is_in_repository;
use agentvfs::query::search::{
    IndexFreshness, Query, SearchError, SearchHit, SearchIndex, SearchOptions, SearchResults, SearchScope,
    Snippet,
};
use agentvfs::{Error, Task};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use crate::args::{AtArg, PathArg, path_arg};
use crate::context::Context;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::ignored::IgnoredArgs;
use crate::json::PathField;
use crate::left_out::IgnoredTally;
use crate::printer::{ERROR, FAINT, MAGENTA, Printer};
use crate::rule_args::RuleArgs;
use crate::view::View;

/// Search the text of all files, best matches first
#[derive(Debug, clap::Args)]
#[command(
    after_help = "All words must appear. \"several words\" is a phrase, word* matches any word that begins
so, 'this OR that' matches either, and -word excludes files with the word (put it after
'--'). In a task, files that git ignores, build output and what is in .git are left out;
`--ignored` includes the first two, and so does naming them with --path. Exits with
status 1 if nothing is found.

Examples:
  avfs search login timeout
  avfs search '\"connection refused\"' --path logs
  avfs search parser --limit 3"
)]
pub struct SearchArgs {
    /// The words to search for; quotes make a phrase
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,

    /// Show at most this many files
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,

    /// Search only below this directory
    #[arg(long, value_parser = path_arg())]
    path: Option<PathArg>,

    #[command(flatten)]
    ignored: IgnoredArgs,

    #[command(flatten)]
    at: AtArg,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct SearchBody {
    vault: String,
    snapshot: String,
    /// Whether the index is complete, or another process is still writing to it.
    current: bool,
    hits: Vec<HitBody>,
}

#[derive(Serialize)]
struct HitBody {
    #[serde(flatten)]
    path: PathField,
    score: f64,
    line: Option<u64>,
    snippet: Option<String>,
    /// Where the words are in the snippet, in bytes.
    matches: Vec<[usize; 2]>,
}

pub fn run(context: &mut Context<'_>, args: &SearchArgs) -> Result<ExitStatus> {
    if !context.settings.search_enabled() {
        let off = Failure::new(
            "search-disabled",
            ExitStatus::BadInput,
            "full-text search is switched off",
        );
        let hint = "set search.enabled to true, or use `avfs grep`";
        return Err(off.hint(Some(hint.to_owned())).into());
    }
    let query = Query::parse(&args.words.join(" "))
        .map_err(|error| Failure::new("bad-query", ExitStatus::BadInput, error))?;
    let view = context.view(&args.at)?;
    let below = args.path.as_ref().map(|path| context.path(path)).transpose()?;
    let not_work = NotWork::new(context, args, &view, below.as_ref())?;
    let results = search(&view, &query, args, below.as_ref(), &not_work)?;
    if context.out.is_json() {
        let body = SearchBody {
            vault: view.vault.name()?.to_string(),
            snapshot: view.snapshot.to_string(),
            current: results.freshness == IndexFreshness::Current,
            hits: results.hits.iter().map(hit_body).collect(),
        };
        context.out.object("search", &body)?;
    } else {
        print(context.out, &results)?;
        not_work.tell(context.out);
    }
    if results.hits.is_empty() {
        Ok(ExitStatus::No)
    } else {
        Ok(ExitStatus::Success)
    }
}

/// Files of a task that are not work: those that git ignores, and those that git keeps for itself.
struct NotWork {
    ignored: RefCell<IgnoredTally>,
    with_repositories: bool,
    has_met_ignored: Cell<bool>,
}

impl NotWork {
    fn new(
        context: &Context<'_>,
        args: &SearchArgs,
        view: &View,
        below: Option<&TreePath>,
    ) -> Result<NotWork> {
        let starts: Vec<TreePath> = below.cloned().into_iter().collect();
        let is_task = Task::of_vault(&view.vault)?.is_some();
        Ok(NotWork {
            ignored: RefCell::new(IgnoredTally::new(context, args.ignored, view, &starts)?),
            with_repositories: !is_task || below.is_some_and(is_in_repository),
            has_met_ignored: Cell::new(false),
        })
    }

    fn takes(&self, path: &TreePath) -> bool {
        if is_in_repository(path) {
            return !self.with_repositories;
        }
        // What cannot be looked at may be work.
        let is_ignored = self.ignored.borrow_mut().takes(path, false).unwrap_or(false);
        self.has_met_ignored.set(self.has_met_ignored.get() || is_ignored);
        is_ignored
    }

    fn tell(&self, out: &mut Printer) {
        if self.has_met_ignored.get() {
            out.talk("ignored files that match are left out (`--ignored` includes them)");
        }
    }
}

/// The index is in the store's directory, shared by all vaults; one in memory has none, and is never here.
fn search(
    view: &View,
    query: &Query,
    args: &SearchArgs,
    below: Option<&TreePath>,
    not_work: &NotWork,
) -> Result<SearchResults> {
    let store = view.vault.store();
    let home = store
        .home()
        .ok_or_else(|| anyhow::anyhow!("a store in memory has no search index"))?;
    let parent = match view.vault.info()?.parent {
        Some(name) => Some(store.vault(name.as_str())?.id().to_string()),
        None => None,
    };
    // A past state is compared with the state that the index has, and does not change the index.
    let present = view.vault.id().to_string();
    let past = format!("{present}@");
    let (key, parent) = match &args.at.at {
        None => (&present, parent.as_deref()),
        Some(_) => (&past, Some(present.as_str())),
    };
    let index = SearchIndex::open(home).map_err(|error| fail(view, error))?;
    let scope = SearchScope {
        key,
        parent,
        reader: &view.reader,
    };
    let visible = |path: &TreePath| !not_work.takes(path);
    let options = SearchOptions {
        limit: args.limit,
        below,
        visible: Some(&visible),
        ..SearchOptions::default()
    };
    index
        .search(scope, query, options)
        .map_err(|error| fail(view, error))
}

fn fail(view: &View, error: SearchError) -> anyhow::Error {
    match error {
        SearchError::Read(source) => view.fail(source).into(),
        SearchError::Tree(source) => Error::Storage(StorageError::Object(source)).into(),
        SearchError::Database {
            action,
            place,
            source,
        } => {
            let message = format!("{action} the search index {place}: {source}");
            let hint = "the index can be deleted at any time; it is rebuilt".to_owned();
            Failure::new("search-index", ExitStatus::Refused, message)
                .hint(Some(hint))
                .into()
        }
        error @ SearchError::Directory { .. } => error.into(),
    }
}

fn print(out: &mut Printer, results: &SearchResults) -> Result<()> {
    for SearchHit { path, snippet, .. } in &results.hits {
        let path = out.paint(MAGENTA, path);
        match snippet {
            None => out.line(path)?,
            Some(snippet) => {
                let line = out.paint(FAINT, snippet.line);
                out.line(format_args!("{path}:{line}: {}", painted(out, snippet)))?;
            }
        }
    }
    if results.freshness == IndexFreshness::Behind {
        out.warn("another process is writing to the index: newer files may be missing");
    }
    Ok(())
}

/// The snippet as one line, with the words that were found in colour.
fn painted(out: &Printer, snippet: &Snippet) -> String {
    let mut text = String::from(if snippet.cut_before { "…" } else { "" });
    let mut done = 0;
    let shown = |part: &str| printable_line(part.as_bytes());
    for found in &snippet.matches {
        let word = out.paint(ERROR, shown(&snippet.text[found.clone()]));
        write!(text, "{}{word}", shown(&snippet.text[done..found.start]))
            .expect("a string in memory takes all text");
        done = found.end;
    }
    text.push_str(&shown(&snippet.text[done..]));
    text.push_str(if snippet.cut_after { "…" } else { "" });
    text
}

fn hit_body(hit: &SearchHit) -> HitBody {
    let snippet = hit.snippet.as_ref();
    HitBody {
        path: (&hit.path).into(),
        score: hit.score,
        line: snippet.map(|snippet| snippet.line),
        snippet: snippet.map(|snippet| snippet.text.clone()),
        matches: snippet.map_or_else(Vec::new, |snippet| {
            snippet
                .matches
                .iter()
                .map(|found| [found.start, found.end])
                .collect()
        }),
    }
}
