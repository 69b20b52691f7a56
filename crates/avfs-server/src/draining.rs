//! Bodies of refused requests. A client that is still writing does not read the answer, and sees a broken connection
//! instead, so the rest of a short body is taken in.

use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;

/// How much is taken in, and for how long.
const BYTES: usize = 1 << 20;
const TIME: Duration = Duration::from_secs(2);

/// Takes the rest of a body in, as far as it is short.
pub(crate) async fn drain(mut body: Body) {
    let mut left = BYTES;
    let draining = async {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, bytes::Bytes::len);
            let Some(rest) = left.checked_sub(length) else {
                return;
            };
            left = rest;
        }
    };
    let _ = tokio::time::timeout(TIME, draining).await;
}
