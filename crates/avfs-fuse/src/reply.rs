//! Answers: written into the transport's own buffer, sent exactly once.

mod listing;

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use crate::abi::*;
pub use listing::Listing;

/// Where the transport takes the answer to one request.
pub trait Slot: Send {
    /// Where the result goes. At least as long as the result that the request may have.
    fn buffer(&mut self) -> &mut [u8];

    /// Sends an errno, or the first `len` bytes of the buffer. Called at most once; a transport may do the
    /// sending after the service has returned.
    fn send(&mut self, unique: u64, error: Option<Errno>, len: usize);

    /// Gives the answer to be sent later, from any thread. Neither of the other calls follows.
    fn defer(&mut self, unique: u64) -> Box<dyn Courier>;
}

/// Takes one answer to the kernel after the request's thread has gone on to others.
pub trait Courier: Send {
    /// Sends an errno, or a result.
    fn deliver(self: Box<Self>, unique: u64, error: Option<Errno>, result: Vec<u8>);
}

/// Proof that a request was answered, or that its answer was put off.
#[must_use]
#[derive(Debug)]
pub struct Answered(());

/// The answer that is owed to a request. Answering consumes it; dropped without an answer, as a panic does,
/// it says EIO.
pub struct Reply<'a> {
    unique: u64,
    way: Way<'a>,
}

enum Way<'a> {
    Slot(&'a mut dyn Slot),
    Courier(Box<dyn Courier>),
    /// Nothing is owed any more, or never was.
    Done,
}

impl<'a> Reply<'a> {
    /// `is_awaited`: whether the kernel waits for an answer at all.
    pub fn new(unique: u64, slot: &'a mut dyn Slot, is_awaited: bool) -> Reply<'a> {
        Reply { unique, way: if is_awaited { Way::Slot(slot) } else { Way::Done } }
    }

    pub fn error(mut self, error: Errno) -> Answered {
        self.finish(Err(error))
    }

    /// Success without a result.
    pub fn ok(mut self) -> Answered {
        self.finish(Ok(0))
    }

    /// For requests that have no answer.
    pub fn nothing(mut self) -> Answered {
        self.way = Way::Done;
        Answered(())
    }

    /// Success or an errno, without a result.
    pub fn done(self, result: Result<(), Errno>) -> Answered {
        match result {
            Ok(()) => self.ok(),
            Err(error) => self.error(error),
        }
    }

    pub fn entry(self, entry: &EntryOut) -> Answered {
        self.value(entry)
    }

    pub fn attr(self, attr: &AttrOut) -> Answered {
        self.value(attr)
    }

    pub fn statx(self, stat: &StatxOut) -> Answered {
        self.value(stat)
    }

    /// An open file or directory; `flags` say what the kernel may cache.
    pub fn open(self, handle: u64, flags: u32) -> Answered {
        self.value(&OpenOut { fh: handle, open_flags: flags, backing_id: 0 })
    }

    pub fn create(self, entry: &EntryOut, handle: u64, flags: u32) -> Answered {
        let mut both = [0; size_of::<EntryOut>() + size_of::<OpenOut>()];
        let (first, second) = both.split_at_mut(size_of::<EntryOut>());
        first.copy_from_slice(entry.as_bytes());
        let open = OpenOut { fh: handle, open_flags: flags, backing_id: 0 };
        second.copy_from_slice(open.as_bytes());
        self.bytes(&both)
    }

    /// Lets `fill` write the result, at most `size` bytes, where the transport sends it from.
    pub fn read(self, size: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) -> Answered {
        self.filled(size, fill).unwrap_or_else(|(reply, error)| reply.error(error))
    }

    pub fn bytes(self, bytes: &[u8]) -> Answered {
        self.read(bytes.len(), |buffer| {
            buffer.copy_from_slice(bytes);
            Ok(bytes.len())
        })
    }

    pub fn written(self, size: u32) -> Answered {
        self.value(&WriteOut { size, padding: 0 })
    }

    /// How much was copied, as the request wanted it told.
    pub fn copied(self, bytes: u64, wide: bool) -> Answered {
        match wide {
            true => self.value(&CopyFileRangeOut { bytes_copied: bytes }),
            false => self.written(u32::try_from(bytes).expect("the kernel asks for less than 4 GiB")),
        }
    }

    pub fn statfs(self, stat: &StatfsOut) -> Answered {
        self.value(stat)
    }

    /// An extended attribute or the list of them, for a caller that has `room`; without room it wants to
    /// know how much is needed.
    pub fn xattr(self, value: &[u8], room: u32) -> Answered {
        match room {
            0 => self.value(&GetxattrOut { size: value.len() as u32, padding: 0 }),
            room if value.len() > room as usize => self.error(Errno::RANGE),
            _ => self.bytes(value),
        }
    }

    pub fn lock(self, lock: FileLock) -> Answered {
        self.value(&LkOut { lk: lock })
    }

    pub fn seek(self, offset: u64) -> Answered {
        self.value(&LseekOut { offset })
    }

    pub fn poll(self, events: u32) -> Answered {
        self.value(&PollOut { revents: events, padding: 0 })
    }

    pub fn init(self, init: &InitOut) -> Answered {
        self.value(init)
    }

    /// Entries of a directory, at most `size` bytes of them.
    pub fn directory(
        self,
        size: usize,
        list: impl FnOnce(&mut Listing<'_>) -> Result<(), Errno>,
    ) -> Answered {
        self.listed(size, list).unwrap_or_else(|(reply, error)| reply.error(error))
    }

    /// As [`Reply::directory`]; if `list` fails, nothing has been said yet.
    pub fn listed<E>(
        self,
        size: usize,
        list: impl FnOnce(&mut Listing<'_>) -> Result<(), E>,
    ) -> Result<Answered, (Self, E)> {
        self.filled(size, |buffer| {
            let mut listing = Listing::new(buffer);
            list(&mut listing)?;
            Ok(listing.len())
        })
    }

    /// Puts the answer off: what is returned answers from any thread, at any time.
    pub fn defer(mut self) -> (Answered, Reply<'static>) {
        let unique = self.unique;
        let way = match std::mem::replace(&mut self.way, Way::Done) {
            Way::Slot(slot) => Way::Courier(slot.defer(unique)),
            Way::Courier(courier) => Way::Courier(courier),
            Way::Done => Way::Done,
        };
        (Answered(()), Reply { unique, way })
    }

    fn value<T: IntoBytes + Immutable>(self, value: &T) -> Answered {
        self.bytes(value.as_bytes())
    }

    /// As [`Reply::read`]; if `fill` fails, nothing has been said yet.
    pub fn filled<E>(
        mut self,
        size: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Answered, (Self, E)> {
        // While `fill` runs the answer is still owed, so that a panic in it is answered too.
        let mut beside = Vec::new();
        let filled = match &mut self.way {
            Way::Slot(slot) => {
                let buffer = slot.buffer();
                let size = size.min(buffer.len());
                fill(&mut buffer[..size])
            }
            Way::Courier(_) => {
                beside.resize(size, 0);
                fill(&mut beside)
            }
            Way::Done => return Ok(Answered(())),
        };
        match filled {
            Ok(len) => Ok(self.finish_with(Ok(len), beside)),
            Err(error) => Err((self, error)),
        }
    }

    fn finish(&mut self, result: Result<usize, Errno>) -> Answered {
        self.finish_with(result, Vec::new())
    }

    /// `buffer` is what a courier takes; a slot has its own.
    fn finish_with(&mut self, result: Result<usize, Errno>, mut buffer: Vec<u8>) -> Answered {
        let (error, len) = match result {
            Ok(len) => (None, len),
            Err(error) => (Some(error), 0),
        };
        match std::mem::replace(&mut self.way, Way::Done) {
            Way::Slot(slot) => slot.send(self.unique, error, len),
            Way::Courier(courier) => {
                buffer.truncate(len);
                courier.deliver(self.unique, error, buffer);
            }
            Way::Done => {}
        }
        Answered(())
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        if !matches!(self.way, Way::Done) {
            let _ = self.finish(Err(Errno::IO));
        }
    }
}
