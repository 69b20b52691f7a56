//! The contents of files: `/files`; and `/health`.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::Query;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use flate2::write::GzDecoder;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::access::{FileWords, Inside, user_is_known};
use super::connect::CallError;
use super::failure::Failure;
use super::multipart::{Form, Piece};
use super::{entry, place};
use crate::draining::drain;
use crate::problem::Problem;
use crate::server::Server;
use crate::service::{FileAttributes, Files, ServiceError, Spool, WriteOptions, on_a_thread};

/// How long an upload may stand still.
const SILENCE: Duration = Duration::from_secs(60);
/// The most files of one form.
const FILES_MAX: usize = 10_000;
/// With what the names of headers begin that clients want to be kept with a file.
const METADATA: &str = "x-metadata-";

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/files", get(read).post(write))
        .route("/health", get(health))
}

/// Whoever comes so far has a sandbox that runs.
async fn health(_: Inside) -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn read(inside: Inside, Query(words): Query<FileWords>) -> Result<Response, Failure> {
    user_is_known(words.username.as_deref().unwrap_or_default())?;
    let path = place::inner(words.path.as_deref().unwrap_or_default())?;
    let opened = on_a_thread(move || Files::for_programs(inside.sandbox.vault())?.open(&path));
    let file = opened.await?;
    let length = HeaderValue::from(file.info.size);
    let mut response = Body::from_stream(file.stream(0, u64::MAX)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, length);
    // Whatever is in the file, a browser runs nothing of it.
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox"),
    );
    Ok(response)
}

async fn write(
    inside: Inside,
    Query(words): Query<FileWords>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Vec<Value>>, Failure> {
    let mut body = body;
    let uploads = match take(&inside, words, &headers, &mut body).await {
        Ok(uploads) => uploads,
        Err(failure) => {
            drain(body).await;
            return Err(failure);
        }
    };
    let options = WriteOptions {
        attributes: Some(metadata(&headers)?),
        ..WriteOptions::default()
    };
    let written = inside.with_files(move |files| {
        let written = uploads.iter().map(|(path, upload)| {
            let info = files.write(&place::inner(path)?, upload, &options)?;
            let path = place::outer(&info.path);
            let mut told = json!({ "name": path.rsplit('/').next(), "path": path, "type": "file" });
            if let Some(metadata) = entry::metadata(&info) {
                told["metadata"] = metadata;
            }
            Ok::<Value, CallError>(told)
        });
        written.collect::<Result<Vec<Value>, CallError>>()
    });
    Ok(Json(written.await?))
}

/// Takes in all files of a request, with their paths.
async fn take(
    inside: &Inside,
    words: FileWords,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<Vec<(String, Spool)>, Failure> {
    user_is_known(words.username.as_deref().unwrap_or_default())?;
    metadata(headers)?;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    if kind.starts_with("multipart/form-data") {
        return take_form(inside, words.path, kind, body).await;
    }
    let path = words
        .path
        .ok_or_else(|| Failure::bad_request("the query names no `path`"))?;
    // Refused before its bytes are taken in.
    place::inner(&path)?;
    let is_packed = text(header::CONTENT_ENCODING) == Some("gzip");
    Ok(vec![(path, take_file(inside, body, is_packed).await?)])
}

/// What a client wants to be kept with its files.
fn metadata(headers: &HeaderMap) -> Result<FileAttributes, Failure> {
    let given = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(METADATA)?;
        Some((name, value))
    });
    let read = given.map(|(name, value)| {
        let value = value.to_str().ok().filter(|_| !name.is_empty());
        let value =
            value.ok_or_else(|| Failure::bad_request("metadata has a name, and is printable ASCII"))?;
        Ok((name.to_owned(), value.to_owned()))
    });
    Ok(FileAttributes {
        prefix: entry::METADATA,
        values: read.collect::<Result<_, Failure>>()?,
    })
}

/// Takes in the files of a form. A path in the address is that of the only one.
async fn take_form(
    inside: &Inside,
    path: Option<String>,
    kind: &str,
    body: &mut Body,
) -> Result<Vec<(String, Spool)>, Failure> {
    let bad = |error: super::multipart::BadForm| Failure::bad_request(error.to_string());
    let mut form = Form::begin(kind).map_err(bad)?;
    let mut found: Vec<(String, Spool)> = Vec::new();
    while let Some(bytes) = next(body).await? {
        for piece in form.push(&bytes).map_err(bad)? {
            match piece {
                Piece::File(file) => {
                    let named = path.clone().or(file.filename).filter(|_| file.field == "file");
                    let named = named
                        .ok_or_else(|| Failure::bad_request("a part of the form is no file with a path"))?;
                    // Refused before its bytes are taken in.
                    place::inner(&named)?;
                    let upload = match found.last() {
                        Some((_, before)) => before.begin_next(),
                        None => Spool::begin(&inside.tenant)?,
                    };
                    if found.len() == FILES_MAX {
                        let text = format!("a form has at most {FILES_MAX} files");
                        return Err(Failure::bad_request(text));
                    }
                    found.push((named, upload));
                }
                Piece::Bytes(bytes) => {
                    let (name, upload) = found
                        .pop()
                        .ok_or_else(|| bad(super::multipart::BadForm::Malformed))?;
                    found.push((name, add(upload, bytes.into()).await?));
                }
                Piece::End => {}
            }
        }
    }
    form.finish().map_err(bad)?;
    if path.is_some() && found.len() > 1 {
        return Err(Failure::bad_request(
            "the address has one `path`, and the form more than one file",
        ));
    }
    Ok(found)
}

async fn take_file(inside: &Inside, body: &mut Body, is_packed: bool) -> Result<Spool, Failure> {
    let spool = Spool::begin(&inside.tenant)?;
    if is_packed {
        return unpack(spool, body).await;
    }
    let mut upload = spool;
    while let Some(bytes) = next(body).await? {
        upload = add(upload, bytes).await?;
    }
    Ok(upload)
}

async fn add(mut upload: Spool, bytes: Bytes) -> Result<Spool, ServiceError> {
    on_a_thread(move || {
        upload.add(&bytes)?;
        Ok(upload)
    })
    .await
}

/// An upload that is unpacked as it comes. Its limit is that of the file.
struct Unpacked {
    upload: Spool,
    refused: Option<ServiceError>,
}

impl Write for Unpacked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.upload.add(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                let text = error.message.clone();
                self.refused = Some(error);
                Err(io::Error::other(text))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn unpack(upload: Spool, body: &mut Body) -> Result<Spool, Failure> {
    let mut decoder = GzDecoder::new(Unpacked {
        upload,
        refused: None,
    });
    while let Some(bytes) = next(body).await? {
        decoder = on_a_thread(move || match decoder.write_all(&bytes) {
            Ok(()) => Ok(decoder),
            Err(error) => Err(refused(decoder.get_mut(), &error)),
        })
        .await?;
    }
    let finished = on_a_thread(move || match decoder.try_finish() {
        Ok(()) => Ok(decoder),
        Err(error) => Err(refused(decoder.get_mut(), &error)),
    });
    let mut decoder = finished.await?;
    let whole = decoder.get_mut();
    match whole.refused.take() {
        Some(error) => Err(error.into()),
        None => decoder
            .finish()
            .map(|whole| whole.upload)
            .map_err(|error| Failure::bad_request(format!("the packed body: {error}"))),
    }
}

fn refused(unpacked: &mut Unpacked, error: &io::Error) -> ServiceError {
    let refused = unpacked.refused.take();
    refused.unwrap_or_else(|| ServiceError::invalid(format!("the packed body: {error}")))
}

/// The next bytes of a body; nothing at its end.
async fn next(body: &mut Body) -> Result<Option<Bytes>, Failure> {
    loop {
        let silent = |_| Failure::new(StatusCode::REQUEST_TIMEOUT, "the upload does not go on");
        // For each piece, not for the whole: a large upload may take long, a silent one may not.
        let frame = tokio::time::timeout(SILENCE, body.frame())
            .await
            .map_err(silent)?;
        let Some(frame) = frame else {
            return Ok(None);
        };
        let frame = frame.map_err(|error| Problem::of_body(&error))?;
        if let Ok(bytes) = frame.into_data() {
            return Ok(Some(bytes));
        }
    }
}
