//! `avfs image pull`: an image from a registry, by skopeo.

use std::ffi::OsString;
use std::fs::File;
use std::process::{Command, Stdio};

use agentvfs::transfer::ImageSource;
use anyhow::{Context as _, Result};

use super::import::{OptionArgs, import};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::progress::Progress;

/// Copy an image from a registry, with skopeo
#[derive(Debug, clap::Args)]
#[command(
    after_help = "skopeo (Debian package skopeo) has to be installed; it knows registries, credentials and
proxies. A name without a transport is one of a registry.

Examples:
  avfs image pull debian:12
  avfs image pull ghcr.io/astral-sh/uv:debian --name uv
  avfs image pull docker-daemon:web:latest"
)]
pub struct PullArgs {
    /// The image, as skopeo names it
    #[arg(value_name = "IMAGE")]
    image: String,

    #[command(flatten)]
    options: OptionArgs,
}

/// What skopeo calls the kinds of places.
const TRANSPORTS: [&str; 7] = [
    "docker://",
    "docker-archive:",
    "docker-daemon:",
    "containers-storage:",
    "dir:",
    "oci:",
    "oci-archive:",
];

pub fn run(context: &mut Context<'_>, args: &PullArgs) -> Result<ExitStatus> {
    let place = tempfile::tempdir().context("making a temporary directory")?;
    let copy = place.path().join("image.tar");
    let progress = Progress::spin(context.out, "pull");
    progress.say(|| args.image.clone());
    // An archive of this kind has its layers uncompressed, whatever the registry has.
    let mut target = OsString::from("docker-archive:");
    target.push(&copy);
    let output = Command::new("skopeo")
        .args(["copy", "--quiet", "--"])
        .arg(source(&args.image))
        .arg(target)
        .stdin(Stdio::null())
        .output();
    drop(progress);
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let failure = Failure::new("no-skopeo", ExitStatus::Refused, "skopeo is not installed");
            let hint = "install it (Debian package skopeo), or import an archive with `avfs image import`";
            return Err(failure.hint(Some(hint.to_owned())).into());
        }
        Err(error) => return Err(error).context("starting skopeo"),
    };
    if !output.status.success() {
        return Err(not_copied(&args.image, &String::from_utf8_lossy(&output.stderr)).into());
    }
    let file = File::open(&copy).context("opening what skopeo wrote")?;
    import(
        context,
        ImageSource::File(file),
        &args.image,
        &args.options,
        "image-pull",
    )
}

/// Why skopeo gave up: the reason of the last line of its log, without the rest of the line.
fn not_copied(image: &str, log: &str) -> Failure {
    let last = log.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.unwrap_or("it gave no reason").trim();
    let reason = last.split_once("msg=").map_or(last, |(_, reason)| reason);
    let reason = reason.trim_matches('"').replace("\\\"", "\"");
    let image = crate::escape::printable(image.as_bytes());
    let is_network = ["dial tcp", "no such host", "connection refused", "i/o timeout"];
    let (text, hint) = if is_network.iter().any(|sign| reason.contains(sign)) {
        (
            "its registry cannot be reached",
            "check the network and the proxy, or import an archive with `avfs image import`",
        )
    } else {
        (
            "its registry does not give it",
            "check the name and the credentials (`skopeo login`), or import an archive with `avfs image import`",
        )
    };
    let reason = crate::escape::printable_line(reason.as_bytes());
    let message = format!("image '{image}' could not be pulled: {text}: {reason}");
    Failure::new("pull-failed", ExitStatus::Refused, message).hint(Some(hint.to_owned()))
}

fn source(image: &str) -> String {
    if TRANSPORTS.iter().any(|transport| image.starts_with(transport)) {
        image.to_owned()
    } else {
        format!("docker://{image}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_that_fails_says_why_without_the_log_around_it() {
        let log = "time=\"2026-01-01T00:00:00Z\" level=fatal msg=\"initializing source docker://debian:12: pinging \
                   container registry r.example: Get \\\"https://r.example/v2/\\\": dial tcp: lookup r.example: no such host\"\n";
        let failure = not_copied("debian:12", log);
        assert_eq!(failure.status, ExitStatus::Refused);
        assert_eq!(
            failure.message,
            "image 'debian:12' could not be pulled: its registry cannot be reached: initializing source \
             docker://debian:12: pinging container registry r.example: Get \"https://r.example/v2/\": dial tcp: \
             lookup r.example: no such host"
        );
        let denied = not_copied("x", "level=fatal msg=\"unauthorized\"");
        assert!(denied.hint.unwrap().contains("credentials"));
    }
}
