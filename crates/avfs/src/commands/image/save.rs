//! `avfs image save`: a vault, kept as an image.

use agentvfs::VaultName;
use anyhow::{Context as _, Result};

use super::body::ImageBody;
use crate::context::Context;
use crate::exit::ExitStatus;

/// Keep the present state of a vault as an image
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The vault is usually the root directory of sandboxes on another image, in which something
was installed. Its files are shared, not copied.

Examples:
  avfs image save web.bookworm bookworm-with-gcc"
)]
pub struct ImageSaveArgs {
    /// The vault to keep
    vault: String,

    /// Name of the new image
    name: String,
}

pub fn run(context: &mut Context<'_>, args: &ImageSaveArgs) -> Result<ExitStatus> {
    let name = VaultName::new(&args.name)?;
    let image = context.vault_named(&args.vault)?.image().save(&name)?;
    let info = image
        .image()
        .info()?
        .context("it was made as an image just now")?;
    if context.out.is_json() {
        context.out.object("image-save", &ImageBody::from(&info))?;
    }
    context.out.talk(format_args!("saved image '{name}'"));
    Ok(ExitStatus::Success)
}
