//! Exporting a tree as a tar archive in the pax format: exact, and the same bytes for the same tree.

use std::collections::HashMap;
use std::io::{self, Write};

use avfs_core::map::MapRecord;
use avfs_core::rules::Level;
use avfs_core::{Content, Entry, EntryKind, LinkId, Meta, TreePath};
use avfs_tree::{FoundEntry, ReadError, TreeListing, TreeReader, content};
use tar::{EntryType, Header};

use super::error::{SkipReason, TransferError};
use super::tar_pax::{put_record, put_time, put_xattrs};
use super::tar_sparse::{Run, put_map};
use super::{TransferProgress, TransferReport, TransferTally, join};

const BLOCK: usize = 512;
/// The size of a name field of a header.
const NAME_FIELD: usize = 100;
/// The largest number that seven, and eleven, octal digits hold.
const SEVEN_DIGITS: u64 = 0o7_777_777;
const ELEVEN_DIGITS: u64 = 0o77_777_777_777;
/// The bytes of files that are read at a time.
const PIECE: u64 = 1 << 20;

/// Writes the entry at `path` as a tar archive: a directory as `./` with its contents, anything else under
/// its own name. Sockets, which an archive cannot hold, are omitted and reported.
pub fn export_tar(
    reader: &TreeReader,
    path: &TreePath,
    out: impl Write,
    progress: &dyn TransferProgress,
) -> Result<TransferReport, TransferError> {
    let found = reader.find_readable(path)?;
    let mut export = TarExport {
        reader,
        top: path,
        out,
        written: HashMap::new(),
        tally: TransferTally::default(),
        progress,
    };
    match path.name() {
        Some(name) if !found.entry.is_directory() => {
            export.member(
                path,
                name.as_bytes().to_vec(),
                // A single file has no other names in the archive.
                &FoundEntry { link: None, ..found },
            )?;
        }
        _ => export.tree(&found)?,
    }
    export.end().map_err(|source| TransferError::Output {
        path: path.clone(),
        source,
    })?;
    Ok(export.tally.report())
}

struct TarExport<'a, W> {
    reader: &'a TreeReader,
    top: &'a TreePath,
    out: W,
    /// Files with several names, with the name that has the data.
    written: HashMap<LinkId, Vec<u8>>,
    tally: TransferTally,
    progress: &'a dyn TransferProgress,
}

impl<W: Write> TarExport<'_, W> {
    /// Writes a directory and everything below it, in order of name.
    fn tree(&mut self, found: &FoundEntry) -> Result<(), TransferError> {
        self.header_only(self.top, b"./".to_vec(), &found.entry, EntryType::Directory)?;
        // A list of open directories and no recursion: trees may be deeper than a stack.
        let mut open: Vec<(Vec<u8>, TreeListing<'_>)> =
            vec![(Vec::new(), self.reader.list_entry(self.top, &found.entry)?)];
        while let Some((directory, listing)) = open.last_mut() {
            let Some(next) = listing.next() else {
                open.pop();
                continue;
            };
            let (name, found) = next?;
            let relative = join(directory, name.as_bytes());
            let path = self
                .top
                .join_path(&TreePath::parse(&relative).unwrap_or_default());
            if found.entry.is_directory() {
                self.header_only(
                    &path,
                    [&relative[..], b"/"].concat(),
                    &found.entry,
                    EntryType::Directory,
                )?;
                self.tally.add_directory();
                let listing = self.reader.list_entry(&path, &found.entry)?;
                open.push((relative, listing));
            } else {
                self.member(&path, relative, &found)?;
            }
        }
        Ok(())
    }

    /// Writes anything but a directory.
    fn member(
        &mut self,
        path: &TreePath,
        relative: Vec<u8>,
        found: &FoundEntry,
    ) -> Result<(), TransferError> {
        let entry = &found.entry;
        if found.level < Level::Read {
            self.tally.skip(relative, SkipReason::Denied);
            return Ok(());
        }
        if let Some((link, names)) = found.link
            && names > 1
        {
            // The first name has the contents; all others refer to it.
            if let Some(first) = self.written.get(&link) {
                let mut member = MemberHeader::new(relative, &entry.meta, EntryType::Link);
                member.link.clone_from(first);
                self.put_header(path, &member)?;
                self.count(0);
                return Ok(());
            }
            // An archive has no member for a socket, to which others could refer.
            if !matches!(entry.kind, EntryKind::Socket) {
                self.written.insert(link, relative.clone());
            }
        }
        match &entry.kind {
            EntryKind::File { size, content } => self.file(path, relative, entry, *size, *content)?,
            EntryKind::Symlink { target } => {
                let mut member = MemberHeader::new(relative, &entry.meta, EntryType::Symlink);
                member.link = target.to_vec();
                self.put_header(path, &member)?;
            }
            EntryKind::Fifo => self.header_only(path, relative, entry, EntryType::Fifo)?,
            EntryKind::CharDevice { .. } => self.header_only(path, relative, entry, EntryType::Char)?,
            EntryKind::BlockDevice { .. } => self.header_only(path, relative, entry, EntryType::Block)?,
            EntryKind::Socket => {
                self.tally.skip(relative, SkipReason::Socket);
                return Ok(());
            }
            EntryKind::Directory { .. } => unreachable!("directories are written by their own function"),
        }
        self.count(entry.totals().bytes);
        Ok(())
    }

    fn count(&mut self, bytes: u64) {
        self.tally.add(1, bytes);
        self.progress.advance(1, 0);
    }

    fn header_only(
        &mut self,
        path: &TreePath,
        relative: Vec<u8>,
        entry: &Entry,
        kind: EntryType,
    ) -> Result<(), TransferError> {
        let mut member = MemberHeader::new(relative, &entry.meta, kind);
        if let EntryKind::CharDevice { device } | EntryKind::BlockDevice { device } = entry.kind {
            member.device = (rustix::fs::major(device), rustix::fs::minor(device));
        }
        self.put_header(path, &member)
    }

    fn file(
        &mut self,
        path: &TreePath,
        relative: Vec<u8>,
        entry: &Entry,
        size: u64,
        content: Content,
    ) -> Result<(), TransferError> {
        let runs = self.runs(path, size, content)?;
        let mut member = MemberHeader::new(relative, &entry.meta, EntryType::Regular);
        let map = if runs == [(0, size)] || size == 0 {
            member.size = size;
            Vec::new()
        } else {
            // The last run ends where the file does, as GNU tar writes it.
            let ends_in_data = runs.last().is_some_and(|(offset, len)| offset + len == size);
            let end = (!ends_in_data).then_some((size, 0));
            let map = put_map(&runs.iter().copied().chain(end).collect::<Vec<_>>());
            member.real_size = Some(size);
            member.size = map.len() as u64 + runs.iter().map(|(_, len)| len).sum::<u64>();
            map
        };
        self.put_header(path, &member)?;
        self.write(path, &map)?;
        for run in &runs {
            self.run(path, *run, size, content)?;
        }
        // What is missing to the next whole block.
        let padding = (member.size.wrapping_neg() % BLOCK as u64) as usize;
        self.write(path, &[0; BLOCK][..padding])
    }

    /// The runs of data of a file; a file without holes is one.
    fn runs(&self, path: &TreePath, size: u64, content: Content) -> Result<Vec<Run>, TransferError> {
        let objects = self.reader.objects();
        let failed = |source| ReadError::Object {
            path: path.clone(),
            source,
        };
        let mut runs = Vec::new();
        let mut position = 0;
        while let Some(start) = content::seek_data(objects, content, size, position).map_err(failed)? {
            position = content::seek_hole(objects, content, size, start).map_err(failed)?;
            runs.push((start, position - start));
        }
        Ok(runs)
    }

    fn run(&mut self, path: &TreePath, run: Run, size: u64, content: Content) -> Result<(), TransferError> {
        let (mut position, end) = (run.0, run.0 + run.1);
        let failed = |source| ReadError::Object {
            path: path.clone(),
            source,
        };
        if let Content::Blob(_) = content {
            // A blob is one object and has no holes: it is read at once and is its only run.
            let bytes = content::read_all(self.reader.objects(), content, size).map_err(failed)?;
            self.write(path, &bytes)?;
            self.progress.advance(0, size);
            return Ok(());
        }
        let mut piece = Vec::new();
        while position < end {
            piece.resize((end - position).min(PIECE) as usize, 0);
            content::read_at(self.reader.objects(), content, size, position, &mut piece).map_err(failed)?;
            self.write(path, &piece)?;
            position += piece.len() as u64;
            self.progress.advance(0, piece.len() as u64);
        }
        Ok(())
    }

    fn put_header(&mut self, path: &TreePath, member: &MemberHeader<'_>) -> Result<(), TransferError> {
        self.write(path, &member.headers())
    }

    fn write(&mut self, path: &TreePath, bytes: &[u8]) -> Result<(), TransferError> {
        let written = self.out.write_all(bytes);
        written.map_err(|source| TransferError::Output {
            path: path.clone(),
            source,
        })
    }

    /// Two empty blocks.
    fn end(&mut self) -> io::Result<()> {
        // Two empty blocks are the end of an archive.
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.flush()
    }
}

/// The contents of the headers of one member.
struct MemberHeader<'a> {
    name: Vec<u8>,
    link: Vec<u8>,
    meta: &'a Meta,
    kind: EntryType,
    /// The size of its data in the archive.
    size: u64,
    /// The size of a file with holes.
    real_size: Option<u64>,
    device: (u32, u32),
}

impl MemberHeader<'_> {
    fn new(name: Vec<u8>, meta: &Meta, kind: EntryType) -> MemberHeader<'_> {
        MemberHeader {
            name,
            link: Vec::new(),
            meta,
            kind,
            size: 0,
            real_size: None,
            device: (0, 0),
        }
    }

    /// The header, after an extended one if it cannot express everything.
    fn headers(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let records = self.records();
        if !records.is_empty() {
            let mut header = header(b"././@PaxHeader", EntryType::XHeader, records.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            out.extend_from_slice(header.as_bytes());
            out.extend_from_slice(&records);
            out.resize(out.len().next_multiple_of(BLOCK), 0);
        }
        let mut header = match self.real_size {
            // A reader that does not know sparse files unpacks the map under this name, and not under the
            // file's own.
            Some(_) => header(&self.name_without_holes(), self.kind, self.size),
            None => header(&self.name, self.kind, self.size),
        };
        header.set_mode(self.meta.mode);
        header.set_uid(self.meta.uid.into());
        header.set_gid(self.meta.gid.into());
        // For readers that know no extended headers; the exact time is in one.
        header.set_mtime((self.meta.mtime.seconds.max(0) as u64).min(ELEVEN_DIGITS));
        if let Some(ustar) = header.as_ustar_mut() {
            put_field(&mut ustar.linkname, &self.link);
            ustar.set_device_major(self.device.0);
            ustar.set_device_minor(self.device.1);
        }
        header.set_cksum();
        out.extend_from_slice(header.as_bytes());
        out
    }

    fn records(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.real_size {
            Some(size) => {
                put_record(&mut out, b"GNU.sparse.major", b"1");
                put_record(&mut out, b"GNU.sparse.minor", b"0");
                put_record(&mut out, b"GNU.sparse.name", &self.name);
                put_record(&mut out, b"GNU.sparse.realsize", size.to_string().as_bytes());
            }
            None if self.name.len() > NAME_FIELD => put_record(&mut out, b"path", &self.name),
            None => {}
        }
        if self.link.len() > NAME_FIELD {
            put_record(&mut out, b"linkpath", &self.link);
        }
        self.number_records(&mut out);
        // The attributes of a file are at its first name.
        if self.kind != EntryType::Link {
            put_xattrs(&mut out, &self.meta.xattrs);
        }
        out
    }

    fn number_records(&self, out: &mut Vec<u8>) {
        let (uid, gid) = (u64::from(self.meta.uid), u64::from(self.meta.gid));
        let numbers = [
            (&b"size"[..], self.size, ELEVEN_DIGITS),
            (b"uid", uid, SEVEN_DIGITS),
            (b"gid", gid, SEVEN_DIGITS),
        ];
        for (keyword, number, max) in numbers {
            if number > max {
                put_record(out, keyword, number.to_string().as_bytes());
            }
        }
        let mtime = self.meta.mtime;
        if mtime.nanos != 0 || mtime.seconds < 0 || mtime.seconds as u64 > ELEVEN_DIGITS {
            put_record(out, b"mtime", put_time(mtime).as_bytes());
        }
    }

    /// The name under which a program without support for holes extracts the raw data.
    fn name_without_holes(&self) -> Vec<u8> {
        let slash = self
            .name
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |slash| slash + 1);
        let (directory, name) = self.name.split_at(slash);
        [directory, b"GNUSparseFile.0/", name].concat()
    }
}

fn header(name: &[u8], kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(size);
    if let Some(ustar) = header.as_ustar_mut() {
        put_field(&mut ustar.name, name);
    }
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// As much of it as fits; an extended header has the rest.
fn put_field(field: &mut [u8; NAME_FIELD], bytes: &[u8]) {
    let len = bytes.len().min(NAME_FIELD);
    field[..len].copy_from_slice(&bytes[..len]);
}
