//! `avfs image delete`: removes an image.

use anyhow::Result;
use serde::Serialize;

use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::ExitStatus;

/// Delete an image
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Sandboxes that were made on the image keep all their files: they share them with it, and
need it no longer.

Examples:
  avfs image delete bookworm
  avfs image delete bookworm --yes"
)]
pub struct ImageDeleteArgs {
    /// The image to delete
    name: String,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

#[derive(Serialize)]
struct ImageDeleteBody<'a> {
    name: &'a str,
}

pub fn run(context: &mut Context<'_>, args: &ImageDeleteArgs) -> Result<ExitStatus> {
    let name = args.name.as_str();
    let image = context.store()?.images().get(name)?;
    if !confirm(context.out, format!("Delete image '{name}'?"), args.yes)? {
        return Ok(ExitStatus::No);
    }
    image.image().delete()?;
    if context.out.is_json() {
        context.out.object("image-delete", &ImageDeleteBody { name })?;
    }
    context.out.talk(format_args!("deleted image '{name}'"));
    Ok(ExitStatus::Success)
}
