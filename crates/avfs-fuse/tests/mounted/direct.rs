//! Writes with `O_DIRECT`, which bypass the kernel's cache, beside reads and mappings, which use it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use avfs_fuse::abi::InitIn;
use avfs_fuse::{Answered, FuseOperation, FuseReply, FuseRequest, FuseService, Skin};
use avfs_tree::Ino;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use crate::fixture::{Mounted, empty_tree, name};

/// Nothing here takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two pages.
const LEN: usize = 8192;

/// Blocks writes with `O_DIRECT`, each before it is served.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_open: bool,
    waiting: usize,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        let (_state, waited) = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| !state.is_open)
            .unwrap();
        assert!(!waited.timed_out(), "the gate was never opened");
    }

    fn await_writer(&self) {
        let state = self.state.lock().unwrap();
        let (_state, waited) = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| state.waiting == 0)
            .unwrap();
        assert!(!waited.timed_out(), "no direct write was asked for");
    }

    fn open(&self) {
        self.state.lock().unwrap().is_open = true;
        self.changed.notify_all();
    }
}

struct Gated {
    skin: Arc<Skin>,
    gate: Arc<Gate>,
}

impl FuseService for Gated {
    fn serve(&self, request: &FuseRequest<'_>, reply: FuseReply<'_>) -> Answered {
        match request.operation {
            FuseOperation::Write { write, .. } if write.flags & libc::O_DIRECT as u32 != 0 => {
                let (answered, later) = reply.defer();
                let skin = self.skin.clone();
                let gate = self.gate.clone();
                let kept = request.kept();
                std::thread::spawn(move || {
                    gate.pass();
                    drop(skin.serve(&kept.request(), later));
                });
                answered
            }
            _ => self.skin.serve(request, reply),
        }
    }

    fn init(&self, kernel: &InitIn) -> u64 {
        self.skin.init(kernel)
    }

    fn destroy(&self) {
        self.skin.destroy();
    }
}

/// A buffer that is aligned for `O_DIRECT`.
#[repr(align(4096))]
struct Pages([u8; LEN]);

/// Reads old bytes into the kernel's cache after a direct write has begun and before it is served, then lets
/// it end. Later reads and partial writes must see the new bytes.
fn check_cache_after(write: impl FnOnce(&File, &Pages) -> usize + Send + 'static) {
    let gate = Arc::<Gate>::default();
    let mounted = Mounted::made(empty_tree(), false, None, |skin| {
        Arc::new(Gated {
            skin,
            gate: gate.clone(),
        })
    });
    std::fs::write(mounted.at("a"), [b'o'; LEN]).unwrap();
    let cached = File::options()
        .read(true)
        .write(true)
        .open(mounted.at("a"))
        .unwrap();
    let direct = File::options()
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(mounted.at("a"))
        .unwrap();
    let writer = std::thread::spawn(move || write(&direct, &Pages([b'n'; LEN])));
    gate.await_writer();
    let mut bytes = [0; LEN];
    cached.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == [b'o'; LEN], "nothing is written yet");
    gate.open();
    assert_eq!(writer.join().unwrap(), LEN);
    cached.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == [b'n'; LEN], "an open file shows the written bytes");
    assert!(
        std::fs::read(mounted.at("a")).unwrap() == [b'n'; LEN],
        "and so does one that is opened now"
    );
    store_through_mapping(&cached, 5000, b'm');
    let ino = mounted.tree.lookup(Ino::ROOT, &name("a")).unwrap().ino;
    let stored = mounted.tree.read_all(ino).unwrap();
    let strange = (0..LEN).find(|at| stored[*at] != if *at == 5000 { b'm' } else { b'n' });
    assert_eq!(strange, None, "a store through a mapping changes one byte");
    drop(cached);
    assert_eq!(mounted.end(), Vec::<String>::new());
}

#[allow(unsafe_code, reason = "there is no other way to map a file")]
fn store_through_mapping(file: &File, at: usize, byte: u8) {
    let both = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the mapping is of the pages of an open file, and no other code uses the memory.
    unsafe {
        let memory = rustix::mm::mmap(std::ptr::null_mut(), LEN, both, MapFlags::SHARED, file, 0).unwrap();
        memory.cast::<u8>().add(at).write_volatile(byte);
        rustix::mm::msync(memory, LEN, MsyncFlags::SYNC).unwrap();
        rustix::mm::munmap(memory, LEN).unwrap();
    }
}

#[test]
fn direct_write_leaves_no_old_bytes_in_the_cache() {
    check_cache_after(|file, pages| {
        file.write_all_at(&pages.0, 0).unwrap();
        LEN
    });
}

#[test]
#[allow(unsafe_code, reason = "io_uring takes the address of a buffer")]
fn asynchronous_direct_write_leaves_no_old_bytes_in_the_cache() {
    check_cache_after(|file, pages| {
        let mut ring = io_uring::IoUring::new(2).unwrap();
        let file = io_uring::types::Fd(file.as_raw_fd());
        let write = io_uring::opcode::Write::new(file, pages.0.as_ptr(), LEN as u32)
            .offset(0)
            .build();
        // SAFETY: file and buffer live until the write has ended, which this function awaits.
        unsafe { ring.submission().push(&write).unwrap() };
        ring.submit_and_wait(1).unwrap();
        ring.completion().next().unwrap().result().try_into().unwrap()
    });
}
