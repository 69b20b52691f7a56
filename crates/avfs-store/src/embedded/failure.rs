//! How failures of the operating system and of SQLite become store errors.

use std::io;

use rusqlite::ErrorCode;

use crate::door::StoreError;

/// The name of the database in messages.
pub(crate) const DATABASE: &str = "store.db";

pub(crate) fn io_failure(action: &'static str, place: impl Into<String>, source: io::Error) -> StoreError {
    let place = place.into();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { place },
        _ => StoreError::Io { action, place, source },
    }
}

/// Turns a failure of SQLite into an error; for use as `.map_err(database("reading refs"))`.
pub(crate) fn database(action: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |source| {
        let place = DATABASE.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full { place },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { what: place },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                StoreError::Damaged { place, detail: format!("{source} while {action}") }
            }
            _ => StoreError::Database { action, place, source },
        }
    }
}

/// A row of the database that does not match its own check sum or holds values that we never write.
pub(crate) fn damaged_row(what: impl std::fmt::Display, detail: impl Into<String>) -> StoreError {
    StoreError::Damaged { place: format!("{what} in {DATABASE}"), detail: detail.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_sqlite(code: ErrorCode) -> StoreError {
        let error = rusqlite::ffi::Error { code, extended_code: 0 };
        database("testing")(rusqlite::Error::SqliteFailure(error, None))
    }

    #[test]
    fn failures_of_sqlite_become_what_the_caller_must_do() {
        assert!(matches!(of_sqlite(ErrorCode::DiskFull), StoreError::Full { .. }));
        assert!(matches!(of_sqlite(ErrorCode::DatabaseBusy), StoreError::Busy { .. }));
        assert!(matches!(of_sqlite(ErrorCode::DatabaseCorrupt), StoreError::Damaged { .. }));
        assert!(matches!(of_sqlite(ErrorCode::NotADatabase), StoreError::Damaged { .. }));
        assert!(matches!(of_sqlite(ErrorCode::SystemIoFailure), StoreError::Database { .. }));
    }

    #[test]
    fn a_full_disk_or_quota_is_full() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert!(matches!(io_failure("writing", "a pack", kind.into()), StoreError::Full { .. }));
        }
    }
}
