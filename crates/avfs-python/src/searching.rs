//! Ranked search in a vault.

use std::ffi::OsString;

use agentvfs::error::FileError;
use agentvfs::query::search::{Query, SearchError, SearchIndex, SearchOptions, SearchScope};
use pyo3::prelude::*;

use crate::errors::own;
use crate::paths::shown;
use crate::vault::Vault;

/// The files of a vault that are about these words, the best first: path and score.
#[pyfunction]
pub fn search(py: Python<'_>, vault: &Vault, words: &str, limit: usize) -> PyResult<Vec<(OsString, f64)>> {
    let vault = vault.library(py)?;
    let query = Query::parse(words).map_err(|error| own(py, "invalid", error.to_string()))?;
    let found = py.detach(|| -> agentvfs::Result<Result<_, SearchError>> {
        let store = vault.store();
        let home = store.home().unwrap_or(std::path::Path::new("."));
        let parent = match vault.info()?.parent {
            Some(name) => Some(store.vault(name.as_str())?.id().to_string()),
            None => None,
        };
        let key = vault.id().to_string();
        let scope = SearchScope {
            key: &key,
            parent: parent.as_deref(),
            reader: &vault.reader()?,
        };
        let options = SearchOptions {
            limit,
            with_snippets: false,
            ..SearchOptions::default()
        };
        Ok(SearchIndex::open(home).and_then(|index| index.search(scope, &query, options)))
    });
    let found = found.map_err(|error| crate::errors::raised(py, &error))?;
    let results = found.map_err(|error| match error {
        SearchError::Read(source) => {
            let vault = vault.name().map(|name| name.to_string()).unwrap_or_default();
            crate::errors::raised(py, &FileError::Read { vault, source }.into())
        }
        other => own(py, "search-failed", other.to_string()),
    })?;
    Ok(results
        .hits
        .iter()
        .map(|hit| (shown(&hit.path), hit.score))
        .collect())
}
