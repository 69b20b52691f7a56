//! Answers: written into the transport's own buffer, sent exactly once.

mod listing;

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use crate::abi::*;
pub use listing::ListingReply;

/// The place where the transport takes the answer to one request.
pub trait ReplySlot: Send {
    /// The buffer for the result. At least as long as the longest result of the request.
    fn buffer(&mut self) -> &mut [u8];

    /// Sends an errno, or the first `len` bytes of the buffer. Called at most once; a transport may send
    /// after the service has returned.
    fn send(&mut self, unique: u64, error: Option<Errno>, len: usize);

    /// Defers the answer, to be sent from any thread. Neither of the other calls follows.
    fn defer(&mut self, unique: u64) -> Box<dyn ReplyCourier>;
}

/// Sends one answer to the kernel after the request's thread has moved on to other requests.
pub trait ReplyCourier: Send {
    /// Sends an errno, or a result.
    fn deliver(self: Box<Self>, unique: u64, error: Option<Errno>, result: Vec<u8>);
}

/// Proof that a request was answered, or that its answer was deferred.
#[must_use]
#[derive(Debug)]
pub struct Answered(());

/// The answer that a request is owed. Answering consumes it; if it is dropped without an answer, as during a
/// panic, it answers EIO.
pub struct FuseReply<'a> {
    unique: u64,
    way: ReplyWay<'a>,
}

enum ReplyWay<'a> {
    Slot(&'a mut dyn ReplySlot),
    Courier(Box<dyn ReplyCourier>),
    /// No answer is owed any longer, or none ever was.
    Done,
}

impl<'a> FuseReply<'a> {
    /// `is_awaited`: whether the kernel waits for an answer at all.
    pub fn new(unique: u64, slot: &'a mut dyn ReplySlot, is_awaited: bool) -> FuseReply<'a> {
        FuseReply {
            unique,
            way: if is_awaited {
                ReplyWay::Slot(slot)
            } else {
                ReplyWay::Done
            },
        }
    }

    /// Answers with an error.
    pub fn error(mut self, error: Errno) -> Answered {
        self.finish(Err(error))
    }

    /// Success without a result.
    pub fn ok(mut self) -> Answered {
        self.finish(Ok(0))
    }

    /// For requests that have no answer.
    pub fn nothing(mut self) -> Answered {
        self.way = ReplyWay::Done;
        Answered(())
    }

    /// Success or an errno, without a result.
    pub fn done(self, result: Result<(), Errno>) -> Answered {
        match result {
            Ok(()) => self.ok(),
            Err(error) => self.error(error),
        }
    }

    /// Answers with an entry and its attributes.
    pub fn entry(self, entry: &EntryOut) -> Answered {
        self.value(entry)
    }

    /// Answers with the attributes of a node.
    pub fn attr(self, attr: &AttrOut) -> Answered {
        self.value(attr)
    }

    /// Answers with the attributes that `statx` shows.
    pub fn statx(self, stat: &StatxOut) -> Answered {
        self.value(stat)
    }

    /// An open file or directory; `flags` state what the kernel may cache.
    pub fn open(self, handle: u64, flags: u32) -> Answered {
        self.value(&OpenOut {
            fh: handle,
            open_flags: flags,
            backing_id: 0,
        })
    }

    /// Answers with a new entry and an open handle on it.
    pub fn create(self, entry: &EntryOut, handle: u64, flags: u32) -> Answered {
        let mut both = [0; size_of::<EntryOut>() + size_of::<OpenOut>()];
        let (first, second) = both.split_at_mut(size_of::<EntryOut>());
        first.copy_from_slice(entry.as_bytes());
        let open = OpenOut {
            fh: handle,
            open_flags: flags,
            backing_id: 0,
        };
        second.copy_from_slice(open.as_bytes());
        self.bytes(&both)
    }

    /// Lets `fill` write the result, at most `size` bytes, directly into the transport's buffer.
    pub fn read(self, size: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) -> Answered {
        self.filled(size, fill)
            .unwrap_or_else(|(reply, error)| reply.error(error))
    }

    /// Answers with bytes.
    pub fn bytes(self, bytes: &[u8]) -> Answered {
        self.read(bytes.len(), |buffer| {
            buffer.copy_from_slice(bytes);
            Ok(bytes.len())
        })
    }

    /// Answers with the number of bytes that were written.
    pub fn written(self, size: u32) -> Answered {
        self.value(&WriteOut { size, padding: 0 })
    }

    /// The number of copied bytes, in the width that the request wants.
    pub fn copied(self, bytes: u64, wide: bool) -> Answered {
        if wide {
            self.value(&CopyFileRangeOut { bytes_copied: bytes })
        } else {
            self.written(u32::try_from(bytes).expect("the kernel asks for less than 4 GiB"))
        }
    }

    /// Answers with the numbers of the file system.
    pub fn statfs(self, stat: &StatfsOut) -> Answered {
        self.value(stat)
    }

    /// An extended attribute or the list of them, for a caller that has `room` bytes; with a room of zero it
    /// wants the required size.
    pub fn xattr(self, value: &[u8], room: u32) -> Answered {
        match room {
            0 => self.value(&GetxattrOut {
                size: value.len() as u32,
                padding: 0,
            }),
            room if value.len() > room as usize => self.error(Errno::RANGE),
            _ => self.bytes(value),
        }
    }

    /// Answers with a lock that conflicts, or with none.
    pub fn lock(self, lock: FileLock) -> Answered {
        self.value(&LkOut { lk: lock })
    }

    /// Answers with the offset that was found.
    pub fn seek(self, offset: u64) -> Answered {
        self.value(&LseekOut { offset })
    }

    /// Answers with the events that are pending.
    pub fn poll(self, events: u32) -> Answered {
        self.value(&PollOut {
            revents: events,
            padding: 0,
        })
    }

    /// Answers the first request of a connection.
    pub fn init(self, init: &InitOut) -> Answered {
        self.value(init)
    }

    /// Entries of a directory, at most `size` bytes in all.
    pub fn directory(
        self,
        size: usize,
        list: impl FnOnce(&mut ListingReply<'_>) -> Result<(), Errno>,
    ) -> Answered {
        self.listed(size, list)
            .unwrap_or_else(|(reply, error)| reply.error(error))
    }

    /// As [`FuseReply::directory`]; if `list` fails, nothing has been sent yet.
    pub fn listed<E>(
        self,
        size: usize,
        list: impl FnOnce(&mut ListingReply<'_>) -> Result<(), E>,
    ) -> Result<Answered, (Self, E)> {
        self.filled(size, |buffer| {
            let mut listing = ListingReply::new(buffer);
            list(&mut listing)?;
            Ok(listing.len())
        })
    }

    /// Defers the answer: the returned value answers from any thread, at any time.
    pub fn defer(mut self) -> (Answered, FuseReply<'static>) {
        let unique = self.unique;
        // Taken out, so that dropping this value does not answer a second time.
        let way = match std::mem::replace(&mut self.way, ReplyWay::Done) {
            ReplyWay::Slot(slot) => ReplyWay::Courier(slot.defer(unique)),
            ReplyWay::Courier(courier) => ReplyWay::Courier(courier),
            ReplyWay::Done => ReplyWay::Done,
        };
        (Answered(()), FuseReply { unique, way })
    }

    fn value<T: IntoBytes + Immutable>(self, value: &T) -> Answered {
        self.bytes(value.as_bytes())
    }

    /// As [`FuseReply::read`]; if `fill` fails, nothing has been sent yet.
    pub fn filled<E>(
        mut self,
        size: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Answered, (Self, E)> {
        // While `fill` runs, the answer is still owed, so that a panic in it is answered too.
        let mut beside = Vec::new();
        let filled = match &mut self.way {
            ReplyWay::Slot(slot) => {
                let buffer = slot.buffer();
                let size = size.min(buffer.len());
                fill(&mut buffer[..size])
            }
            ReplyWay::Courier(_) => {
                beside.resize(size, 0);
                fill(&mut beside)
            }
            ReplyWay::Done => return Ok(Answered(())),
        };
        match filled {
            Ok(len) => Ok(self.finish_with(Ok(len), beside)),
            Err(error) => Err((self, error)),
        }
    }

    fn finish(&mut self, result: Result<usize, Errno>) -> Answered {
        self.finish_with(result, Vec::new())
    }

    /// `buffer` is passed to a courier; a slot has its own.
    fn finish_with(&mut self, result: Result<usize, Errno>, mut buffer: Vec<u8>) -> Answered {
        let (error, len) = match result {
            Ok(len) => (None, len),
            Err(error) => (Some(error), 0),
        };
        match std::mem::replace(&mut self.way, ReplyWay::Done) {
            ReplyWay::Slot(slot) => slot.send(self.unique, error, len),
            ReplyWay::Courier(courier) => {
                buffer.truncate(len);
                courier.deliver(self.unique, error, buffer);
            }
            ReplyWay::Done => {}
        }
        Answered(())
    }
}

impl Drop for FuseReply<'_> {
    fn drop(&mut self) {
        if !matches!(self.way, ReplyWay::Done) {
            // The kernel waits for every request without a time limit: one that is dropped has to be answered
            // too.
            let _ = self.finish(Err(Errno::IO));
        }
    }
}
