//! Names that clients have given to snapshots of sandboxes.

use rusqlite::OptionalExtension;

use super::State;

/// A name leads to the last snapshot that was given it; that one's vault exists before.
pub(super) const SCHEMA: &str = "
    create table if not exists snapshot_name (
        name text primary key, vault text not null
    ) strict, without rowid;
    create index if not exists snapshot_name_vault on snapshot_name (vault);";

impl State {
    /// Gives a snapshot a name, which another one loses.
    pub fn name_snapshot(&self, name: &str, vault: &str) -> rusqlite::Result<()> {
        let named = self.database().execute(
            "insert or replace into snapshot_name (name, vault) values (?, ?)",
            [name, vault],
        );
        named.map(drop)
    }

    /// The vault of the snapshot with this name.
    pub fn snapshot_named(&self, name: &str) -> rusqlite::Result<Option<String>> {
        let database = self.database();
        let mut query = database.prepare_cached("select vault from snapshot_name where name = ?")?;
        query.query_row([name], |row| row.get(0)).optional()
    }

    /// The names of a snapshot.
    pub fn snapshot_names(&self, vault: &str) -> rusqlite::Result<Vec<String>> {
        let database = self.database();
        let mut query =
            database.prepare_cached("select name from snapshot_name where vault = ? order by name")?;
        query.query_map([vault], |row| row.get(0))?.collect()
    }

    /// Forgets the names of a snapshot.
    pub fn forget_snapshot(&self, vault: &str) -> rusqlite::Result<()> {
        let forgotten = self
            .database()
            .execute("delete from snapshot_name where vault = ?", [vault]);
        forgotten.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_the_last_snapshot_that_got_it_also_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        for (name, vault) in [("a", "one"), ("b", "one"), ("a", "two")] {
            state.name_snapshot(name, vault).unwrap();
        }
        drop(state);
        let state = State::open(directory.path()).unwrap();
        assert_eq!(state.snapshot_named("a").unwrap().as_deref(), Some("two"));
        assert_eq!(state.snapshot_names("one").unwrap(), ["b"]);
        state.forget_snapshot("two").unwrap();
        assert_eq!(state.snapshot_named("a").unwrap(), None);
    }
}
