//! Indexes the changes since the last time.

use std::sync::Arc;
use std::time::Duration;

use avfs_core::diff::{TreeChange, diff_trees};
use avfs_core::map::{MapNode, NodeSource};
use avfs_core::{Content, Entry, EntryKind, LinkedFile, Meta, NodeId, Root, Slot, Totals, TreePath};
use avfs_store::StoreError;
use avfs_tree::{ObjectError, Objects, ReadError, TreeReader, content};
use rayon::prelude::*;
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};

use super::database::{self, DocumentKey, WorkError};
use super::words::indexed_form;
use super::{SearchError, SearchScope};

/// Whether the index holds everything that the tree does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexFreshness {
    /// It does.
    Current,
    /// Another process is writing to the index: the answer uses its present contents.
    Behind,
}

/// The limits for indexing, and how long to wait for other processes.
#[derive(Clone, Copy, Debug)]
pub struct IndexLimits {
    /// Larger files are not indexed.
    pub file_bytes: u64,
    /// How long a search waits for another process that writes, before it uses the present contents.
    pub patience: Duration,
}

impl Default for IndexLimits {
    fn default() -> IndexLimits {
        IndexLimits {
            file_bytes: 1 << 20,
            patience: Duration::from_secs(5),
        }
    }
}

/// A NUL byte within this many bytes makes a file binary.
const BINARY_PROBE: usize = 8 << 10;
/// How much is read, and then written in one transaction.
const BATCH_FILES: usize = 4096;
const BATCH_BYTES: u64 = 16 << 20;

pub(super) fn update(
    connection: &mut Connection,
    scope: SearchScope<'_>,
    limits: &IndexLimits,
) -> Result<IndexFreshness, WorkError> {
    let root = scope.reader.root();
    let mut base = database::indexed_root(connection, scope.key)?;
    if base.as_ref() == Some(root) {
        return Ok(IndexFreshness::Current);
    }
    // A new fork differs little from its parent, so indexing begins with that one's tree.
    if let (None, Some(parent)) = (&base, scope.parent) {
        base = database::indexed_root(connection, parent)?;
    }
    let updated = match base {
        // The tree that was indexed last may be collected by now.
        Some(base) => match update_from(connection, scope, limits, &base) {
            Err(WorkError::Search(SearchError::Tree(ObjectError::Store(StoreError::Missing { .. })))) => {
                update_from(connection, scope, limits, &empty_root())
            }
            other => other,
        },
        None => update_from(connection, scope, limits, &empty_root()),
    };
    match updated {
        Ok(()) => Ok(IndexFreshness::Current),
        // Another process is indexing: waiting longer than the patience allows would make the search slow.
        Err(WorkError::Sql(error)) if is_busy(&error) => Ok(IndexFreshness::Behind),
        Err(error) => Err(error),
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

fn empty_root() -> Root {
    Root {
        directory: Entry::empty_directory(Meta::default()),
        links: None,
        totals: Totals::default(),
    }
}

fn update_from(
    connection: &mut Connection,
    scope: SearchScope<'_>,
    limits: &IndexLimits,
    base: &Root,
) -> Result<(), WorkError> {
    let objects = scope.reader.objects();
    let mut indexing = IndexUpdate {
        connection,
        objects,
        batch: Vec::new(),
        batch_bytes: 0,
        ready: Vec::new(),
    };
    diff_trees(
        &WorkNodes(objects),
        base,
        scope.reader.root(),
        &mut |change: TreeChange| match candidate(change, limits) {
            Some(candidate) => indexing.add(candidate),
            None => Ok(()),
        },
    )?;
    indexing.finish(scope)
}

/// The nodes of a tree, with errors that can also be those of the index.
struct WorkNodes<'a>(&'a Objects);

impl NodeSource<Slot> for WorkNodes<'_> {
    type Error = WorkError;

    fn load(&self, id: NodeId) -> Result<Arc<MapNode<Slot>>, WorkError> {
        Ok(NodeSource::<Slot>::load(self.0, id)?)
    }
}

impl NodeSource<LinkedFile> for WorkNodes<'_> {
    type Error = WorkError;

    fn load(&self, id: NodeId) -> Result<Arc<MapNode<LinkedFile>>, WorkError> {
        Ok(NodeSource::<LinkedFile>::load(self.0, id)?)
    }
}

/// A file that may have to be indexed.
struct IndexCandidate {
    path: TreePath,
    key: DocumentKey,
    content: Content,
    size: u64,
}

fn candidate(change: TreeChange, limits: &IndexLimits) -> Option<IndexCandidate> {
    if !change.changes_content() {
        return None;
    }
    let EntryKind::File { size, content } = change.after?.kind else {
        return None;
    };
    let key = document_key(&change.path, content)?;
    (size <= limits.file_bytes).then_some(IndexCandidate {
        path: change.path,
        key,
        content,
        size,
    })
}

/// `None` for a file without bytes: it has no text, and its name is that of no document.
fn document_key(path: &TreePath, content: Content) -> Option<DocumentKey> {
    let id = match content {
        Content::Empty => return None,
        Content::Blob(id) => id.object(),
        Content::Chunks(id) => id.object(),
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(id.as_bytes()).update(path.as_bytes());
    let mut key = DocumentKey::default();
    key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    Some(key)
}

/// Whether the tree has this document: the same content at the same path.
pub(super) fn is_in(reader: &TreeReader, path: &TreePath, key: DocumentKey) -> Result<bool, ReadError> {
    match reader.find(path) {
        Ok(found) => Ok(match found.entry.kind {
            EntryKind::File { content, .. } => document_key(path, content) == Some(key),
            _ => false,
        }),
        Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The data of a file for the index.
struct IndexDocument {
    key: DocumentKey,
    path: TreePath,
    body: String,
    path_words: String,
}

/// Reads one batch of files while the batch before is written.
struct IndexUpdate<'a> {
    connection: &'a mut Connection,
    objects: &'a Objects,
    batch: Vec<IndexCandidate>,
    batch_bytes: u64,
    ready: Vec<IndexDocument>,
}

impl IndexUpdate<'_> {
    fn add(&mut self, candidate: IndexCandidate) -> Result<(), WorkError> {
        if database::has_document(self.connection, candidate.key)? {
            return Ok(());
        }
        self.batch_bytes += candidate.size;
        self.batch.push(candidate);
        if self.batch.len() >= BATCH_FILES || self.batch_bytes >= BATCH_BYTES {
            self.turn()?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<(), WorkError> {
        let (batch, ready) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.ready));
        self.batch_bytes = 0;
        let (objects, connection) = (self.objects, &mut *self.connection);
        // Reading needs the processors and writing the disk, so one batch is read while the one before it
        // is written.
        let (read, written) = rayon::join(|| read_all(objects, &batch), || write(connection, &ready, None));
        // Checked before the read batch is kept: after a failed write nothing may be recorded as indexed.
        written?;
        self.ready = read?;
        Ok(())
    }

    fn finish(mut self, scope: SearchScope<'_>) -> Result<(), WorkError> {
        self.turn()?;
        write(self.connection, &self.ready, Some(scope))
    }
}

fn read_all(objects: &Objects, batch: &[IndexCandidate]) -> Result<Vec<IndexDocument>, ObjectError> {
    let read = batch
        .par_iter()
        .map(|candidate| read_document(objects, candidate));
    let documents: Vec<Option<IndexDocument>> = read.collect::<Result<_, _>>()?;
    Ok(documents.into_iter().flatten().collect())
}

/// `None` if the file is binary, or damaged: one such file must not keep all others from being found.
fn read_document(
    objects: &Objects,
    candidate: &IndexCandidate,
) -> Result<Option<IndexDocument>, ObjectError> {
    let bytes = match content::read_all(objects, candidate.content, candidate.size) {
        Ok(bytes) => bytes,
        Err(error) if is_damage(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if bytes[..bytes.len().min(BINARY_PROBE)].contains(&0) {
        return Ok(None);
    }
    Ok(Some(IndexDocument {
        key: candidate.key,
        path: candidate.path.clone(),
        body: indexed_form(&String::from_utf8_lossy(&bytes)),
        path_words: indexed_form(&String::from_utf8_lossy(candidate.path.as_bytes())),
    }))
}

/// Whether an object is lost, and not only temporarily unavailable.
fn is_damage(error: &ObjectError) -> bool {
    match error {
        ObjectError::Store(error) => {
            matches!(error, StoreError::Missing { .. } | StoreError::Corrupt { .. })
        }
        ObjectError::NotAtHand { .. } | ObjectError::TooLarge { .. } | ObjectError::Promised { .. } => false,
        ObjectError::Malformed { .. } | ObjectError::WrongKind { .. } | ObjectError::Structure(_) => true,
    }
}

/// Writes documents and, at the end, that the tree is now indexed.
fn write(
    connection: &mut Connection,
    documents: &[IndexDocument],
    indexed: Option<SearchScope<'_>>,
) -> Result<(), WorkError> {
    if documents.is_empty() && indexed.is_none() {
        return Ok(());
    }
    // A deferred transaction would read first and could then fail to become a writer, without waiting for
    // the other one.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut document =
            transaction.prepare_cached("INSERT OR IGNORE INTO documents (key, path) VALUES (?1, ?2)")?;
        let mut text =
            transaction.prepare_cached("INSERT INTO texts (rowid, body, path) VALUES (?1, ?2, ?3)")?;
        for IndexDocument {
            key,
            path,
            body,
            path_words,
        } in documents
        {
            // Another process may have written it in the meantime.
            if document.execute(params![key, path.as_bytes()])? == 1 {
                text.execute(params![transaction.last_insert_rowid(), body, path_words])?;
            }
        }
    }
    if let Some(scope) = indexed {
        // In the transaction of the last documents: the root is never recorded without them.
        database::remember_root(&transaction, scope.key, scope.reader.root())?;
    }
    Ok(transaction.commit()?)
}
