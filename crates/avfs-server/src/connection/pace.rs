//! Bodies of requests that come at a pace that a client means: a client that sends one byte now and then takes up a place,
//! a buffer and perhaps a file for as long as it likes otherwise.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// How slow a body may come. Only the time counts in which the server waits for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// What every body may take.
    pub grace: Duration,
    /// Bytes for which it may take a second more.
    pub bytes_per_second: u64,
}

/// In the extensions of a request, for handlers of streams whose clients have nothing to say for a long time.
#[derive(Clone, Default)]
pub(crate) struct Unhurried(Arc<AtomicBool>);

impl Unhurried {
    /// From here on, the body may take any time.
    pub(crate) fn take_time(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The client did not send its body in time.
#[derive(Debug, thiserror::Error)]
#[error("the body comes too slowly")]
struct TooSlow;

/// Whether a body could not be read because the client was too slow.
pub(crate) fn is_too_slow(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|error| {
        let of_io = error.downcast_ref::<io::Error>();
        of_io.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    })
}

/// A body that has to come at a pace.
pub(super) struct PacedBody<B> {
    body: B,
    pace: Pace,
    unhurried: Unhurried,
    bytes: u64,
    waited: Duration,
    /// Since when the server waits for the client, and until when it will.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<B> PacedBody<B> {
    pub fn new(body: B, pace: Pace, unhurried: Unhurried) -> PacedBody<B> {
        PacedBody {
            body,
            pace,
            unhurried,
            bytes: 0,
            waited: Duration::ZERO,
            waiting: None,
        }
    }

    /// How long the server still waits.
    fn patience(&self) -> Duration {
        let earned = Duration::from_secs(self.bytes / self.pace.bytes_per_second);
        (self.pace.grace + earned).saturating_sub(self.waited)
    }

    /// Whether the client has used up its time.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        if self.unhurried.0.load(Ordering::Relaxed) {
            return false;
        }
        if self.waiting.is_none() {
            let sleep = tokio::time::sleep(self.patience());
            self.waiting = Some((Instant::now(), Box::pin(sleep)));
        }
        let waiting = self.waiting.as_mut();
        waiting.is_some_and(|(_, sleep)| sleep.as_mut().poll(cx).is_ready())
    }
}

impl<B> HttpBody for PacedBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
            if this.is_over(cx) {
                let error = io::Error::new(io::ErrorKind::TimedOut, TooSlow);
                return Poll::Ready(Some(Err(error.into())));
            }
            return Poll::Pending;
        };
        if let Some((since, _)) = this.waiting.take() {
            this.waited += since.elapsed();
        }
        if let Some(Ok(frame)) = &frame {
            this.bytes += frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures_util::stream::unfold;
    use http_body_util::BodyExt;

    use super::*;

    const HURRIED: Pace = Pace {
        grace: Duration::from_millis(50),
        bytes_per_second: 10,
    };

    /// A body of which a piece comes every five milliseconds.
    fn dripping(piece: &'static [u8], pieces: usize) -> Body {
        Body::from_stream(unfold(pieces, move |left| async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let next = left.checked_sub(1)?;
            Some((Ok::<_, io::Error>(Bytes::from_static(piece)), next))
        }))
    }

    async fn read(body: Body, unhurried: Unhurried) -> Result<usize, axum::Error> {
        let body = Body::new(PacedBody::new(body, HURRIED, unhurried));
        body.collect().await.map(|whole| whole.to_bytes().len())
    }

    #[tokio::test]
    async fn a_body_that_drips_is_given_up() {
        let error = read(dripping(b"", 1000), Unhurried::default()).await.unwrap_err();
        assert!(is_too_slow(&error), "{error}");
        let never = Body::from_stream(futures_util::stream::pending::<io::Result<Bytes>>());
        assert!(is_too_slow(&read(never, Unhurried::default()).await.unwrap_err()));
    }

    #[tokio::test]
    async fn a_body_that_goes_on_may_take_long() {
        // Each piece earns more time than it takes, also on a machine that has much to do.
        let body = dripping(&[7; 1000], 30);
        assert_eq!(read(body, Unhurried::default()).await.unwrap(), 30_000);
        let unhurried = Unhurried::default();
        unhurried.take_time();
        assert_eq!(read(dripping(b"", 20), unhurried).await.unwrap(), 0);
    }
}
