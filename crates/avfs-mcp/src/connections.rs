//! The connections of a listener on this machine.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Answers every request of every connection, until `stop` is cancelled or the listener fails. Connections that are open
/// then go on until `ending` is cancelled.
pub(crate) async fn serve<A, F, B>(
    listener: &TcpListener,
    stop: &CancellationToken,
    ending: &CancellationToken,
    answer: A,
) -> io::Result<()>
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    loop {
        let (stream, _) = tokio::select! {
            // One connection that fails is not the end of the others.
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) if is_of_one_connection(&error) => continue,
                Err(error) => return Err(error),
            },
            () = stop.cancelled() => return Ok(()),
        };
        let (answer, ending) = (answer.clone(), ending.clone());
        tokio::spawn(async move {
            let answering = service_fn(move |request| {
                let answered = answer(request);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), answering);
            tokio::select! {
                // How a connection ended is of no interest to anybody else.
                _ = connection => {}
                () = ending.cancelled() => {}
            }
        });
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}
