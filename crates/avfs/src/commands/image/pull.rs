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
            let failure = Failure::new("no-skopeo", ExitStatus::Internal, "skopeo is not installed");
            let hint = "install it (Debian package skopeo), or import an archive with `avfs image import`";
            return Err(failure.hint(Some(hint.to_owned())).into());
        }
        Err(error) => return Err(error).context("starting skopeo"),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let message = format!("skopeo could not copy '{}': {}", args.image, said.trim());
        return Err(Failure::new("pull-failed", ExitStatus::Internal, message).into());
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

fn source(image: &str) -> String {
    if TRANSPORTS.iter().any(|transport| image.starts_with(transport)) {
        image.to_owned()
    } else {
        format!("docker://{image}")
    }
}
