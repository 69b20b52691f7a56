//! The members of a tar archive, one after the other: headers of all common formats made one thing.
//!
//! The archive is not trusted: the memory that it makes us use is bounded, and every length is checked.

use std::io::{self, Read};

use avfs_core::{Timestamp, Xattrs};
use tar::{EntryType, Header};

use super::tar_pax;
use super::tar_sparse::{self, Run, SparseRecords};

const BLOCK: u64 = 512;
/// An extended header holds a path and a few extended attributes.
const EXTENSION_MAX: u64 = 4 << 20;
/// Archives are padded after their end. A process that pipes one to us should be able to finish.
const DRAINED_MAX: u64 = 1 << 20;

/// One member, with its extended headers.
pub(super) struct TarMember {
    pub path: Vec<u8>,
    pub link: Vec<u8>,
    pub kind: EntryType,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: Timestamp,
    pub xattrs: Xattrs,
    pub device: (u32, u32),
    /// The size of the file, with its holes.
    pub size: u64,
    /// Where the data belongs, if there are holes.
    pub runs: Option<Vec<Run>>,
}

pub(super) struct TarMembers<R> {
    archive: CountedReader<R>,
    /// Bytes of the present member that have not been read, and those that fill its last block.
    data: u64,
    padding: u64,
    global: Vec<u8>,
}

struct CountedReader<R> {
    inner: R,
    position: u64,
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(buffer)?;
        self.position += len as u64;
        Ok(len)
    }
}

/// Headers that describe the next member.
#[derive(Default)]
struct MemberExtensions {
    long_path: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    pax: Vec<u8>,
}

impl<R: Read> TarMembers<R> {
    pub(super) fn new(archive: R) -> TarMembers<R> {
        TarMembers {
            archive: CountedReader {
                inner: archive,
                position: 0,
            },
            data: 0,
            padding: 0,
            global: Vec::new(),
        }
    }

    /// The current position in the archive.
    pub(super) fn position(&self) -> u64 {
        self.archive.position
    }

    /// The next member; unread data of the previous one is skipped.
    pub(super) fn advance(&mut self) -> io::Result<Option<TarMember>> {
        let mut extensions = MemberExtensions::default();
        loop {
            self.pass_over(self.data + self.padding)?;
            (self.data, self.padding) = (0, 0);
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            match header.entry_type() {
                EntryType::GNULongName => extensions.long_path = Some(self.text(&header)?),
                EntryType::GNULongLink => extensions.long_link = Some(self.text(&header)?),
                EntryType::XHeader => extensions.pax = self.extension(&header)?,
                EntryType::XGlobalHeader => {
                    let global = self.extension(&header)?;
                    if (self.global.len() + global.len()) as u64 > EXTENSION_MAX {
                        return Err(invalid("global headers are too large"));
                    }
                    self.global.extend(global);
                }
                _ => return self.member(&header, extensions).map(Some),
            }
        }
    }

    /// The next header; `None` at the end.
    fn header(&mut self) -> io::Result<Option<Header>> {
        let mut header = Header::new_old();
        match read_full(&mut self.archive, header.as_mut_bytes())? {
            0 => return Ok(None),
            512 => {}
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        if header.as_bytes().iter().all(|byte| *byte == 0) {
            io::copy(&mut (&mut self.archive).take(DRAINED_MAX), &mut io::sink())?;
            return Ok(None);
        }
        let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        let bytes = header.as_bytes();
        // The sum counts its own eight bytes as spaces.
        let expected = sum(&bytes[..148]) + 8 * u32::from(b' ') + sum(&bytes[156..]);
        match header.cksum() {
            Ok(found) if found == expected => Ok(Some(header)),
            _ => Err(invalid("this is not a tar header: its checksum is wrong")),
        }
    }

    /// The whole of a header's data.
    fn extension(&mut self, header: &Header) -> io::Result<Vec<u8>> {
        let size = header.entry_size()?;
        if size > EXTENSION_MAX {
            return Err(invalid("an extended header is too large"));
        }
        self.expect_data(size);
        let mut bytes = vec![0; size as usize];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn text(&mut self, header: &Header) -> io::Result<Vec<u8>> {
        let mut text = self.extension(header)?;
        if text.last() == Some(&0) {
            text.pop();
        }
        Ok(text)
    }

    fn expect_data(&mut self, size: u64) {
        self.data = size;
        self.padding = size.wrapping_neg() % BLOCK;
    }

    fn pass_over(&mut self, len: u64) -> io::Result<()> {
        match io::copy(&mut (&mut self.archive).take(len), &mut io::sink())? {
            passed if passed == len => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn member(&mut self, header: &Header, extensions: MemberExtensions) -> io::Result<TarMember> {
        let old = header.as_old();
        let mut member = TarMember {
            path: extensions
                .long_path
                .unwrap_or_else(|| header.path_bytes().into_owned()),
            link: extensions
                .long_link
                .unwrap_or_else(|| header.link_name_bytes().unwrap_or_default().into_owned()),
            kind: header.entry_type(),
            mode: unless_blank(&old.mode, || header.mode())? & 0o7777,
            uid: whole_id(unless_blank(&old.uid, || header.uid())?)?,
            gid: whole_id(unless_blank(&old.gid, || header.gid())?)?,
            mtime: Timestamp {
                seconds: unless_blank(&old.mtime, || header.mtime())? as i64,
                nanos: 0,
            },
            xattrs: Xattrs::default(),
            device: device(header)?,
            size: unless_blank(&old.size, || header.entry_size())?,
            runs: None,
        };
        let mut sparse = SparseRecords::default();
        // Global records hold for all entries to come; those of the entry itself are read after them, and win.
        let global = std::mem::take(&mut self.global);
        for part in [&global, &extensions.pax] {
            for (keyword, value) in tar_pax::records(part)? {
                member.take(keyword, value, &mut sparse)?;
            }
        }
        self.global = global;
        // Links have no data, whatever their size field says: in old archives it is that of the file.
        let is_link = matches!(member.kind, EntryType::Link | EntryType::Symlink);
        self.expect_data(if is_link { 0 } else { member.size });
        self.find_holes(header, &mut member, sparse)?;
        Ok(member)
    }

    fn find_holes(
        &mut self,
        header: &Header,
        member: &mut TarMember,
        sparse: SparseRecords,
    ) -> io::Result<()> {
        if let Some(name) = &sparse.name {
            member.path.clone_from(name);
        }
        let real_size = sparse.real_size.unwrap_or(member.size);
        if member.kind == EntryType::GNUSparse {
            let gnu = header
                .as_gnu()
                .ok_or_else(|| invalid("a sparse file has a foreign header"))?;
            member.size = gnu.real_size()?;
            member.kind = EntryType::Regular;
            member.runs = Some(tar_sparse::gnu_runs(gnu, &mut self.archive)?);
        } else if sparse.in_data {
            let (runs, taken) = tar_sparse::read_map(&mut (&mut self.archive).take(self.data))?;
            self.data -= taken;
            (member.size, member.runs) = (real_size, Some(runs));
        } else if let Some(runs) = sparse.runs() {
            (member.size, member.runs) = (real_size, Some(runs));
        }
        match &member.runs {
            Some(runs) => tar_sparse::check(runs, member.size, self.data),
            None => Ok(()),
        }
    }
}

/// Reads the data of the current member, up to its end.
impl<R: Read> Read for TarMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.data.min(buffer.len() as u64) as usize;
        let read = self.archive.read(&mut buffer[..len])?;
        if read == 0 && len > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.data -= read as u64;
        Ok(read)
    }
}

impl TarMember {
    fn take(&mut self, keyword: &[u8], value: &[u8], sparse: &mut SparseRecords) -> io::Result<()> {
        match keyword {
            // An empty value cancels earlier ones: the header counts.
            _ if value.is_empty() && !keyword.starts_with(b"SCHILY.") => {}
            b"path" => self.path = value.to_vec(),
            b"linkpath" => self.link = value.to_vec(),
            b"size" => self.size = tar_pax::number(value)?,
            b"uid" => self.uid = whole_id(tar_pax::number(value)?)?,
            b"gid" => self.gid = whole_id(tar_pax::number(value)?)?,
            b"mtime" => self.mtime = tar_pax::time(value)?,
            _ => {
                if let Some(name) = tar_pax::xattr_name(keyword) {
                    self.xattrs.set(&name, value);
                } else if let Some(keyword) = keyword.strip_prefix(b"GNU.sparse.") {
                    sparse.take(keyword, value)?;
                }
            }
        }
        Ok(())
    }
}

/// A field that was left empty means zero.
fn unless_blank<N: Default>(field: &[u8], parse: impl Fn() -> io::Result<N>) -> io::Result<N> {
    if field.iter().all(|byte| matches!(byte, 0 | b' ')) {
        Ok(N::default())
    } else {
        parse()
    }
}

fn device(header: &Header) -> io::Result<(u32, u32)> {
    if !matches!(header.entry_type(), EntryType::Char | EntryType::Block) {
        return Ok((0, 0));
    }
    // Where the formats that know devices have their numbers.
    let (major, minor) = (&header.as_bytes()[329..337], &header.as_bytes()[337..345]);
    let major = unless_blank(major, || header.device_major())?.unwrap_or(0);
    Ok((major, unless_blank(minor, || header.device_minor())?.unwrap_or(0)))
}

fn whole_id(id: u64) -> io::Result<u32> {
    u32::try_from(id).map_err(|_| invalid("the number of a user or group is too large"))
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads until the buffer is full or the archive ends.
pub(super) fn read_full(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match reader.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}
