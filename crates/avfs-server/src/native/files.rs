//! Files of a sandbox or vault.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::api::{About, Api};
use super::input::{Headers, Input, Millis, Words};
use super::subject::Subject;
use crate::auth::Scope;
use crate::problem::Problem;
use crate::service::{FileInfo, FileKind, ServiceError, Spool, WriteOptions, on_a_thread};

/// How many entries a page has, unless the client says otherwise, and at most.
const PAGE: [usize; 2] = [1000, 10_000];
/// How long a client may send nothing in the middle of an upload.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(60);

pub(super) fn routes(api: &mut Api, base: &str) {
    let at = |rest: &str| format!("{base}/files{rest}");
    let about = About::new("readFile", "Read a file, or a range of it", Scope::Read)
        .query::<PathWords>()
        .gives_other("application/octet-stream")
        .headers(&[
            ("Range", "`bytes=FROM-TO`: this part of the file."),
            ("If-None-Match", "Versions of which nothing is sent."),
        ])
        .or_gives(&[
            (206, "The range of the file", Some("application/octet-stream")),
            (304, "The client has this version", None),
        ]);
    api.route(Method::GET, &at(""), about, read);
    let about = About::new(
        "writeFile",
        "Write a file, with the directories above it",
        Scope::Run,
    )
    .query::<WriteWords>()
    .takes_bytes()
    .gives::<FileBody>(200)
    .version("version")
    .headers(&[
        ("If-Match", "Only if the file has this version."),
        ("If-None-Match", "`*`: only if there is no file."),
    ]);
    api.route(Method::PUT, &at(""), about, write);
    let about = About::new(
        "removeFile",
        "Remove a file, or a directory with everything in it",
        Scope::Run,
    )
    .query::<PathWords>()
    .headers(&[("If-Match", "Only if the file has this version.")]);
    api.route(Method::DELETE, &at(""), about, remove);
    let about = About::new("listFiles", "List what is below a directory", Scope::Read);
    api.route(
        Method::GET,
        &at("/list"),
        about.query::<ListWords>().gives::<FileList>(200),
        list,
    );
    let about = About::new("statFile", "Show what is at a path", Scope::Read);
    api.route(
        Method::GET,
        &at("/stat"),
        about.query::<PathWords>().gives::<FileBody>(200),
        stat,
    );
    let about = About::new(
        "makeDirectory",
        "Make a directory, with those above it",
        Scope::Run,
    );
    api.route(
        Method::POST,
        &at("/directory"),
        about.takes::<PathWords>().again(),
        make_directory,
    );
    let about = About::new(
        "moveFile",
        "Move a file or directory; a file at the new path is replaced",
        Scope::Run,
    );
    api.route(Method::POST, &at("/move"), about.takes::<MoveWords>(), move_file);
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PathWords {
    /// From the root of the files. Links are followed inside the tree, and never out of it.
    path: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteWords {
    /// From the root of the files.
    path: String,
    /// Permission bits in octal digits, such as `755`.
    mode: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MoveWords {
    from: String,
    to: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListWords {
    /// The directory; the root, if not said.
    #[serde(default = "root")]
    path: String,
    /// How many levels below it; 1, if not said.
    depth: Option<usize>,
    /// Where the list goes on: `next` of the page before.
    cursor: Option<String>,
    /// The most entries of the page; 1000, if not said, and at most 10000.
    limit: Option<usize>,
}

fn root() -> String {
    "/".to_owned()
}

/// What is at a path.
#[derive(Serialize, JsonSchema)]
struct FileBody {
    /// From the root of the files, with its slash in front.
    path: String,
    /// `file`, `directory`, `link` or `other`.
    kind: &'static str,
    size: u64,
    /// Permission bits in octal digits.
    mode: String,
    /// Milliseconds since 1970.
    modified_ms: Millis,
    /// Where a link leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// The version of a file, as `ETag` and `If-Match` have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct FileList {
    files: Vec<FileBody>,
    /// The `cursor` with which the list goes on; nothing at its end.
    next: Option<String>,
}

impl From<FileInfo> for FileBody {
    fn from(info: FileInfo) -> FileBody {
        FileBody {
            path: info.path,
            kind: match info.kind {
                FileKind::File => "file",
                FileKind::Directory => "directory",
                FileKind::Link => "link",
                FileKind::Other => "other",
            },
            size: info.size,
            mode: format!("{:o}", info.mode),
            modified_ms: info.modified,
            target: info.target,
            version: info.version,
        }
    }
}

async fn stat(of: Subject, Words(asked): Words<PathWords>) -> Result<Response, Problem> {
    let info = of.with_files(move |files| files.stat(&asked.path)).await?;
    Ok(with_version(info))
}

fn with_version(info: FileInfo) -> Response {
    let tag = info.version.as_deref().and_then(tag);
    let mut response = Json(FileBody::from(info)).into_response();
    if let Some(tag) = tag {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

fn tag(version: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("\"{version}\"")).ok()
}

async fn list(of: Subject, Words(asked): Words<ListWords>) -> Result<Json<FileList>, Problem> {
    let limit = asked.limit.unwrap_or(PAGE[0]).clamp(1, PAGE[1]);
    let found = of.with_files(move |files| {
        let depth = asked.depth.unwrap_or(1).max(1);
        files.list(&asked.path, depth, asked.cursor.as_deref(), limit + 1)
    });
    let mut found = found.await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|last| last.path.clone());
    Ok(Json(FileList {
        files: found.into_iter().map(FileBody::from).collect(),
        next,
    }))
}

async fn read(of: Subject, headers: Headers, Words(asked): Words<PathWords>) -> Result<Response, Problem> {
    let file = of.with_files(move |files| files.open(&asked.path)).await?;
    let version = file.info.version.clone().unwrap_or_default();
    let mut answer = HeaderMap::new();
    if let Some(tag) = tag(&version) {
        answer.insert(header::ETAG, tag);
    }
    answer.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // Whatever is in the file, a browser runs nothing of it.
    answer.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    answer.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox"),
    );
    if headers
        .text(&header::IF_NONE_MATCH)
        .is_some_and(|tags| names(tags, &version))
    {
        return Ok((StatusCode::NOT_MODIFIED, answer).into_response());
    }
    let size = file.info.size;
    // A range of a file that has changed meanwhile is no part of what the client has.
    let is_same = headers
        .text(&header::IF_RANGE)
        .is_none_or(|tags| names(tags, &version));
    let range = headers
        .text(&header::RANGE)
        .filter(|_| is_same)
        .map(|text| Range::parse(text, size));
    let (status, from, length) = match range {
        None | Some(Range::Whole) => (StatusCode::OK, 0, size),
        Some(Range::Part { from, length }) => {
            let text = format!("bytes {from}-{}/{size}", from + length - 1);
            answer.extend(
                HeaderValue::from_str(&text)
                    .ok()
                    .map(|text| (header::CONTENT_RANGE, text)),
            );
            (StatusCode::PARTIAL_CONTENT, from, length)
        }
        Some(Range::Outside) => {
            let mut response = Problem::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "bad-range",
                format!("the file has {size} bytes"),
            )
            .into_response();
            let text = HeaderValue::from_str(&format!("bytes */{size}"));
            response
                .headers_mut()
                .extend(text.ok().map(|text| (header::CONTENT_RANGE, text)));
            return Ok(response);
        }
    };
    answer.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    Ok((status, answer, Body::from_stream(file.stream(from, length))).into_response())
}

/// What a `Range` header asks for.
#[derive(Debug, PartialEq, Eq)]
enum Range {
    /// All of it: the header is of a kind that is not understood, which is to be ignored.
    Whole,
    Part {
        from: u64,
        length: u64,
    },
    Outside,
}

impl Range {
    fn parse(text: &str, size: u64) -> Range {
        let Some(range) = text.strip_prefix("bytes=") else {
            return Range::Whole;
        };
        let Some((first, last)) = range.split_once('-') else {
            return Range::Whole;
        };
        let (first, last) = (first.trim(), last.trim());
        let number = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('+'));
        let (from, to) = match (first.is_empty(), last.is_empty()) {
            (true, _) => match number(last) {
                Some(count) => (size.saturating_sub(count), size),
                None => return Range::Whole,
            },
            (false, true) => match number(first) {
                Some(from) => (from, size),
                None => return Range::Whole,
            },
            (false, false) => match (number(first), number(last)) {
                (Some(from), Some(to)) if from <= to => (from, to.saturating_add(1).min(size)),
                _ => return Range::Whole,
            },
        };
        if from >= size || from == to {
            return Range::Outside;
        }
        Range::Part {
            from,
            length: to - from,
        }
    }
}

/// Whether a list of entity tags names this version.
fn names(tags: &str, version: &str) -> bool {
    tags.split(',').map(str::trim).any(|tag| {
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        tag == "*" || tag.trim_matches('"') == version
    })
}

/// The version that a request expects.
fn expected(headers: &Headers) -> Result<Option<String>, Problem> {
    if headers
        .text(&header::IF_NONE_MATCH)
        .is_some_and(|text| text.trim() == "*")
    {
        return Ok(Some("absent".to_owned()));
    }
    let Some(text) = headers.text(&header::IF_MATCH) else {
        return Ok(None);
    };
    let version = text.trim().trim_matches('"');
    if version == "*" || version.contains([',', '"']) {
        return Err(Problem::bad_request(
            "`If-Match` is one version, such as `ETag` has it",
        ));
    }
    Ok(Some(version.to_owned()))
}

async fn write(
    of: Subject,
    headers: Headers,
    Words(asked): Words<WriteWords>,
    body: Body,
) -> Result<Response, Problem> {
    let mode = asked.mode.as_deref().map(|mode| {
        let bits = u32::from_str_radix(mode, 8).ok().filter(|bits| *bits <= 0o777);
        bits.ok_or_else(|| Problem::bad_request("`mode` is octal digits, such as `755`"))
    });
    let options = WriteOptions {
        expect: expected(&headers)?,
        mode: mode.transpose()?,
        ..WriteOptions::default()
    };
    let upload = take_in(Spool::begin(&of.caller.tenant)?, body).await?;
    let info = of
        .with_files(move |files| files.write(&asked.path, &upload, &options))
        .await?;
    Ok(with_version(info))
}

/// Takes a body in, as fast as the disk does.
pub(super) async fn take_in(mut upload: Spool, mut body: Body) -> Result<Spool, Problem> {
    loop {
        let frame = tokio::time::timeout(SILENCE, body.frame()).await;
        let silent = |_| {
            Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "silent-client",
                "the upload does not go on",
            )
        };
        let Some(frame) = frame.map_err(silent)? else {
            return Ok(upload);
        };
        let frame = frame.map_err(|error| Problem::of_body(&error))?;
        if let Ok(bytes) = frame.into_data() {
            upload = on_a_thread(move || {
                upload.add(&bytes)?;
                Ok::<Spool, ServiceError>(upload)
            })
            .await?;
        }
    }
}

async fn remove(
    of: Subject,
    headers: Headers,
    Words(asked): Words<PathWords>,
) -> Result<StatusCode, Problem> {
    let expect = expected(&headers)?;
    of.with_files(move |files| files.remove(&asked.path, expect.as_deref()))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn make_directory(of: Subject, Input(asked): Input<PathWords>) -> Result<StatusCode, Problem> {
    of.with_files(move |files| files.make_directory(&asked.path))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn move_file(of: Subject, Input(asked): Input<MoveWords>) -> Result<StatusCode, Problem> {
    let MoveWords { from, to } = asked;
    of.with_files(move |files| files.rename(&from, &to)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parts_of_the_file_or_nothing() {
        let part = |from, length| Range::Part { from, length };
        for (text, expected) in [
            ("bytes=0-3", part(0, 4)),
            ("bytes=4-", part(4, 6)),
            ("bytes=-3", part(7, 3)),
            ("bytes=-30", part(0, 10)),
            ("bytes=8-100", part(8, 2)),
            ("bytes=10-", Range::Outside),
            ("bytes=-0", Range::Outside),
            ("bytes=3-1", Range::Whole),
            ("bytes=a-b", Range::Whole),
            ("bytes=0-1,3-4", Range::Whole),
            ("bytes=-18446744073709551615", part(0, 10)),
            ("bytes=9-18446744073709551615", part(9, 1)),
            ("lines=1-2", Range::Whole),
        ] {
            assert_eq!(Range::parse(text, 10), expected, "{text}");
        }
        assert_eq!(Range::parse("bytes=0-", 0), Range::Outside);
    }

    #[test]
    fn tags_are_compared_as_a_whole() {
        assert!(names("\"abc\"", "abc"));
        assert!(names("W/\"abc\"", "abc"));
        assert!(names("\"x\", \"abc\"", "abc"));
        assert!(names("*", "abc"));
        assert!(!names("\"ab\"", "abc"));
    }
}
