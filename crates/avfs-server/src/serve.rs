//! A server from its first connection to its last.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rustix::net::sockopt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{Peer, Tokens};
use crate::connection;
use crate::entrance;
use crate::listening::Listening;
use crate::options::{LogLines, ServerOptions};
use crate::server::Server;
use crate::service::THREADS;
use crate::tls::Tls;

/// How many connections are served at the same time. Others wait to be accepted.
const REMOTE: usize = 2048;
/// How many of them at the Unix socket: whoever runs the server reaches it also when it is full.
const LOCAL: usize = 2048;
/// How long nothing may come of a client before it is asked whether it is still there, and how long it may say nothing then.
const SILENCE: Duration = Duration::from_secs(60);
const PROBES: u32 = 4;
const BETWEEN_PROBES: Duration = Duration::from_secs(15);
/// How long connections may take to end when everything else has ended.
const LEAVING: Duration = Duration::from_secs(2);

/// Serves clients until `stop` is cancelled. Everything that was acknowledged is stored then, and no process is left.
pub fn serve(
    listening: Listening,
    options: ServerOptions,
    tokens: Tokens,
    stop: &CancellationToken,
) -> io::Result<()> {
    allow_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(THREADS)
        .thread_name("server")
        .enable_all()
        .build()?;
    let served = runtime.block_on(run(listening, options, tokens, stop));
    // A thread may wait for something that never comes: nothing of a client depends on it.
    runtime.shutdown_timeout(LEAVING);
    served
}

async fn run(
    listening: Listening,
    options: ServerOptions,
    tokens: Tokens,
    stop: &CancellationToken,
) -> io::Result<()> {
    let server = Arc::new(Server::new(options, tokens));
    let router = entrance::router(&server);
    let connections = Connections {
        tracker: TaskTracker::new(),
        local: Arc::new(Semaphore::new(LOCAL)),
        remote: Arc::new(Semaphore::new(REMOTE)),
        router,
        tls: server.options.tls.clone(),
        log: server.options.log.clone(),
        ending: server.ending.clone(),
    };
    let accepting = CancellationToken::new();
    let background = TaskTracker::new();
    let local = UnixListener::from_std(listening.socket.try_clone()?)?;
    let remote = match &listening.tcp {
        Some(tcp) => Some(TcpListener::from_std(tcp.try_clone()?)?),
        None => None,
    };
    let open = |listener: &std::net::TcpListener| TcpListener::from_std(listener.try_clone()?);
    let ports = listening.ports.as_ref();
    let grpc = ports.map(|ports| open(&ports.grpc)).transpose()?;
    let rest = ports.map(|ports| open(&ports.rest)).transpose()?;
    if let Some(ports) = ports {
        server.agentfense.tenant.get_or_init(|| ports.tenant.clone());
    }
    let open_router = entrance::open_router(&server);
    let accepting_all = async {
        tokio::select! {
            () = connections.accept_local(&local) => {}
            () = connections.accept_tcp(remote.as_ref(), Peer::Remote, &connections.router) => {}
            () = connections.accept_tcp(grpc.as_ref(), Peer::Open, &open_router) => {}
            () = connections.accept_tcp(rest.as_ref(), Peer::Open, &open_router) => {}
            () = accepting.cancelled() => {}
        }
    };
    let ready = async {
        open_all(&server).await;
        server.set_ready(true);
        background.spawn(Arc::clone(&server.tenants).look_after(server.ending.clone()));
        stop.cancelled().await;
        server.set_ready(false);
        accepting.cancel();
    };
    tokio::join!(accepting_all, ready);
    // Commands first: whoever waits for one is still answered.
    server.tenants.end(server.options.grace).await;
    server.ending.cancel();
    background.close();
    background.wait().await;
    connections.tracker.close();
    let _ = tokio::time::timeout(LEAVING, connections.tracker.wait()).await;
    drop(listening);
    Ok(())
}

/// Opens all tenants, so that what expired while no server ran is deleted. One that is damaged stops no other.
async fn open_all(server: &Server) {
    for name in server.tenants.names().unwrap_or_default() {
        if let Err(error) = server.tenants.get(&name).await {
            let line = serde_json::json!({ "tenant": name, "action": "opening", "error": error.message });
            (server.options.log)(&line.to_string());
        }
    }
}

struct Connections {
    tracker: TaskTracker,
    local: Arc<Semaphore>,
    remote: Arc<Semaphore>,
    router: Router,
    tls: Option<Arc<Tls>>,
    log: LogLines,
    ending: CancellationToken,
}

impl Connections {
    async fn accept_local(&self, listener: &UnixListener) {
        loop {
            let Ok(room) = Arc::clone(&self.local).acquire_owned().await else {
                return;
            };
            let Ok((stream, _)) = listener.accept().await else {
                pause().await;
                continue;
            };
            let Ok(user) = stream.peer_cred() else { continue };
            let peer = Peer::Local { uid: user.uid() };
            let serving = connection::serve(stream, peer, self.router.clone(), self.ending.clone());
            self.tracker.spawn(async move {
                serving.await;
                drop(room);
            });
        }
    }

    /// Clients at an address. At one where no credential is needed, they are answered nothing but what AgentFense's clients
    /// ask.
    async fn accept_tcp(&self, listener: Option<&TcpListener>, peer: Peer, router: &Router) {
        let Some(listener) = listener else {
            return std::future::pending().await;
        };
        loop {
            let Ok(room) = Arc::clone(&self.remote).acquire_owned().await else {
                return;
            };
            let Ok((stream, _)) = listener.accept().await else {
                pause().await;
                continue;
            };
            prepare(&stream);
            let (router, ending) = (router.clone(), self.ending.clone());
            let (tls, log) = (self.tls.clone(), self.log.clone());
            self.tracker.spawn(async move {
                match tls {
                    None => connection::serve(stream, peer, router, ending).await,
                    // A client that cannot agree with us on how to encrypt has been told so.
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream, &log).await {
                            connection::serve(stream, peer, router, ending).await;
                        }
                    }
                }
                drop(room);
            });
        }
    }
}

/// Sets what does not depend on the client. A connection that refuses it is served all the same.
fn prepare(stream: &TcpStream) {
    // Small answers are not held back to be sent with others. It is only faster.
    let _ = stream.set_nodelay(true);
    // A client whose machine is gone says nothing: its connection ends all the same.
    let _ = sockopt::set_tcp_keepidle(stream, SILENCE);
    let _ = sockopt::set_tcp_keepintvl(stream, BETWEEN_PROBES);
    let _ = sockopt::set_tcp_keepcnt(stream, PROBES);
    let _ = sockopt::set_socket_keepalive(stream, true);
}

/// Lets this process have as many open files as it may: many machines give a process few at first, and each sandbox that is
/// open and each connection needs some.
fn allow_files() {
    let now = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    // It may have enough without.
    let _ = setrlimit(Resource::Nofile, most);
}

/// After a connection that could not be accepted: where the machine is out of files, the next one could not, either.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
