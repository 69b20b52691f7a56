//! One ring, the memory of its entries, and who may access it.
//!
//! All unsafe code of the transport is here, and rests on one rule: the memory of an entry belongs either to
//! the kernel or to us, and a slice of it is handed out only while it is ours. It becomes the kernel's with
//! the command that registers the entry or answers its request, and ours again with the completion of that
//! command. Memory that is the kernel's is never unmapped: if the ring ends before the kernel returned it, it
//! stays mapped forever.
#![allow(
    unsafe_code,
    reason = "memory that is shared with the kernel, and commands that name it"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use io_uring::squeue::Entry128;
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use zerocopy::IntoBytes;

use crate::abi::uring::{COMMIT_AND_FETCH, Command, HEADER_SIZE, RANGES, REGISTER};

/// The header of an entry has a page of its own, so that its payload is page-aligned.
const HEADER_ROOM: usize = 4096;
/// The descriptors that commands use, by their index in the ring's own table.
const CONNECTION: types::Fixed = types::Fixed(0);
const BELL: types::Fixed = types::Fixed(1);
const STOP: types::Fixed = types::Fixed(2);
/// The user data of the completion of a bell; entries use their number.
const BELL_RANG: u64 = u64::MAX;
const STOP_RANG: u64 = u64::MAX - 1;
/// The offset of the number of ranges in a command, which the library does not expose.
const COMMAND_LEN_OFFSET: usize = 24;

/// A ring that one thread uses, with entries of one or more queues.
pub(super) struct Ring {
    uring: IoUring<Entry128>,
    entries: Vec<RingEntry>,
}

struct RingEntry {
    memory: RingMemory,
    queue: u16,
    holder: EntryHolder,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryHolder {
    Kernel,
    Us,
}

/// A completion of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingCompletion {
    /// The bell was rung; it is no longer polled.
    Bell,
    /// Serving must stop.
    Stop,
    /// The entry holds a request.
    Request(usize),
    /// The kernel no longer uses the entry.
    Ended(usize, Errno),
}

impl Ring {
    /// A ring for about `entries` entries. It does nothing before it is [enabled](Ring::enable).
    pub(super) fn new(
        connection: BorrowedFd<'_>,
        bell: BorrowedFd<'_>,
        stop: BorrowedFd<'_>,
        entries: u32,
    ) -> io::Result<Ring> {
        let mut builder = IoUring::builder();
        // The kernel works for the ring only while its thread waits. For `stat` of an uncached file (one
        // request) the median was 8.7 µs instead of 9.1 µs, for a created and unlinked one (eight) 63 µs
        // instead of 67 µs. A single issuer alone, or cooperative task running, made no difference; a table
        // of descriptors for the ring gains half a percent, and registering the ring itself would gain as
        // much.
        builder
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun();
        // Two more for the bells. With more entries than this, the ring is slower, not wrong.
        let uring: IoUring<Entry128> = builder.build((entries + 2).next_power_of_two())?;
        uring
            .submitter()
            .register_files(&[connection, bell, stop].map(|fd| fd.as_raw_fd()))?;
        Ok(Ring {
            uring,
            entries: Vec::new(),
        })
    }

    /// Makes the calling thread the only user of the ring.
    pub(super) fn enable(&self) -> io::Result<()> {
        self.uring.submitter().register_enable_rings()
    }

    /// Gives the kernel one more entry for a queue.
    pub(super) fn add_entry(&mut self, queue: u16, payload: usize) -> io::Result<()> {
        let memory = RingMemory::map(payload)?;
        let command = Command {
            flags: 0,
            commit_id: 0,
            qid: queue,
            padding: [0; 6],
        };
        let command = register(&command, memory.ranges()).user_data(self.entries.len() as u64);
        self.entries.push(RingEntry {
            memory,
            queue,
            holder: EntryHolder::Kernel,
        });
        // SAFETY: the memory that the command refers to, and the list that describes it, are the kernel's
        // until the command completes.
        unsafe { self.push(&command) }
    }

    /// Makes the kernel continue without rings, as it does when it cannot accept an entry: no queue has this
    /// number.
    pub(super) fn turn_down(&mut self) -> io::Result<()> {
        let command = Command {
            flags: 0,
            commit_id: 0,
            qid: u16::MAX,
            padding: [0; 6],
        };
        let command = opcode::UringCmd80::new(CONNECTION, REGISTER)
            .cmd(area(&command))
            .build();
        // SAFETY: the command refers to no memory.
        unsafe { self.push(&command.user_data(BELL_RANG))? };
        self.submit()
    }

    /// The queue of an entry.
    pub(super) fn queue(&self, entry: usize) -> u16 {
        self.entries[entry].queue
    }

    /// The header and the payload of an entry that is ours.
    pub(super) fn memory(&mut self, entry: usize) -> (&mut [u8], &mut [u8]) {
        let entry = &mut self.entries[entry];
        assert!(
            entry.holder == EntryHolder::Us,
            "the memory of an entry is asked for between two commands"
        );
        // SAFETY: the kernel writes only to entries that it holds, and the borrow of the ring prevents this
        // one from being given to it.
        unsafe { entry.memory.parts() }
    }

    /// Answers the request of an entry with the contents of its memory, and gives it to the kernel.
    pub(super) fn commit(&mut self, entry: usize, commit_id: u64) -> io::Result<()> {
        let queue = self.entries[entry].queue;
        let command = Command {
            flags: 0,
            commit_id,
            qid: queue,
            padding: [0; 6],
        };
        let command = opcode::UringCmd80::new(CONNECTION, COMMIT_AND_FETCH)
            .cmd(area(&command))
            .build();
        self.entries[entry].holder = EntryHolder::Kernel;
        // SAFETY: the memory that the kernel knows for the entry is mapped, and belongs to the kernel from
        // here on.
        unsafe { self.push(&command.user_data(entry as u64)) }
    }

    /// Polls the bell until it is rung once.
    pub(super) fn listen(&mut self) -> io::Result<()> {
        self.listen_to(BELL, BELL_RANG)
    }

    /// Polls the stop signal, which comes once.
    pub(super) fn listen_for_stop(&mut self) -> io::Result<()> {
        self.listen_to(STOP, STOP_RANG)
    }

    fn listen_to(&mut self, bell: types::Fixed, rang: u64) -> io::Result<()> {
        const READABLE: u32 = rustix::event::PollFlags::IN.bits() as u32;
        let command = opcode::PollAdd::new(bell, READABLE).build().user_data(rang);
        // SAFETY: the command refers to no memory.
        unsafe { self.push(&command.into()) }
    }

    /// Submits commands to the kernel.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        retry(|| self.uring.submit()).map(drop)
    }

    /// Submits commands to the kernel, and returns when something has completed: one system call.
    pub(super) fn submit_and_wait(&mut self) -> io::Result<()> {
        retry(|| self.uring.submit_and_wait(1)).map(drop)
    }

    /// The next completion, if there is one.
    pub(super) fn completion(&mut self) -> Option<RingCompletion> {
        let completed = self.uring.completion().next()?;
        match completed.user_data() {
            BELL_RANG => return Some(RingCompletion::Bell),
            STOP_RANG => return Some(RingCompletion::Stop),
            _ => {}
        }
        let number = usize::try_from(completed.user_data()).expect("only numbers of entries are given out");
        self.entries[number].holder = EntryHolder::Us;
        Some(match completed.result() {
            result if result < 0 => RingCompletion::Ended(number, Errno::from_raw_os_error(-result)),
            _ => RingCompletion::Request(number),
        })
    }

    /// Whether the kernel holds any entry.
    pub(super) fn is_in_use(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.holder == EntryHolder::Kernel)
    }

    /// # Safety
    ///
    /// Everything that the command refers to must stay valid until it has completed, or until it is submitted
    /// if the kernel reads it only then.
    unsafe fn push(&mut self, command: &Entry128) -> io::Result<()> {
        loop {
            // SAFETY: guaranteed by the caller.
            match unsafe { self.uring.submission().push(command) } {
                Ok(()) => return Ok(()),
                Err(_) => self.submit()?,
            }
        }
    }
}

/// Retries after signals, and submits again when the completions that filled the ring have been taken.
fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call().map_err(|error| (error.raw_os_error().map(Errno::from_raw_os_error), error)) {
            Err((Some(Errno::INTR), _)) => {}
            Err((Some(Errno::BUSY | Errno::AGAIN), _)) => return Ok(0),
            other => return other.map_err(|(_, error)| error),
        }
    }
}

/// `ranges` is the address of the list of ranges.
fn register(command: &Command, ranges: NonNull<MemoryRange>) -> Entry128 {
    let command = opcode::UringCmd80::new(CONNECTION, REGISTER).cmd(area(command));
    let mut command = command.addr(Some(ranges.as_ptr() as u64)).build();
    // SAFETY: a command is 128 plain bytes laid out as the kernel has them, where this number is at an offset
    // that fits its alignment.
    unsafe {
        (&raw mut command)
            .byte_add(COMMAND_LEN_OFFSET)
            .cast::<u32>()
            .write(RANGES as u32)
    };
    command
}

fn area(command: &Command) -> [u8; 80] {
    let mut area = [0; 80];
    area[..size_of::<Command>()].copy_from_slice(command.as_bytes());
    area
}

/// The kernel's description of a range of memory.
#[repr(C)]
struct MemoryRange {
    start: NonNull<u8>,
    len: usize,
}

/// The memory of one entry. Pages that were never written occupy no space.
struct RingMemory {
    start: NonNull<u8>,
    payload: usize,
}

// SAFETY: the memory is not bound to a thread.
unsafe impl Send for RingMemory {}

impl RingMemory {
    fn map(payload: usize) -> io::Result<RingMemory> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let how = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let len = HEADER_ROOM + payload;
        // SAFETY: a new mapping at any free address.
        let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, access, how) }?;
        let start = NonNull::new(start.cast()).expect("a mapping is never at address zero");
        let memory = RingMemory { start, payload };
        let header = MemoryRange {
            start,
            len: HEADER_SIZE,
        };
        // SAFETY: the payload begins inside the mapping, and the list lies between the header and the
        // payload, aligned like the page.
        unsafe {
            let payload = MemoryRange {
                start: start.add(HEADER_ROOM),
                len: payload,
            };
            memory
                .ranges()
                .cast::<[MemoryRange; RANGES]>()
                .write([header, payload]);
        }
        Ok(memory)
    }

    /// The list of the two ranges, which is in the memory itself so that it lives as long.
    fn ranges(&self) -> NonNull<MemoryRange> {
        // SAFETY: inside the room for the header.
        unsafe {
            self.start
                .add(HEADER_SIZE.next_multiple_of(align_of::<MemoryRange>()))
                .cast()
        }
    }

    /// # Safety
    ///
    /// The kernel must not hold the memory.
    unsafe fn parts(&mut self) -> (&mut [u8], &mut [u8]) {
        let len = HEADER_ROOM + self.payload;
        // SAFETY: the mapping is that long, all of it is initialised, and it is borrowed from its only owner.
        let whole = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), len) };
        let (header, payload) = whole.split_at_mut(HEADER_ROOM);
        (&mut header[..HEADER_SIZE], payload)
    }
}

impl Drop for RingEntry {
    fn drop(&mut self) {
        if self.holder == EntryHolder::Us {
            let memory = &self.memory;
            // SAFETY: no slice of the memory exists now, and the kernel does not hold it.
            let unmapped =
                unsafe { rustix::mm::munmap(memory.start.as_ptr().cast(), HEADER_ROOM + memory.payload) };
            debug_assert!(unmapped.is_ok(), "the mapping is one that was made");
        }
    }
}
