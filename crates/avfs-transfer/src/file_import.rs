//! An import of files that come one by one, each with its bytes: the files of a commit, for example.

use avfs_core::{Entry, EntryKind, Meta, TreePath};
use avfs_tree::content::ContentBuilder;
use avfs_tree::{ObjectError, ObjectWriter, Objects};

use super::error::{SkipReason, TransferError};
use super::import_tree::ImportTree;
use super::{ImportedTree, TransferProgress, TransferTally};

/// The bytes that are read at a time.
const PIECE: usize = 128 << 10;

/// Objects and entries of the files that came so far. [`finish`](FileImport::finish) makes the directory.
pub struct FileImport<'a> {
    objects: &'a Objects,
    writer: &'a ObjectWriter,
    progress: &'a dyn TransferProgress,
    tree: ImportTree,
    tally: TransferTally,
}

impl<'a> FileImport<'a> {
    /// `implied` is what directories have that no path names by itself, the topmost one among them.
    pub fn new(
        objects: &'a Objects,
        writer: &'a ObjectWriter,
        implied: Meta,
        progress: &'a dyn TransferProgress,
    ) -> FileImport<'a> {
        FileImport {
            objects,
            writer,
            progress,
            tree: ImportTree::new(implied, &TreePath::root()),
            tally: TransferTally::default(),
        }
    }

    /// Adds a directory, or gives one its attributes that was implied by an earlier path.
    pub fn add_directory(&mut self, path: &[u8], meta: Meta) {
        let added = self.tree.add_directory(path, meta);
        self.note(path, added);
    }

    /// Adds a file. `read` fills a buffer and answers with how many bytes it wrote there, none at the end.
    pub fn add_file<E: From<TransferError>>(
        &mut self,
        path: &[u8],
        meta: Meta,
        mut read: impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let storing = |source: ObjectError| TransferError::Object {
            path: TreePath::parse(path).unwrap_or_default(),
            source,
        };
        let mut builder = ContentBuilder::new(self.objects, self.writer);
        let mut piece = vec![0; PIECE];
        loop {
            match read(&mut piece)? {
                0 => break,
                len => {
                    builder.push(&piece[..len]).map_err(storing)?;
                    self.progress.advance(0, len as u64);
                }
            }
        }
        let (size, content) = builder.finish().map_err(storing)?;
        self.add(path, meta, EntryKind::File { size, content });
        Ok(())
    }

    /// Adds a symbolic link.
    pub fn add_symlink(&mut self, path: &[u8], meta: Meta, target: Vec<u8>) {
        let target = target.into();
        self.add(path, meta, EntryKind::Symlink { target });
    }

    /// The directory with everything in it, or an error if a path was refused.
    pub fn finish(self) -> Result<ImportedTree, TransferError> {
        let root = TreePath::root();
        let skipped = self.tally.report().unless_refused(false)?.skipped;
        let built = self.tree.build(self.objects, self.writer, &root, &|_| false);
        let mut built = built.map_err(|source| TransferError::Object { path: root, source })?;
        built.report.skipped = skipped;
        Ok(built)
    }

    fn add(&mut self, path: &[u8], meta: Meta, kind: EntryKind) {
        self.progress.advance(1, 0);
        let added = self.tree.add(path, Entry { meta, kind });
        self.note(path, added);
    }

    fn note(&self, path: &[u8], added: Result<(), SkipReason>) {
        if let Err(reason) = added {
            self.tally.skip(path, reason);
        }
    }
}
