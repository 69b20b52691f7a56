//! `avfs image list`: all images of the store.

use agentvfs::ImageInfo;
use anyhow::Result;
use serde::Serialize;

use super::body::ImageBody;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::printer::{HEADING, Printer};
use crate::size::HumanSize;
use crate::time::{Age, now};

/// List the images
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  avfs image list
  avfs image list --json | jq -r '.images[].name'"
)]
pub struct ImageListArgs {}

#[derive(Serialize)]
struct ListBody {
    images: Vec<ImageBody>,
}

pub fn run(context: &mut Context<'_>, _: &ImageListArgs) -> Result<ExitStatus> {
    let images = context.store()?.images().list()?;
    if context.out.is_json() {
        let images = images.iter().map(ImageBody::from).collect();
        context.out.object("image-list", &ListBody { images })?;
    } else if images.is_empty() {
        let fix = "there is no image yet; `avfs image import ROOTFS.tar` makes one";
        context.out.talk(fix);
    } else {
        print(context.out, &images)?;
    }
    Ok(ExitStatus::Success)
}

fn print(out: &mut Printer, images: &[ImageInfo]) -> Result<()> {
    let names = images
        .iter()
        .map(|image| image.vault.name.as_str().chars().count());
    let width = names.max().unwrap_or(0).max("NAME".len());
    let heading = format!(
        "{:<width$}  {:>9}  {:>9}  {:<8}  CREATED",
        "NAME", "ENTRIES", "SIZE", "FOR"
    );
    out.line(out.paint(HEADING, heading))?;
    let now = now();
    for ImageInfo { vault, config, .. } in images {
        let age = Age {
            then: vault.created,
            now,
        };
        let (name, files, size) = (&vault.name, vault.files, HumanSize(vault.bytes));
        let machine = &config.architecture;
        out.line(format_args!(
            "{name:<width$}  {files:>9}  {size:>9}  {machine:<8}  {age}"
        ))?;
    }
    Ok(())
}
