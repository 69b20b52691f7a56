//! Requests that need something that is not in memory: they are answered later, from threads that may wait
//! for it.
//!
//! A request is first tried on the thread that received it, from memory alone. If the tree reports that
//! something must be read first ([`WantedItem`]), the request goes to one of these threads, which reads that
//! and tries again, as often as necessary. A request has no effect before it is retried, and the tree's lock
//! is not held while anything is read.

mod threads;

use std::sync::atomic::Ordering;

use avfs_tree::WantedItem;

use self::threads::WorkerThreads;
use super::Skin;
use super::error::SkinError;
use crate::reply::{Answered, FuseReply};
use crate::request::{FuseOperation, FuseRequest, KeptRequest};
use crate::session::SessionLog;

/// A request that cannot be answered before something is in memory.
pub(super) struct UnansweredRequest<'a> {
    pub reply: FuseReply<'a>,
    pub wanted: WantedItem,
}

/// The result of trying to serve a request from memory.
pub(super) type ServeResult<'a> = Result<Answered, UnansweredRequest<'a>>;

/// The requests that are answered later.
pub(super) struct Deferring {
    threads: WorkerThreads,
}

impl Deferring {
    pub(super) fn new(log: SessionLog) -> Deferring {
        Deferring {
            threads: WorkerThreads::new(log),
        }
    }
}

impl Skin {
    /// How many requests needed something that was not in memory.
    pub fn deferred(&self) -> u64 {
        self.deferred.load(Ordering::Relaxed)
    }

    /// Refuses a request, unless it only needs to wait for something.
    pub(super) fn refuse<'a>(
        &self,
        request: &FuseRequest<'_>,
        reply: FuseReply<'a>,
        error: impl Into<SkinError>,
    ) -> ServeResult<'a> {
        let error = error.into();
        match error.wanted() {
            Some(wanted) => Err(UnansweredRequest { reply, wanted }),
            None => Ok(reply.error(self.errno(request, error))),
        }
    }

    /// Answers from another thread, when the wanted item is available.
    pub(super) fn put_off(&self, request: &FuseRequest<'_>, unanswered: UnansweredRequest<'_>) -> Answered {
        self.deferred.fetch_add(1, Ordering::Relaxed);
        let UnansweredRequest { reply, wanted } = unanswered;
        let (answered, reply) = reply.defer();
        let this = self.this.clone();
        let request = request.kept();
        self.deferring.threads.run(move || {
            if let Some(skin) = this.upgrade() {
                skin.answer_late(&request, UnansweredRequest { reply, wanted });
            }
        });
        answered
    }

    fn answer_late(&self, request: &KeptRequest, mut unanswered: UnansweredRequest<'static>) {
        let request = request.request();
        let mut at_hand = Vec::new();
        loop {
            let UnansweredRequest { reply, wanted } = unanswered;
            match self.tree.fetch(wanted) {
                Ok(fetched) => at_hand.extend(fetched),
                Err(error) => return drop(reply.error(self.errno(&request, error.into()))),
            }
            let outcome = match request.operation {
                FuseOperation::Read(read) => self.contents().read_late(&request, &read, reply),
                _ => self.try_to_serve(&request, reply),
            };
            // The kernel is gone: an inode that was reported to it after that must not stay held.
            if self.has_ended.load(Ordering::Acquire) {
                self.nodes.forget_all();
            }
            match outcome {
                Ok(_) => return,
                Err(again) => unanswered = again,
            }
        }
    }
}
