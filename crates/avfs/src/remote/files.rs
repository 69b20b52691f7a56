//! Files of a sandbox or vault of a server.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context as _, Result};
use avfs_core::TreePath;
use serde_json::{Value, json};

use super::client::part;
use super::http::Body;
use super::{Session, text};
use crate::args::{PathArg, path_arg};
use crate::exit::ExitStatus;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub struct LsVerb {
    #[arg(value_name = "PATH", value_parser = path_arg())]
    paths: Vec<PathArg>,
    #[arg(short, long)]
    long: bool,
    #[arg(short, long)]
    all: bool,
    #[arg(short = 'R', long)]
    recursive: bool,
}

#[derive(Debug, clap::Args)]
pub struct CatVerb {
    #[arg(value_name = "PATH", required = true, value_parser = path_arg())]
    paths: Vec<PathArg>,
}

#[derive(Debug, clap::Args)]
pub struct WriteVerb {
    #[arg(value_parser = path_arg())]
    path: PathArg,
    text: Option<OsString>,
    #[arg(long, value_name = "VERSION")]
    expect: Option<String>,
    /// The server always creates them.
    #[arg(short, long)]
    parents: bool,
}

#[derive(Debug, clap::Args)]
pub struct RmVerb {
    #[arg(value_name = "PATH", required = true, value_parser = path_arg())]
    paths: Vec<PathArg>,
    #[arg(short, long)]
    recursive: bool,
    #[arg(short, long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
pub struct MkdirVerb {
    #[arg(value_name = "PATH", required = true, value_parser = path_arg())]
    paths: Vec<PathArg>,
    /// The server always creates them.
    #[arg(short, long)]
    parents: bool,
}

#[derive(Debug, clap::Args)]
pub struct MvVerb {
    #[arg(value_parser = path_arg())]
    from: PathArg,
    #[arg(value_parser = path_arg())]
    to: PathArg,
}

#[derive(Debug, clap::Args)]
pub struct GrepVerb {
    pattern: String,
    #[arg(value_name = "PATH", value_parser = path_arg())]
    path: Option<PathArg>,
    #[arg(short, long)]
    ignore_case: bool,
    #[arg(short = 'n', long)]
    line_number: bool,
    #[arg(short = 'F', long)]
    fixed_strings: bool,
}

/// A path from the root, as the server takes it. There is no current directory on a server.
fn path(path: &PathArg) -> Result<String, Failure> {
    let bad = |text: String| Failure::new("bad-path", ExitStatus::BadInput, text);
    let found = path
        .from(&TreePath::root())
        .map_err(|error| bad(error.to_string()))?;
    let text = std::str::from_utf8(found.as_bytes());
    text.map(|text| format!("/{text}"))
        .map_err(|_| bad(format!("'{found}' is not UTF-8, as paths on a server are")))
}

pub fn ls(session: &mut Session<'_>, verb: &LsVerb) -> Result<ExitStatus> {
    let subject = session.subject()?;
    let paths = verb.paths.iter().map(path).collect::<Result<Vec<_>, _>>()?;
    let paths = if paths.is_empty() {
        vec!["/".to_owned()]
    } else {
        paths
    };
    let depth = if verb.recursive { 1_000_000 } else { 1 };
    let mut found = Vec::new();
    for path in &paths {
        let query = format!("?path={}&depth={depth}", part(path));
        let all = session
            .client
            .list(&format!("{subject}/files/list"), &query, "files")?;
        found.extend(all.into_iter().filter(|one| verb.all || !is_hidden(one, path)));
    }
    if session.out.is_json() {
        return session.object("ls", &json!({ "entries": found }));
    }
    for one in &found {
        let name = text(&one["path"]);
        let name = if verb.recursive || paths.len() > 1 {
            name.as_str()
        } else {
            name.rsplit('/').next().unwrap_or_default()
        };
        if verb.long {
            let size = one["size"].as_u64().unwrap_or(0);
            let time = super::sandboxes::moment(&one["modified_ms"]);
            session.out.line(format_args!(
                "{:<9} {:>4} {size:>10} {time} {name}",
                text(&one["kind"]),
                text(&one["mode"])
            ))?;
        } else {
            session.out.line(name)?;
        }
    }
    Ok(ExitStatus::Success)
}

/// Whether a part of the path below the directory that is listed begins with a dot.
fn is_hidden(one: &Value, directory: &str) -> bool {
    let path = one["path"].as_str().unwrap_or_default();
    let below = path.strip_prefix(directory).unwrap_or(path);
    below.split('/').any(|part| part.starts_with('.'))
}

pub fn cat(session: &mut Session<'_>, verb: &CatVerb) -> Result<ExitStatus> {
    let subject = session.subject()?;
    let mut texts = Vec::new();
    for one in &verb.paths {
        let place = format!("{subject}/files?path={}", part(&path(one)?));
        let mut answer = session.client.ask("GET", &place, &[], Body::Nothing)?;
        if session.out.is_json() {
            let mut bytes = Vec::new();
            answer
                .body
                .read_to_end(&mut bytes)
                .map_err(|error| session.client.failed(&error))?;
            texts.push(json!({ "path": path(one)?, "text": String::from_utf8_lossy(&bytes) }));
            continue;
        }
        let mut piece = vec![0; 64 << 10];
        loop {
            let count = answer
                .body
                .read(&mut piece)
                .map_err(|error| session.client.failed(&error))?;
            if count == 0 {
                break;
            }
            session.out.content(&piece[..count])?;
        }
    }
    if session.out.is_json() {
        return session.object("cat", &json!({ "files": texts }));
    }
    Ok(ExitStatus::Success)
}

pub fn write(session: &mut Session<'_>, verb: &WriteVerb) -> Result<ExitStatus> {
    let place = format!("{}/files?path={}", session.subject()?, part(&path(&verb.path)?));
    let mut headers = vec![("Content-Type", "application/octet-stream".to_owned())];
    match verb.expect.as_deref() {
        Some("absent") => headers.push(("If-None-Match", "*".to_owned())),
        Some(version) => headers.push(("If-Match", format!("\"{version}\""))),
        None => {}
    }
    let mut answer = match &verb.text {
        Some(text) if text != "-" => {
            let bytes = [text.as_bytes(), b"\n"].concat();
            session.client.ask("PUT", &place, &headers, Body::Bytes(&bytes))?
        }
        _ => {
            let mut input = io::stdin().lock();
            session
                .client
                .ask("PUT", &place, &headers, Body::Stream(&mut input))?
        }
    };
    let mut told = Vec::new();
    answer
        .body
        .read_to_end(&mut told)
        .map_err(|error| session.client.failed(&error))?;
    let written: Value = serde_json::from_slice(&told).context("reading the answer of the server")?;
    session.done("write", &written)
}

pub fn rm(session: &mut Session<'_>, verb: &RmVerb) -> Result<ExitStatus> {
    let subject = session.subject()?;
    let paths = verb.paths.iter().map(path).collect::<Result<Vec<_>, _>>()?;
    let mut removed = Vec::new();
    for one in &paths {
        let place = format!("{subject}/files?path={}", part(one));
        if !verb.recursive {
            let stat = session
                .client
                .get(&format!("{subject}/files/stat?path={}", part(one)));
            if stat.is_ok_and(|found| found["kind"] == "directory") {
                let text = format!("'{}' is a directory", crate::escape::printable(one.as_bytes()));
                return Err(Failure::new("is-a-directory", ExitStatus::BadInput, text)
                    .hint(Some("`avfs rm -r` removes directories".to_owned()))
                    .into());
            }
        }
        match session.client.json("DELETE", &place, None) {
            Ok(_) => removed.push(one),
            Err(error) if verb.force && Failure::of(&error).code == "not-found" => {}
            Err(error) => return Err(error),
        }
    }
    session.done("rm", &json!({ "paths": removed }))
}

pub fn mkdir(session: &mut Session<'_>, verb: &MkdirVerb) -> Result<ExitStatus> {
    let place = format!("{}/files/directory", session.subject()?);
    let paths = verb.paths.iter().map(path).collect::<Result<Vec<_>, _>>()?;
    for one in &paths {
        session
            .client
            .json("POST", &place, Some(&json!({ "path": one })))?;
    }
    session.done("mkdir", &json!({ "paths": paths }))
}

pub fn mv(session: &mut Session<'_>, verb: &MvVerb) -> Result<ExitStatus> {
    let place = format!("{}/files/move", session.subject()?);
    let body = json!({ "from": path(&verb.from)?, "to": path(&verb.to)? });
    session.client.json("POST", &place, Some(&body))?;
    session.done("mv", &body)
}

pub fn grep(session: &mut Session<'_>, verb: &GrepVerb) -> Result<ExitStatus> {
    let mut place = format!(
        "{}/search?pattern={}&fixed={}&ignore_case={}&limit=10000",
        session.subject()?,
        part(&verb.pattern),
        verb.fixed_strings,
        verb.ignore_case
    );
    if let Some(one) = &verb.path {
        place.push_str(&format!("&path={}", part(&path(one)?)));
    }
    let found = session.client.get(&place)?;
    let lines = found["lines"].as_array().cloned().unwrap_or_default();
    if session.out.is_json() {
        session.out.object("grep", &found)?;
    } else {
        for one in &lines {
            let number = if verb.line_number {
                format!("{}:", one["line"].as_u64().unwrap_or(0))
            } else {
                String::new()
            };
            session.out.line(format_args!(
                "{}:{number}{}",
                text(&one["path"]),
                text(&one["text"])
            ))?;
        }
        if found["truncated"] == true {
            session.out.warn("there may be more lines than these");
        }
    }
    Ok(if lines.is_empty() {
        ExitStatus::No
    } else {
        ExitStatus::Success
    })
}
