//! Translates failures of the operating system and of SQLite into store errors.

use std::io;

use rusqlite::{ErrorCode, ffi};

use crate::door::StoreError;
use crate::embedded::shared_memory;

/// The name of the database in messages.
pub(crate) const DATABASE: &str = "store.db";

pub(crate) fn io_failure(action: &'static str, place: impl Into<String>, source: io::Error) -> StoreError {
    let place = place.into();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { place },
        _ => StoreError::Io {
            action,
            place,
            source,
        },
    }
}

/// Turns a failure of SQLite into an error; for use as `.map_err(database("reading refs"))`.
pub(crate) fn database(action: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |source| {
        let place = DATABASE.to_owned();
        if is_cut_short(&source) {
            let detail = format!("it is cut short, found while {action}");
            return StoreError::Damaged { place, detail };
        }
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full { place },
            Some(ErrorCode::SystemIoFailure) if has_no_room_to_share(&source) => StoreError::Full { place },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { what: place },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged {
                place,
                detail: format!("{source} while {action}"),
            },
            _ => StoreError::Engine {
                action,
                place,
                source: Box::new(source),
            },
        }
    }
}

/// Whether there was no space for the file that all connections share. SQLite does not report why the file
/// could not be extended; a full disk is the only cause that occurs in practice.
fn has_no_room_to_share(error: &rusqlite::Error) -> bool {
    match error.sqlite_error().map(|error| error.extended_code) {
        Some(ffi::SQLITE_IOERR_SHMSIZE) => true,
        Some(ffi::SQLITE_IOERR_SHMMAP) => shared_memory::was_full(),
        Some(_) | None => false,
    }
}

/// Whether a page was missing at the end of the file. SQLite reads the pages of a long value past its cache,
/// and reports the missing page itself; any other missing page reads as zeros, which SQLite reports as
/// malformed.
fn is_cut_short(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(ffi::SQLITE_IOERR_SHORT_READ)
}

/// A row of the database that does not match its own check sum or holds values that we never write.
pub(crate) fn damaged_row(what: impl std::fmt::Display, detail: impl Into<String>) -> StoreError {
    StoreError::Damaged {
        place: format!("{what} in {DATABASE}"),
        detail: detail.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_sqlite(code: ErrorCode) -> StoreError {
        of_extended(code, 0)
    }

    fn of_extended(code: ErrorCode, extended_code: i32) -> StoreError {
        let error = ffi::Error { code, extended_code };
        database("testing")(rusqlite::Error::SqliteFailure(error, None))
    }

    #[test]
    fn failures_of_sqlite_become_what_the_caller_must_do() {
        assert!(matches!(of_sqlite(ErrorCode::DiskFull), StoreError::Full { .. }));
        assert!(matches!(
            of_sqlite(ErrorCode::DatabaseBusy),
            StoreError::Busy { .. }
        ));
        assert!(matches!(
            of_sqlite(ErrorCode::DatabaseCorrupt),
            StoreError::Damaged { .. }
        ));
        assert!(matches!(
            of_sqlite(ErrorCode::NotADatabase),
            StoreError::Damaged { .. }
        ));
        assert!(matches!(
            of_sqlite(ErrorCode::SystemIoFailure),
            StoreError::Engine { .. }
        ));
        assert!(matches!(
            of_extended(ErrorCode::SystemIoFailure, ffi::SQLITE_IOERR_SHORT_READ),
            StoreError::Damaged { .. }
        ));
    }

    #[test]
    fn a_full_disk_or_quota_is_full() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert!(matches!(
                io_failure("writing", "a pack", kind.into()),
                StoreError::Full { .. }
            ));
        }
    }
}
