//! The owner's side of the socket: one thread that lets others in, and one for each of them.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::channel::Channel;
use super::place;
use super::protocol::{NO_ROOM, Reply, Request, VERSION};
use crate::record::VaultId;

/// How many are served at once; who comes then is told to come again.
const CONNECTIONS_MAX: usize = 64;

/// How long a connection may be silent. Whoever works on something for longer connects anew.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Answers requests: the descriptor is the one that came along.
pub(crate) type Answer = dyn Fn(Request, Option<OwnedFd>) -> Reply + Send + Sync;

/// Serves a socket until it is dropped.
pub(crate) struct Server {
    directory: PathBuf,
    wake: Arc<OwnedFd>,
    guests: Arc<Guests>,
    doorman: Option<JoinHandle<()>>,
}

/// The connections that are open.
#[derive(Default)]
struct Guests {
    streams: Mutex<HashMap<u64, UnixStream>>,
    left: Condvar,
}

impl Server {
    /// Serves the vault in `directory`. The caller owns it.
    pub fn start(directory: &Path, vault: VaultId, answer: Arc<Answer>) -> io::Result<Server> {
        let listener = place::listen_in(directory)?;
        listener.set_nonblocking(true)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let guests = Arc::new(Guests::default());
        let house = House { vault, answer, guests: Arc::clone(&guests) };
        let woken = Arc::clone(&wake);
        let doorman = std::thread::Builder::new()
            .name("avfs-control".into())
            .spawn(move || house.let_in(&listener, &woken))?;
        Ok(Server { directory: directory.to_owned(), wake, guests, doorman: Some(doorman) })
    }
}

impl Drop for Server {
    /// Lets nobody in any more, and waits for the answers that are being worked on.
    fn drop(&mut self) {
        let _ = place::remove_from(&self.directory);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        if let Some(doorman) = self.doorman.take() {
            let _ = doorman.join();
        }
        self.guests.see_off();
    }
}

impl Guests {
    fn streams(&self) -> MutexGuard<'_, HashMap<u64, UnixStream>> {
        self.streams.lock().expect("no panic happens while the lock is held")
    }

    /// Takes a stream in, unless there are too many.
    fn enter(&self, number: u64, stream: &UnixStream) -> io::Result<bool> {
        let mut streams = self.streams();
        if streams.len() >= CONNECTIONS_MAX {
            return Ok(false);
        }
        streams.insert(number, stream.try_clone()?);
        Ok(true)
    }

    fn leave(&self, number: u64) {
        self.streams().remove(&number);
        self.left.notify_all();
    }

    /// Ends the connections that are silent, and waits for the others.
    fn see_off(&self) {
        let mut streams = self.streams();
        for stream in streams.values() {
            // What was asked is still answered.
            let _ = stream.shutdown(Shutdown::Read);
        }
        while !streams.is_empty() {
            streams = self.left.wait(streams).expect("no panic happens while the lock is held");
        }
    }
}

struct House {
    vault: VaultId,
    answer: Arc<Answer>,
    guests: Arc<Guests>,
}

/// Leaves when its thread ends, however it ends.
struct Visit {
    guests: Arc<Guests>,
    number: u64,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.guests.leave(self.number);
    }
}

impl House {
    fn let_in(&self, listener: &UnixListener, wake: &OwnedFd) {
        let mut number = 0;
        loop {
            let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) if ready[1].revents().is_empty() => {}
                Err(rustix::io::Errno::INTR) => continue,
                Ok(_) | Err(_) => return,
            }
            match listener.accept() {
                Ok((stream, _)) => {
                    number += 1;
                    // Who could not be taken in sees the connection end, and nobody else is harmed.
                    let _ = self.receive(number, stream);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Out of descriptors, for example: whoever waits, waits a little longer.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn receive(&self, number: u64, stream: UnixStream) -> io::Result<()> {
        if !place::may_ask(&stream) {
            return Ok(());
        }
        stream.set_nonblocking(false)?;
        if !self.guests.enter(number, &stream)? {
            return turn_away(stream);
        }
        let visit = Visit { guests: Arc::clone(&self.guests), number };
        let (vault, answer) = (self.vault, Arc::clone(&self.answer));
        std::thread::Builder::new().name("avfs-guest".into()).spawn(move || {
            let _visit = visit;
            // A guest that hangs up or talks nonsense is no trouble of the owner's.
            let _ = serve(Channel::new(stream), vault, &*answer);
        })?;
        Ok(())
    }
}

fn turn_away(stream: UnixStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let message = "too many processes talk to the owner of the vault".to_owned();
    let reply = Reply::Failed { code: NO_ROOM.into(), message, hint: None };
    Channel::new(stream).send(&reply, None)
}

/// Answers one guest until it leaves.
fn serve(mut channel: Channel, vault: VaultId, answer: &Answer) -> io::Result<()> {
    match channel.receive(SILENCE_MAX) {
        Ok(Some(Request::Hello { version })) => {
            let hello = Reply::Hello { version: VERSION, pid: std::process::id(), vault };
            channel.send(&hello, None)?;
            if version != VERSION {
                return Ok(());
            }
        }
        Ok(Some(_)) => return channel.send(&nonsense("a greeting must come first"), None),
        Ok(None) => return Ok(()),
        Err(error) => return complain(channel, &error),
    }
    loop {
        match channel.receive(SILENCE_MAX) {
            Ok(Some(request)) => {
                let descriptor = channel.take_descriptor();
                channel.send(&answer(request, descriptor), None)?;
            }
            Ok(None) => return Ok(()),
            Err(error) => return complain(channel, &error),
        }
    }
}

fn complain(mut channel: Channel, error: &io::Error) -> io::Result<()> {
    channel.send(&nonsense(&error.to_string()), None)
}

fn nonsense(reason: &str) -> Reply {
    let message = format!("this is no request: {reason}");
    Reply::Failed { code: "bad-request".into(), message, hint: None }
}
