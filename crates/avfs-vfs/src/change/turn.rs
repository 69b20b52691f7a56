//! Whose turn it is to change a filesystem: one thread at a time, and the hooks that it causes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::change::hooks::CHAIN_MAX;
use crate::error::{Result, VfsError};

thread_local! {
    /// Its address tells threads apart, and costs less than a `ThreadId`.
    static MARK: u8 = const { 0 };
}

fn this_thread() -> usize {
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

/// Lets one thread at a time make changes. Hooks that run after a change may make more; callbacks within one may not.
#[derive(Debug, Default)]
pub(crate) struct ChangeTurn {
    holder: Mutex<TurnHolder>,
    free: Condvar,
}

#[derive(Debug, Default)]
struct TurnHolder {
    /// 0 if nobody has the turn.
    thread: usize,
    waiting: usize,
    /// Whether the holder runs hooks after a change.
    is_delivering: bool,
    /// How many changes those hooks have made.
    chain: usize,
}

/// The turn, until it is dropped.
pub(crate) struct TurnGuard<'a> {
    turn: &'a ChangeTurn,
    is_outermost: bool,
}

impl ChangeTurn {
    pub(crate) fn take(&self) -> Result<TurnGuard<'_>> {
        let me = this_thread();
        let mut holder = self.lock();
        if holder.thread == me {
            if !holder.is_delivering {
                return Err(VfsError::WithinChange);
            }
            if holder.chain >= CHAIN_MAX {
                return Err(VfsError::HookChain);
            }
            holder.chain += 1;
            holder.is_delivering = false;
            return Ok(TurnGuard {
                turn: self,
                is_outermost: false,
            });
        }
        while holder.thread != 0 {
            holder.waiting += 1;
            holder = self.free.wait(holder).unwrap_or_else(PoisonError::into_inner);
            holder.waiting -= 1;
        }
        *holder = TurnHolder {
            thread: me,
            waiting: holder.waiting,
            is_delivering: false,
            chain: 0,
        };
        Ok(TurnGuard {
            turn: self,
            is_outermost: true,
        })
    }

    fn lock(&self) -> MutexGuard<'_, TurnHolder> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnGuard<'_> {
    /// Whether this change was not made by a hook of another one.
    pub(crate) fn is_outermost(&self) -> bool {
        self.is_outermost
    }

    /// From here on, hooks of this thread may take the turn for changes of their own.
    pub(crate) fn start_delivering(&self) {
        self.turn.lock().is_delivering = true;
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        let mut holder = self.turn.lock();
        if !self.is_outermost {
            holder.is_delivering = true;
            return;
        }
        holder.thread = 0;
        if holder.waiting > 0 {
            self.turn.free.notify_one();
        }
    }
}
