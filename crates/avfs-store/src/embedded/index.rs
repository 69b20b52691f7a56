//! The tables that record where objects are stored: `objects` and `packs`.

use avfs_core::ObjectId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::door::StoreError;
use crate::embedded::failure::{damaged_row, database};
use crate::embedded::layout::pack_name;
use crate::embedded::record::RecordPlace;

/// A pack that the index knows. Bytes beyond `length` are not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackRow {
    pub number: u32,
    pub length: u64,
}

const READING: &str = "reading the index";

pub(crate) fn find(connection: &Connection, id: &ObjectId) -> Result<Option<RecordPlace>, StoreError> {
    let fail = database(READING);
    let mut statement = connection
        .prepare_cached("SELECT pack, offset, length FROM objects WHERE id = ?1")
        .map_err(&fail)?;
    statement
        .query_row([id.as_bytes()], |row| place(row, 0))
        .optional()
        .map_err(&fail)
}

/// Adds rows. An object that already has a row keeps it.
pub(crate) fn insert(connection: &Connection, rows: &[(ObjectId, RecordPlace)]) -> Result<(), StoreError> {
    let fail = database("adding to the index");
    let mut statement = connection
        .prepare_cached("INSERT OR IGNORE INTO objects (id, pack, offset, length) VALUES (?1, ?2, ?3, ?4)")
        .map_err(&fail)?;
    for (id, place) in rows {
        statement
            .execute(params![
                id.as_bytes(),
                place.pack,
                place.offset as i64,
                place.length
            ])
            .map_err(&fail)?;
    }
    Ok(())
}

/// Points an object at another place, whether it had a place or not.
pub(crate) fn point(connection: &Connection, id: &ObjectId, place: RecordPlace) -> Result<(), StoreError> {
    let fail = database("changing the index");
    let mut statement = connection
        .prepare_cached("INSERT OR REPLACE INTO objects (id, pack, offset, length) VALUES (?1, ?2, ?3, ?4)")
        .map_err(&fail)?;
    let row = params![id.as_bytes(), place.pack, place.offset as i64, place.length];
    statement.execute(row).map(|_| ()).map_err(&fail)
}

pub(crate) fn remove(connection: &Connection, ids: &[ObjectId]) -> Result<(), StoreError> {
    let fail = database("removing from the index");
    let mut statement = connection
        .prepare_cached("DELETE FROM objects WHERE id = ?1")
        .map_err(&fail)?;
    for id in ids {
        statement.execute([id.as_bytes()]).map_err(&fail)?;
    }
    Ok(())
}

/// Calls `visit` with every row, in the order of ids.
pub(crate) fn for_each(
    connection: &Connection,
    visit: &mut dyn FnMut(ObjectId, RecordPlace),
) -> Result<(), StoreError> {
    let fail = database(READING);
    let mut statement = connection
        .prepare("SELECT id, pack, offset, length FROM objects ORDER BY id")
        .map_err(&fail)?;
    let mut rows = statement.query([]).map_err(&fail)?;
    while let Some(row) = rows.next().map_err(&fail)? {
        // Any type of value may be in a damaged row: SQLite does not enforce those of columns.
        let id = row.get::<_, [u8; 32]>(0).map_err(|_| bad_row())?;
        visit(ObjectId(id), place(row, 1).map_err(|_| bad_row())?);
    }
    Ok(())
}

fn bad_row() -> StoreError {
    damaged_row(
        "a row of the object index",
        "it holds values that are never written",
    )
}

fn place(row: &Row<'_>, first: usize) -> rusqlite::Result<RecordPlace> {
    // SQLite knows signed numbers only; a negative offset was never written.
    let offset: i64 = row.get(first + 1)?;
    let offset = u64::try_from(offset).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(1, offset))?;
    Ok(RecordPlace {
        pack: row.get(first)?,
        offset,
        length: row.get(first + 2)?,
    })
}

/// All packs in the order of their numbers; a row that fails its sum is an error.
pub(crate) fn packs(connection: &Connection) -> Result<Vec<PackRow>, StoreError> {
    let (good, damaged) = packs_lenient(connection)?;
    match damaged.first() {
        None => Ok(good),
        Some(&number) => Err(damaged_pack(number)),
    }
}

/// All packs: those with a sound row, and the numbers in rows that are not sound.
pub(crate) fn packs_lenient(connection: &Connection) -> Result<(Vec<PackRow>, Vec<i64>), StoreError> {
    let fail = database(READING);
    let mut statement = connection
        .prepare_cached("SELECT number, length, sum FROM packs ORDER BY number")
        .map_err(&fail)?;
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .map_err(&fail)?;
    let mut good = Vec::new();
    let mut damaged = Vec::new();
    for row in rows {
        let (number, length, sum): (i64, i64, i64) = row.map_err(&fail)?;
        match checked(number, length, sum) {
            Some(pack) => good.push(pack),
            None => damaged.push(number),
        }
    }
    Ok((good, damaged))
}

/// The row of one pack.
pub(crate) fn pack(connection: &Connection, number: u32) -> Result<Option<PackRow>, StoreError> {
    let fail = database(READING);
    let mut statement = connection
        .prepare_cached("SELECT length, sum FROM packs WHERE number = ?1")
        .map_err(&fail)?;
    let row = statement
        .query_row([number], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .map_err(&fail)?;
    match row {
        None => Ok(None),
        Some((length, sum)) => checked(i64::from(number), length, sum)
            .map(Some)
            .ok_or_else(|| damaged_pack(i64::from(number))),
    }
}

/// Records how much of a pack is committed.
pub(crate) fn set_pack(connection: &Connection, pack: PackRow) -> Result<(), StoreError> {
    let number = i64::from(pack.number);
    let length = pack.length as i64;
    let mut statement = connection
        .prepare_cached("INSERT OR REPLACE INTO packs (number, length, sum) VALUES (?1, ?2, ?3)")
        .map_err(database("recording a pack"))?;
    let row = params![number, length, pack_sum(number, length)];
    statement
        .execute(row)
        .map(|_| ())
        .map_err(database("recording a pack"))
}

pub(crate) fn remove_pack(connection: &Connection, number: i64) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached("DELETE FROM packs WHERE number = ?1")
        .map_err(database("removing a pack"))?;
    statement
        .execute([number])
        .map(|_| ())
        .map_err(database("removing a pack"))
}

fn checked(number: i64, length: i64, sum: i64) -> Option<PackRow> {
    let pack = PackRow {
        number: u32::try_from(number).ok()?,
        length: u64::try_from(length).ok()?,
    };
    (pack_sum(number, length) == sum).then_some(pack)
}

fn damaged_pack(number: i64) -> StoreError {
    let name = u32::try_from(number).map_or_else(|_| format!("pack {number}"), pack_name);
    damaged_row(
        format_args!("the row of {name}"),
        "it does not match its check sum",
    )
}

/// Ties a committed length to its pack: with a wrong length, a writer would cut off acknowledged records.
fn pack_sum(number: i64, length: i64) -> i64 {
    let mut input = [0; 16];
    input[..8].copy_from_slice(&number.to_le_bytes());
    input[8..].copy_from_slice(&length.to_le_bytes());
    check_sum(&[&input])
}

/// Eight bytes of BLAKE3 over all parts, each preceded by its length.
pub(crate) fn check_sum(parts: &[&[u8]]) -> i64 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        // The lengths keep two lists of parts apart that are the same bytes in a row.
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let hash = hasher.finalize();
    let (head, _) = hash
        .as_bytes()
        .split_first_chunk::<8>()
        .expect("a hash has 32 bytes");
    i64::from_le_bytes(*head)
}
