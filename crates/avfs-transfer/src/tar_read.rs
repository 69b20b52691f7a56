//! Importing a tar archive, as a stream.

use std::io::{self, Read};

use avfs_core::chunks::FILE_MAX;
use avfs_core::{Content, Entry, EntryKind, Labels, LinkId, Meta, TreePath, printable};
use avfs_tree::content::ContentBuilder;
use avfs_tree::{ObjectError, ObjectWriter, Objects};
use flate2::read::MultiGzDecoder;
use tar::EntryType;

use super::error::{SkipReason, TransferError};
use super::host_file::CAPABILITY;
use super::image_layer::{Whiteout, whiteout};
use super::import_tree::ImportTree;
use super::tar_stream::{TarMember, TarMembers, read_full};
use super::{ImportedTree, TransferProgress, TransferReport, TransferTally};

/// How a tar archive is imported.
#[derive(Clone)]
pub struct TarImport<'a> {
    /// Import the rest if an entry is refused; otherwise that fails the import.
    pub skip_refused: bool,
    /// Device nodes are refused unless this is set.
    pub devices: bool,
    /// Device nodes in the directory `dev` at the top are left out and reported: the sandbox that shows
    /// the tree has devices of its own.
    pub omit_dev: bool,
    /// Keep setuid and setgid bits and file capabilities, which are dropped otherwise.
    pub keep_privileges: bool,
    /// An archive with more members fails the import.
    pub most_members: u64,
    /// The attributes of directories that the archive uses but does not hold.
    pub implied: Meta,
    /// Whether the vault uses a link id already.
    pub is_taken: &'a (dyn Fn(LinkId) -> bool + Sync),
}

impl Default for TarImport<'_> {
    fn default() -> Self {
        TarImport {
            skip_refused: false,
            devices: false,
            omit_dev: false,
            keep_privileges: false,
            most_members: u64::MAX,
            implied: Meta {
                mode: 0o755,
                ..Meta::default()
            },
            is_taken: &|_| false,
        }
    }
}

/// Imports an archive, which may be compressed with gzip, as the future directory `into` of a vault.
///
/// All entries stay inside: an entry that would lead out of the directory, or through a symbolic link, is
/// refused. Of several entries with one name the last counts, as for tar.
pub fn import_tar(
    objects: &Objects,
    writer: &ObjectWriter,
    archive: impl Read,
    into: &TreePath,
    options: &TarImport<'_>,
    progress: &dyn TransferProgress,
) -> Result<ImportedTree, TransferError> {
    let archive = uncompressed(archive).map_err(|source| archive_error("its beginning".into(), source))?;
    let mut import = TreeImport::new(objects, writer, into, options, progress);
    import.add(archive, TarRole::Whole)?;
    import.finish()
}

/// Recognises gzip by its first bytes.
pub(super) fn uncompressed<'a>(mut archive: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut start = [0u8; 4];
    let len = read_full(&mut archive, &mut start)?;
    let whole = io::Cursor::new(start).take(len as u64).chain(archive);
    Ok(match start {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(whole)),
        ZSTD => {
            let reason = "it is compressed with zstd, which is not supported; compress it with gzip";
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        _ => Box::new(io::BufReader::with_capacity(PIECE, whole)),
    })
}

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

pub(super) fn archive_error(place: String, source: io::Error) -> TransferError {
    match source.downcast::<OverLimit>() {
        Ok(OverLimit { what, limit }) => TransferError::OverLimit { what, limit },
        Err(source) => TransferError::Archive { place, source },
    }
}

/// More than an import may read. Carried through readers that know errors of input and output alone.
#[derive(Debug, thiserror::Error)]
#[error("more than {limit} {what}")]
pub(super) struct OverLimit {
    pub(super) what: &'static str,
    pub(super) limit: u64,
}

/// The part that an archive plays for a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TarRole {
    /// It is all of it.
    Whole,
    /// It lies above the archives before it, and hides some of their entries.
    Layer,
}

/// A tree that one archive after the other is put into.
pub(super) struct TreeImport<'a> {
    tree: ImportTree,
    reading: ReadingContext<'a>,
    tally: TransferTally,
    /// How many further members may be read.
    members_left: u64,
}

#[derive(Clone, Copy)]
struct ReadingContext<'a> {
    objects: &'a Objects,
    writer: &'a ObjectWriter,
    into: &'a TreePath,
    options: &'a TarImport<'a>,
    progress: &'a dyn TransferProgress,
}

impl<'a> TreeImport<'a> {
    pub(super) fn new(
        objects: &'a Objects,
        writer: &'a ObjectWriter,
        into: &'a TreePath,
        options: &'a TarImport<'a>,
        progress: &'a dyn TransferProgress,
    ) -> TreeImport<'a> {
        TreeImport {
            tree: ImportTree::new(options.implied.clone(), into),
            reading: ReadingContext {
                objects,
                writer,
                into,
                options,
                progress,
            },
            tally: TransferTally::default(),
            members_left: options.most_members,
        }
    }

    /// Reads an archive, which is not compressed, to its end.
    pub(super) fn add(&mut self, archive: impl Read, role: TarRole) -> Result<(), TransferError> {
        if role == TarRole::Layer {
            self.tree.begin_layer();
        }
        let mut reading = TarReading {
            members: TarMembers::new(archive),
            role,
            tree: &mut self.tree,
            context: self.reading,
            tally: &self.tally,
        };
        while let Some(member) = reading.advance()? {
            self.members_left = self.members_left.checked_sub(1).ok_or(TransferError::OverLimit {
                what: "entries",
                limit: self.reading.options.most_members,
            })?;
            reading.take(member)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<ImportedTree, TransferError> {
        let ReadingContext {
            objects,
            writer,
            into,
            options,
            ..
        } = self.reading;
        let TransferReport { skipped, .. } = self.tally.report().unless_refused(options.skip_refused)?;
        let mut built = self
            .tree
            .build(objects, writer, into, options.is_taken)
            .map_err(|source| TransferError::Object {
                path: into.clone(),
                source,
            })?;
        built.report.skipped = skipped;
        Ok(built)
    }
}

struct TarReading<'a, R> {
    members: TarMembers<R>,
    role: TarRole,
    tree: &'a mut ImportTree,
    context: ReadingContext<'a>,
    tally: &'a TransferTally,
}

/// Why a member was not taken.
enum MemberTrouble {
    Refused(SkipReason),
    Archive(io::Error),
    Store(ObjectError),
}

impl From<SkipReason> for MemberTrouble {
    fn from(reason: SkipReason) -> MemberTrouble {
        MemberTrouble::Refused(reason)
    }
}

impl From<io::Error> for MemberTrouble {
    fn from(source: io::Error) -> MemberTrouble {
        MemberTrouble::Archive(source)
    }
}

impl From<ObjectError> for MemberTrouble {
    fn from(source: ObjectError) -> MemberTrouble {
        MemberTrouble::Store(source)
    }
}

/// The bytes that are read at a time.
const PIECE: usize = 128 << 10;
const SET_ID: u32 = 0o6000;

impl<R: Read> TarReading<'_, R> {
    fn advance(&mut self) -> Result<Option<TarMember>, TransferError> {
        let next = self.members.advance();
        next.map_err(|source| archive_error(format!("byte {}", self.members.position()), source))
    }

    fn take(&mut self, mut member: TarMember) -> Result<(), TransferError> {
        if self.role == TarRole::Layer
            && let Some(whiteout) = whiteout(&member.path)
        {
            return self.hide(&member.path, whiteout);
        }
        if self.context.options.omit_dev && is_device_of_dev(&member) {
            self.tally.skip(member.path, SkipReason::DeviceOmitted);
            return Ok(());
        }
        let dropped = !self.context.options.keep_privileges && drop_privileges(&mut member);
        match self.add(&member) {
            Ok(()) => {
                if dropped {
                    self.tally.skip(member.path, SkipReason::PrivilegeDropped);
                }
                Ok(())
            }
            Err(MemberTrouble::Refused(reason)) => {
                self.tally.skip(member.path, reason);
                Ok(())
            }
            Err(MemberTrouble::Archive(source)) => Err(archive_error(printable(&member.path), source)),
            Err(MemberTrouble::Store(source)) => {
                let below = TreePath::parse(&member.path).unwrap_or_default();
                Err(TransferError::Object {
                    path: self.context.into.join_path(&below),
                    source,
                })
            }
        }
    }

    /// Markers themselves are no entries of the tree, whatever kind of entry they are.
    fn hide(&mut self, marker: &[u8], whiteout: Whiteout) -> Result<(), TransferError> {
        let hidden = match whiteout {
            Whiteout::Entry(path) => self.tree.hide(&path),
            Whiteout::Contents(path) => self.tree.hide_contents(&path),
            Whiteout::Bookkeeping => Ok(()),
            Whiteout::Nothing => Err(SkipReason::UnknownKind),
        };
        if let Err(reason) = hidden {
            self.tally.skip(marker, reason);
        }
        Ok(())
    }

    fn add(&mut self, member: &TarMember) -> Result<(), MemberTrouble> {
        // The oldest archives mark directories by their names alone.
        let is_directory = member.kind == EntryType::Directory
            || (member.kind == EntryType::Regular && member.path.ends_with(b"/"));
        if is_directory {
            return Ok(self.tree.add_directory(&member.path, member.meta())?);
        }
        match member.kind {
            EntryType::Link => self.tree.add_link(&member.path, &member.link)?,
            // The label of a volume is not an entry.
            kind if kind.as_byte() == b'V' => return Ok(()),
            _ => {
                self.tree.check(&member.path, false)?;
                let entry = Entry {
                    meta: member.meta(),
                    kind: self.kind(member)?,
                };
                self.tree.add(&member.path, entry)?;
            }
        }
        self.context.progress.advance(1, 0);
        Ok(())
    }

    fn kind(&mut self, member: &TarMember) -> Result<EntryKind, MemberTrouble> {
        let (major, minor) = member.device;
        let device = rustix::fs::makedev(major, minor);
        Ok(match member.kind {
            EntryType::Regular | EntryType::Continuous => {
                let (size, content) = self.content(member)?;
                EntryKind::File { size, content }
            }
            EntryType::Symlink => EntryKind::Symlink {
                target: member.link.clone().into(),
            },
            EntryType::Fifo => EntryKind::Fifo,
            EntryType::Char if self.context.options.devices => EntryKind::CharDevice { device },
            EntryType::Block if self.context.options.devices => EntryKind::BlockDevice { device },
            EntryType::Char | EntryType::Block => return Err(SkipReason::Device.into()),
            _ => return Err(SkipReason::UnknownKind.into()),
        })
    }

    fn content(&mut self, member: &TarMember) -> Result<(u64, Content), MemberTrouble> {
        if member.size > FILE_MAX {
            return Err(SkipReason::TooLarge(member.size).into());
        }
        let mut builder = ContentBuilder::new(self.context.objects, self.context.writer);
        match &member.runs {
            None => self.run(&mut builder, member.size)?,
            Some(runs) => {
                for (offset, len) in runs {
                    builder.push_hole(offset - builder.size())?;
                    self.run(&mut builder, offset + len)?;
                }
                builder.push_hole(member.size - builder.size())?;
            }
        }
        Ok(builder.finish()?)
    }

    /// Reads data up to the position `end` of the file.
    fn run(&mut self, builder: &mut ContentBuilder<'_>, end: u64) -> Result<(), MemberTrouble> {
        let mut piece = vec![0; (end - builder.size()).min(PIECE as u64) as usize];
        while builder.size() < end {
            let len = (end - builder.size()).min(piece.len() as u64) as usize;
            self.members.read_exact(&mut piece[..len])?;
            builder.push(&piece[..len])?;
            self.context.progress.advance(0, len as u64);
        }
        Ok(())
    }
}

impl TarMember {
    fn meta(&self) -> Meta {
        Meta {
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            mtime: self.mtime,
            xattrs: self.xattrs.clone(),
            labels: Labels::default(),
        }
    }
}

fn is_device_of_dev(member: &TarMember) -> bool {
    let mut parts = member
        .path
        .split(|byte| *byte == b'/')
        .filter(|part| !matches!(*part, b"" | b"."));
    matches!(member.kind, EntryType::Char | EntryType::Block) && parts.next() == Some(b"dev")
}

/// Returns whether there were any.
fn drop_privileges(member: &mut TarMember) -> bool {
    let had_bits = member.kind != EntryType::Symlink && member.mode & SET_ID != 0;
    if had_bits {
        member.mode &= !SET_ID;
    }
    member.xattrs.remove(CAPABILITY) || had_bits
}
