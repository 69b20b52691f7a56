//! Every request of the kernel that reads or changes anything checks the rules of the tree. A new request is
//! on no list here, and this does not compile.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};

use avfs_fuse::abi::{InitIn, Opcode};
use avfs_fuse::{Answered, FuseOperation, FuseReply, FuseRequest, FuseService, Skin};
use rustix::fs::{Access, FallocateFlags, FlockOperation, Mode, RenameFlags, XattrFlags};

use crate::fixture::{Mounted, compiled, empty_tree};

/// Of `fcntl(2)`.
const UNLOCK: u32 = 2;

/// Whether a request must check the rules.
enum Asks {
    Yes,
    /// It reads and changes nothing that rules cover.
    No,
    /// It is answered with "not supported", and the kernel uses a fallback.
    NeverServed,
}

fn asks(opcode: Opcode) -> Asks {
    match opcode {
        Opcode::Lookup
        | Opcode::Getattr
        | Opcode::Setattr
        | Opcode::Readlink
        | Opcode::Symlink
        | Opcode::Mknod
        | Opcode::Mkdir
        | Opcode::Unlink
        | Opcode::Rmdir
        | Opcode::Rename
        | Opcode::Rename2
        | Opcode::Link
        | Opcode::Open
        | Opcode::Create
        | Opcode::Read
        | Opcode::Write
        | Opcode::Setxattr
        | Opcode::Getxattr
        | Opcode::Listxattr
        | Opcode::Removexattr
        | Opcode::Opendir
        | Opcode::Readdir
        | Opcode::Readdirplus
        | Opcode::Getlk
        | Opcode::Setlk
        | Opcode::Setlkw
        | Opcode::Access
        | Opcode::Fallocate
        | Opcode::Lseek
        | Opcode::CopyFileRange
        | Opcode::CopyFileRange64 => Asks::Yes,
        // Of these, only the reported free space reveals anything; if something may be hidden, it reveals
        // nothing.
        Opcode::Statfs
        | Opcode::Forget
        | Opcode::BatchForget
        | Opcode::Release
        | Opcode::Releasedir
        | Opcode::Flush
        | Opcode::Fsync
        | Opcode::Fsyncdir
        | Opcode::Syncfs
        | Opcode::Interrupt
        | Opcode::Init
        | Opcode::Destroy => Asks::No,
        Opcode::Bmap
        | Opcode::Ioctl
        | Opcode::Poll
        | Opcode::NotifyReply
        | Opcode::Setupmapping
        | Opcode::Removemapping
        | Opcode::Tmpfile
        | Opcode::Statx => Asks::NeverServed,
    }
}

/// Counts, for each request, how often it was served and how often it checked no rule.
struct Counting {
    skin: Arc<Skin>,
    served: Arc<Mutex<BTreeMap<Opcode, Served>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Served {
    times: u64,
    without_asking: u64,
}

impl FuseService for Counting {
    fn serve(&self, request: &FuseRequest<'_>, reply: FuseReply<'_>) -> Answered {
        // One at a time: otherwise the checks of one request would count for another.
        let mut served = self.served.lock().unwrap();
        let before = self.skin.asked();
        let answered = self.skin.serve(request, reply);
        // The owner of a lock can always release it.
        if matches!(&request.operation, FuseOperation::SetLock { lock, .. } if lock.lk.kind == UNLOCK) {
            return answered;
        }
        let one = served.entry(request.opcode).or_default();
        one.times += 1;
        one.without_asking += u64::from(self.skin.asked() == before);
        answered
    }

    fn init(&self, kernel: &InitIn) -> u64 {
        self.skin.init(kernel)
    }

    fn destroy(&self) {
        self.skin.destroy();
    }
}

#[test]
fn every_request_that_tells_or_changes_anything_asks() {
    let served: Arc<Mutex<BTreeMap<Opcode, Served>>> = Arc::default();
    let rules = compiled(&["/**=write", "/hidden=none"]);
    let mounted = Mounted::made(empty_tree(), false, Some(rules), |skin| {
        Arc::new(Counting {
            skin,
            served: served.clone(),
        })
    });
    use_everything(mounted.path());
    drop(mounted);
    let served = served.lock().unwrap();
    for opcode in Opcode::ALL {
        let one = served.get(opcode).copied().unwrap_or_default();
        match asks(*opcode) {
            Asks::Yes => {
                let is_other_form = is_other_form_served(*opcode, &served);
                assert!(one.times > 0 || is_other_form, "{opcode:?} was not tried");
                assert_eq!(one.without_asking, 0, "{opcode:?} did not ask");
            }
            Asks::No | Asks::NeverServed => {}
        }
    }
}

/// For some requests a kernel sends one of two forms, depending on its version and on earlier requests.
fn is_other_form_served(opcode: Opcode, served: &BTreeMap<Opcode, Served>) -> bool {
    let others: &[Opcode] = match opcode {
        Opcode::Rename | Opcode::Rename2 => &[Opcode::Rename, Opcode::Rename2],
        Opcode::CopyFileRange | Opcode::CopyFileRange64 => &[Opcode::CopyFileRange, Opcode::CopyFileRange64],
        Opcode::Readdir | Opcode::Readdirplus => &[Opcode::Readdir, Opcode::Readdirplus],
        _ => &[],
    };
    others.iter().any(|other| served.contains_key(other))
}

fn use_everything(at: &Path) {
    let path = |name: &str| at.join(name);
    fs::create_dir(path("directory")).unwrap();
    fs::write(path("file"), vec![1; 100_000]).unwrap();
    symlink("file", path("symlink")).unwrap();
    assert_eq!(fs::read_link(path("symlink")).unwrap(), Path::new("file"));
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::hard_link(path("file"), path("second")).unwrap();
    fs::set_permissions(path("file"), fs::Permissions::from_mode(0o755)).unwrap();
    rustix::fs::access(path("file"), Access::READ_OK).unwrap();
    use_contents(&path("file"), &path("copy"));
    rustix::fs::setxattr(path("file"), "user.a", b"1", XattrFlags::empty()).unwrap();
    assert_eq!(
        rustix::fs::getxattr(path("file"), "user.a", &mut [0u8; 8]).unwrap(),
        1
    );
    assert!(rustix::fs::listxattr(path("file"), &mut [0u8; 100]).unwrap() > 0);
    rustix::fs::removexattr(path("file"), "user.a").unwrap();
    use_locks(&path("file"));
    assert!(fs::read_dir(at).unwrap().count() > 3);
    rustix::fs::statvfs(at).unwrap();
    fs::rename(path("second"), path("third")).unwrap();
    let from = path("third");
    let to = path("fourth");
    rustix::fs::renameat_with(
        rustix::fs::CWD,
        &from,
        rustix::fs::CWD,
        &to,
        RenameFlags::NOREPLACE,
    )
    .unwrap();
    assert!(!path("hidden").exists());
    fs::remove_file(to).unwrap();
    fs::remove_dir(path("directory")).unwrap();
}

fn use_contents(file: &Path, copy: &Path) {
    let mut opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(0)
        .open(file)
        .unwrap();
    opened.seek(SeekFrom::End(0)).unwrap();
    opened.write_all(b"more").unwrap();
    rustix::fs::fallocate(
        &opened,
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        0,
        4096,
    )
    .unwrap();
    // The kernel has dropped its cached contents by now.
    opened.read_exact_at(&mut [0; 10], 0).unwrap();
    assert_eq!(
        rustix::fs::seek(&opened, rustix::fs::SeekFrom::Data(0)).unwrap(),
        4096
    );
    let to = File::create(copy).unwrap();
    let copied = rustix::fs::copy_file_range(&opened, Some(&mut 0), &to, None, 1000).unwrap();
    assert_eq!(copied, 1000);
    opened.sync_all().unwrap();
    assert_eq!(to.metadata().unwrap().len(), 1000);
    to.write_at(b"x", 0).unwrap();
}

fn use_locks(file: &Path) {
    let opened = OpenOptions::new().read(true).write(true).open(file).unwrap();
    rustix::fs::flock(opened.as_fd(), FlockOperation::LockExclusive).unwrap();
    rustix::fs::flock(opened.as_fd(), FlockOperation::Unlock).unwrap();
    rustix::fs::fcntl_lock(opened.as_fd(), FlockOperation::NonBlockingLockExclusive).unwrap();
    let flock = rustix::process::Flock::from(rustix::process::FlockType::WriteLock);
    // Queries the conflicting lock; there is none.
    assert!(
        rustix::process::fcntl_getlk(opened.as_fd(), &flock)
            .unwrap()
            .is_none()
    );
}
