//! Names that clients have given to snapshots of sandboxes.

use rusqlite::OptionalExtension;

use super::State;

/// A name leads to the last snapshot that was given it; that one's vault exists before.
pub(super) const SCHEMA: &str = "
    create table if not exists snapshot_name (
        name text primary key, vault text not null
    ) strict, without rowid;
    create index if not exists snapshot_name_vault on snapshot_name (vault);";

/// The names of snapshots.
pub(crate) struct StoredSnapshotNames<'a>(pub(super) &'a State);

impl StoredSnapshotNames<'_> {
    /// Gives a snapshot a name, which another one loses.
    pub fn set(&self, name: &str, vault: &str) -> rusqlite::Result<()> {
        let named = self.0.database().execute(
            "insert or replace into snapshot_name (name, vault) values (?, ?)",
            [name, vault],
        );
        named.map(drop)
    }

    /// The vault of the snapshot with this name.
    pub fn vault_of(&self, name: &str) -> rusqlite::Result<Option<String>> {
        let database = self.0.database();
        let mut query = database.prepare_cached("select vault from snapshot_name where name = ?")?;
        query.query_row([name], |row| row.get(0)).optional()
    }

    /// The names of a snapshot.
    pub fn of_vault(&self, vault: &str) -> rusqlite::Result<Vec<String>> {
        let database = self.0.database();
        let mut query =
            database.prepare_cached("select name from snapshot_name where vault = ? order by name")?;
        query.query_map([vault], |row| row.get(0))?.collect()
    }

    /// Forgets the names of a snapshot.
    pub fn forget(&self, vault: &str) -> rusqlite::Result<()> {
        let forgotten = self
            .0
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
            state.snapshots().set(name, vault).unwrap();
        }
        drop(state);
        let state = State::open(directory.path()).unwrap();
        assert_eq!(state.snapshots().vault_of("a").unwrap().as_deref(), Some("two"));
        assert_eq!(state.snapshots().of_vault("one").unwrap(), ["b"]);
        state.snapshots().forget("two").unwrap();
        assert_eq!(state.snapshots().vault_of("a").unwrap(), None);
    }
}
