//! The table of refs. Each row carries a check sum, and every lookup also checks the rows next to the gap.
//!
//! SQLite does not checksum its pages. A flipped bit in a value is caught by the row's sum. A flipped bit in
//! a key would make a ref look absent, but the row stays at its position in the tree, so a search for the
//! true key ends right beside it, and checking both neighbours of a gap finds it.

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use crate::door::{CommitError, RefEdit, RefKey, RefRange, StoreError};
use crate::embedded::failure::{damaged_row, database};
use crate::embedded::index::check_sum;

type Ref = (RefKey, Vec<u8>);

/// A ref that does not match its check sum, as it was read: a person may still recognise it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRef {
    /// The key, as far as it could be read.
    pub key: Vec<u8>,
    /// The value, as far as it could be read.
    pub value: Vec<u8>,
}

const READING: &str = "reading refs";

pub(crate) fn read(connection: &Connection, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let found = one(
        connection,
        "SELECT key, value, sum FROM refs WHERE key = ?1",
        &key,
    )?;
    if found.is_none() {
        one(
            connection,
            "SELECT key, value, sum FROM refs WHERE key < ?1 ORDER BY key DESC LIMIT 1",
            &key,
        )?;
        one(
            connection,
            "SELECT key, value, sum FROM refs WHERE key > ?1 ORDER BY key LIMIT 1",
            &key,
        )?;
    }
    Ok(found.map(|(_, value)| value))
}

/// Returns the refs of a range. The caller has a transaction open, so all refs are as of one moment.
pub(crate) fn scan(connection: &Connection, range: &RefRange) -> Result<Vec<Ref>, StoreError> {
    let edge = ScanStart::of(range);
    // The row before the start of the scan: if it is damaged, it may belong in the range.
    if let Some((sql, bound)) = edge.before() {
        one(connection, sql, &bound)?;
    }
    let (sql, bound) = edge.rows();
    let fail = database(READING);
    let mut statement = connection.prepare_cached(sql).map_err(&fail)?;
    let mut rows = match &bound {
        Some(bound) => statement.query([bound]),
        None => statement.query([]),
    }
    .map_err(&fail)?;
    let mut found = Vec::new();
    while range.limit.is_none_or(|limit| found.len() < limit) {
        let Some(row) = rows.next().map_err(&fail)? else {
            break;
        };
        // The first row after the range is checked as well: if it is damaged, it may belong in the range.
        let entry = checked(row)?;
        if !entry.0.starts_with(&range.prefix) {
            break;
        }
        found.push(entry);
    }
    Ok(found)
}

/// Checks all edits against the current refs, then makes them. On an error, the caller rolls back the
/// transaction.
pub(crate) fn apply(connection: &Connection, edits: &[RefEdit]) -> Result<(), CommitError> {
    for edit in edits {
        if read(connection, &edit.key)? != edit.expect {
            return Err(CommitError::Conflict {
                key: edit.key.clone(),
            });
        }
    }
    for edit in edits.iter().filter(|edit| edit.value != edit.expect) {
        match &edit.value {
            Some(value) => write(connection, &edit.key, value)?,
            None => remove(connection, &edit.key)?,
        }
    }
    Ok(())
}

/// Calls `visit` with every ref, sound or not, as far as the database can be read.
pub(crate) fn for_each(
    connection: &Connection,
    visit: &mut dyn FnMut(Result<Ref, LostRef>),
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("SELECT key, value, sum FROM refs")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        visit(checked(row).map_err(|_| LostRef {
            key: raw(row, 0),
            value: raw(row, 1),
        }));
    }
    Ok(())
}

pub(crate) fn write(connection: &Connection, key: &str, value: &[u8]) -> Result<(), StoreError> {
    let sql = "INSERT OR REPLACE INTO refs (key, value, sum) VALUES (?1, ?2, ?3)";
    let mut statement = connection.prepare_cached(sql).map_err(database("writing refs"))?;
    let row = params![key, value, ref_sum(key.as_bytes(), value)];
    statement
        .execute(row)
        .map(|_| ())
        .map_err(database("writing refs"))
}

fn remove(connection: &Connection, key: &str) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached("DELETE FROM refs WHERE key = ?1")
        .map_err(database("writing refs"))?;
    statement
        .execute([key])
        .map(|_| ())
        .map_err(database("writing refs"))
}

/// Runs a query for at most one ref.
fn one(connection: &Connection, sql: &str, bound: &dyn ToSql) -> Result<Option<Ref>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(database(READING))?;
    let found = statement.query_row([bound], |row| Ok(checked(row))).optional();
    found.map_err(database(READING))?.transpose()
}

fn checked(row: &Row<'_>) -> Result<Ref, StoreError> {
    let damaged = || {
        damaged_row(
            format_args!("ref {}", printable(&raw(row, 0))),
            "it does not match its check sum",
        )
    };
    let key: String = row.get(0).map_err(|_| damaged())?;
    let value: Vec<u8> = row.get(1).map_err(|_| damaged())?;
    let sum: i64 = row.get(2).map_err(|_| damaged())?;
    if ref_sum(key.as_bytes(), &value) != sum {
        return Err(damaged());
    }
    Ok((key, value))
}

/// The bytes of a text or blob, even if the row is otherwise damaged.
fn raw(row: &Row<'_>, column: usize) -> Vec<u8> {
    let value = row
        .get_ref(column)
        .map(|value| value.as_bytes().map(<[u8]>::to_vec));
    value.map_or_else(|_| Vec::new(), Result::unwrap_or_default)
}

pub(crate) fn printable(key: &[u8]) -> String {
    String::from_utf8_lossy(key).escape_debug().to_string()
}

pub(crate) fn ref_sum(key: &[u8], value: &[u8]) -> i64 {
    check_sum(&[key, value])
}

/// The start of a scan, in the direction of the scan.
enum ScanStart {
    /// Ascending, starting with this key.
    From(String),
    /// Ascending, after this key.
    Behind(String),
    /// Descending, below this key.
    Below(String),
    /// Descending, from the very last key.
    Last,
}

impl ScanStart {
    fn of(range: &RefRange) -> ScanStart {
        if !range.reverse {
            return match &range.after {
                Some(after) if *after >= range.prefix => ScanStart::Behind(after.clone()),
                _ => ScanStart::From(range.prefix.clone()),
            };
        }
        match (&range.after, end_of_prefix(&range.prefix)) {
            (Some(after), Some(end)) => ScanStart::Below(after.clone().min(end)),
            (Some(after), None) => ScanStart::Below(after.clone()),
            (None, Some(end)) => ScanStart::Below(end),
            (None, None) => ScanStart::Last,
        }
    }

    /// The query for the rows of the scan.
    fn rows(&self) -> (&'static str, Option<&str>) {
        match self {
            ScanStart::From(key) => (
                "SELECT key, value, sum FROM refs WHERE key >= ?1 ORDER BY key",
                Some(key.as_str()),
            ),
            ScanStart::Behind(key) => (
                "SELECT key, value, sum FROM refs WHERE key > ?1 ORDER BY key",
                Some(key.as_str()),
            ),
            ScanStart::Below(key) => (
                "SELECT key, value, sum FROM refs WHERE key < ?1 ORDER BY key DESC",
                Some(key.as_str()),
            ),
            ScanStart::Last => ("SELECT key, value, sum FROM refs ORDER BY key DESC", None),
        }
    }

    /// The query for the row just before the start of the scan.
    fn before(&self) -> Option<(&'static str, &str)> {
        match self {
            ScanStart::From(key) => Some((
                "SELECT key, value, sum FROM refs WHERE key < ?1 ORDER BY key DESC LIMIT 1",
                key,
            )),
            ScanStart::Behind(key) => Some((
                "SELECT key, value, sum FROM refs WHERE key <= ?1 ORDER BY key DESC LIMIT 1",
                key,
            )),
            ScanStart::Below(key) => Some((
                "SELECT key, value, sum FROM refs WHERE key >= ?1 ORDER BY key LIMIT 1",
                key,
            )),
            ScanStart::Last => None,
        }
    }
}

/// The least text above everything that starts with `prefix`; `None` if no such text exists.
fn end_of_prefix(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_lies_above_it_and_everything_in_it() {
        assert_eq!(end_of_prefix("vault/").as_deref(), Some("vault0"));
        assert_eq!(end_of_prefix("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(end_of_prefix("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(end_of_prefix(""), None);
        assert_eq!(end_of_prefix("\u{10ffff}"), None);
    }
}
