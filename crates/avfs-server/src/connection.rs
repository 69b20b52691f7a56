//! One connection, with bounds on what a client can make it hold.

mod authority;
mod pace;
mod stall;

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use crate::auth::Peer;
use authority::PlainAuthority;
use pace::{Pace, PacedBody};
pub(crate) use pace::{Unhurried, is_too_slow};
use stall::Stalling;

/// How long the headers of a request may take. A client that sends them letter by letter is cut off.
const HEADERS_TIME: Duration = Duration::from_secs(15);
/// How slow the body of a request may come.
const PACE: Pace = Pace {
    grace: Duration::from_secs(30),
    bytes_per_second: 1024,
};
/// How long a client may take in nothing of an answer.
const STALL: Duration = Duration::from_secs(60);
/// How many headers a request may have.
const HEADERS_MAX: usize = 64;
/// How many bytes of a request are in memory before they are read: its headers have to fit.
const BUFFER: usize = 64 << 10;
/// With these bytes a client says that it speaks HTTP/2, as those of gRPC do.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How many requests of one connection of HTTP/2 are answered at the same time.
const STREAMS: u32 = 100;
/// A client of HTTP/2 from which nothing came for so long is asked whether it is still there, and has as long to say so.
const STILL_THERE: Duration = Duration::from_secs(30);

/// Answers the requests of one connection. When the server ends, those that are being answered are the last.
pub(crate) async fn serve<S>(mut stream: S, peer: Peer, router: Router, ending: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut begin = [0; PREFACE.len()];
    // A client that says nothing holds a connection, of which there are not many.
    let Ok(Ok(count)) = tokio::time::timeout(HEADERS_TIME, read_begin(&mut stream, &mut begin)).await else {
        return;
    };
    let is_http2 = begin[..count] == PREFACE[..];
    let (reader, writer) = tokio::io::split(stream);
    // What was read to know this is read once more.
    let begun = io::Cursor::new(begin[..count].to_vec());
    let answering = service_fn(move |request: Request<Incoming>| {
        let mut router = router.clone();
        let unhurried = Unhurried::default();
        let mut request = request.map(|body| Body::new(PacedBody::new(body, PACE, unhurried.clone())));
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(unhurried);
        async move {
            // A router is always ready.
            Ok::<_, Infallible>(router.call(request).await.unwrap_or_else(|never| match never {}))
        }
    });
    // How a connection ended is of no interest to anybody else.
    if is_http2 {
        let reader: Box<dyn AsyncRead + Send + Unpin> = match peer {
            Peer::Local { .. } => Box::new(PlainAuthority::new(reader)),
            Peer::Remote | Peer::Open => Box::new(reader),
        };
        let stream = tokio::io::join(AsyncReadExt::chain(begun, reader), writer);
        let stream = TokioIo::new(Stalling::new(stream, STALL));
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(u32::try_from(BUFFER).unwrap_or(u32::MAX))
            .keep_alive_interval(STILL_THERE)
            .keep_alive_timeout(STILL_THERE)
            .serve_connection(stream, answering);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => {}
            () = ending.cancelled() => {
                connection.as_mut().graceful_shutdown();
                // Answers that have begun are finished; no new requests are read.
                let _ = connection.await;
            }
        }
        return;
    }
    let stream = tokio::io::join(AsyncReadExt::chain(begun, reader), writer);
    let stream = TokioIo::new(Stalling::new(stream, STALL));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIME)
        .max_headers(HEADERS_MAX)
        .max_buf_size(BUFFER)
        .half_close(false)
        .serve_connection(stream, answering)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        () = ending.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Reads until it is known whether the client speaks HTTP/2. Returns how many bytes that took.
async fn read_begin<S: AsyncRead + Unpin>(stream: &mut S, begin: &mut [u8; 24]) -> io::Result<usize> {
    let mut count = 0;
    while count < begin.len() && begin[..count] == PREFACE[..count] {
        match stream.read(&mut begin[count..]).await? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_of_http_2_is_known_by_its_first_bytes() {
        for (sent, is_http2) in [
            (&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nmore"[..], true),
            (b"POST / HTTP/1.1\r\n", false),
            (b"PRI * HTTP/2.0\r\n\r\n", false),
            (b"", false),
        ] {
            let (mut stream, mut begin) = (sent, [0; 24]);
            let count = read_begin(&mut stream, &mut begin).await.unwrap();
            assert_eq!(begin[..count] == PREFACE[..], is_http2);
            // Nothing is lost.
            assert_eq!([&begin[..count], stream].concat(), sent);
        }
    }
}
