//! What is kept of processes that have ended, for clients that come late: so much for each tenant, whatever they wrote.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::process::Process;
use super::sandbox::Sandbox;

/// The most bytes of output of all ended processes of a tenant.
const KEPT_BYTES: usize = 64 << 20;

struct Ended {
    sandbox: Weak<Sandbox>,
    process: Weak<Process>,
    bytes: usize,
}

/// The ended processes of a tenant that are kept, the oldest first.
#[derive(Default)]
pub(super) struct EndedProcesses(Mutex<VecDeque<Ended>>);

impl EndedProcesses {
    /// Keeps one more, and forgets the oldest ones if they are too many together.
    pub fn add(&self, sandbox: &Arc<Sandbox>, process: &Arc<Process>) {
        let added = Ended {
            sandbox: Arc::downgrade(sandbox),
            process: Arc::downgrade(process),
            bytes: process.kept_bytes(),
        };
        for (sandbox, process) in self.make_room(added) {
            sandbox.forget(&process);
        }
    }

    fn make_room(&self, added: Ended) -> Vec<(Arc<Sandbox>, Arc<Process>)> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that were waited for and those of deleted sandboxes are gone.
        kept.retain(|ended| ended.process.strong_count() > 0);
        kept.push_back(added);
        let mut bytes: usize = kept.iter().map(|ended| ended.bytes).sum();
        let mut forgotten = Vec::new();
        // The last one is kept, however much it has written.
        while bytes > KEPT_BYTES && kept.len() > 1 {
            let Some(oldest) = kept.pop_front() else { break };
            bytes -= oldest.bytes;
            forgotten.extend(oldest.sandbox.upgrade().zip(oldest.process.upgrade()));
        }
        forgotten
    }
}
