//! Importing the image of a container: its file system as one tree, and how its programs are started.
//!
//! An image comes as a directory, as a tar archive of one, as an archive by `docker save`, or as an OCI image
//! layout (a directory or an archive of it). The last two consist of layers, each of which adds to the ones
//! below and hides some of their entries.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use avfs_core::{LinkId, Meta, TreePath};
use avfs_tree::{ObjectWriter, Objects};
use tar::EntryType;

use super::error::TransferError;
use super::image_config::ImageConfig;
use super::image_files::ImageFiles;
use super::image_manifest::{ImageLayer, ImageManifest, ImageWish};
use super::sha256::Sha256Reader;
use super::tar_read::{OverLimit, TarImport, TarRole, TreeImport, archive_error, uncompressed};
use super::tar_stream::{TarMembers, read_full};
use super::{DirectoryImport, ImportedTree, TransferProgress, import_directory};

/// What an image is read from.
pub enum ImageSource<'a> {
    /// The root of a file system, or an OCI image layout.
    Directory(&'a Path),
    /// An archive that can be read in any order.
    File(File),
    /// An archive that can be read once.
    Stream(Box<dyn Read + 'a>),
}

/// How an image is imported.
pub struct ImageImport<'a> {
    /// The most bytes that its archives may have, uncompressed, and the most entries.
    pub most_bytes: u64,
    /// The most entries that its archives may have.
    pub most_entries: u64,
    /// The one to take if there are several, by its name.
    pub wanted: Option<&'a str>,
    /// The architecture to take if there are several, as images call it.
    pub architecture: &'a str,
    /// Import the rest if an entry is refused; otherwise that fails the import.
    pub skip_refused: bool,
    /// The attributes of directories that no layer describes.
    pub implied: Meta,
    /// Makes a file without a name, for what has to be read twice and comes from a pipe or compressed.
    pub scratch: &'a dyn Fn() -> io::Result<File>,
}

/// The most that an image may have by default: ten times what large ones have.
pub const MOST_BYTES: u64 = 64 << 30;
/// The most entries that an image may have by default.
pub const MOST_ENTRIES: u64 = 4_000_000;

/// An image, imported.
#[derive(Debug)]
pub struct ImportedImage {
    /// The root directory.
    pub tree: ImportedTree,
    /// What the image says about starting programs.
    pub config: ImageConfig,
    /// How many layers it had.
    pub layers: u64,
    /// The names that it has in its archive.
    pub names: Vec<String>,
}

/// The beginning of an archive that is read to recognise it.
const BEGINNING: usize = 64 << 10;

/// Imports an image. Owners, modes, links and extended attributes are kept exactly, and so are set-user-id bits
/// and file capabilities: they have no effect in mounts.
pub fn import_image(
    objects: &Objects,
    writer: &ObjectWriter,
    source: ImageSource<'_>,
    options: &ImageImport<'_>,
    progress: &dyn TransferProgress,
) -> Result<ImportedImage, TransferError> {
    let import = ImageReading {
        objects,
        writer,
        options,
        progress,
        bytes_left: Cell::new(options.most_bytes),
    };
    match source {
        ImageSource::Directory(path) => match ImageFiles::in_layout(path)? {
            Some(files) => import.layered(&files),
            None => import.directory(path),
        },
        ImageSource::File(file) => import.file(file),
        ImageSource::Stream(stream) => import.stream(stream),
    }
}

struct ImageReading<'a> {
    objects: &'a Objects,
    writer: &'a ObjectWriter,
    options: &'a ImageImport<'a>,
    progress: &'a dyn TransferProgress,
    bytes_left: Cell<u64>,
}

impl ImageReading<'_> {
    fn directory(&self, path: &Path) -> Result<ImportedImage, TransferError> {
        let options = DirectoryImport {
            one_file_system: true,
            skip_refused: self.options.skip_refused,
            ..DirectoryImport::default()
        };
        let root = TreePath::root();
        let tree = import_directory(self.objects, self.writer, path, &root, &options, self.progress)?;
        Ok(self.plain(tree))
    }

    /// An archive that can be read twice where it is, if it is not compressed.
    fn file(&self, file: File) -> Result<ImportedImage, TransferError> {
        let reading = |source| archive_error("its beginning".to_owned(), source);
        let is_file = file.metadata().map_err(reading)?.is_file();
        let mut beginning = vec![0; BEGINNING];
        let mut whole = file.try_clone().map_err(reading)?;
        let len = read_full(&mut whole, &mut beginning).map_err(reading)?;
        if is_file && holds_image(&beginning[..len]) {
            return self.layered(&ImageFiles::in_archive(file)?);
        }
        // Read once: a pipe cannot be rewound, so its beginning is put before the rest again.
        beginning.truncate(len);
        self.stream(Box::new(Cursor::new(beginning).chain(whole)))
    }

    fn stream(&self, stream: Box<dyn Read + '_>) -> Result<ImportedImage, TransferError> {
        let reading = |source| archive_error("its beginning".to_owned(), source);
        let mut archive = self.bounded(uncompressed(stream).map_err(reading)?);
        let mut beginning = vec![0; BEGINNING];
        let len = read_full(&mut archive, &mut beginning).map_err(reading)?;
        beginning.truncate(len);
        let is_image = holds_image(&beginning);
        let mut archive = Cursor::new(beginning).chain(archive);
        if !is_image {
            return self.whole(archive);
        }
        let mut file = (self.options.scratch)()
            .map_err(|source| archive_error("its copy on the disk".to_owned(), source))?;
        io::copy(&mut archive, &mut file).map_err(|source| archive_error("its layers".to_owned(), source))?;
        // What was copied is not the file system yet.
        self.bytes_left.set(self.options.most_bytes);
        self.layered(&ImageFiles::in_archive(file)?)
    }

    /// An archive of a whole file system.
    fn whole(&self, archive: impl Read) -> Result<ImportedImage, TransferError> {
        let (options, root) = (self.tar_options(), TreePath::root());
        let mut import = TreeImport::new(self.objects, self.writer, &root, &options, self.progress);
        import.add(archive, TarRole::Whole)?;
        Ok(self.plain(import.finish()?))
    }

    /// One that says nothing of itself.
    fn plain(&self, tree: ImportedTree) -> ImportedImage {
        ImportedImage {
            tree,
            config: ImageConfig {
                architecture: self.options.architecture.to_owned(),
                os: "linux".to_owned(),
                ..ImageConfig::default()
            },
            layers: 1,
            names: Vec::new(),
        }
    }

    fn layered(&self, files: &ImageFiles) -> Result<ImportedImage, TransferError> {
        let wish = ImageWish {
            name: self.options.wanted,
            architecture: self.options.architecture,
        };
        let ImageManifest {
            config,
            layers,
            names,
        } = ImageManifest::read(files, wish)?;
        let (options, root) = (self.tar_options(), TreePath::root());
        let mut import = TreeImport::new(self.objects, self.writer, &root, &options, self.progress);
        for layer in &layers {
            self.add_layer(&mut import, files, layer)?;
        }
        Ok(ImportedImage {
            tree: import.finish()?,
            config,
            layers: layers.len() as u64,
            names,
        })
    }

    fn add_layer(
        &self,
        import: &mut TreeImport<'_>,
        files: &ImageFiles,
        layer: &ImageLayer,
    ) -> Result<(), TransferError> {
        let place = || format!("layer {}", layer.path);
        let trouble = |source| archive_error(place(), source);
        let mut stored = Sha256Reader::new(files.open(&layer.path)?);
        let mut archive = Sha256Reader::new(self.bounded(uncompressed(&mut stored).map_err(trouble)?));
        import.add(&mut archive, TarRole::Layer)?;
        let archive_digest = archive.finish().map_err(trouble)?;
        let stored_digest = stored.finish().map_err(trouble)?;
        let checks = [
            (&layer.stored_digest, stored_digest),
            (&layer.archive_digest, archive_digest),
        ];
        for (expected, found) in checks {
            if expected.as_ref().is_some_and(|expected| *expected != found) {
                let reason = format!("{} does not have the checksum that the image names", place());
                return Err(TransferError::BadImage { reason });
            }
        }
        Ok(())
    }

    fn tar_options(&self) -> TarImport<'_> {
        const NOTHING_TAKEN: &(dyn Fn(LinkId) -> bool + Sync) = &|_| false;
        TarImport {
            skip_refused: self.options.skip_refused,
            devices: false,
            omit_dev: true,
            keep_privileges: true,
            most_members: self.options.most_entries,
            implied: self.options.implied.clone(),
            is_taken: NOTHING_TAKEN,
        }
    }

    fn bounded<R: Read>(&self, inner: R) -> Bounded<'_, R> {
        Bounded {
            inner,
            left: &self.bytes_left,
            limit: self.options.most_bytes,
        }
    }
}

/// Fails when all readers with the same allowance have read more than that.
struct Bounded<'a, R> {
    inner: R,
    left: &'a Cell<u64>,
    limit: u64,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(buffer)?;
        let left = self.left.get().checked_sub(len as u64).ok_or_else(|| {
            let (what, limit) = ("bytes", self.limit);
            io::Error::other(OverLimit { what, limit })
        })?;
        self.left.set(left);
        Ok(len)
    }
}

/// Whether an archive that begins so holds an image in parts, and not a file system: by the name of its first
/// member, which no root directory of a system has.
fn holds_image(beginning: &[u8]) -> bool {
    let mut members = TarMembers::new(beginning);
    while let Ok(Some(member)) = members.advance() {
        let mut parts = member.path.split(|byte| *byte == b'/');
        if let Some(top) = parts.find(|part| !matches!(*part, b"" | b".")) {
            return is_of_image(top, member.kind == EntryType::Directory);
        }
    }
    false
}

fn is_of_image(top: &[u8], is_directory: bool) -> bool {
    let stem = top
        .strip_suffix(b".json")
        .or_else(|| top.strip_suffix(b".tar"))
        .unwrap_or(top);
    let is_hash = stem.len() == 64 && stem.iter().all(u8::is_ascii_hexdigit);
    is_hash
        || top == b"blobs"
        || (!is_directory
            && matches!(
                top,
                b"oci-layout" | b"index.json" | b"manifest.json" | b"repositories"
            ))
}
