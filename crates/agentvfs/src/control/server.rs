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
use super::protocol::{NO_ROOM, OwnerReply, OwnerRequest, VERSION};
use crate::record::VaultId;

/// How many connections are served concurrently; further ones are told to try again.
const CONNECTIONS_MAX: usize = 64;

/// How long a connection may be silent. A client that works for longer reconnects.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Answers requests: the descriptor is the one that came along.
pub(crate) type Answer = dyn Fn(OwnerRequest, Option<OwnedFd>) -> OwnerReply + Send + Sync;

/// Serves a socket until it is dropped.
pub(crate) struct SocketServer {
    directory: PathBuf,
    wake: Arc<OwnedFd>,
    connections: Arc<OpenConnections>,
    doorman: Option<JoinHandle<()>>,
}

/// The connections that are open.
#[derive(Default)]
struct OpenConnections {
    streams: Mutex<HashMap<u64, UnixStream>>,
    left: Condvar,
}

impl SocketServer {
    /// Serves the vault in `directory`. The caller owns it.
    pub(crate) fn start(directory: &Path, vault: VaultId, answer: Arc<Answer>) -> io::Result<SocketServer> {
        let listener = place::listen_in(directory)?;
        listener.set_nonblocking(true)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let connections = Arc::new(OpenConnections::default());
        let house = ConnectionContext {
            vault,
            answer,
            connections: Arc::clone(&connections),
        };
        let woken = Arc::clone(&wake);
        let doorman = std::thread::Builder::new()
            .name("avfs-control".into())
            .spawn(move || house.let_in(&listener, &woken))?;
        Ok(SocketServer {
            directory: directory.to_owned(),
            wake,
            connections,
            doorman: Some(doorman),
        })
    }
}

impl Drop for SocketServer {
    /// Accepts no more connections, and waits for the answers that are in progress.
    fn drop(&mut self) {
        // First, so that new clients find no owner rather than one that does not answer.
        let _ = place::remove_from(&self.directory);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        if let Some(doorman) = self.doorman.take() {
            let _ = doorman.join();
        }
        self.connections.see_off();
    }
}

impl OpenConnections {
    fn streams(&self) -> MutexGuard<'_, HashMap<u64, UnixStream>> {
        self.streams
            .lock()
            .expect("no panic happens while the lock is held")
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
            // Earlier requests are still answered.
            let _ = stream.shutdown(Shutdown::Read);
        }
        while !streams.is_empty() {
            streams = self
                .left
                .wait(streams)
                .expect("no panic happens while the lock is held");
        }
    }
}

struct ConnectionContext {
    vault: VaultId,
    answer: Arc<Answer>,
    connections: Arc<OpenConnections>,
}

/// Leaves when its thread ends, however it ends.
struct OpenConnection {
    connections: Arc<OpenConnections>,
    number: u64,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.leave(self.number);
    }
}

impl ConnectionContext {
    fn let_in(&self, listener: &UnixListener, wake: &OwnedFd) {
        let mut number = 0;
        loop {
            let mut ready = [
                PollFd::new(listener, PollFlags::IN),
                PollFd::new(wake, PollFlags::IN),
            ];
            match poll(&mut ready, None) {
                Ok(_) if ready[1].revents().is_empty() => {}
                Err(rustix::io::Errno::INTR) => continue,
                Ok(_) | Err(_) => return,
            }
            match listener.accept() {
                Ok((stream, _)) => {
                    number += 1;
                    // A client that could not be accepted sees the connection end, and others are unaffected.
                    let _ = self.receive(number, stream);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Out of descriptors, for example: waiting clients wait a little longer.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn receive(&self, number: u64, stream: UnixStream) -> io::Result<()> {
        if !place::may_ask(&stream) {
            return Ok(());
        }
        stream.set_nonblocking(false)?;
        // Told, and not only dropped: a client then tries again instead of reporting a missing owner.
        if !self.connections.enter(number, &stream)? {
            return turn_away(stream);
        }
        let visit = OpenConnection {
            connections: Arc::clone(&self.connections),
            number,
        };
        let (vault, answer) = (self.vault, Arc::clone(&self.answer));
        std::thread::Builder::new()
            .name("avfs-guest".into())
            .spawn(move || {
                let _visit = visit;
                // A client that hangs up or sends nonsense does not affect the owner.
                let _ = serve(Channel::new(stream), vault, &*answer);
            })?;
        Ok(())
    }
}

fn turn_away(stream: UnixStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let message = "too many processes talk to the owner of the vault".to_owned();
    let reply = OwnerReply::Failed {
        code: NO_ROOM.to_string(),
        message,
        hint: None,
    };
    Channel::new(stream).send(&reply, None)
}

/// Answers one guest until it leaves.
fn serve(mut channel: Channel, vault: VaultId, answer: &Answer) -> io::Result<()> {
    match channel.receive(SILENCE_MAX) {
        Ok(Some(OwnerRequest::Hello { version })) => {
            let hello = OwnerReply::Hello {
                version: VERSION,
                pid: std::process::id(),
                vault,
            };
            channel.send(&hello, None)?;
            // The client has our version and process id from the greeting and can say what to do.
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

fn nonsense(reason: &str) -> OwnerReply {
    let message = format!("this is no request: {reason}");
    OwnerReply::Failed {
        code: "bad-request".into(),
        message,
        hint: None,
    }
}
