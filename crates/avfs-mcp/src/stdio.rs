//! One client, over standard input and output.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use agentvfs::exec::AfterRun;
use rmcp::ServiceExt;
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

use crate::options::ServerOptions;
use crate::server::{Connection, Shared};

/// Serves one client until its requests end or `stop` is cancelled. Every command has ended then, and so has every sandbox;
/// what is returned is what this process has to go on with for others.
///
/// Nothing else may write to standard output.
pub fn serve_stdio(options: ServerOptions, stop: &CancellationToken) -> io::Result<Vec<AfterRun>> {
    let shared = Shared::new(options)?;
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let input = Requests {
            input: tokio::io::stdin(),
            over: shared.ending.clone(),
        };
        let serving = Connection::new(&shared).serve((input, tokio::io::stdout()));
        let stopped = stop.cancelled();
        tokio::pin!(stopped);
        let service = tokio::select! {
            service = serving => service,
            () = &mut stopped => return Ok(()),
        };
        // A client that goes away before its first request has nothing to be told.
        let Ok(service) = service else { return Ok(()) };
        let token = service.cancellation_token();
        let waiting = service.waiting();
        tokio::pin!(waiting);
        tokio::select! {
            ended = &mut waiting => ended.map(drop).map_err(io::Error::other),
            () = &mut stopped => {
                shared.ending.cancel();
                token.cancel();
                (&mut waiting).await.map(drop).map_err(io::Error::other)
            }
        }
    });
    runtime.block_on(shared.end());
    // A thread may hang in a read of standard input: nothing waits for it.
    runtime.shutdown_background();
    let after = shared.workspaces.end();
    served.map(|()| after)
}

pub(crate) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("mcp")
        .enable_all()
        .build()
}

/// Standard input, whose end ends everything that a client has started: nobody waits for it any longer.
struct Requests<I> {
    input: I,
    over: CancellationToken,
}

impl<I: AsyncRead + Unpin> AsyncRead for Requests<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.input).poll_read(context, buffer);
        let is_end = matches!(read, Poll::Ready(Ok(()))) && buffer.filled().len() == before;
        if is_end || matches!(read, Poll::Ready(Err(_))) {
            self.over.cancel();
        }
        read
    }
}
