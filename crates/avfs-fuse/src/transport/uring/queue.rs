//! The thread of one CPU: takes requests out of its ring, serves them, and answers by the same system call
//! that waits for the next.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::cpus::CpuPlace;
use super::outbox::{AnswerOutbox, RingAnswer, RingCourier};
use super::ring::{Ring, RingCompletion};
use crate::abi::uring::{EntryInOut, HEADER_ARGUMENT, HEADER_ENTRY, HEADER_IN_OUT};
use crate::abi::{InHeader, Opcode, OutHeader, RetrieveOut, notification};
use crate::reply::{ReplyCourier, ReplySlot};
use crate::session::FuseSession;
use crate::transport::idle_policy::{IdlePolicy, ServedCallers, ServingThread};
use crate::transport::scheduling::stay_on;
use crate::transport::stop::ServingStop;

/// A request and its answer share the same memory. Names, which are short, are copied out to make room for
/// the answer; a longer request stays, and the answer, which is short then, is copied in afterwards.
const SHORT: usize = 512;

/// Requests that [`RingQueue::stir`] causes are numbered from here on; the kernel's own numbers start at one.
/// Numbers are even.
const STIRRING: u64 = 1 << 62;

pub(super) struct RingQueue {
    session: Arc<FuseSession>,
    connection: Arc<OwnedFd>,
    place: CpuPlace,
    ring: Ring,
    outbox: Arc<AnswerOutbox>,
    /// The initial number of entries of each queue.
    depth: usize,
    /// The length of the payload of an entry.
    payload: usize,
    /// Of each entry.
    progress: Vec<SlotProgress>,
    /// Data that cannot be in the memory of the entry: a short request, or the answer to a long one.
    beside: Vec<u8>,
    /// How often it was stirred.
    stirred: u64,
    /// Counts what was served.
    serves: Option<ServingThread>,
    /// The kernel refused an entry.
    is_refused: bool,
    /// The kernel has begun to end the connection, or we were told to.
    has_ended: bool,
    stop: ServingStop,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotProgress {
    Registered,
    /// It had a request at least once.
    Served,
    /// Another thread will answer its request.
    Deferred,
}

impl RingQueue {
    /// Everything that can fail happens here, before the kernel learns that rings are wanted.
    pub(super) fn new(
        session: Arc<FuseSession>,
        place: CpuPlace,
        connection: Arc<OwnedFd>,
        depth: usize,
        stop: ServingStop,
    ) -> io::Result<RingQueue> {
        let outbox = Arc::new(AnswerOutbox::new()?);
        let entries = u32::try_from(depth * place.queues.len()).map_err(io::Error::other)?;
        let ring = Ring::new(connection.as_fd(), outbox.bell(), stop.bell(), entries)?;
        Ok(RingQueue {
            session,
            connection,
            place,
            ring,
            outbox,
            depth,
            payload: 0,
            progress: Vec::new(),
            beside: Vec::new(),
            stirred: 0,
            serves: None,
            is_refused: false,
            has_ended: false,
            stop,
        })
    }

    pub(super) fn cpu(&self) -> usize {
        self.place.cpu
    }

    /// Registers all entries from the thread that will serve them, and returns whether the kernel accepted
    /// them. The kernel waits until each of its queues has one, so on failure it is told to continue without
    /// rings.
    pub(super) fn register(&mut self, payload: usize) -> io::Result<bool> {
        self.ring.enable()?;
        self.add_entries(payload).inspect_err(|_| {
            // Nothing else can be done about it.
            let _ = self.ring.turn_down();
        })
    }

    fn add_entries(&mut self, payload: usize) -> io::Result<bool> {
        if let Err(error) = stay_on(None, self.place.cpu) {
            self.session.log(&format!(
                "a thread cannot stay on CPU {}: {error}",
                self.place.cpu
            ));
        }
        self.payload = payload;
        self.ring.listen()?;
        self.ring.listen_for_stop()?;
        for queue in self.place.queues.clone() {
            for _ in 0..self.depth {
                self.add_entry(queue)?;
            }
        }
        // Made of zeros, it occupies no space before it is used.
        self.beside = vec![0; payload];
        // An entry that the kernel refuses completes immediately.
        self.ring.submit()?;
        self.take_completions()?;
        Ok(!self.is_refused && !self.has_ended)
    }

    fn add_entry(&mut self, queue: u16) -> io::Result<()> {
        self.ring.add_entry(queue, self.payload)?;
        self.progress.push(SlotProgress::Registered);
        Ok(())
    }

    /// If a queue cannot get another entry, it waits for one of its existing ones.
    fn replace_entry(&mut self, queue: u16) {
        if let Err(error) = self.add_entry(queue) {
            self.session
                .log(&format!("another entry for queue {queue}: {error}"));
        }
    }

    /// Serves until the mount is gone, or serving is stopped. Requests that other threads have not answered
    /// by then are left to them: no process waits for the answers.
    pub(super) fn run(mut self, idle_policy: Option<IdlePolicy>) -> io::Result<()> {
        self.serves = idle_policy.and_then(|idle_policy| idle_policy.join(ServedCallers::ItsCpu));
        // When it is stopped, the kernel still holds entries, as when the process ends.
        while !self.stop.is_asked()
            && (self.ring.is_in_use() || (!self.has_ended && self.progress.contains(&SlotProgress::Deferred)))
        {
            self.ring.submit_and_wait()?;
            self.take_completions()?;
        }
        Ok(())
    }

    fn take_completions(&mut self) -> io::Result<()> {
        while let Some(completion) = self.ring.completion() {
            match completion {
                RingCompletion::Request(entry) => self.serve(entry)?,
                RingCompletion::Bell => self.send_deferred()?,
                RingCompletion::Stop => self.has_ended = true,
                RingCompletion::Ended(entry, error) => self.ended(entry, error),
            }
        }
        Ok(())
    }

    fn ended(&mut self, entry: usize, error: Errno) {
        let queue = self.ring.queue(entry);
        match (error, self.progress[entry]) {
            (Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED, _) => self.has_ended = true,
            (_, SlotProgress::Registered) => {
                self.session.log(&format!(
                    "the kernel does not take an entry for queue {queue}: {error}"
                ));
                self.is_refused = true;
            }
            // The mount lives on, and its queue must not run out of entries.
            (_, SlotProgress::Served | SlotProgress::Deferred) => {
                self.session.log(&format!(
                    "the kernel does not take an answer by queue {queue}: {error}"
                ));
                self.replace_entry(queue);
            }
        }
    }

    fn serve(&mut self, entry: usize) -> io::Result<()> {
        self.progress[entry] = SlotProgress::Served;
        let (header, payload) = self.ring.memory(entry);
        let request = InHeader::read_from_prefix(&header[HEADER_IN_OUT..])
            .expect("the header has room")
            .0;
        if request.opcode == Opcode::NotifyReply as u32 {
            return self.send(entry, request.unique, None, 0);
        }
        if let Some(serves) = &self.serves {
            serves.one(&request);
        }
        let shared = shared(header);
        let argument = &header[HEADER_ARGUMENT..HEADER_ENTRY];
        let len = (shared.payload_sz as usize).min(payload.len());
        let is_short = len <= SHORT;
        let (incoming, answer) = if is_short {
            self.beside[..len].copy_from_slice(&payload[..len]);
            (&self.beside[..len], &mut payload[..])
        } else {
            (&payload[..len], &mut self.beside[..])
        };
        let mut slot = RingSlot {
            outbox: &self.outbox,
            entry,
            answer,
            outcome: ServeOutcome::Sent(None, 0),
        };
        self.session.handle(&request, argument, incoming, &mut slot);
        match slot.outcome {
            ServeOutcome::Deferred => self.put_off(entry, request.nodeid),
            ServeOutcome::Sent(error, len) => {
                if !is_short {
                    payload[..len].copy_from_slice(&self.beside[..len]);
                }
                self.send(entry, request.unique, error, len)
            }
        }
    }

    /// An entry whose request is deferred is lost to its queue until it is answered. The last one is replaced
    /// by a new entry, so that requests that wait for each other never wait for an entry.
    fn put_off(&mut self, entry: usize, node: u64) -> io::Result<()> {
        self.progress[entry] = SlotProgress::Deferred;
        let queue = self.ring.queue(entry);
        let is_lost = |(other, progress): (usize, &SlotProgress)| {
            *progress == SlotProgress::Deferred || self.ring.queue(other) != queue
        };
        if self.progress.iter().enumerate().all(is_lost) {
            self.replace_entry(queue);
            self.ring.submit()?;
            self.stir(node);
        }
        Ok(())
    }

    /// Requests that came while all entries were lost are sent by the kernel when an answer comes, but not
    /// when a new entry is added. To cause such an answer, the kernel is asked for zero bytes of a file: it
    /// sends them in a request that goes into the queue of this CPU.
    ///
    /// This works for files only, so for a directory any file is used. If the kernel knows none, such
    /// requests wait for the first answer.
    fn stir(&mut self, node: u64) {
        if !self.ask_for_nothing(node)
            && let Some(file) = self.session.known_file()
        {
            self.ask_for_nothing(file);
        }
    }

    fn ask_for_nothing(&mut self, node: u64) -> bool {
        self.stirred += 2;
        let notify_unique = STIRRING + self.stirred;
        let body = RetrieveOut {
            notify_unique,
            nodeid: node,
            offset: 0,
            size: 0,
            padding: 0,
        };
        let len = (size_of::<OutHeader>() + size_of::<RetrieveOut>()) as u32;
        let header = OutHeader {
            len,
            error: notification::RETRIEVE,
            unique: 0,
        };
        let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(body.as_bytes())];
        match rustix::io::writev(&*self.connection, &parts) {
            Ok(_) => return true,
            Err(Errno::INVAL | Errno::NODEV | Errno::NOENT) => {}
            Err(error) => self
                .session
                .log(&format!("stirring up CPU {}: {error}", self.place.cpu)),
        }
        false
    }

    fn send_deferred(&mut self) -> io::Result<()> {
        for RingAnswer {
            entry,
            unique,
            error,
            result,
        } in self.outbox.take()
        {
            self.progress[entry] = SlotProgress::Served;
            let (_, payload) = self.ring.memory(entry);
            let error = match payload.get_mut(..result.len()) {
                Some(room) => {
                    room.copy_from_slice(&result);
                    error
                }
                None => Some(Errno::IO),
            };
            self.send(entry, unique, error, result.len().min(self.payload))?;
        }
        self.ring.listen()
    }

    fn send(&mut self, entry: usize, unique: u64, error: Option<Errno>, len: usize) -> io::Result<()> {
        let (header, _) = self.ring.memory(entry);
        let mut shared = shared(header);
        shared.payload_sz = len as u32;
        header[HEADER_ENTRY..].copy_from_slice(shared.as_bytes());
        let error = error.map_or(0, |error| -error.raw_os_error());
        let answer = OutHeader {
            len: (size_of::<OutHeader>() + len) as u32,
            error,
            unique,
        };
        header[HEADER_IN_OUT..][..size_of::<OutHeader>()].copy_from_slice(answer.as_bytes());
        self.ring.commit(entry, shared.commit_id)
    }
}

fn shared(header: &[u8]) -> EntryInOut {
    EntryInOut::read_from_bytes(&header[HEADER_ENTRY..]).expect("the header ends with it")
}

/// Holds the answer until the service has returned.
struct RingSlot<'a> {
    outbox: &'a Arc<AnswerOutbox>,
    entry: usize,
    answer: &'a mut [u8],
    outcome: ServeOutcome,
}

enum ServeOutcome {
    Sent(Option<Errno>, usize),
    Deferred,
}

impl ReplySlot for RingSlot<'_> {
    fn buffer(&mut self) -> &mut [u8] {
        self.answer
    }

    fn send(&mut self, _unique: u64, error: Option<Errno>, len: usize) {
        self.outcome = ServeOutcome::Sent(error, len);
    }

    fn defer(&mut self, _unique: u64) -> Box<dyn ReplyCourier> {
        self.outcome = ServeOutcome::Deferred;
        Box::new(RingCourier {
            outbox: self.outbox.clone(),
            entry: self.entry,
        })
    }
}
