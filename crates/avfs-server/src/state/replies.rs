//! Answers that are kept for clients who ask again with the same `Idempotency-Key`.

use rusqlite::{OptionalExtension, params};

use super::State;
use crate::clock::UnixMillis;

/// A key is reserved before anything is done, and has its answer afterwards. A reservation whose server is gone stays
/// without one: nobody knows how far that request came.
pub(super) const SCHEMA: &str = "
    create table if not exists reply (
        principal text not null, key text not null, fingerprint blob not null, created integer not null,
        status integer, body blob, primary key (principal, key)
    ) strict, without rowid;";

/// For how long answers are kept.
const KEPT_MS: i64 = 24 * 60 * 60 * 1000;

/// A key, and the request that came with it.
#[derive(Clone, Debug)]
pub(crate) struct KeyUse {
    pub principal: String,
    pub key: String,
    /// A hash of the request.
    pub fingerprint: [u8; 32],
}

/// An answer as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptReply {
    pub status: u16,
    pub body: Vec<u8>,
}

/// What became of an attempt to reserve a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// The request is new.
    Made,
    /// It was answered before.
    Answered(KeptReply),
    /// It was made before, and nothing is known of its end.
    Unanswered,
    /// The key belongs to another request.
    OfAnother,
}

/// The answers to requests with a key.
pub(crate) struct StoredReplies<'a>(pub(super) &'a State);

impl StoredReplies<'_> {
    pub fn reserve(&self, used: &KeyUse) -> rusqlite::Result<Reservation> {
        let database = self.0.database();
        let now = UnixMillis::now().0;
        let made = database.execute(
            "insert or ignore into reply (principal, key, fingerprint, created) values (?, ?, ?, ?)",
            params![used.principal, used.key, used.fingerprint, now],
        )?;
        if made == 1 {
            return Ok(Reservation::Made);
        }
        let found = database
            .query_row(
                "select fingerprint, status, body from reply where principal = ? and key = ?",
                params![used.principal, used.key],
                |row| {
                    let fingerprint: [u8; 32] = row.get(0)?;
                    let reply: (Option<u16>, Option<Vec<u8>>) = (row.get(1)?, row.get(2)?);
                    Ok((fingerprint, reply))
                },
            )
            .optional()?;
        Ok(match found {
            Some((fingerprint, _)) if fingerprint != used.fingerprint => Reservation::OfAnother,
            Some((_, (Some(status), Some(body)))) => Reservation::Answered(KeptReply { status, body }),
            _ => Reservation::Unanswered,
        })
    }

    /// Forgets what was kept for long enough.
    pub fn forget_old(&self) -> rusqlite::Result<()> {
        let until = UnixMillis::now().0 - KEPT_MS;
        let forgotten = self
            .0
            .database()
            .execute("delete from reply where created < ?", [until]);
        forgotten.map(drop)
    }

    /// Keeps the answer under its key.
    pub fn keep(&self, used: &KeyUse, reply: &KeptReply) -> rusqlite::Result<()> {
        let kept = self.0.database().execute(
            "update reply set status = ?, body = ? where principal = ? and key = ?",
            params![reply.status, reply.body, used.principal, used.key],
        );
        kept.map(drop)
    }

    /// Forgets a reservation: nothing was done, and the client may try again.
    pub fn release(&self, used: &KeyUse) -> rusqlite::Result<()> {
        let released = self.0.database().execute(
            "delete from reply where principal = ? and key = ?",
            params![used.principal, used.key],
        );
        released.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_request_and_one_answer_also_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        let used = KeyUse {
            principal: "token a".into(),
            key: "k".into(),
            fingerprint: [1; 32],
        };
        assert_eq!(state.replies().reserve(&used).unwrap(), Reservation::Made);
        assert_eq!(state.replies().reserve(&used).unwrap(), Reservation::Unanswered);
        let other = KeyUse {
            fingerprint: [2; 32],
            ..used.clone()
        };
        assert_eq!(state.replies().reserve(&other).unwrap(), Reservation::OfAnother);
        let of_another_client = KeyUse {
            principal: "token b".into(),
            ..other
        };
        assert_eq!(
            state.replies().reserve(&of_another_client).unwrap(),
            Reservation::Made
        );
        let reply = KeptReply {
            status: 201,
            body: b"{}".to_vec(),
        };
        state.replies().keep(&used, &reply).unwrap();
        drop(state);
        let state = State::open(directory.path()).unwrap();
        assert_eq!(
            state.replies().reserve(&used).unwrap(),
            Reservation::Answered(reply)
        );
        state.replies().release(&used).unwrap();
        assert_eq!(state.replies().reserve(&used).unwrap(), Reservation::Made);
    }
}
