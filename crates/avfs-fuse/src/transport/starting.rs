//! Starting ordinary threads while a request is served.
//!
//! A new thread has the CPU and the policy of the one that starts it. A thread that serves may be bound to one CPU, and may
//! come last, which some processes cannot take back: there another thread has to start it.

use std::cell::Cell;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::scheduling::{Policy, run_anywhere, set_policy};

type Work = Box<dyn FnOnce() + Send>;

/// What is asked of the thread that starts others.
struct Wanted {
    name: &'static str,
    work: Work,
    started: Sender<io::Result<()>>,
}

/// The way to the thread that starts others, if a thread of this process comes last for good.
static STARTER: OnceLock<Mutex<Sender<Wanted>>> = OnceLock::new();

thread_local! {
    static IS_LAST_FOR_GOOD: Cell<bool> = const { Cell::new(false) };
}

/// Starts a thread like any other, whichever thread asks for it.
pub fn start_ordinary(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let work: Work = Box::new(work);
    if !IS_LAST_FOR_GOOD.get() {
        return start(name, work);
    }
    let starter = STARTER.get().ok_or_else(|| io::Error::other("no thread starts others"))?;
    let (started, outcome) = channel();
    let wanted = Wanted { name, work, started };
    let asked = starter.lock().unwrap_or_else(PoisonError::into_inner).send(wanted);
    asked.map_err(|_| io::Error::other("the thread that starts others has ended"))?;
    outcome.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that starts others has ended")))
}

/// To be called by an ordinary thread before another one comes last for good. The thread that starts others lives as long
/// as the process.
pub fn prepare_starter() -> io::Result<()> {
    if STARTER.get().is_some() {
        return Ok(());
    }
    let (sender, wanted) = channel::<Wanted>();
    std::thread::Builder::new().name("fuse-starter".into()).spawn(move || {
        for Wanted { name, work, started } in wanted {
            // Whoever asked waits for it.
            let _ = started.send(start(name, work));
        }
    })?;
    // If another mount was faster, this one's thread ends.
    let _ = STARTER.set(Mutex::new(sender));
    Ok(())
}

/// Makes the calling thread come last until it ends.
pub fn come_last_for_good() -> rustix::io::Result<()> {
    IS_LAST_FOR_GOOD.set(true);
    set_policy(None, Policy::Last)
}

fn start(name: &'static str, work: Work) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.into());
    let run = move || {
        // Where that is refused it works as well.
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
            start_ordinary("test", move || sender.send(own_policy()).expect("a test that waits"))
                .expect("a thread");
            (own_policy(), policy.recv().expect("an answer"))
        });
        assert_eq!(last.join().expect("no panic"), ("5".to_owned(), "0".to_owned()));
    }

    fn own_policy() -> String {
        const POLICY: usize = 41;
        let text = std::fs::read_to_string("/proc/thread-self/stat").expect("the kernel tells");
        let (_, behind_name) = text.rsplit_once(')').expect("a name");
        behind_name.split_whitespace().nth(POLICY - 3).expect("a policy").to_owned()
    }
}
