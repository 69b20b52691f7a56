//! Files as one tar archive, both ways as a stream.

use std::ops::ControlFlow;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use http::{HeaderMap, HeaderValue, Method, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{About, Api};
use super::files::take_in;
use super::input::Words;
use super::subject::Subject;
use crate::auth::Scope;
use crate::problem::Problem;
use crate::service::{Spool, stream_on_a_thread};

const TAR: &str = "application/x-tar";
/// How many pieces of an archive wait for a client that reads slowly.
const AHEAD: usize = 4;

pub(super) fn routes(api: &mut Api, base: &str) {
    let place = format!("{base}/archive");
    let about = About::new(
        "downloadArchive",
        "Read a directory with everything in it as a tar archive",
        Scope::Read,
    );
    let about = about.query::<ArchiveWords>().gives_other(TAR);
    api.route(Method::GET, &place, about, download);
    let about = About::new(
        "uploadArchive",
        "Put the contents of a tar archive into a directory, all of it or nothing",
        Scope::Run,
    );
    let about = about
        .query::<ArchiveWords>()
        .takes_bytes()
        .gives::<UnpackedBody>(200);
    api.route(Method::PUT, &place, about, upload);
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ArchiveWords {
    /// The directory; the root, if not said.
    #[serde(default = "root")]
    path: String,
}

fn root() -> String {
    "/".to_owned()
}

/// What an archive brought.
#[derive(Serialize, JsonSchema)]
struct UnpackedBody {
    files: u64,
    bytes: u64,
}

async fn download(of: Subject, Words(asked): Words<ArchiveWords>) -> Result<Response, Problem> {
    let files = of
        .with_files(move |files| {
            // What cannot be read is told as a problem, and not by a stream that breaks off.
            files.check_packable(&asked.path)?;
            Ok((files, asked.path))
        })
        .await?;
    let (send, receive) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(AHEAD);
    stream_on_a_thread(move || {
        let (files, path) = files;
        let packed = files.pack(&path, |piece| match send.blocking_send(Ok(piece.into())) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        });
        if let Err(error) = packed {
            // The connection breaks off: the client sees that something is missing.
            let _ = send.blocking_send(Err(std::io::Error::other(error.message)));
        }
    });
    let body = Body::from_stream(unfold(receive, |mut receive| async move {
        receive.recv().await.map(|piece| (piece, receive))
    }));
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(TAR));
    Ok((headers, body).into_response())
}

async fn upload(
    of: Subject,
    Words(asked): Words<ArchiveWords>,
    body: Body,
) -> Result<Json<UnpackedBody>, Problem> {
    let upload = take_in(Spool::begin(&of.caller.tenant)?, body).await?;
    let unpacked = of
        .with_files(move |files| files.unpack(&asked.path, &upload))
        .await?;
    Ok(Json(UnpackedBody {
        files: unpacked.files,
        bytes: unpacked.bytes,
    }))
}
