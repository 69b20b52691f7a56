//! Full text over an index that keeps itself up to date.
//!
//! A document is a pair of a path and a content, and all vaults and snapshots of a store share one index, so
//! that a fork costs nothing: each hit is checked against the tree that was asked, by a look-up of its path,
//! and those that are not in it are passed over. The index remembers for each vault the tree that it has
//! read, and each search first reads what has changed since.
//!
//! Neither texts nor snippets are stored: a snippet is cut from the vault's own bytes. The index can
//! be thrown away at any time; one that is damaged or of another version is made anew.
//!
//! Ranking is BM25 over all documents of the index, with words of the path counting more than those of the
//! text. Not indexed are binary, damaged and very large files, and everything that is not a file.

mod database;
mod parse;
mod prune;
mod snippet;
mod update;
mod words;

use std::path::Path;

use avfs_core::TreePath;
use avfs_tree::{ObjectError, ReadError, TreeReader};

pub use self::parse::{BadQuery, Query};
pub use self::prune::Pruned;
pub use self::snippet::Snippet;
pub use self::update::{Freshness, IndexLimits};

use self::database::Database;

/// The tree that is asked.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// Names what is indexed step by step: the same vault has the same key in every search.
    pub key: &'a str,
    /// The key of the vault that this one was forked from: its index is where a new fork starts.
    pub parent: Option<&'a str>,
    pub reader: &'a TreeReader,
}

/// Which hits are wanted.
#[derive(Clone, Copy)]
pub struct SearchOptions<'a> {
    /// How many, best first.
    pub limit: usize,
    /// Only at and below this path.
    pub below: Option<&'a TreePath>,
    /// Only paths for which this holds; the others leave no trace in the results.
    pub visible: Option<&'a dyn Fn(&TreePath) -> bool>,
    pub with_snippets: bool,
}

impl Default for SearchOptions<'_> {
    fn default() -> Self {
        SearchOptions { limit: 20, below: None, visible: None, with_snippets: true }
    }
}

/// A file that is about what was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub path: TreePath,
    /// Higher is better; comparable within one search only.
    pub score: f64,
    /// `None` if the words are in the path alone, or the file cannot be read.
    pub snippet: Option<Snippet>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SearchResults {
    pub hits: Vec<Hit>,
    pub freshness: Freshness,
    /// Hits passed over because they belong to other trees. Many of them are a reason to [prune].
    ///
    /// [prune]: SearchIndex::prune
    pub foreign: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error("{action} the search index {place}")]
    Database {
        action: &'static str,
        place: String,
        #[source]
        source: rusqlite::Error,
    },
    #[error("preparing {place} for the search index")]
    Directory {
        place: String,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("reading what changed since the last search")]
    Tree(#[from] ObjectError),
}

/// The index of a store. Several threads and processes may use one at the same time.
pub struct SearchIndex {
    database: Database,
    limits: IndexLimits,
}

impl SearchIndex {
    /// Opens `search.db` in `directory`, making both if they are not there.
    pub fn open(directory: &Path) -> Result<SearchIndex, SearchError> {
        SearchIndex::open_with(directory, IndexLimits::default())
    }

    pub fn open_with(directory: &Path, limits: IndexLimits) -> Result<SearchIndex, SearchError> {
        Ok(SearchIndex { database: Database::open(directory, limits.patience)?, limits })
    }

    /// Reads what has changed since the last time. Searching does this by itself.
    pub fn update(&self, scope: Scope<'_>) -> Result<Freshness, SearchError> {
        self.database.work(|connection| update::update(connection, scope, &self.limits))
    }

    pub fn search(
        &self,
        scope: Scope<'_>,
        query: &Query,
        options: SearchOptions<'_>,
    ) -> Result<SearchResults, SearchError> {
        self.database.work(|connection| {
            let freshness = update::update(connection, scope, &self.limits)?;
            let mut results = SearchResults { hits: Vec::new(), freshness, foreign: 0 };
            database::each_match(connection, query, |found| {
                match judge(scope.reader, options, &found)? {
                    Judgement::Hit => {
                        results.hits.push(Hit { path: found.path, score: -found.rank, snippet: None })
                    }
                    Judgement::Hidden => {}
                    Judgement::Foreign => results.foreign += 1,
                }
                Ok(results.hits.len() < options.limit)
            })?;
            if scope.reader.has_rules() {
                hide_scores(&mut results.hits);
            }
            if options.with_snippets {
                for hit in &mut results.hits {
                    // A damaged file is still a hit: fsck tells of the damage, and nothing of it is shown.
                    let bytes = scope.reader.read(&hit.path).ok();
                    hit.snippet = bytes.and_then(|bytes| snippet::cut(&bytes, query));
                }
            }
            Ok(results)
        })
    }

    /// Forgets a vault that is gone. Its documents stay until the next [`SearchIndex::prune`].
    pub fn forget(&self, key: &str) -> Result<(), SearchError> {
        self.database.work(|connection| database::forget(connection, key))
    }

    /// Removes the documents that are in none of these trees. Costs a look-up per document and tree.
    pub fn prune(&self, live: &[TreeReader]) -> Result<Pruned, SearchError> {
        self.database.work(|connection| prune::prune(connection, live))
    }
}

/// A score tells how often the words are in files that may not be seen: of it, only the order is left.
fn hide_scores(hits: &mut [Hit]) {
    let count = hits.len();
    for (index, hit) in hits.iter_mut().enumerate() {
        hit.score = (count - index) as f64;
    }
}

enum Judgement {
    Hit,
    /// In this tree, but not asked for.
    Hidden,
    /// Not in this tree.
    Foreign,
}

fn judge(
    reader: &TreeReader,
    options: SearchOptions<'_>,
    found: &database::Match,
) -> Result<Judgement, SearchError> {
    let below = options.below.is_none_or(|below| found.path.starts_with(below));
    if !below || options.visible.is_some_and(|visible| !visible(&found.path)) {
        return Ok(Judgement::Hidden);
    }
    match update::is_in(reader, &found.path, found.key)? {
        true => Ok(Judgement::Hit),
        // Through rules, nobody learns how much there is elsewhere.
        false if reader.has_rules() => Ok(Judgement::Hidden),
        false => Ok(Judgement::Foreign),
    }
}

#[cfg(test)]
mod tests;
