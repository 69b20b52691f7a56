//! Starts ordinary threads while a request is served.
//!
//! A new thread inherits the CPU binding and the policy of its creator. A serving thread may be bound to one
//! CPU and have the idle policy, which some processes cannot undo: there, a separate thread starts new ones.

use std::cell::Cell;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::scheduling::{ThreadPolicy, run_anywhere, set_policy};

type StarterWork = Box<dyn FnOnce() + Send>;

/// A request to the thread that starts others.
struct WantedThread {
    name: &'static str,
    work: StarterWork,
    started: Sender<io::Result<()>>,
}

/// The channel to the thread that starts others, if a thread of this process permanently has the idle policy.
static STARTER: OnceLock<Mutex<Sender<WantedThread>>> = OnceLock::new();

thread_local! {
    static IS_LAST_FOR_GOOD: Cell<bool> = const { Cell::new(false) };
}

/// Starts an ordinary thread, whichever thread calls this.
pub fn start_ordinary(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let work: StarterWork = Box::new(work);
    if !IS_LAST_FOR_GOOD.get() {
        return start(name, work);
    }
    let starter = STARTER
        .get()
        .ok_or_else(|| io::Error::other("no thread starts others"))?;
    let (started, outcome) = channel();
    let wanted = WantedThread { name, work, started };
    let asked = starter
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send(wanted);
    asked.map_err(|_| io::Error::other("the thread that starts others has ended"))?;
    outcome
        .recv()
        .unwrap_or_else(|_| Err(io::Error::other("the thread that starts others has ended")))
}

/// Must be called by an ordinary thread before another thread permanently gets the idle policy. The thread
/// that starts others lives as long as the process.
pub(super) fn prepare_starter() -> io::Result<()> {
    if STARTER.get().is_some() {
        return Ok(());
    }
    let (sender, wanted) = channel::<WantedThread>();
    std::thread::Builder::new()
        .name("fuse-starter".into())
        .spawn(move || {
            for WantedThread { name, work, started } in wanted {
                // The caller waits for it.
                let _ = started.send(start(name, work));
            }
        })?;
    // If another mount was faster, this one's thread ends.
    let _ = STARTER.set(Mutex::new(sender));
    Ok(())
}

/// Gives the calling thread the idle policy until it ends.
pub(super) fn come_last_for_good() -> rustix::io::Result<()> {
    IS_LAST_FOR_GOOD.set(true);
    set_policy(None, ThreadPolicy::Last)
}

fn start(name: &'static str, work: StarterWork) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.into());
    let run = move || {
        // If that is refused, it works as well.
        let _ = run_anywhere();
        work();
    };
    thread.spawn(run).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_that_comes_last_for_good_starts_ordinary_ones() {
        prepare_starter().expect("a thread");
        let last = std::thread::spawn(|| {
            come_last_for_good().expect("everybody may");
            let (sender, policy) = channel();
            start_ordinary("test", move || {
                sender.send(own_policy()).expect("a test that waits")
            })
            .expect("a thread");
            (own_policy(), policy.recv().expect("an answer"))
        });
        assert_eq!(last.join().expect("no panic"), ("5".to_owned(), "0".to_owned()));
    }

    fn own_policy() -> String {
        const POLICY: usize = 41;
        let text = std::fs::read_to_string("/proc/thread-self/stat").expect("the kernel tells");
        let (_, behind_name) = text.rsplit_once(')').expect("a name");
        behind_name
            .split_whitespace()
            .nth(POLICY - 3)
            .expect("a policy")
            .to_owned()
    }
}
