//! Set-user-id and set-group-id: which changes remove them, compared with a directory of the host.

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, StatxFlags, XattrFlags};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::fixture::Mounted;

const OWNER: u32 = 1000;
const GROUP: u32 = 2000;
const NOBODY: u32 = 65_534;
const LEN: usize = 8192;

#[derive(Clone, Copy, Debug)]
enum Caller {
    Root,
    RootWithoutTheCapability,
    Owner,
    MemberOfTheGroup,
    Stranger,
}

const CALLERS: [Caller; 5] = [
    Caller::Root,
    Caller::RootWithoutTheCapability,
    Caller::Owner,
    Caller::MemberOfTheGroup,
    Caller::Stranger,
];

impl Caller {
    /// Runs an action as this caller. To the kernel, credentials belong to a thread.
    fn does(self, act: impl FnOnce() -> std::io::Result<()> + Send) -> std::io::Result<()> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.become_it();
                act()
            });
            thread.join().unwrap()
        })
    }

    fn become_it(self) {
        match self {
            Caller::Root => {}
            Caller::RootWithoutTheCapability => {
                let mut sets: CapabilitySets = rustix::thread::capabilities(None).unwrap();
                sets.effective.remove(CapabilitySet::FSETID);
                rustix::thread::set_capabilities(None, sets).unwrap();
            }
            Caller::Owner => become_user(OWNER, NOBODY, &[]),
            Caller::MemberOfTheGroup => become_user(NOBODY, NOBODY, &[GROUP]),
            Caller::Stranger => become_user(NOBODY, NOBODY, &[]),
        }
    }
}

fn become_user(uid: u32, gid: u32, groups: &[u32]) {
    let groups: Vec<Gid> = groups.iter().map(|group| Gid::from_raw(*group)).collect();
    let uid = Uid::from_raw(uid);
    let gid = Gid::from_raw(gid);
    rustix::thread::set_thread_groups(&groups).unwrap();
    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
}

type Act = fn(&Path) -> std::io::Result<()>;

fn opened(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn allocate(path: &Path, flags: FallocateFlags) -> std::io::Result<()> {
    Ok(rustix::fs::fallocate(opened(path)?, flags, 0, 4096)?)
}

#[repr(align(4096))]
struct Pages([u8; 4096]);

#[allow(unsafe_code, reason = "there is no other way to map a file")]
fn store_through_mapping(path: &Path) -> std::io::Result<()> {
    let file = opened(path)?;
    let both = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the mapping is of the pages of an open file, and no other code uses the memory.
    unsafe {
        let memory = rustix::mm::mmap(std::ptr::null_mut(), LEN, both, MapFlags::SHARED, &file, 0)?;
        memory.cast::<u8>().write_volatile(b'm');
        rustix::mm::msync(memory, LEN, MsyncFlags::SYNC)?;
        Ok(rustix::mm::munmap(memory, LEN)?)
    }
}

const ACTS: [(&str, Act); 18] = [
    ("read", |path| std::fs::read(path).map(drop)),
    ("write", |path| opened(path)?.write_all_at(b"w", 5)),
    ("append", |path| {
        OpenOptions::new().append(true).open(path)?.write_all(b"a")
    }),
    ("write with O_DIRECT", |path| {
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)?;
        file.write_all_at(&Pages([b'd'; 4096]).0, 0)
    }),
    ("store through a mapping", store_through_mapping),
    ("truncate", |path| opened(path)?.set_len(100)),
    ("truncate to the same size", |path| {
        opened(path)?.set_len(LEN as u64)
    }),
    ("extend", |path| opened(path)?.set_len(100_000)),
    ("open with O_TRUNC", |path| {
        OpenOptions::new().write(true).truncate(true).open(path).map(drop)
    }),
    ("fallocate", |path| {
        Ok(rustix::fs::fallocate(
            opened(path)?,
            FallocateFlags::empty(),
            0,
            70_000,
        )?)
    }),
    ("fallocate within the file", |path| {
        allocate(path, FallocateFlags::empty())
    }),
    ("fallocate, size kept", |path| {
        allocate(path, FallocateFlags::KEEP_SIZE)
    }),
    ("punch a hole", |path| {
        allocate(path, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE)
    }),
    ("zero a range", |path| allocate(path, FallocateFlags::ZERO_RANGE)),
    ("copy a range", |path| {
        let from = File::open(path.with_file_name("other"))?;
        rustix::fs::copy_file_range(from, None, opened(path)?, None, 1000)?;
        Ok(())
    }),
    ("give to another owner", |path| chown(path, Some(OWNER + 1), None)),
    ("give to another group", |path| chown(path, None, Some(GROUP + 1))),
    ("give to the same owner", |path| {
        chown(path, Some(OWNER), Some(GROUP))
    }),
];

/// `cap_net_raw`, permitted and effective, as the kernel stores it.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const CAPABILITY_NAME: &str = "security.capability";

/// The resulting mode bits of a file and whether it still has its capability, or why the caller could not
/// make the change.
type Outcome = Result<String, Option<i32>>;

/// The kernel's cached mode, by which it executes: it requests the mode only if it was notified to forget it.
fn mode_that_counts(path: &Path) -> u32 {
    let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::MODE).unwrap();
    u32::from(found.stx_mode) & 0o7777
}

fn outcome(directory: &Path, mode: u32, caller: Caller, act: Act) -> Outcome {
    let path = directory.join("file");
    File::create(&path).unwrap().write_all(&[b'o'; LEN]).unwrap();
    chown(&path, Some(OWNER), Some(GROUP)).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    rustix::fs::setxattr(&path, CAPABILITY_NAME, &CAPABILITY, XattrFlags::empty()).unwrap();
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, mode);
    let done = caller.does(|| act(&path));
    let counts = mode_that_counts(&path);
    assert_eq!(
        path.metadata().unwrap().mode() & 0o7777,
        counts,
        "the kernel goes by an old mode"
    );
    let is_capable = rustix::fs::getxattr(&path, CAPABILITY_NAME, &mut [0; 64][..]).is_ok();
    std::fs::remove_file(&path).unwrap();
    done.map(|()| {
        format!(
            "{counts:o}{}",
            if is_capable { " with its capability" } else { "" }
        )
    })
    .map_err(|error| error.raw_os_error())
}

fn prepared(directory: &Path) {
    std::fs::set_permissions(directory, Permissions::from_mode(0o777)).unwrap();
    std::fs::write(directory.join("other"), [b'x'; LEN]).unwrap();
}

#[test]
fn changes_take_the_privileges_of_a_file_as_at_the_host() {
    let mounted = Mounted::new();
    let host = tempfile::tempdir().unwrap();
    prepared(mounted.path());
    prepared(host.path());
    let mut differing = Vec::new();
    for mode in [0o4777, 0o2777, 0o6777, 0o6767, 0o2766, 0o4666, 0o7666, 0o777] {
        for caller in CALLERS {
            for (what, act) in ACTS {
                let expected = outcome(host.path(), mode, caller, act);
                let found = outcome(mounted.path(), mode, caller, act);
                if found != expected {
                    differing.push(format!(
                        "{what} by {caller:?}: {mode:o} becomes {found:?}, at the host {expected:?}"
                    ));
                }
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    assert_eq!(mounted.end(), Vec::<String>::new());
}

#[test]
fn program_that_a_stranger_has_written_to_runs_without_the_privileges_of_its_owner() {
    let mounted = Mounted::new();
    let program = mounted.at("id");
    let bytes = std::fs::read("/usr/bin/id").unwrap();
    std::fs::write(&program, &bytes).unwrap();
    let effective_user = || {
        let run = Command::new(&program)
            .arg("-u")
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .unwrap();
        String::from_utf8(run.stdout).unwrap().trim().to_owned()
    };
    let acts: [(&str, Act); 2] = [
        ("written to", |path| opened(path)?.write_all_at(b"\x7fELF", 0)),
        ("allocated", |path| allocate(path, FallocateFlags::KEEP_SIZE)),
    ];
    for (what, act) in acts {
        std::fs::write(&program, &bytes).unwrap();
        rustix::fs::chmod(&program, Mode::from_raw_mode(0o4777)).unwrap();
        assert_eq!(effective_user(), "0", "not {what} yet");
        Caller::Stranger.does(|| act(&program)).unwrap();
        assert_eq!(effective_user(), NOBODY.to_string(), "{what}");
    }
}
