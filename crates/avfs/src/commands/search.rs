//! `avfs search`: ranked full-text search.

use std::fmt::Write;

use agentvfs::Error;
use agentvfs::query::search::{
    Freshness, Hit, Query, Scope, SearchError, SearchIndex, SearchOptions, SearchResults, Snippet,
};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use crate::args::{AtArg, vault_path};
use crate::context::Context;
use crate::escape::printable_line;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::json::PathField;
use crate::printer::{ERROR, FAINT, MAGENTA, Printer};
use crate::rule_args::RuleArgs;
use crate::view::View;

/// Search the text of all files, best matches first
#[derive(Debug, clap::Args)]
#[command(after_help = "Words must all appear; \"several words\" must follow each other; word* is any word
that begins so; 'this OR that' wants one of them; -word must not appear (write
it behind '--'). Ends with status 1 if nothing is found.

Examples:
  avfs search login timeout
  avfs search '\"connection refused\"' --path logs
  avfs search parser --limit 3")]
pub struct SearchArgs {
    /// Words that must all appear; quotes keep words together
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,

    /// At most this many files
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,

    /// Only below this directory
    #[arg(long, value_parser = vault_path())]
    path: Option<TreePath>,

    #[command(flatten)]
    at: AtArg,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct SearchBody {
    vault: String,
    snapshot: String,
    /// Whether the index holds everything, or another process is still writing to it.
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
        let off = Failure::new("search-disabled", ExitStatus::BadInput, "full-text search is switched off");
        let hint = "set search.enabled to true, or use `avfs grep`";
        return Err(off.hint(Some(hint.to_owned())).into());
    }
    let query = Query::parse(&args.words.join(" "))
        .map_err(|error| Failure::new("bad-query", ExitStatus::BadInput, error))?;
    let view = context.view(&args.at)?;
    let results = search(&view, &query, args)?;
    if context.out.is_json() {
        let body = SearchBody {
            vault: view.vault.name()?.to_string(),
            snapshot: view.snapshot.to_string(),
            current: results.freshness == Freshness::Current,
            hits: results.hits.iter().map(hit_body).collect(),
        };
        context.out.object("search", &body)?;
    } else {
        print(context.out, &results)?;
    }
    if results.hits.is_empty() { Ok(ExitStatus::No) } else { Ok(ExitStatus::Success) }
}

/// The index is in the store's directory, shared by all vaults; one in memory has none, and is never here.
fn search(view: &View, query: &Query, args: &SearchArgs) -> Result<SearchResults> {
    let store = view.vault.store();
    let home = store.home().ok_or_else(|| anyhow::anyhow!("a store in memory has no search index"))?;
    let parent = match view.vault.info()?.parent {
        Some(name) => Some(store.vault(name.as_str())?.id().to_string()),
        None => None,
    };
    // A past state is read from where the index of the vault stands, and does not move that.
    let present = view.vault.id().to_string();
    let past = format!("{present}@");
    let (key, parent) = match &args.at.at {
        None => (&present, parent.as_deref()),
        Some(_) => (&past, Some(present.as_str())),
    };
    let index = SearchIndex::open(home).map_err(|error| fail(view, error))?;
    let scope = Scope { key, parent, reader: &view.reader };
    let options = SearchOptions { limit: args.limit, below: args.path.as_ref(), ..SearchOptions::default() };
    index.search(scope, query, options).map_err(|error| fail(view, error))
}

fn fail(view: &View, error: SearchError) -> anyhow::Error {
    match error {
        SearchError::Read(source) => view.fail(source).into(),
        SearchError::Tree(source) => Error::Object(source).into(),
        SearchError::Database { action, place, source } => {
            let message = format!("{action} the search index {place}: {source}");
            let hint = "the index can be deleted at any time: it is made anew".to_owned();
            Failure::new("search-index", ExitStatus::Refused, message).hint(Some(hint)).into()
        }
        error @ SearchError::Directory { .. } => error.into(),
    }
}

fn print(out: &mut Printer, results: &SearchResults) -> Result<()> {
    for Hit { path, snippet, .. } in &results.hits {
        let path = out.paint(MAGENTA, path);
        match snippet {
            None => out.line(path)?,
            Some(snippet) => {
                let line = out.paint(FAINT, snippet.line);
                out.line(format_args!("{path}:{line}: {}", painted(out, snippet)))?;
            }
        }
    }
    if results.freshness == Freshness::Behind {
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

fn hit_body(hit: &Hit) -> HitBody {
    let snippet = hit.snippet.as_ref();
    HitBody {
        path: (&hit.path).into(),
        score: hit.score,
        line: snippet.map(|snippet| snippet.line),
        snippet: snippet.map(|snippet| snippet.text.clone()),
        matches: snippet.map_or_else(Vec::new, |snippet| {
            snippet.matches.iter().map(|found| [found.start, found.end]).collect()
        }),
    }
}
