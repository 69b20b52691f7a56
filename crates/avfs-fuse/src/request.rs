//! Requests of the kernel, decoded: every field checked, names and data still in the transport's buffer.

use rustix::fs::OFlags;
use rustix::io::Errno;
use zerocopy::FromBytes;

use crate::abi::*;

/// Who asks: the process that made the system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerId {
    pub uid: u32,
    pub gid: u32,
    /// Zero where the kernel itself asks or the process is not visible.
    pub pid: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The number that the answer carries.
    pub unique: u64,
    pub nodeid: u64,
    pub caller: CallerId,
    pub opcode: Opcode,
    pub operation: Operation<'a>,
    parts: Parts<'a>,
}

/// What a request was decoded from.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    header: &'a InHeader,
    argument: &'a [u8],
    payload: &'a [u8],
}

/// A request that outlives the transport's buffer.
#[derive(Debug)]
pub struct KeptRequest {
    header: InHeader,
    argument: Vec<u8>,
    payload: Vec<u8>,
}

impl KeptRequest {
    pub fn request(&self) -> Request<'_> {
        let decoded = Request::decode(&self.header, &self.argument, &self.payload);
        decoded.expect("it was decoded from the same bytes before")
    }
}

/// What is asked for. The structures are the kernel's own.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    BatchForget {
        nodes: Forgets<'a>,
    },
    GetAttr(GetattrIn),
    SetAttr(SetattrIn),
    ReadLink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MakeNode {
        node: MknodIn,
        name: &'a [u8],
    },
    MakeDirectory {
        directory: MkdirIn,
        name: &'a [u8],
    },
    Unlink {
        name: &'a [u8],
    },
    RemoveDirectory {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    /// The node of the request is the directory of the new name.
    Link {
        node: u64,
        name: &'a [u8],
    },
    Open(OpenIn),
    Create {
        create: CreateIn,
        name: &'a [u8],
    },
    TemporaryFile(CreateIn),
    Read(ReadIn),
    Write {
        write: WriteIn,
        data: &'a [u8],
    },
    Flush(FlushIn),
    Release(ReleaseIn),
    Sync(FsyncIn),
    SyncFilesystem,
    StatFilesystem,
    Statx(StatxIn),
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    GetXattr {
        name: &'a [u8],
        size: u32,
    },
    ListXattr {
        size: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    OpenDirectory(OpenIn),
    ReadDirectory(ReadIn),
    ReadDirectoryPlus(ReadIn),
    ReleaseDirectory(ReleaseIn),
    SyncDirectory(FsyncIn),
    GetLock(LkIn),
    SetLock {
        lock: LkIn,
        wait: bool,
    },
    Access {
        mask: u32,
    },
    Interrupt {
        unique: u64,
    },
    Allocate(FallocateIn),
    Seek(LseekIn),
    /// `wide`: the answer is a 64-bit count (of a later kernel), else a 32-bit one.
    CopyRange {
        copy: CopyFileRangeIn,
        wide: bool,
    },
    BlockMap(BmapIn),
    DeviceControl {
        control: IoctlIn,
        data: &'a [u8],
    },
    Poll(PollIn),
    Init(InitIn),
    Destroy,
}

impl Operation<'_> {
    /// Whether it changes anything, or is about to.
    pub fn is_change(&self) -> bool {
        match self {
            Operation::SetAttr(_)
            | Operation::Symlink { .. }
            | Operation::MakeNode { .. }
            | Operation::MakeDirectory { .. }
            | Operation::Unlink { .. }
            | Operation::RemoveDirectory { .. }
            | Operation::Rename { .. }
            | Operation::Link { .. }
            | Operation::Create { .. }
            | Operation::TemporaryFile(_)
            | Operation::Write { .. }
            | Operation::SetXattr { .. }
            | Operation::RemoveXattr { .. }
            | Operation::Allocate(_)
            | Operation::CopyRange { .. } => true,
            Operation::Open(open) => {
                let access = OFlags::from_bits_retain(open.flags);
                access & OFlags::RWMODE != OFlags::RDONLY || access.contains(OFlags::TRUNC)
            }
            Operation::Lookup { .. }
            | Operation::Forget { .. }
            | Operation::BatchForget { .. }
            | Operation::GetAttr(_)
            | Operation::ReadLink
            | Operation::Read(_)
            | Operation::Flush(_)
            | Operation::Release(_)
            | Operation::Sync(_)
            | Operation::SyncFilesystem
            | Operation::StatFilesystem
            | Operation::Statx(_)
            | Operation::GetXattr { .. }
            | Operation::ListXattr { .. }
            | Operation::OpenDirectory(_)
            | Operation::ReadDirectory(_)
            | Operation::ReadDirectoryPlus(_)
            | Operation::ReleaseDirectory(_)
            | Operation::SyncDirectory(_)
            | Operation::GetLock(_)
            | Operation::SetLock { .. }
            | Operation::Access { .. }
            | Operation::Interrupt { .. }
            | Operation::BlockMap(_)
            | Operation::DeviceControl { .. }
            | Operation::Poll(_)
            | Operation::Seek(_)
            | Operation::Init(_)
            | Operation::Destroy => false,
        }
    }
}

impl<'a> Request<'a> {
    /// Decodes a request that came in two parts, the structure of the first argument and the rest. Both may
    /// be longer than what is used.
    pub fn decode(header: &'a InHeader, argument: &'a [u8], payload: &'a [u8]) -> Result<Request<'a>, Errno> {
        let opcode = Opcode::from_number(header.opcode).ok_or(Errno::NOSYS)?;
        Ok(Request {
            unique: header.unique,
            nodeid: header.nodeid,
            caller: CallerId { uid: header.uid, gid: header.gid, pid: header.pid },
            opcode,
            operation: operation(opcode, argument, payload)?,
            parts: Parts { header, argument, payload },
        })
    }

    /// The same request, to be served later.
    pub fn kept(&self) -> KeptRequest {
        let Parts { header, argument, payload } = self.parts;
        KeptRequest { header: *header, argument: argument.to_vec(), payload: payload.to_vec() }
    }

    /// Divides a contiguous request behind its header into the two parts that [`Request::decode`] takes.
    pub fn split(header: &InHeader, body: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let size = Opcode::from_number(header.opcode).map_or(0, Opcode::argument_size);
        body.split_at(size.min(body.len()))
    }
}

fn operation<'a>(opcode: Opcode, argument: &'a [u8], payload: &'a [u8]) -> Result<Operation<'a>, Errno> {
    let mut names = Names(payload);
    Ok(match opcode {
        Opcode::Lookup => Operation::Lookup { name: names.next()? },
        Opcode::Forget => Operation::Forget { lookups: read::<ForgetIn>(argument)?.nlookup },
        Opcode::BatchForget => {
            Operation::BatchForget { nodes: Forgets::new(read::<BatchForgetIn>(argument)?.count, payload)? }
        }
        Opcode::Getattr => Operation::GetAttr(read(argument)?),
        Opcode::Setattr => Operation::SetAttr(read(argument)?),
        Opcode::Readlink => Operation::ReadLink,
        Opcode::Symlink => Operation::Symlink { name: names.next()?, target: names.next()? },
        Opcode::Mknod => Operation::MakeNode { node: read(argument)?, name: names.next()? },
        Opcode::Mkdir => Operation::MakeDirectory { directory: read(argument)?, name: names.next()? },
        Opcode::Unlink => Operation::Unlink { name: names.next()? },
        Opcode::Rmdir => Operation::RemoveDirectory { name: names.next()? },
        Opcode::Rename => rename(read::<RenameIn>(argument)?.newdir, 0, names)?,
        Opcode::Rename2 => {
            let arguments: Rename2In = read(argument)?;
            rename(arguments.newdir, arguments.flags, names)?
        }
        Opcode::Link => Operation::Link { node: read::<LinkIn>(argument)?.oldnodeid, name: names.next()? },
        Opcode::Open => Operation::Open(read(argument)?),
        Opcode::Create => Operation::Create { create: read(argument)?, name: names.next()? },
        Opcode::Tmpfile => Operation::TemporaryFile(read(argument)?),
        Opcode::Read => Operation::Read(read(argument)?),
        Opcode::Write => {
            let write: WriteIn = read(argument)?;
            Operation::Write { write, data: prefix(payload, write.size)? }
        }
        Opcode::Flush => Operation::Flush(read(argument)?),
        Opcode::Release => Operation::Release(read(argument)?),
        Opcode::Fsync => Operation::Sync(read(argument)?),
        Opcode::Syncfs => Operation::SyncFilesystem,
        Opcode::Statfs => Operation::StatFilesystem,
        Opcode::Statx => Operation::Statx(read(argument)?),
        Opcode::Setxattr => {
            let SetxattrIn { size, flags } = read(argument)?;
            Operation::SetXattr { name: names.next()?, value: prefix(names.0, size)?, flags }
        }
        Opcode::Getxattr => {
            Operation::GetXattr { name: names.next()?, size: read::<GetxattrIn>(argument)?.size }
        }
        Opcode::Listxattr => Operation::ListXattr { size: read::<GetxattrIn>(argument)?.size },
        Opcode::Removexattr => Operation::RemoveXattr { name: names.next()? },
        Opcode::Opendir => Operation::OpenDirectory(read(argument)?),
        Opcode::Readdir => Operation::ReadDirectory(read(argument)?),
        Opcode::Readdirplus => Operation::ReadDirectoryPlus(read(argument)?),
        Opcode::Releasedir => Operation::ReleaseDirectory(read(argument)?),
        Opcode::Fsyncdir => Operation::SyncDirectory(read(argument)?),
        Opcode::Getlk => Operation::GetLock(read(argument)?),
        Opcode::Setlk => Operation::SetLock { lock: read(argument)?, wait: false },
        Opcode::Setlkw => Operation::SetLock { lock: read(argument)?, wait: true },
        Opcode::Access => Operation::Access { mask: read::<AccessIn>(argument)?.mask },
        Opcode::Interrupt => Operation::Interrupt { unique: read::<InterruptIn>(argument)?.unique },
        Opcode::Fallocate => Operation::Allocate(read(argument)?),
        Opcode::Lseek => Operation::Seek(read(argument)?),
        Opcode::CopyFileRange => Operation::CopyRange { copy: read(argument)?, wide: false },
        Opcode::CopyFileRange64 => Operation::CopyRange { copy: read(argument)?, wide: true },
        Opcode::Bmap => Operation::BlockMap(read(argument)?),
        Opcode::Ioctl => {
            let control: IoctlIn = read(argument)?;
            Operation::DeviceControl { control, data: prefix(payload, control.in_size)? }
        }
        Opcode::Poll => Operation::Poll(read(argument)?),
        Opcode::Init => Operation::Init(read_init(argument)?),
        Opcode::Destroy => Operation::Destroy,
        // Answers to questions and mappings that are never made.
        Opcode::NotifyReply | Opcode::Setupmapping | Opcode::Removemapping => return Err(Errno::NOSYS),
    })
}

fn rename(new_parent: u64, flags: u32, mut names: Names<'_>) -> Result<Operation<'_>, Errno> {
    Ok(Operation::Rename { name: names.next()?, new_parent, new_name: names.next()?, flags })
}

fn read<T: FromBytes>(bytes: &[u8]) -> Result<T, Errno> {
    T::read_from_prefix(bytes).map(|(value, _)| value).map_err(|_| Errno::INVAL)
}

/// The structure has grown over time; what an older kernel does not send is zero.
fn read_init(bytes: &[u8]) -> Result<InitIn, Errno> {
    let mut whole = [0; size_of::<InitIn>()];
    let len = bytes.len().min(whole.len());
    if len < InitIn::SHORT {
        return Err(Errno::INVAL);
    }
    whole[..len].copy_from_slice(&bytes[..len]);
    read(&whole)
}

fn prefix(bytes: &[u8], len: u32) -> Result<&[u8], Errno> {
    bytes.get(..len as usize).ok_or(Errno::INVAL)
}

/// Strings that end with a NUL byte, one behind the other.
struct Names<'a>(&'a [u8]);

impl<'a> Names<'a> {
    fn next(&mut self) -> Result<&'a [u8], Errno> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Errno::INVAL)?;
        let name = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Ok(name)
    }
}

/// Nodes that the kernel forgets, each with how many lookups.
#[derive(Clone, Copy, Debug)]
pub struct Forgets<'a>(&'a [u8]);

impl<'a> Forgets<'a> {
    fn new(count: u32, bytes: &'a [u8]) -> Result<Forgets<'a>, Errno> {
        let len = (count as usize).checked_mul(size_of::<ForgetOne>()).ok_or(Errno::INVAL)?;
        bytes.get(..len).map(Forgets).ok_or(Errno::INVAL)
    }

    pub fn iter(&self) -> impl Iterator<Item = ForgetOne> + use<'a> {
        self.0.chunks_exact(size_of::<ForgetOne>()).filter_map(|one| read(one).ok())
    }
}
