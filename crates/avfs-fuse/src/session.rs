//! One mount that is being served: the handshake, each request on its way from a transport to the service,
//! and its counters. Independent of the transport.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rustix::io::Errno;

use crate::abi::flags::init;
use crate::abi::{InHeader, InitIn, InitOut, MAJOR, MINOR, MINOR_OLDEST};
use crate::counters::Counters;
use crate::reply::{FuseReply, ReplySlot};
use crate::request::{FuseOperation, FuseRequest};
use crate::service::FuseService;

/// The receiver of messages for the operator.
pub type SessionLog = Arc<dyn Fn(&str) + Send + Sync>;

/// The unit in which the kernel limits requests, whatever is negotiated.
const PAGE: u32 = 4096;

/// What a connection offers to the kernel.
#[derive(Clone)]
pub struct SessionSettings {
    /// The longest write in one request, and the longest read.
    pub max_write: u32,
    /// How many requests the kernel sends ahead (read-ahead and asynchronous ones).
    pub max_background: u16,
    /// Where messages for the operator go.
    pub log: SessionLog,
}

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        SessionSettings {
            max_write: 1 << 20,
            max_background: 64,
            log: Arc::new(|_| {}),
        }
    }
}

/// The result of the negotiation between the kernel and the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiatedProtocol {
    /// The minor version of the kernel's protocol.
    pub minor: u32,
    /// The flags that both support.
    pub flags: u64,
    /// The most bytes of one write.
    pub max_write: u32,
}

impl NegotiatedProtocol {
    /// Whether the kernel and we agreed on a flag of INIT.
    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag == flag
    }
}

/// One connection to the kernel: the protocol that was negotiated, and the service behind it.
pub struct FuseSession {
    service: Arc<dyn FuseService>,
    settings: SessionSettings,
    negotiated: OnceLock<NegotiatedProtocol>,
    wants_io_uring: AtomicBool,
    destroyed: AtomicBool,
    counters: Counters,
}

impl FuseSession {
    /// A connection on which nothing was negotiated yet.
    pub fn new(service: Arc<dyn FuseService>, settings: SessionSettings) -> FuseSession {
        FuseSession {
            service,
            settings,
            negotiated: OnceLock::new(),
            wants_io_uring: AtomicBool::new(false),
            destroyed: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// What it offers to the kernel.
    pub fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// The number of requests of each operation, and the time spent serving them.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The result of the negotiation; `None` before the kernel's first request was answered.
    pub fn negotiated(&self) -> Option<NegotiatedProtocol> {
        self.negotiated.get().copied()
    }

    /// From the handshake on, requests may come over io_uring. A transport calls this when its rings are
    /// ready: once it is negotiated, the kernel holds every request back until they are registered.
    pub fn want_io_uring(&self) {
        self.wants_io_uring.store(true, Ordering::Release);
    }

    /// The node of a file that the kernel probably knows.
    pub(crate) fn known_file(&self) -> Option<u64> {
        self.service.known_file()
    }

    /// Whether another process may wait for a request although its own caller does not.
    pub(crate) fn must_be_prompt(&self) -> bool {
        self.service.must_be_prompt()
    }

    /// Writes a message for the operator.
    pub fn log(&self, line: &str) {
        (self.settings.log)(line);
    }

    /// Serves one request that came in two parts: the structure of its first argument, and the rest.
    pub fn handle(&self, header: &InHeader, argument: &[u8], payload: &[u8], slot: &mut dyn ReplySlot) {
        let started = Instant::now();
        self.counters.begin(header.opcode);
        let request = FuseRequest::decode(header, argument, payload);
        let is_awaited = request
            .as_ref()
            .map_or(true, |request| request.opcode.is_answered());
        let reply = FuseReply::new(header.unique, slot, is_awaited);
        match request {
            Ok(request) => self.serve(&request, reply),
            Err(error) => drop(reply.error(error)),
        }
        self.counters.end(header.opcode, started.elapsed());
    }

    fn serve(&self, request: &FuseRequest<'_>, reply: FuseReply<'_>) {
        // One request that panics must not end the mount for all programs.
        let answered = catch_unwind(AssertUnwindSafe(|| match request.operation {
            FuseOperation::Init(kernel) => drop(self.init(&kernel, reply)),
            _ if self.negotiated.get().is_none() => drop(reply.error(Errno::IO)),
            FuseOperation::Destroy => {
                self.destroy();
                drop(reply.ok());
            }
            _ => drop(self.service.serve(request, reply)),
        }));
        // The reply was dropped during unwinding, and has answered EIO.
        if let Err(panic) = answered {
            let opcode = request.opcode;
            self.log(&format!(
                "serving {opcode:?} of node {} failed: {}",
                request.nodeid,
                text(&*panic)
            ));
        }
    }

    fn init(&self, kernel: &InitIn, reply: FuseReply<'_>) -> crate::reply::Answered {
        if kernel.major != MAJOR || kernel.minor < MINOR_OLDEST {
            self.log(&format!(
                "the kernel speaks version {}.{} of the protocol, at least {MAJOR}.{MINOR_OLDEST} is needed",
                kernel.major, kernel.minor
            ));
            return reply.error(Errno::PROTO);
        }
        let mut wanted = self.service.init(kernel);
        if self.wants_io_uring.load(Ordering::Acquire) {
            wanted |= init::OVER_IO_URING;
        }
        let flags = wanted & kernel.offered();
        let max_write = if flags & init::MAX_PAGES == 0 {
            32 * PAGE
        } else {
            self.settings.max_write
        };
        let agreed = NegotiatedProtocol {
            minor: kernel.minor,
            flags,
            max_write,
        };
        let agreed = *self.negotiated.get_or_init(|| agreed);
        reply.init(&self.init_out(kernel, agreed))
    }

    fn init_out(&self, kernel: &InitIn, agreed: NegotiatedProtocol) -> InitOut {
        let max_background = self.settings.max_background;
        InitOut {
            major: MAJOR,
            minor: MINOR.min(kernel.minor),
            // The kernel ignores more than it was allowed for the mount.
            max_readahead: kernel.max_readahead.max(agreed.max_write),
            flags: agreed.flags as u32,
            max_background,
            congestion_threshold: max_background / 4 * 3,
            max_write: agreed.max_write,
            time_gran: 1,
            max_pages: (agreed.max_write / PAGE) as u16,
            map_alignment: 0,
            flags2: (agreed.flags >> 32) as u32,
            max_stack_depth: 0,
            request_timeout: 0,
            unused: [0; 11],
        }
    }

    /// The mount is gone. Transports call this when the connection ends without a DESTROY request; later
    /// calls do nothing.
    pub fn destroy(&self) {
        if !self.destroyed.swap(true, Ordering::AcqRel) {
            self.service.destroy();
        }
    }
}

fn text(panic: &(dyn std::any::Any + Send)) -> &str {
    let string = panic.downcast_ref::<String>().map(String::as_str);
    string
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a word")
}
