//! The thread of one CPU: takes requests out of its ring, serves them, and answers by the same system call
//! that waits for the next.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::cpus::Place;
use super::outbox::{Answer, Outbox, RingCourier};
use super::ring::{Completion, Ring};
use crate::abi::uring::{EntryInOut, HEADER_ARGUMENT, HEADER_ENTRY, HEADER_IN_OUT};
use crate::abi::{InHeader, Opcode, OutHeader, RetrieveOut, notification};
use crate::reply::{Courier, Slot};
use crate::session::Session;
use crate::transport::giving_way::{Callers, GivingWay, Serves};
use crate::transport::scheduling::stay_on;
use crate::transport::stop::ServingStop;

/// A request and its answer have the same memory. Names, which are short, make room for the answer; what is
/// longer stays, and the answer, which is short then, is copied in behind it.
const SHORT: usize = 512;

/// Requests that [`Queue::stir`] causes are numbered from here on; the kernel counts its own up from one.
/// Numbers are even.
const STIRRING: u64 = 1 << 62;

pub struct Queue {
    session: Arc<Session>,
    connection: Arc<OwnedFd>,
    place: Place,
    ring: Ring,
    outbox: Arc<Outbox>,
    /// How many entries each queue begins with.
    depth: usize,
    /// How long the payload of an entry is.
    payload: usize,
    /// Of each entry.
    progress: Vec<Progress>,
    /// What cannot be in the memory of the entry: a short request, or the answer to a long one.
    beside: Vec<u8>,
    /// How often it was stirred.
    stirred: u64,
    /// Where it is told what was served.
    serves: Option<Serves>,
    /// The kernel did not take an entry.
    is_refused: bool,
    /// The kernel has begun to end the connection, or we are to.
    has_ended: bool,
    stop: ServingStop,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Registered,
    /// It had a request at least once.
    Served,
    /// Its request is to be answered by another thread.
    Deferred,
}

impl Queue {
    /// Everything that can fail is done here, before the kernel is told that rings are wanted.
    pub fn new(
        session: Arc<Session>,
        place: Place,
        connection: Arc<OwnedFd>,
        depth: usize,
        stop: ServingStop,
    ) -> io::Result<Queue> {
        let outbox = Arc::new(Outbox::new()?);
        let entries = u32::try_from(depth * place.queues.len()).map_err(io::Error::other)?;
        let ring = Ring::new(connection.as_fd(), outbox.bell(), stop.bell(), entries)?;
        Ok(Queue {
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

    pub fn cpu(&self) -> usize {
        self.place.cpu
    }

    /// Registers all entries from the thread that will serve them, and says whether the kernel took them. It
    /// waits until each of its queues has one, so if that cannot be it is told to go on without.
    pub fn register(&mut self, payload: usize) -> io::Result<bool> {
        self.ring.enable()?;
        self.add_entries(payload).inspect_err(|_| {
            // There is nothing else to be done about it.
            let _ = self.ring.turn_down();
        })
    }

    fn add_entries(&mut self, payload: usize) -> io::Result<bool> {
        if let Err(error) = stay_on(None, self.place.cpu) {
            self.session.log(&format!("a thread cannot stay on CPU {}: {error}", self.place.cpu));
        }
        self.payload = payload;
        self.ring.listen()?;
        self.ring.listen_for_stop()?;
        for queue in self.place.queues.clone() {
            for _ in 0..self.depth {
                self.add_entry(queue)?;
            }
        }
        // Made of zeros, it takes no room before it is used.
        self.beside = vec![0; payload];
        // What the kernel does not take completes at once.
        self.ring.submit()?;
        self.take_completions()?;
        Ok(!self.is_refused && !self.has_ended)
    }

    fn add_entry(&mut self, queue: u16) -> io::Result<()> {
        self.ring.add_entry(queue, self.payload)?;
        self.progress.push(Progress::Registered);
        Ok(())
    }

    /// A queue that cannot get another entry waits for one of those that it has.
    fn replace_entry(&mut self, queue: u16) {
        if let Err(error) = self.add_entry(queue) {
            self.session.log(&format!("another entry for queue {queue}: {error}"));
        }
    }

    /// Serves until the mount is gone, or serving is to stop. Requests that other threads have not answered by then are left to
    /// them: nobody waits for the answers.
    pub fn run(mut self, giving_way: Option<GivingWay>) -> io::Result<()> {
        self.serves = giving_way.and_then(|giving_way| giving_way.join(Callers::ItsCpu));
        // Told to stop, it ends with entries that the kernel holds, as it does when the process ends.
        while !self.stop.is_asked()
            && (self.ring.is_in_use() || (!self.has_ended && self.progress.contains(&Progress::Deferred)))
        {
            self.ring.submit_and_wait()?;
            self.take_completions()?;
        }
        Ok(())
    }

    fn take_completions(&mut self) -> io::Result<()> {
        while let Some(completion) = self.ring.completion() {
            match completion {
                Completion::Request(entry) => self.serve(entry)?,
                Completion::Bell => self.send_deferred()?,
                Completion::Stop => self.has_ended = true,
                Completion::Ended(entry, error) => self.ended(entry, error),
            }
        }
        Ok(())
    }

    fn ended(&mut self, entry: usize, error: Errno) {
        let queue = self.ring.queue(entry);
        match (error, self.progress[entry]) {
            (Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED, _) => self.has_ended = true,
            (_, Progress::Registered) => {
                self.session.log(&format!("the kernel does not take an entry for queue {queue}: {error}"));
                self.is_refused = true;
            }
            // The mount lives on, and its queue must not run out of entries.
            (_, Progress::Served | Progress::Deferred) => {
                self.session.log(&format!("the kernel does not take an answer by queue {queue}: {error}"));
                self.replace_entry(queue);
            }
        }
    }

    fn serve(&mut self, entry: usize) -> io::Result<()> {
        self.progress[entry] = Progress::Served;
        let (header, payload) = self.ring.memory(entry);
        let request = InHeader::read_from_prefix(&header[HEADER_IN_OUT..]).expect("the header has room").0;
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
        let mut slot = RingSlot { outbox: &self.outbox, entry, answer, outcome: Outcome::Sent(None, 0) };
        self.session.handle(&request, argument, incoming, &mut slot);
        match slot.outcome {
            Outcome::Deferred => self.put_off(entry, request.nodeid),
            Outcome::Sent(error, len) => {
                if !is_short {
                    payload[..len].copy_from_slice(&self.beside[..len]);
                }
                self.send(entry, request.unique, error, len)
            }
        }
    }

    /// An entry whose request is put off is lost to its queue until it is answered. The last one is made up
    /// for by another, so that requests which wait for each other never wait for an entry.
    fn put_off(&mut self, entry: usize, node: u64) -> io::Result<()> {
        self.progress[entry] = Progress::Deferred;
        let queue = self.ring.queue(entry);
        let is_lost = |(other, progress): (usize, &Progress)| {
            *progress == Progress::Deferred || self.ring.queue(other) != queue
        };
        if self.progress.iter().enumerate().all(is_lost) {
            self.replace_entry(queue);
            self.ring.submit()?;
            self.stir(node);
        }
        Ok(())
    }

    /// Requests that came while all entries were lost are looked at by the kernel when an answer comes, but
    /// not when there is a new entry. So that one does come, the kernel is asked for no bytes of a file: it
    /// sends them by a request that goes into the queue of this CPU.
    ///
    /// It does so for files only, so where a directory is meant any file is asked about. If the kernel knows none,
    /// such requests wait for the first answer.
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
        let body = RetrieveOut { notify_unique, nodeid: node, offset: 0, size: 0, padding: 0 };
        let len = (size_of::<OutHeader>() + size_of::<RetrieveOut>()) as u32;
        let header = OutHeader { len, error: notification::RETRIEVE, unique: 0 };
        let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(body.as_bytes())];
        match rustix::io::writev(&*self.connection, &parts) {
            Ok(_) => return true,
            Err(Errno::INVAL | Errno::NODEV | Errno::NOENT) => {}
            Err(error) => self.session.log(&format!("stirring up CPU {}: {error}", self.place.cpu)),
        }
        false
    }

    fn send_deferred(&mut self) -> io::Result<()> {
        for Answer { entry, unique, error, result } in self.outbox.take() {
            self.progress[entry] = Progress::Served;
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
        let answer = OutHeader { len: (size_of::<OutHeader>() + len) as u32, error, unique };
        header[HEADER_IN_OUT..][..size_of::<OutHeader>()].copy_from_slice(answer.as_bytes());
        self.ring.commit(entry, shared.commit_id)
    }
}

fn shared(header: &[u8]) -> EntryInOut {
    EntryInOut::read_from_bytes(&header[HEADER_ENTRY..]).expect("the header ends with it")
}

/// Remembers the answer until the service has returned.
struct RingSlot<'a> {
    outbox: &'a Arc<Outbox>,
    entry: usize,
    answer: &'a mut [u8],
    outcome: Outcome,
}

enum Outcome {
    Sent(Option<Errno>, usize),
    Deferred,
}

impl Slot for RingSlot<'_> {
    fn buffer(&mut self) -> &mut [u8] {
        self.answer
    }

    fn send(&mut self, _unique: u64, error: Option<Errno>, len: usize) {
        self.outcome = Outcome::Sent(error, len);
    }

    fn defer(&mut self, _unique: u64) -> Box<dyn Courier> {
        self.outcome = Outcome::Deferred;
        Box::new(RingCourier { outbox: self.outbox.clone(), entry: self.entry })
    }
}
