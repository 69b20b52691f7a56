//! Requests that need something that is not in memory: answered later, from threads that may wait for it.
//!
//! A request is tried where it was taken, from memory alone. If the tree says that something has to be read first
//! ([`Wanted`]), the request goes to one of these threads, which gets that and tries again, as often as it
//! takes. Nothing has happened before a request is tried again, and the tree's lock is not held while anything
//! is read.

mod threads;

use std::sync::atomic::Ordering;

use avfs_tree::Wanted;

use self::threads::Threads;
use super::Skin;
use super::error::SkinError;
use crate::reply::{Answered, Reply};
use crate::request::{KeptRequest, Operation, Request};
use crate::session::Log;

/// A request that cannot be answered before something is at hand.
pub(super) struct Unanswered<'a> {
    pub reply: Reply<'a>,
    pub wanted: Wanted,
}

/// What came of trying to serve a request from memory.
pub(super) type Outcome<'a> = Result<Answered, Unanswered<'a>>;

/// Where requests wait that are answered later.
pub(super) struct Deferring {
    threads: Threads,
}

impl Deferring {
    pub fn new(log: Log) -> Deferring {
        Deferring { threads: Threads::new(log) }
    }
}

impl Skin {
    /// How many requests needed something that was not in memory.
    pub fn deferred(&self) -> u64 {
        self.deferred.load(Ordering::Relaxed)
    }

    /// Refuses a request, unless all it needs is more time.
    pub(super) fn refuse<'a>(
        &self,
        request: &Request<'_>,
        reply: Reply<'a>,
        error: impl Into<SkinError>,
    ) -> Outcome<'a> {
        let error = error.into();
        match error.wanted() {
            Some(wanted) => Err(Unanswered { reply, wanted }),
            None => Ok(reply.error(self.errno(request, error))),
        }
    }

    /// Answers from another thread, when what is wanted is there.
    pub(super) fn put_off(&self, request: &Request<'_>, unanswered: Unanswered<'_>) -> Answered {
        self.deferred.fetch_add(1, Ordering::Relaxed);
        let Unanswered { reply, wanted } = unanswered;
        let (answered, reply) = reply.defer();
        let (this, request) = (self.this.clone(), request.kept());
        self.deferring.threads.run(move || {
            if let Some(skin) = this.upgrade() {
                skin.answer_late(&request, Unanswered { reply, wanted });
            }
        });
        answered
    }

    fn answer_late(&self, request: &KeptRequest, mut unanswered: Unanswered<'static>) {
        let request = request.request();
        let mut at_hand = Vec::new();
        loop {
            let Unanswered { reply, wanted } = unanswered;
            match self.tree.fetch(wanted) {
                Ok(fetched) => at_hand.extend(fetched),
                Err(error) => return drop(reply.error(self.errno(&request, error.into()))),
            }
            let outcome = match request.operation {
                Operation::Read(read) => self.read_late(&request, &read, reply),
                _ => self.try_to_serve(&request, reply),
            };
            // Whoever was told of something after the kernel had gone must not keep it.
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
