//! `avfs image import`: an archive or a directory as an image.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use agentvfs::transfer::{ImageSource, MOST_BYTES};
use agentvfs::{ImageOptions, VaultLimits, VaultName};
use anyhow::{Context as _, Result};
use serde::Serialize;

use super::body::ImageBody;
use crate::commands::transferred::{ReportBody, tell};
use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::size::parse_size;

/// Import the root of a system as an image
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads the root of a system as a directory or a tar archive, an archive by `docker save`, and an
OCI image layout (a directory or an archive of it). Archives may be compressed with gzip.
The layers of an image become one tree. Owners, modes, links and extended attributes are
kept. Device nodes below /dev are left out; an archive with a harmful entry (an absolute
path, '..', another device, a path through a link) is refused as a whole.

Examples:
  avfs image import rootfs.tar --name bookworm
  docker save python:3.13 | avfs image import -
  avfs image import layout/ --name app"
)]
pub struct ImageImportArgs {
    /// The archive or directory to read; '-' is an archive on standard input
    #[arg(value_name = "ARCHIVE|DIR", value_hint = clap::ValueHint::AnyPath)]
    source: PathBuf,

    #[command(flatten)]
    options: OptionArgs,
}

/// How an image is imported, from wherever it comes.
#[derive(Debug, clap::Args)]
pub struct OptionArgs {
    /// Name of the image [default: the name in the archive, or of the file]
    #[arg(long)]
    pub name: Option<String>,

    /// Of several images in the archive, take the one with this name
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,

    /// Refuse an image of more bytes than this, uncompressed [default: 64G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_bytes: Option<u64>,

    /// Leave out what cannot be imported, and report it
    #[arg(long)]
    skip_refused: bool,
}

#[derive(Serialize)]
struct ImageImportBody {
    #[serde(flatten)]
    image: ImageBody,
    report: ReportBody,
}

pub fn run(context: &mut Context<'_>, args: &ImageImportArgs) -> Result<ExitStatus> {
    let shown = printable_path(&args.source);
    if args.source == Path::new("-") {
        let stdin = ImageSource::Stream(Box::new(io::stdin().lock()));
        return import(context, stdin, "standard input", &args.options, "image-import");
    }
    let opening = || format!("opening {shown}");
    let file = File::open(&args.source).with_context(opening)?;
    let source = if file.metadata().with_context(opening)?.is_dir() {
        ImageSource::Directory(&args.source)
    } else {
        ImageSource::File(file)
    };
    import(context, source, &shown, &args.options, "image-import")
}

pub fn import(
    context: &mut Context<'_>,
    source: ImageSource<'_>,
    shown: &str,
    args: &OptionArgs,
    kind: &'static str,
) -> Result<ExitStatus> {
    let name = args.name.as_deref().map(VaultName::new).transpose()?;
    let store = context.store()?;
    let quota = context.settings.quota();
    let options = ImageOptions {
        name,
        wanted: args.tag.clone(),
        skip_refused: args.skip_refused,
        most_bytes: args.max_bytes.unwrap_or(MOST_BYTES),
        limits: VaultLimits {
            bytes: quota.bytes,
            files: quota.files,
        },
        ..ImageOptions::default()
    };
    let progress = Progress::start(context.out, "import", None);
    let imported = store.images().import(source, shown, &options, &progress);
    let (vault, report) = imported.map_err(|error| {
        let hint = "choose another name with `--name`; `avfs image delete` frees this one";
        Failure::hinted(error.into(), "vault-exists", hint)
    })?;
    drop(progress);
    let info = vault
        .image()
        .info()?
        .context("it was made as an image just now")?;
    if context.out.is_json() {
        let body = ImageImportBody {
            image: (&info).into(),
            report: (&report).into(),
        };
        context.out.object(kind, &body)?;
    }
    let name = &info.vault.name;
    context.out.talk(format_args!("imported image '{name}'"));
    tell(context.out, "imported", &report);
    Ok(ExitStatus::Success)
}
