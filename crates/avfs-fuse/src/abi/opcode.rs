//! The operations that the kernel requests, by number.

use super::input::*;

macro_rules! opcodes {
    ($($name:ident = $number:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Opcode { $($name = $number,)* }

        impl Opcode {
            pub const ALL: &[Opcode] = &[$(Opcode::$name,)*];

            pub fn from_number(number: u32) -> Option<Opcode> {
                match number {
                    $($number => Some(Opcode::$name),)*
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    Lookup = 1,
    Forget = 2,
    Getattr = 3,
    Setattr = 4,
    Readlink = 5,
    Symlink = 6,
    Mknod = 8,
    Mkdir = 9,
    Unlink = 10,
    Rmdir = 11,
    Rename = 12,
    Link = 13,
    Open = 14,
    Read = 15,
    Write = 16,
    Statfs = 17,
    Release = 18,
    Fsync = 20,
    Setxattr = 21,
    Getxattr = 22,
    Listxattr = 23,
    Removexattr = 24,
    Flush = 25,
    Init = 26,
    Opendir = 27,
    Readdir = 28,
    Releasedir = 29,
    Fsyncdir = 30,
    Getlk = 31,
    Setlk = 32,
    Setlkw = 33,
    Access = 34,
    Create = 35,
    Interrupt = 36,
    Bmap = 37,
    Destroy = 38,
    Ioctl = 39,
    Poll = 40,
    NotifyReply = 41,
    BatchForget = 42,
    Fallocate = 43,
    Readdirplus = 44,
    Rename2 = 45,
    Lseek = 46,
    CopyFileRange = 47,
    Setupmapping = 48,
    Removemapping = 49,
    Syncfs = 50,
    Tmpfile = 51,
    Statx = 52,
    CopyFileRange64 = 53,
}

impl Opcode {
    /// One more than the largest number.
    pub const LIMIT: usize = 54;

    /// The size of the first argument if it is a structure; names and data follow.
    pub fn argument_size(self) -> usize {
        match self {
            Opcode::Forget => size_of::<ForgetIn>(),
            Opcode::BatchForget => size_of::<BatchForgetIn>(),
            Opcode::Getattr => size_of::<GetattrIn>(),
            Opcode::Setattr => size_of::<SetattrIn>(),
            Opcode::Mknod => size_of::<MknodIn>(),
            Opcode::Mkdir => size_of::<MkdirIn>(),
            Opcode::Rename => size_of::<RenameIn>(),
            Opcode::Rename2 => size_of::<Rename2In>(),
            Opcode::Link => size_of::<LinkIn>(),
            Opcode::Open | Opcode::Opendir => size_of::<OpenIn>(),
            Opcode::Read | Opcode::Readdir | Opcode::Readdirplus => size_of::<ReadIn>(),
            Opcode::Write => size_of::<WriteIn>(),
            Opcode::Release | Opcode::Releasedir => size_of::<ReleaseIn>(),
            Opcode::Fsync | Opcode::Fsyncdir => size_of::<FsyncIn>(),
            Opcode::Setxattr => size_of::<SetxattrIn>(),
            Opcode::Getxattr | Opcode::Listxattr => size_of::<GetxattrIn>(),
            Opcode::Flush => size_of::<FlushIn>(),
            Opcode::Init => size_of::<InitIn>(),
            Opcode::Getlk | Opcode::Setlk | Opcode::Setlkw => size_of::<LkIn>(),
            Opcode::Access => size_of::<AccessIn>(),
            Opcode::Create | Opcode::Tmpfile => size_of::<CreateIn>(),
            Opcode::Interrupt => size_of::<InterruptIn>(),
            Opcode::Bmap => size_of::<BmapIn>(),
            Opcode::Ioctl => size_of::<IoctlIn>(),
            Opcode::Poll => size_of::<PollIn>(),
            Opcode::Fallocate => size_of::<FallocateIn>(),
            Opcode::Lseek => size_of::<LseekIn>(),
            Opcode::CopyFileRange | Opcode::CopyFileRange64 => size_of::<CopyFileRangeIn>(),
            Opcode::Syncfs => size_of::<SyncfsIn>(),
            Opcode::Statx => size_of::<StatxIn>(),
            Opcode::Lookup
            | Opcode::Readlink
            | Opcode::Symlink
            | Opcode::Unlink
            | Opcode::Rmdir
            | Opcode::Statfs
            | Opcode::Removexattr
            | Opcode::Destroy
            | Opcode::NotifyReply
            | Opcode::Setupmapping
            | Opcode::Removemapping => 0,
        }
    }

    /// Whether the kernel waits for an answer.
    pub fn is_answered(self) -> bool {
        !matches!(
            self,
            Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt | Opcode::NotifyReply
        )
    }
}
