//! What AgentFense's clients are told of a session that other clients are not: the name that they know it by, the shell
//! that they asked for, and when it ended.

use rusqlite::{OptionalExtension, Row, params};

use super::State;

pub(super) const SCHEMA: &str = "
    create table if not exists shell (
        id text primary key, sandbox text not null, session text not null, program text not null,
        created integer not null, closed integer
    ) strict, without rowid;
    create index if not exists shell_sandbox on shell (sandbox, created, id);";

/// One shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellRecord {
    pub id: String,
    pub sandbox: String,
    /// The session that it is.
    pub session: String,
    /// What the client asked for.
    pub program: String,
    /// Milliseconds since 1970, as every time here.
    pub created: i64,
    /// When it ended, if that is known.
    pub closed: Option<i64>,
}

const COLUMNS: &str = "select id, sandbox, session, program, created, closed from shell";

fn record_of(row: &Row<'_>) -> rusqlite::Result<ShellRecord> {
    Ok(ShellRecord {
        id: row.get(0)?,
        sandbox: row.get(1)?,
        session: row.get(2)?,
        program: row.get(3)?,
        created: row.get(4)?,
        closed: row.get(5)?,
    })
}

impl State {
    pub fn put_shell(&self, record: &ShellRecord) -> rusqlite::Result<()> {
        let put = self.database().execute(
            "insert into shell (id, sandbox, session, program, created, closed) values (?, ?, ?, ?, ?, ?)",
            params![
                record.id,
                record.sandbox,
                record.session,
                record.program,
                record.created,
                record.closed
            ],
        );
        put.map(drop)
    }

    pub fn shell(&self, id: &str) -> rusqlite::Result<Option<ShellRecord>> {
        let database = self.database();
        let mut query = database.prepare_cached(&format!("{COLUMNS} where id = ?"))?;
        query.query_row([id], record_of).optional()
    }

    /// Those of a sandbox, in the order in which they were made.
    pub fn shells(&self, sandbox: &str) -> rusqlite::Result<Vec<ShellRecord>> {
        let database = self.database();
        let mut query =
            database.prepare_cached(&format!("{COLUMNS} where sandbox = ? order by created, id"))?;
        query.query_map([sandbox], record_of)?.collect()
    }

    /// Notes that a shell has ended, unless that is known already.
    pub fn close_shell(&self, id: &str, now: i64) -> rusqlite::Result<()> {
        let closed = self.database().execute(
            "update shell set closed = ? where id = ? and closed is null",
            params![now, id],
        );
        closed.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_that_is_known_counts() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        let record = |id: &str, created| ShellRecord {
            id: id.into(),
            sandbox: "sb".into(),
            session: format!("s-{id}"),
            program: "/bin/sh".into(),
            created,
            closed: None,
        };
        state.put_shell(&record("b", 1)).unwrap();
        state.put_shell(&record("a", 2)).unwrap();
        state.close_shell("b", 3).unwrap();
        drop(state);
        let state = State::open(directory.path()).unwrap();
        state.close_shell("b", 8).unwrap();
        state.close_shell("a", 9).unwrap();
        let closed = |record: ShellRecord| (record.id, record.closed);
        let all: Vec<_> = state.shells("sb").unwrap().into_iter().map(closed).collect();
        assert_eq!(all, [("b".into(), Some(3)), ("a".into(), Some(9))]);
        assert_eq!(state.shell("c").unwrap(), None);
    }
}
