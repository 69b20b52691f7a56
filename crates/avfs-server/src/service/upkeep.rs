//! What happens to sandboxes by themselves: they expire, fall idle, and end with the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::error::ServiceResult;
use super::exchange::SandboxEnd;
use super::pausing::pause_if_due;
use super::pool;
use super::sandbox::Sandbox;
use super::sandboxes::serve_on;
use super::tenant::{Tenant, Tenants};
use super::threads::on_a_thread;
use crate::clock::SteadyMillis;

/// How often sandboxes are looked at.
const ROUND: Duration = Duration::from_secs(1);
/// How long the next round waits for the last one.
const ROUND_MAX: Duration = Duration::from_secs(10);
/// How often what was kept for long enough is removed.
const TIDY_MS: i64 = 5 * 60 * 1000;
/// Seconds without a command after which a sandbox is closed that does not say otherwise. What is idle takes no memory
/// then, and the next command opens it again.
const IDLE_SECONDS: u64 = 15 * 60;

impl Tenants {
    /// Looks after the sandboxes of all tenants until the server ends.
    pub(crate) async fn look_after(self: Arc<Tenants>, ending: CancellationToken) {
        let rhythm = self.options().cleanup.unwrap_or(ROUND);
        loop {
            tokio::select! {
                () = tokio::time::sleep(rhythm) => {}
                () = ending.cancelled() => return,
            }
            let mut rounds = JoinSet::new();
            for tenant in self.all_open() {
                rounds.spawn(on_a_thread(move || {
                    tenant.round();
                    pool::fill(&tenant);
                    Ok(())
                }));
            }
            // A tenant whose sandboxes end slowly holds no other up for long. Its round goes on.
            let all = async { while rounds.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(ROUND_MAX, all).await;
        }
    }

    /// Lets commands end for a while, and then ends all sandboxes. Their files are stored before this returns.
    pub(crate) async fn end(&self, grace: Duration) {
        let tenants = self.all_open();
        for tenant in &tenants {
            tenant.refuse_more();
        }
        let quiet = async {
            while tenants.iter().any(|tenant| tenant.is_at_work()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(grace, quiet).await;
        for tenant in tenants {
            let _ = on_a_thread(move || {
                tenant.close_all();
                Ok(())
            })
            .await;
        }
    }
}

impl Tenant {
    /// How many commands run.
    pub fn running(&self) -> usize {
        let all: Vec<Arc<Sandbox>> = self.table().values().cloned().collect();
        all.iter().map(|sandbox| sandbox.running()).sum()
    }

    /// Whether a command runs, or somebody waits for one.
    fn is_at_work(&self) -> bool {
        let all: Vec<Arc<Sandbox>> = self.table().values().cloned().collect();
        all.iter()
            .any(|sandbox| sandbox.running() > 0 || sandbox.is_attended())
    }

    /// Does what is due. What fails is tried again in the next round.
    fn round(&self) {
        let Ok(_only) = self.rounds().try_lock() else {
            return;
        };
        self.look_at_disk();
        // Whatever it says now, what expires goes by the time that has passed.
        self.complain("looking at the clock", None, self.now().map(drop));
        self.complain("tidying up", None, self.tidy());
        let all: Vec<Arc<Sandbox>> = self.table().values().cloned().collect();
        for sandbox in all {
            if sandbox.is_open() {
                sandbox.measure();
            }
            if sandbox.pause_is_due() {
                self.note("pausing", &sandbox, pause_if_due(self, &sandbox));
            } else if sandbox.has_expired() {
                match self.delete(&sandbox) {
                    Ok(end) => self.tell_end(&sandbox.id, &end),
                    Err(error) => self.note("expiring", &sandbox, Err(error)),
                }
            } else if is_idle(&sandbox) {
                self.note("closing", &sandbox, sandbox.close().map(serve_on));
            }
        }
    }

    fn close_all(&self) {
        pool::drain(self);
        let all: Vec<Arc<Sandbox>> = self.table().values().cloned().collect();
        for sandbox in all {
            self.note("closing", &sandbox, sandbox.close().map(serve_on));
        }
    }

    /// Removes what nobody asks for again, once in a while.
    fn tidy(&self) -> ServiceResult<()> {
        let now = SteadyMillis::now().0;
        let due = self.tidy_due().load(Ordering::Relaxed);
        if now < due {
            return Ok(());
        }
        self.tidy_due().store(now + TIDY_MS, Ordering::Relaxed);
        pool::thin_out(self);
        self.clear_all();
        self.spare().keep();
        Ok(self.state().replies().forget_old()?)
    }

    fn note(&self, action: &str, sandbox: &Sandbox, done: ServiceResult<()>) {
        self.complain(action, Some(&sandbox.id), done);
    }

    pub(super) fn complain(&self, action: &str, sandbox: Option<&str>, done: ServiceResult<()>) {
        if let Err(error) = done {
            let line = serde_json::json!({
                "tenant": self.name, "sandbox": sandbox, "action": action, "error": error.message,
            });
            (self.options().log)(&line.to_string());
        }
    }

    /// Tells what nobody has asked about: conflicts of a sandbox that has ended by itself.
    pub(super) fn tell_end(&self, sandbox: &str, end: &SandboxEnd) {
        if !end.conflicts.is_empty() {
            let line = serde_json::json!({
                "tenant": self.name, "sandbox": sandbox, "vault": end.vault, "conflicts": end.conflicts,
            });
            (self.options().log)(&line.to_string());
        }
    }
}

fn is_idle(sandbox: &Sandbox) -> bool {
    if sandbox.is_attended() {
        return false;
    }
    // A process that somebody has started to run on keeps its sandbox open, unless a limit was asked for.
    let limit = match sandbox.spec.idle_seconds {
        Some(seconds) => seconds,
        None if sandbox.running() > 0 => return false,
        None => IDLE_SECONDS,
    };
    let limit = i64::try_from(limit.saturating_mul(1000)).unwrap_or(i64::MAX);
    sandbox.is_open() && sandbox.unused_ms() >= limit
}
