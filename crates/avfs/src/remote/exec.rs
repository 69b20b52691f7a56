//! `avfs exec` on a server: the output comes while the command runs. If this program goes away, the command is killed.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::Session;
use super::client::problem;
use super::http::Body;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::time::span_or_milliseconds;

#[derive(Debug, clap::Args)]
pub struct ExecVerb {
    /// Start in this directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Pass standard input to the command
    #[arg(long)]
    stdin: bool,
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::env_args::variable_pair)]
    env: Vec<(String, String)>,
    #[arg(long, value_name = "DURATION", value_parser = span_or_milliseconds)]
    timeout: Option<Duration>,
    #[arg(short = 'c', value_name = "LINE", conflicts_with = "command")]
    line: Option<String>,
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<OsString>,
}

pub fn run(session: &mut Session<'_>, verb: &ExecVerb) -> Result<ExitStatus> {
    let place = sandbox(session)?;
    let body = json!({
        "command": command(verb)?,
        "cwd": verb.cwd,
        "env": verb.env.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "stdin": verb.stdin.then(input).transpose()?,
        // None is cut short.
        "timeout_seconds": verb.timeout.map(|time| time.as_millis().div_ceil(1000)),
    })
    .to_string();
    let headers = [
        ("Content-Type", "application/json".to_owned()),
        ("Accept", "text/event-stream".to_owned()),
    ];
    let answer = session.client.ask(
        "POST",
        &format!("{place}/exec"),
        &headers,
        Body::Bytes(body.as_bytes()),
    )?;
    let Session { client, out, .. } = session;
    let mut end = None;
    client.events(answer.body, |name, event| {
        match name {
            "stdout" if !out.is_json() => out.pass_on(&bytes(&event)?)?,
            "stderr" if !out.is_json() => std::io::stderr().write_all(&bytes(&event)?)?,
            "error" => return Err(problem(500, &event).into()),
            "end" => end = Some(event),
            _ => {}
        }
        Ok(())
    })?;
    let end = end.ok_or_else(|| {
        Failure::new(
            "server-ending",
            ExitStatus::Busy,
            "the server ended before the command did",
        )
    })?;
    if out.is_json() {
        out.object("exec", &end)?;
    }
    Ok(status(&end))
}

/// Commands run in sandboxes; a vault has none.
fn sandbox(session: &Session<'_>) -> Result<String, Failure> {
    let subject = session.subject()?;
    if subject.starts_with("/sandboxes/") {
        return Ok(subject);
    }
    let hint = "`avfs sandbox create --from VAULT` makes a sandbox and prints its id, for `--vault`";
    Err(Failure::new(
        "unknown-sandbox",
        ExitStatus::NotFound,
        "on a server, commands run in sandboxes, and not in vaults",
    )
    .hint(Some(hint.to_owned())))
}

fn command(verb: &ExecVerb) -> Result<Value, Failure> {
    if let Some(line) = &verb.line {
        return Ok(json!(line));
    }
    let words: Option<Vec<&str>> = verb.command.iter().map(|word| word.to_str()).collect();
    match words {
        Some(words) if !words.is_empty() => Ok(json!(words)),
        Some(_) => Err(Failure::new(
            "usage",
            ExitStatus::BadInput,
            "there is no command to run",
        )),
        None => Err(Failure::new(
            "usage",
            ExitStatus::BadInput,
            "a command for a server is UTF-8",
        )),
    }
}

fn input() -> Result<String> {
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .read_to_string(&mut text)
        .context("reading standard input")?;
    Ok(text)
}

fn bytes(event: &Value) -> Result<Vec<u8>> {
    match event["base64"].as_str() {
        Some(coded) => unbase64(coded).context("reading an event of the server"),
        None => Ok(event["text"].as_str().unwrap_or_default().as_bytes().to_vec()),
    }
}

/// Bytes in four digits for each three of them.
fn unbase64(text: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let mut value = 0_u32;
        for index in 0..4 {
            let digit = match group.get(index) {
                Some(digit) => DIGITS.iter().position(|known| known == digit)?,
                None => 0,
            };
            value = value << 6 | u32::try_from(digit).ok()?;
        }
        bytes.extend_from_slice(&value.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

/// The status that a shell would show, or 124 for a command that took too long.
fn status(end: &Value) -> ExitStatus {
    if end["timed_out"] == true {
        return ExitStatus::TimedOut;
    }
    let byte = |value: &Value| value.as_u64().and_then(|number| u8::try_from(number).ok());
    match (byte(&end["exit_code"]), byte(&end["signal"])) {
        (Some(code), _) => ExitStatus::OfCommand(code),
        (None, Some(signal)) => ExitStatus::OfCommand(128 + (signal & 127)),
        (None, None) => ExitStatus::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_their_digits() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("/w==", b"\xff"),
            ("/wA=", b"\xff\0"),
            ("AAEC", b"\0\x01\x02"),
            ("AAECAw==", b"\0\x01\x02\x03"),
        ] {
            assert_eq!(unbase64(text).unwrap(), bytes, "{text}");
        }
        assert_eq!(unbase64("a*"), None);
    }
}
