//! Requests of the kernel, decoded: every field is checked; names and data remain in the transport's buffer.

use rustix::fs::OFlags;
use rustix::io::Errno;
use zerocopy::FromBytes;

use crate::abi::*;

/// The process that made the system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerId {
    /// The user who made it, as the mount sees users.
    pub uid: u32,
    /// The group of that user.
    pub gid: u32,
    /// Zero for requests of the kernel itself, or if the process is not visible.
    pub pid: u32,
}

/// A request of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct FuseRequest<'a> {
    /// The number to repeat in the answer.
    pub unique: u64,
    /// The node that it is about.
    pub nodeid: u64,
    /// The process for which the kernel asks.
    pub caller: CallerId,
    /// Its kind.
    pub opcode: Opcode,
    /// What it asks for.
    pub operation: FuseOperation<'a>,
    parts: RequestParts<'a>,
}

/// The parts from which a request was decoded.
#[derive(Clone, Copy, Debug)]
struct RequestParts<'a> {
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
    /// The request, decoded.
    pub fn request(&self) -> FuseRequest<'_> {
        let decoded = FuseRequest::decode(&self.header, &self.argument, &self.payload);
        decoded.expect("it was decoded from the same bytes before")
    }
}

/// The requested operation. The structures are the kernel's own.
#[allow(
    missing_docs,
    reason = "a variant is the request of that name, with its structure of linux/fuse.h"
)]
#[derive(Clone, Copy, Debug)]
pub enum FuseOperation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    BatchForget {
        nodes: ForgottenNodes<'a>,
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

impl FuseOperation<'_> {
    /// Whether it changes something, or prepares a change.
    pub fn is_change(&self) -> bool {
        match self {
            FuseOperation::SetAttr(_)
            | FuseOperation::Symlink { .. }
            | FuseOperation::MakeNode { .. }
            | FuseOperation::MakeDirectory { .. }
            | FuseOperation::Unlink { .. }
            | FuseOperation::RemoveDirectory { .. }
            | FuseOperation::Rename { .. }
            | FuseOperation::Link { .. }
            | FuseOperation::Create { .. }
            | FuseOperation::TemporaryFile(_)
            | FuseOperation::Write { .. }
            | FuseOperation::SetXattr { .. }
            | FuseOperation::RemoveXattr { .. }
            | FuseOperation::Allocate(_)
            | FuseOperation::CopyRange { .. } => true,
            FuseOperation::Open(open) => {
                // Linux truncates a file that is opened with `O_RDONLY | O_TRUNC`, too.
                let access = OFlags::from_bits_retain(open.flags);
                access & OFlags::RWMODE != OFlags::RDONLY || access.contains(OFlags::TRUNC)
            }
            FuseOperation::Lookup { .. }
            | FuseOperation::Forget { .. }
            | FuseOperation::BatchForget { .. }
            | FuseOperation::GetAttr(_)
            | FuseOperation::ReadLink
            | FuseOperation::Read(_)
            | FuseOperation::Flush(_)
            | FuseOperation::Release(_)
            | FuseOperation::Sync(_)
            | FuseOperation::SyncFilesystem
            | FuseOperation::StatFilesystem
            | FuseOperation::Statx(_)
            | FuseOperation::GetXattr { .. }
            | FuseOperation::ListXattr { .. }
            | FuseOperation::OpenDirectory(_)
            | FuseOperation::ReadDirectory(_)
            | FuseOperation::ReadDirectoryPlus(_)
            | FuseOperation::ReleaseDirectory(_)
            | FuseOperation::SyncDirectory(_)
            | FuseOperation::GetLock(_)
            | FuseOperation::SetLock { .. }
            | FuseOperation::Access { .. }
            | FuseOperation::Interrupt { .. }
            | FuseOperation::BlockMap(_)
            | FuseOperation::DeviceControl { .. }
            | FuseOperation::Poll(_)
            | FuseOperation::Seek(_)
            | FuseOperation::Init(_)
            | FuseOperation::Destroy => false,
        }
    }
}

impl<'a> FuseRequest<'a> {
    /// Decodes a request that came in two parts, the structure of the first argument and the rest. Both may
    /// be longer than needed.
    pub fn decode(
        header: &'a InHeader,
        argument: &'a [u8],
        payload: &'a [u8],
    ) -> Result<FuseRequest<'a>, Errno> {
        let opcode = Opcode::from_number(header.opcode).ok_or(Errno::NOSYS)?;
        Ok(FuseRequest {
            unique: header.unique,
            nodeid: header.nodeid,
            caller: CallerId {
                uid: header.uid,
                gid: header.gid,
                pid: header.pid,
            },
            opcode,
            operation: operation(opcode, argument, payload)?,
            parts: RequestParts {
                header,
                argument,
                payload,
            },
        })
    }

    /// The same request, to be served later.
    pub fn kept(&self) -> KeptRequest {
        let RequestParts {
            header,
            argument,
            payload,
        } = self.parts;
        KeptRequest {
            header: *header,
            argument: argument.to_vec(),
            payload: payload.to_vec(),
        }
    }

    /// Splits a contiguous request, without its header, into the two parts that [`FuseRequest::decode`]
    /// takes.
    pub fn split(header: &InHeader, body: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let size = Opcode::from_number(header.opcode).map_or(0, Opcode::argument_size);
        body.split_at(size.min(body.len()))
    }
}

fn operation<'a>(opcode: Opcode, argument: &'a [u8], payload: &'a [u8]) -> Result<FuseOperation<'a>, Errno> {
    let mut names = RequestNames(payload);
    Ok(match opcode {
        Opcode::Lookup => FuseOperation::Lookup { name: names.next()? },
        Opcode::Forget => FuseOperation::Forget {
            lookups: read::<ForgetIn>(argument)?.nlookup,
        },
        Opcode::BatchForget => FuseOperation::BatchForget {
            nodes: ForgottenNodes::new(read::<BatchForgetIn>(argument)?.count, payload)?,
        },
        Opcode::Getattr => FuseOperation::GetAttr(read(argument)?),
        Opcode::Setattr => FuseOperation::SetAttr(read(argument)?),
        Opcode::Readlink => FuseOperation::ReadLink,
        Opcode::Symlink => FuseOperation::Symlink {
            name: names.next()?,
            target: names.next()?,
        },
        Opcode::Mknod => FuseOperation::MakeNode {
            node: read(argument)?,
            name: names.next()?,
        },
        Opcode::Mkdir => FuseOperation::MakeDirectory {
            directory: read(argument)?,
            name: names.next()?,
        },
        Opcode::Unlink => FuseOperation::Unlink { name: names.next()? },
        Opcode::Rmdir => FuseOperation::RemoveDirectory { name: names.next()? },
        Opcode::Rename => rename(read::<RenameIn>(argument)?.newdir, 0, names)?,
        Opcode::Rename2 => {
            let arguments: Rename2In = read(argument)?;
            rename(arguments.newdir, arguments.flags, names)?
        }
        Opcode::Link => FuseOperation::Link {
            node: read::<LinkIn>(argument)?.oldnodeid,
            name: names.next()?,
        },
        Opcode::Open => FuseOperation::Open(read(argument)?),
        Opcode::Create => FuseOperation::Create {
            create: read(argument)?,
            name: names.next()?,
        },
        Opcode::Tmpfile => FuseOperation::TemporaryFile(read(argument)?),
        Opcode::Read => FuseOperation::Read(read(argument)?),
        Opcode::Write => {
            let write: WriteIn = read(argument)?;
            FuseOperation::Write {
                write,
                data: prefix(payload, write.size)?,
            }
        }
        Opcode::Flush => FuseOperation::Flush(read(argument)?),
        Opcode::Release => FuseOperation::Release(read(argument)?),
        Opcode::Fsync => FuseOperation::Sync(read(argument)?),
        Opcode::Syncfs => FuseOperation::SyncFilesystem,
        Opcode::Statfs => FuseOperation::StatFilesystem,
        Opcode::Statx => FuseOperation::Statx(read(argument)?),
        Opcode::Setxattr => {
            let SetxattrIn { size, flags } = read(argument)?;
            FuseOperation::SetXattr {
                name: names.next()?,
                value: prefix(names.0, size)?,
                flags,
            }
        }
        Opcode::Getxattr => FuseOperation::GetXattr {
            name: names.next()?,
            size: read::<GetxattrIn>(argument)?.size,
        },
        Opcode::Listxattr => FuseOperation::ListXattr {
            size: read::<GetxattrIn>(argument)?.size,
        },
        Opcode::Removexattr => FuseOperation::RemoveXattr { name: names.next()? },
        Opcode::Opendir => FuseOperation::OpenDirectory(read(argument)?),
        Opcode::Readdir => FuseOperation::ReadDirectory(read(argument)?),
        Opcode::Readdirplus => FuseOperation::ReadDirectoryPlus(read(argument)?),
        Opcode::Releasedir => FuseOperation::ReleaseDirectory(read(argument)?),
        Opcode::Fsyncdir => FuseOperation::SyncDirectory(read(argument)?),
        Opcode::Getlk => FuseOperation::GetLock(read(argument)?),
        Opcode::Setlk => FuseOperation::SetLock {
            lock: read(argument)?,
            wait: false,
        },
        Opcode::Setlkw => FuseOperation::SetLock {
            lock: read(argument)?,
            wait: true,
        },
        Opcode::Access => FuseOperation::Access {
            mask: read::<AccessIn>(argument)?.mask,
        },
        Opcode::Interrupt => FuseOperation::Interrupt {
            unique: read::<InterruptIn>(argument)?.unique,
        },
        Opcode::Fallocate => FuseOperation::Allocate(read(argument)?),
        Opcode::Lseek => FuseOperation::Seek(read(argument)?),
        Opcode::CopyFileRange => FuseOperation::CopyRange {
            copy: read(argument)?,
            wide: false,
        },
        Opcode::CopyFileRange64 => FuseOperation::CopyRange {
            copy: read(argument)?,
            wide: true,
        },
        Opcode::Bmap => FuseOperation::BlockMap(read(argument)?),
        Opcode::Ioctl => {
            let control: IoctlIn = read(argument)?;
            FuseOperation::DeviceControl {
                control,
                data: prefix(payload, control.in_size)?,
            }
        }
        Opcode::Poll => FuseOperation::Poll(read(argument)?),
        Opcode::Init => FuseOperation::Init(read_init(argument)?),
        Opcode::Destroy => FuseOperation::Destroy,
        // Answers to questions that we never ask, and mappings that we never make.
        Opcode::NotifyReply | Opcode::Setupmapping | Opcode::Removemapping => return Err(Errno::NOSYS),
    })
}

fn rename(new_parent: u64, flags: u32, mut names: RequestNames<'_>) -> Result<FuseOperation<'_>, Errno> {
    Ok(FuseOperation::Rename {
        name: names.next()?,
        new_parent,
        new_name: names.next()?,
        flags,
    })
}

fn read<T: FromBytes>(bytes: &[u8]) -> Result<T, Errno> {
    T::read_from_prefix(bytes)
        .map(|(value, _)| value)
        .map_err(|_| Errno::INVAL)
}

/// The structure has grown over time; fields that an older kernel does not send are zero.
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

/// NUL-terminated strings, one after the other.
struct RequestNames<'a>(&'a [u8]);

impl<'a> RequestNames<'a> {
    fn next(&mut self) -> Result<&'a [u8], Errno> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Errno::INVAL)?;
        let name = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Ok(name)
    }
}

/// Nodes that the kernel forgets, each with its number of lookups.
#[derive(Clone, Copy, Debug)]
pub struct ForgottenNodes<'a>(&'a [u8]);

impl<'a> ForgottenNodes<'a> {
    fn new(count: u32, bytes: &'a [u8]) -> Result<ForgottenNodes<'a>, Errno> {
        let len = (count as usize)
            .checked_mul(size_of::<ForgetOne>())
            .ok_or(Errno::INVAL)?;
        bytes.get(..len).map(ForgottenNodes).ok_or(Errno::INVAL)
    }

    /// The nodes, with the number of lookups to forget.
    pub fn iter(&self) -> impl Iterator<Item = ForgetOne> + use<'a> {
        self.0
            .chunks_exact(size_of::<ForgetOne>())
            .filter_map(|one| read(one).ok())
    }
}
