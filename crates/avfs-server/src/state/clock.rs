//! When a server last looked at the clock, so that the next one notices that it was set meanwhile.

use rusqlite::{OptionalExtension, params};

use super::State;
use crate::clock::{Moment, SteadyMillis, UnixMillis};

pub(super) const SCHEMA: &str = "
    create table if not exists clock (
        one integer primary key check (one = 1), boot text not null, day integer not null, steady integer not null
    ) strict;";

/// How far the time of day has moved.
pub(crate) struct StoredClock<'a>(pub(super) &'a State);

impl StoredClock<'_> {
    /// By how much the time of day was set since the last look.
    pub fn jump(&self, now: Moment, boot: &str) -> rusqlite::Result<i64> {
        let last = self
            .0
            .database()
            .query_row("select boot, day, steady from clock", [], |row| {
                let moment = Moment {
                    day: UnixMillis(row.get(1)?),
                    steady: SteadyMillis(row.get(2)?),
                };
                Ok((row.get::<_, String>(0)?, moment))
            })
            .optional()?;
        Ok(match last {
            Some((of, last)) if of == boot => now.jump_since(last).unwrap_or(0),
            // How long the machine was off is not known, but it was not less than nothing.
            Some((_, last)) => (now.day.0 - last.day.0).min(0),
            None => 0,
        })
    }

    /// Moves everything that has yet to happen by a jump, and notes the look.
    pub fn follow(&self, now: Moment, boot: &str, jump: i64) -> rusqlite::Result<()> {
        // A sum that has no place in the database becomes a number that is no time.
        const MOVED: [&str; 2] = [
            "update sandbox set expires = max(1, min(expires + ?1, 9000000000000000)) where expires is not null",
            "update reply set created = max(0, min(created + ?1, 9000000000000000))",
        ];
        let mut database = self.0.database();
        let change = database.transaction()?;
        for moved in MOVED.iter().filter(|_| jump != 0) {
            change.execute(moved, [jump])?;
        }
        change.execute(
            "insert or replace into clock (one, boot, day, steady) values (1, ?, ?, ?)",
            params![boot, now.day.0, now.steady.0],
        )?;
        change.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{SandboxRecord, SandboxState};

    const HOUR: i64 = 60 * 60 * 1000;
    const DAY: i64 = 2_000_000_000_000;

    fn moment(day: i64, steady: i64) -> Moment {
        Moment {
            day: UnixMillis(day),
            steady: SteadyMillis(steady),
        }
    }

    fn expiring(id: &str, expires: Option<i64>) -> SandboxRecord {
        SandboxRecord {
            id: id.to_owned(),
            vault: None,
            parent: None,
            state: SandboxState::Ready,
            created: DAY,
            expires,
            spec: "{}".to_owned(),
        }
    }

    #[test]
    fn expiry_in_an_hour_does_not_depend_on_the_clock() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        let look = |now: Moment, boot: &str| {
            let jump = state.clock().jump(now, boot).unwrap();
            state.clock().follow(now, boot, jump).unwrap();
            let expires = state.sandbox("a").unwrap().unwrap().expires.unwrap();
            assert_eq!(state.sandbox("b").unwrap().unwrap().expires, None);
            (jump, expires - now.day.0)
        };
        let records = [expiring("a", Some(DAY + HOUR)), expiring("b", None)];
        state.put_sandboxes(&records).unwrap();
        assert_eq!(look(moment(DAY, 100), "boot 1"), (0, HOUR));
        // Ten minutes later, and in another century.
        let far = DAY + 100_000 * HOUR + HOUR / 6;
        assert_eq!(
            look(moment(far, 100 + HOUR / 6), "boot 1"),
            (100_000 * HOUR, HOUR - HOUR / 6)
        );
        // Back again, while no server ran.
        let back = moment(DAY + HOUR / 3, 100 + HOUR / 3);
        assert_eq!(look(back, "boot 1"), (-100_000 * HOUR, HOUR - HOUR / 3));
        // The machine was off for five minutes.
        let later = moment(back.day.0 + HOUR / 12, 5);
        assert_eq!(look(later, "boot 2"), (0, HOUR - HOUR / 3 - HOUR / 12));
        // It was off, and its clock has lost the time.
        let lost = moment(1000, 5);
        assert_eq!(look(lost, "boot 3").1, HOUR - HOUR / 3 - HOUR / 12);
    }
}
