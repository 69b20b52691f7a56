//! One ring, the memory of its entries, and who may touch it.
//!
//! All that is unsafe about the transport is here, and rests on one rule: the memory of an entry belongs
//! either to the kernel or to us, and a slice of it is given out only while it is ours. It becomes the
//! kernel's with the command that registers the entry or answers its request, and ours again with the
//! completion of that command. Memory that is the kernel's is never unmapped: should the ring end before
//! the kernel gave it back, it stays mapped for ever.
#![allow(unsafe_code, reason = "memory that is shared with the kernel, and commands that name it")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use io_uring::squeue::Entry128;
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use zerocopy::IntoBytes;

use crate::abi::uring::{COMMIT_AND_FETCH, Command, HEADER_SIZE, RANGES, REGISTER};

/// The header of an entry has a page of its own, so that its payload begins at one.
const HEADER_ROOM: usize = 4096;
/// The descriptors that commands name, by their place in the ring's own table.
const CONNECTION: types::Fixed = types::Fixed(0);
const BELL: types::Fixed = types::Fixed(1);
const STOP: types::Fixed = types::Fixed(2);
/// What the completion of a rung bell carries; entries carry their number.
const BELL_RANG: u64 = u64::MAX;
const STOP_RANG: u64 = u64::MAX - 1;
/// The offset of the number of ranges in a command, which the library has no name for.
const COMMAND_LEN_OFFSET: usize = 24;

/// A ring that one thread uses, with entries of one or more queues.
pub struct Ring {
    uring: IoUring<Entry128>,
    entries: Vec<Entry>,
}

struct Entry {
    memory: Memory,
    queue: u16,
    holder: Holder,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Kernel,
    Us,
}

/// What came out of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The bell was rung; it is listened to no longer.
    Bell,
    /// Serving is to stop.
    Stop,
    /// The entry holds a request.
    Request(usize),
    /// The kernel takes no part in the entry any more.
    Ended(usize, Errno),
}

impl Ring {
    /// A ring for about `entries` entries. It does nothing before it is [enabled](Ring::enable).
    pub fn new(
        connection: BorrowedFd<'_>,
        bell: BorrowedFd<'_>,
        stop: BorrowedFd<'_>,
        entries: u32,
    ) -> io::Result<Ring> {
        let mut builder = IoUring::builder();
        // The kernel works for the ring only while its thread waits. For `stat` of an uncached file (one
        // request) the median was 8.7 µs instead of 9.1 µs, for a created and unlinked one (eight) 63 µs
        // instead of 67 µs. A single issuer alone, or cooperative work, made no difference; a table of
        // descriptors for the ring gains half a percent, and registering the ring itself would as well.
        builder.setup_r_disabled().setup_single_issuer().setup_defer_taskrun();
        // Two more for the bells. More entries than this are slower, not wrong.
        let uring: IoUring<Entry128> = builder.build((entries + 2).next_power_of_two())?;
        uring.submitter().register_files(&[connection, bell, stop].map(|fd| fd.as_raw_fd()))?;
        Ok(Ring { uring, entries: Vec::new() })
    }

    /// Makes the calling thread the one that uses the ring.
    pub fn enable(&self) -> io::Result<()> {
        self.uring.submitter().register_enable_rings()
    }

    /// Gives the kernel one more entry for a queue.
    pub fn add_entry(&mut self, queue: u16, payload: usize) -> io::Result<()> {
        let memory = Memory::map(payload)?;
        let command = Command { flags: 0, commit_id: 0, qid: queue, padding: [0; 6] };
        let command = register(&command, memory.ranges()).user_data(self.entries.len() as u64);
        self.entries.push(Entry { memory, queue, holder: Holder::Kernel });
        // SAFETY: the memory that the command names, and the list that names it, are the kernel's until the
        // command completes.
        unsafe { self.push(&command) }
    }

    /// Makes the kernel go on without rings, as it does when it cannot take an entry: no queue has this number.
    pub fn turn_down(&mut self) -> io::Result<()> {
        let command = Command { flags: 0, commit_id: 0, qid: u16::MAX, padding: [0; 6] };
        let command = opcode::UringCmd80::new(CONNECTION, REGISTER).cmd(area(&command)).build();
        // SAFETY: the command names no memory.
        unsafe { self.push(&command.user_data(BELL_RANG))? };
        self.submit()
    }

    /// The queue that an entry is of.
    pub fn queue(&self, entry: usize) -> u16 {
        self.entries[entry].queue
    }

    /// The header and the payload of an entry that is ours.
    pub fn memory(&mut self, entry: usize) -> (&mut [u8], &mut [u8]) {
        let entry = &mut self.entries[entry];
        assert!(entry.holder == Holder::Us, "the memory of an entry is asked for between two commands");
        // SAFETY: the kernel writes only to entries that it holds, and the borrow of the ring keeps this one
        // from being given to it.
        unsafe { entry.memory.parts() }
    }

    /// Answers the request of an entry with what its memory holds, and gives it to the kernel.
    pub fn commit(&mut self, entry: usize, commit_id: u64) -> io::Result<()> {
        let queue = self.entries[entry].queue;
        let command = Command { flags: 0, commit_id, qid: queue, padding: [0; 6] };
        let command = opcode::UringCmd80::new(CONNECTION, COMMIT_AND_FETCH).cmd(area(&command)).build();
        self.entries[entry].holder = Holder::Kernel;
        // SAFETY: the memory that the kernel knows for the entry is mapped, and its own from here on.
        unsafe { self.push(&command.user_data(entry as u64)) }
    }

    /// Listens to the bell until it is rung once.
    pub fn listen(&mut self) -> io::Result<()> {
        self.listen_to(BELL, BELL_RANG)
    }

    /// Listens for the word to stop, which comes once.
    pub fn listen_for_stop(&mut self) -> io::Result<()> {
        self.listen_to(STOP, STOP_RANG)
    }

    fn listen_to(&mut self, bell: types::Fixed, rang: u64) -> io::Result<()> {
        const READABLE: u32 = rustix::event::PollFlags::IN.bits() as u32;
        let command = opcode::PollAdd::new(bell, READABLE).build().user_data(rang);
        // SAFETY: the command names no memory.
        unsafe { self.push(&command.into()) }
    }

    /// Passes commands on to the kernel.
    pub fn submit(&mut self) -> io::Result<()> {
        retry(|| self.uring.submit()).map(drop)
    }

    /// Passes commands on to the kernel, and returns when something has completed: one system call.
    pub fn submit_and_wait(&mut self) -> io::Result<()> {
        retry(|| self.uring.submit_and_wait(1)).map(drop)
    }

    /// The next completion that is there already.
    pub fn completion(&mut self) -> Option<Completion> {
        let completed = self.uring.completion().next()?;
        match completed.user_data() {
            BELL_RANG => return Some(Completion::Bell),
            STOP_RANG => return Some(Completion::Stop),
            _ => {}
        }
        let number = usize::try_from(completed.user_data()).expect("only numbers of entries are given out");
        self.entries[number].holder = Holder::Us;
        Some(match completed.result() {
            result if result < 0 => Completion::Ended(number, Errno::from_raw_os_error(-result)),
            _ => Completion::Request(number),
        })
    }

    /// Whether the kernel holds any entry.
    pub fn is_in_use(&self) -> bool {
        self.entries.iter().any(|entry| entry.holder == Holder::Kernel)
    }

    /// # Safety
    ///
    /// What the command names must stay valid until it has completed, or until it is submitted where the
    /// kernel reads it only then.
    unsafe fn push(&mut self, command: &Entry128) -> io::Result<()> {
        loop {
            // SAFETY: what the caller has promised.
            match unsafe { self.uring.submission().push(command) } {
                Ok(()) => return Ok(()),
                Err(_) => self.submit()?,
            }
        }
    }
}

/// Signals do not matter, and a full ring of completions empties while they are taken.
fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call().map_err(|error| (error.raw_os_error().map(Errno::from_raw_os_error), error)) {
            Err((Some(Errno::INTR), _)) => {}
            Err((Some(Errno::BUSY | Errno::AGAIN), _)) => return Ok(0),
            other => return other.map_err(|(_, error)| error),
        }
    }
}

/// `ranges` is where the list of the ranges is.
fn register(command: &Command, ranges: NonNull<Range>) -> Entry128 {
    let command = opcode::UringCmd80::new(CONNECTION, REGISTER).cmd(area(command));
    let mut command = command.addr(Some(ranges.as_ptr() as u64)).build();
    // SAFETY: a command is 128 plain bytes laid out as the kernel has them, where this number is at an offset
    // that fits its alignment.
    unsafe { (&raw mut command).byte_add(COMMAND_LEN_OFFSET).cast::<u32>().write(RANGES as u32) };
    command
}

fn area(command: &Command) -> [u8; 80] {
    let mut area = [0; 80];
    area[..size_of::<Command>()].copy_from_slice(command.as_bytes());
    area
}

/// How the kernel is told of a range of memory.
#[repr(C)]
struct Range {
    start: NonNull<u8>,
    len: usize,
}

/// The memory of one entry. Pages that nobody wrote to take no room.
struct Memory {
    start: NonNull<u8>,
    payload: usize,
}

// SAFETY: the memory is not bound to a thread.
unsafe impl Send for Memory {}

impl Memory {
    fn map(payload: usize) -> io::Result<Memory> {
        let (access, how) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let len = HEADER_ROOM + payload;
        // SAFETY: a new mapping, wherever there is room for one.
        let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, access, how) }?;
        let start = NonNull::new(start.cast()).expect("a mapping is never at address zero");
        let memory = Memory { start, payload };
        let header = Range { start, len: HEADER_SIZE };
        // SAFETY: the payload begins inside of the mapping, and the list has its place between the header and
        // the payload, aligned as the page is.
        unsafe {
            let payload = Range { start: start.add(HEADER_ROOM), len: payload };
            memory.ranges().cast::<[Range; RANGES]>().write([header, payload]);
        }
        Ok(memory)
    }

    /// Where the list of the two ranges is, in the memory itself, so that it lives as long.
    fn ranges(&self) -> NonNull<Range> {
        // SAFETY: inside of the room for the header.
        unsafe { self.start.add(HEADER_SIZE.next_multiple_of(align_of::<Range>())).cast() }
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

impl Drop for Entry {
    fn drop(&mut self) {
        if self.holder == Holder::Us {
            let memory = &self.memory;
            // SAFETY: nobody has a slice of the memory any more, and the kernel does not hold it.
            let unmapped =
                unsafe { rustix::mm::munmap(memory.start.as_ptr().cast(), HEADER_ROOM + memory.payload) };
            debug_assert!(unmapped.is_ok(), "the mapping is one that was made");
        }
    }
}
