//! Codebases: vaults with a name and an owner that their client chose.

use rusqlite::{OptionalExtension, Row, params};

use super::State;

/// A codebase is written down before its vault is made, and forgotten after that is deleted.
pub(super) const SCHEMA: &str = "
    create table if not exists codebase (
        id text primary key, name text not null, owner text not null, created integer not null
    ) strict, without rowid;
    create index if not exists codebase_created on codebase (created, id);";

/// One codebase. Its vault has the same id as its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodebaseRecord {
    pub id: String,
    pub name: String,
    pub owner: String,
    /// Milliseconds since 1970.
    pub created: i64,
}

const COLUMNS: &str = "select id, name, owner, created from codebase";

fn record_of(row: &Row<'_>) -> rusqlite::Result<CodebaseRecord> {
    Ok(CodebaseRecord {
        id: row.get(0)?,
        name: row.get(1)?,
        owner: row.get(2)?,
        created: row.get(3)?,
    })
}

impl State {
    pub fn put_codebase(&self, record: &CodebaseRecord) -> rusqlite::Result<()> {
        let put = self.database().execute(
            "insert or replace into codebase (id, name, owner, created) values (?, ?, ?, ?)",
            params![record.id, record.name, record.owner, record.created],
        );
        put.map(drop)
    }

    pub fn codebase(&self, id: &str) -> rusqlite::Result<Option<CodebaseRecord>> {
        let database = self.database();
        let mut query = database.prepare_cached(&format!("{COLUMNS} where id = ?"))?;
        query.query_row([id], record_of).optional()
    }

    /// Those after a place in the order in which they were made, at most so many.
    pub fn codebases(
        &self,
        owner: Option<&str>,
        after: (i64, &str),
        most: usize,
    ) -> rusqlite::Result<Vec<CodebaseRecord>> {
        let database = self.database();
        let mut query = database.prepare_cached(&format!(
            "{COLUMNS} where (created, id) > (?, ?) and (? is null or owner = ?) order by created, id limit ?"
        ))?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        query
            .query_map(params![after.0, after.1, owner, owner, most], record_of)?
            .collect()
    }

    /// Forgets a codebase.
    pub fn remove_codebase(&self, id: &str) -> rusqlite::Result<()> {
        self.database()
            .execute("delete from codebase where id = ?", [id])
            .map(drop)
    }
}
