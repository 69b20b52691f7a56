//! Removes documents that are in no tree any longer.

use avfs_core::TreePath;
use avfs_tree::TreeReader;
use rusqlite::{Connection, TransactionBehavior};

use super::database::{DocumentKey, WorkError};
use super::update::is_in;

/// The numbers of removed and kept documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrunedDocuments {
    /// Documents that were removed.
    pub removed: u64,
    /// Documents that are left.
    pub kept: u64,
}

/// Documents that are judged, and then removed in one transaction.
const BATCH: usize = 4096;

pub(super) fn prune(connection: &mut Connection, live: &[TreeReader]) -> Result<PrunedDocuments, WorkError> {
    let (mut pruned, mut after) = (PrunedDocuments::default(), 0);
    loop {
        let batch = documents_after(connection, after)?;
        let Some(last) = batch.last() else {
            return Ok(pruned);
        };
        // By number and not by position, because removals shift positions.
        after = last.0;
        let mut dead = Vec::new();
        for (id, path, key) in &batch {
            if !is_in_any(live, path, *key)? {
                dead.push(*id);
            }
        }
        remove(connection, &dead)?;
        pruned.removed += dead.len() as u64;
        pruned.kept += (batch.len() - dead.len()) as u64;
    }
}

type Row = (i64, Vec<u8>, DocumentKey);

fn documents_after(connection: &Connection, after: i64) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection
        .prepare_cached("SELECT id, path, key FROM documents WHERE id > ?1 ORDER BY id LIMIT ?2")?;
    let rows = statement.query_map((after, BATCH as i64), |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    rows.collect()
}

fn is_in_any(live: &[TreeReader], path: &[u8], key: DocumentKey) -> Result<bool, WorkError> {
    let Ok(path) = TreePath::parse(path) else {
        return Ok(false);
    };
    for reader in live {
        if is_in(reader, &path, key)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// With the first document, the record of indexed trees is dropped: one of them may come back, and it is no
/// longer completely indexed. The next search looks up its documents and reads only the missing ones.
fn remove(connection: &mut Connection, dead: &[i64]) -> rusqlite::Result<()> {
    if dead.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("DELETE FROM roots", [])?;
    for id in dead {
        transaction
            .prepare_cached("DELETE FROM texts WHERE rowid = ?1")?
            .execute([id])?;
        transaction
            .prepare_cached("DELETE FROM documents WHERE id = ?1")?
            .execute([id])?;
    }
    transaction.commit()
}
