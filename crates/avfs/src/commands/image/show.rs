//! `avfs image show`: what an image says of itself.

use agentvfs::ImageInfo;
use anyhow::{Context as _, Result};
use jiff::tz::TimeZone;

use super::body::ImageBody;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::size::HumanSize;
use crate::time::show_local;

/// Show an image: its size, its origin, and how its programs are started
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs image show bookworm
  avfs image show bookworm --json | jq .env")]
pub struct ShowArgs {
    /// The image
    name: String,
}

pub fn run(context: &mut Context<'_>, args: &ShowArgs) -> Result<ExitStatus> {
    let image = context.store()?.images().get(&args.name)?;
    let info = image
        .image()
        .info()?
        .context("it was found as an image just now")?;
    if context.out.is_json() {
        context.out.object("image-show", &ImageBody::from(&info))?;
    } else {
        print(context.out, &info)?;
    }
    Ok(ExitStatus::Success)
}

fn print(out: &mut Printer, image: &ImageInfo) -> Result<()> {
    let ImageInfo {
        vault,
        config,
        source,
        layers,
    } = image;
    let mut row = |label: &str, value: String| {
        let value = if value.is_empty() { "-".to_owned() } else { value };
        out.line(format_args!("{label:<13}{value}"))
    };
    row("name", vault.name.to_string())?;
    row("from", source.clone())?;
    row("created", show_local(vault.created, &TimeZone::system()))?;
    row("for", format!("{}/{}", config.os, config.architecture))?;
    row("layers", layers.to_string())?;
    row("entries", vault.files.to_string())?;
    row("size", HumanSize(vault.bytes).to_string())?;
    row("user", config.user.clone())?;
    row("directory", config.working_dir.clone())?;
    row("entrypoint", words(&config.entrypoint))?;
    row("command", words(&config.cmd))?;
    for variable in &config.env {
        row("env", variable.clone())?;
    }
    Ok(())
}

/// As one would type them.
fn words(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| crate::hint::shell_word(word)).collect();
    words.join(" ")
}
