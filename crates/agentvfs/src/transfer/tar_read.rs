//! Importing a tar archive, as a stream.

use std::io::{self, Read};

use avfs_core::chunks::FILE_MAX;
use avfs_core::{Content, Entry, EntryKind, Labels, LinkId, Meta, TreePath, printable};
use avfs_tree::content::ContentBuilder;
use avfs_tree::{ObjectError, ObjectWriter, Objects};
use flate2::read::MultiGzDecoder;
use tar::EntryType;

use super::error::{Reason, TransferError};
use super::host_file::CAPABILITY;
use super::tar_stream::{Member, Members, read_full};
use super::tar_tree::TarTree;
use super::{Imported, Progress, Tally};

/// How a tar archive is imported.
#[derive(Clone)]
pub struct TarImport<'a> {
    /// Import the rest if an entry is refused; otherwise that fails the import.
    pub skip_refused: bool,
    /// Device nodes are refused unless this says otherwise.
    pub devices: bool,
    /// Keep setuid and setgid bits and file capabilities, which are dropped otherwise.
    pub keep_privileges: bool,
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
            keep_privileges: false,
            implied: Meta { mode: 0o755, ..Meta::default() },
            is_taken: &|_| false,
        }
    }
}

/// Imports an archive, which may be compressed with gzip, as what will be the directory `into` of a vault.
///
/// All entries stay inside: what would lead out of the directory, or through a symbolic link, is refused.
/// Of several entries with one name the last counts, as for tar.
pub fn import_tar(
    objects: &Objects,
    writer: &ObjectWriter,
    archive: impl Read,
    into: &TreePath,
    options: &TarImport<'_>,
    progress: &dyn Progress,
) -> Result<Imported, TransferError> {
    let archive = uncompressed(archive).map_err(|source| archive_error("its beginning".into(), source))?;
    let mut import = Import {
        members: Members::new(archive),
        tree: TarTree::new(options.implied.clone(), into),
        objects,
        writer,
        into,
        options,
        progress,
        tally: Tally::default(),
    };
    while let Some(member) = import.advance()? {
        import.take(member)?;
    }
    let skipped = import.tally.report().unless_refused(options.skip_refused)?.skipped;
    let mut built = import
        .tree
        .build(objects, writer, into, options.is_taken)
        .map_err(|source| TransferError::Object { path: into.clone(), source })?;
    built.report.skipped = skipped;
    Ok(built)
}

/// Recognises gzip by its first bytes.
fn uncompressed<'a>(mut archive: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut start = [0u8; 2];
    let len = read_full(&mut archive, &mut start)?;
    let whole = io::Cursor::new(start).take(len as u64).chain(archive);
    Ok(match start {
        [0x1f, 0x8b] => Box::new(MultiGzDecoder::new(whole)),
        _ => Box::new(io::BufReader::with_capacity(PIECE, whole)),
    })
}

fn archive_error(place: String, source: io::Error) -> TransferError {
    TransferError::Archive { place, source }
}

struct Import<'a, R> {
    members: Members<R>,
    tree: TarTree,
    objects: &'a Objects,
    writer: &'a ObjectWriter,
    into: &'a TreePath,
    options: &'a TarImport<'a>,
    progress: &'a dyn Progress,
    tally: Tally,
}

/// Why a member was not taken.
enum Trouble {
    Refused(Reason),
    Archive(io::Error),
    Store(ObjectError),
}

impl From<Reason> for Trouble {
    fn from(reason: Reason) -> Trouble {
        Trouble::Refused(reason)
    }
}

impl From<io::Error> for Trouble {
    fn from(source: io::Error) -> Trouble {
        Trouble::Archive(source)
    }
}

impl From<ObjectError> for Trouble {
    fn from(source: ObjectError) -> Trouble {
        Trouble::Store(source)
    }
}

/// The bytes that are read at a time.
const PIECE: usize = 128 << 10;
const SET_ID: u32 = 0o6000;

impl<R: Read> Import<'_, R> {
    fn advance(&mut self) -> Result<Option<Member>, TransferError> {
        let next = self.members.advance();
        next.map_err(|source| archive_error(format!("byte {}", self.members.position()), source))
    }

    fn take(&mut self, mut member: Member) -> Result<(), TransferError> {
        let dropped = !self.options.keep_privileges && drop_privileges(&mut member);
        match self.add(&member) {
            Ok(()) => {
                if dropped {
                    self.tally.skip(member.path, Reason::PrivilegeDropped);
                }
                Ok(())
            }
            Err(Trouble::Refused(reason)) => {
                self.tally.skip(member.path, reason);
                Ok(())
            }
            Err(Trouble::Archive(source)) => Err(archive_error(printable(&member.path), source)),
            Err(Trouble::Store(source)) => {
                let below = TreePath::parse(&member.path).unwrap_or_default();
                Err(TransferError::Object { path: self.into.join_path(&below), source })
            }
        }
    }

    fn add(&mut self, member: &Member) -> Result<(), Trouble> {
        // The oldest archives mark directories by their names alone.
        let is_directory = member.kind == EntryType::Directory
            || (member.kind == EntryType::Regular && member.path.ends_with(b"/"));
        if is_directory {
            return Ok(self.tree.add_directory(&member.path, member.meta())?);
        }
        match member.kind {
            EntryType::Link => self.tree.add_link(&member.path, &member.link)?,
            // The label of a volume is no entry.
            kind if kind.as_byte() == b'V' => return Ok(()),
            _ => {
                self.tree.check(&member.path, false)?;
                let entry = Entry { meta: member.meta(), kind: self.kind(member)? };
                self.tree.add(&member.path, entry)?;
            }
        }
        self.progress.advance(1, 0);
        Ok(())
    }

    fn kind(&mut self, member: &Member) -> Result<EntryKind, Trouble> {
        let (major, minor) = member.device;
        let device = rustix::fs::makedev(major, minor);
        Ok(match member.kind {
            EntryType::Regular | EntryType::Continuous => {
                let (size, content) = self.content(member)?;
                EntryKind::File { size, content }
            }
            EntryType::Symlink => EntryKind::Symlink { target: member.link.clone().into() },
            EntryType::Fifo => EntryKind::Fifo,
            EntryType::Char if self.options.devices => EntryKind::CharDevice { device },
            EntryType::Block if self.options.devices => EntryKind::BlockDevice { device },
            EntryType::Char | EntryType::Block => return Err(Reason::Device.into()),
            _ => return Err(Reason::UnknownKind.into()),
        })
    }

    fn content(&mut self, member: &Member) -> Result<(u64, Content), Trouble> {
        if member.size > FILE_MAX {
            return Err(Reason::TooLarge(member.size).into());
        }
        let mut builder = ContentBuilder::new(self.objects, self.writer);
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
    fn run(&mut self, builder: &mut ContentBuilder<'_>, end: u64) -> Result<(), Trouble> {
        let mut piece = vec![0; (end - builder.size()).min(PIECE as u64) as usize];
        while builder.size() < end {
            let len = (end - builder.size()).min(piece.len() as u64) as usize;
            self.members.read_exact(&mut piece[..len])?;
            builder.push(&piece[..len])?;
            self.progress.advance(0, len as u64);
        }
        Ok(())
    }
}

impl Member {
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

/// Returns whether there were any.
fn drop_privileges(member: &mut Member) -> bool {
    let had_bits = member.kind != EntryType::Symlink && member.mode & SET_ID != 0;
    if had_bits {
        member.mode &= !SET_ID;
    }
    member.xattrs.remove(CAPABILITY) || had_bits
}
