//! Full text over an index that keeps itself up to date.
//!
//! A document is a pair of a path and a content, and all vaults and snapshots of a store share one index, so
//! that a fork costs nothing: each hit is checked against the searched tree, by a lookup of its path, and
//! hits that are not in it are skipped. The index remembers for each vault the tree that it has read, and
//! each search first reads the changes since.
//!
//! Neither texts nor snippets are stored: a snippet is cut from the vault's own bytes. The index can be
//! deleted at any time; one that is damaged or of another version is rebuilt.
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
pub use self::prune::PrunedDocuments;
pub use self::snippet::Snippet;
pub use self::update::{IndexFreshness, IndexLimits};

use self::database::IndexDatabase;

/// The tree to search.
#[derive(Clone, Copy)]
pub struct SearchScope<'a> {
    /// The key for incremental indexing: the same vault has the same key in every search.
    pub key: &'a str,
    /// The key of the vault that this one was forked from: its index is where a new fork starts.
    pub parent: Option<&'a str>,
    /// The tree.
    pub reader: &'a TreeReader,
}

/// Which hits are wanted.
#[derive(Clone, Copy)]
pub struct SearchOptions<'a> {
    /// The maximum number of hits, best first.
    pub limit: usize,
    /// Only at and below this path.
    pub below: Option<&'a TreePath>,
    /// Only paths for which this holds; the others leave no trace in the results.
    pub visible: Option<&'a dyn Fn(&TreePath) -> bool>,
    /// Whether hits come with the lines in which the words are.
    pub with_snippets: bool,
}

impl Default for SearchOptions<'_> {
    fn default() -> Self {
        SearchOptions {
            limit: 20,
            below: None,
            visible: None,
            with_snippets: true,
        }
    }
}

/// A file that matches.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// The file.
    pub path: TreePath,
    /// Higher is better; comparable within one search only.
    pub score: f64,
    /// `None` if the words are in the path alone, or the file cannot be read.
    pub snippet: Option<Snippet>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchResults {
    /// The files that match, the best first.
    pub hits: Vec<SearchHit>,
    /// Whether the index was up to date.
    pub freshness: IndexFreshness,
    /// Hits passed over because they belong to other trees. Many of them are a reason to [prune].
    ///
    /// [prune]: SearchIndex::prune
    pub foreign: u64,
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The database of the index failed.
    #[error("{action} the search index {place}")]
    Database {
        /// What was attempted.
        action: &'static str,
        /// The file of the index.
        place: String,
        /// The error of the database.
        #[source]
        source: rusqlite::Error,
    },
    /// The directory of the index could not be made.
    #[error("preparing {place} for the search index")]
    Directory {
        /// The directory.
        place: String,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The tree could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The changes since the last search could not be read.
    #[error("reading what changed since the last search")]
    Tree(#[from] ObjectError),
}

/// The index of a store. Several threads and processes may use one at the same time.
pub struct SearchIndex {
    database: IndexDatabase,
    limits: IndexLimits,
}

impl SearchIndex {
    /// Opens `search.db` in `directory`, making both if they are not there.
    pub fn open(directory: &Path) -> Result<SearchIndex, SearchError> {
        SearchIndex::open_with(directory, IndexLimits::default())
    }

    /// The same with other limits.
    pub fn open_with(directory: &Path, limits: IndexLimits) -> Result<SearchIndex, SearchError> {
        Ok(SearchIndex {
            database: IndexDatabase::open(directory, limits.patience)?,
            limits,
        })
    }

    /// Indexes the changes since the last time. Searching does this automatically.
    pub fn update(&self, scope: SearchScope<'_>) -> Result<IndexFreshness, SearchError> {
        self.database
            .work(|connection| update::update(connection, scope, &self.limits))
    }

    /// Finds the files with the words of a query. Changes since the last time are indexed first.
    pub fn search(
        &self,
        scope: SearchScope<'_>,
        query: &Query,
        options: SearchOptions<'_>,
    ) -> Result<SearchResults, SearchError> {
        self.database.work(|connection| {
            let freshness = update::update(connection, scope, &self.limits)?;
            let mut results = SearchResults {
                hits: Vec::new(),
                freshness,
                foreign: 0,
            };
            database::each_match(connection, query, |found| {
                match judge(scope.reader, options, &found)? {
                    HitJudgement::Hit => results.hits.push(SearchHit {
                        path: found.path,
                        score: -found.rank,
                        snippet: None,
                    }),
                    HitJudgement::Hidden => {}
                    HitJudgement::Foreign => results.foreign += 1,
                }
                Ok(results.hits.len() < options.limit)
            })?;
            if scope.reader.has_rules() {
                hide_scores(&mut results.hits);
            }
            if options.with_snippets {
                for hit in &mut results.hits {
                    // A damaged file is still a hit: fsck reports the damage, and no snippet is shown.
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
    pub fn prune(&self, live: &[TreeReader]) -> Result<PrunedDocuments, SearchError> {
        self.database.work(|connection| prune::prune(connection, live))
    }
}

/// A score reveals how often the words are in hidden files: only the order is kept.
fn hide_scores(hits: &mut [SearchHit]) {
    let count = hits.len();
    for (index, hit) in hits.iter_mut().enumerate() {
        hit.score = (count - index) as f64;
    }
}

enum HitJudgement {
    Hit,
    /// In this tree, but outside of the requested part.
    Hidden,
    /// Not in this tree.
    Foreign,
}

fn judge(
    reader: &TreeReader,
    options: SearchOptions<'_>,
    found: &database::IndexMatch,
) -> Result<HitJudgement, SearchError> {
    let below = options.below.is_none_or(|below| found.path.starts_with(below));
    if !below || options.visible.is_some_and(|visible| !visible(&found.path)) {
        return Ok(HitJudgement::Hidden);
    }
    match update::is_in(reader, &found.path, found.key)? {
        true => Ok(HitJudgement::Hit),
        // Through rules, the number of files elsewhere must not be revealed.
        false if reader.has_rules() => Ok(HitJudgement::Hidden),
        false => Ok(HitJudgement::Foreign),
    }
}

#[cfg(test)]
mod tests;
