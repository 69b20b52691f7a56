//! `avfs man`: manual pages from the definitions that also make the help.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap_mangen::Man;
use serde::Serialize;

use crate::cli::Cli;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::json::PathField;
use crate::printer::Printer;

/// Write the manual pages, one per command
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs man ~/.local/share/man/man1
  man avfs-config-show")]
pub struct ManArgs {
    /// The directory to write to; it is created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

#[derive(Serialize)]
struct ManBody {
    #[serde(flatten)]
    directory: PathField,
    pages: Vec<String>,
}

pub fn run(out: &mut Printer, args: &ManArgs) -> Result<ExitStatus> {
    let place = printable_path(&args.directory);
    fs::create_dir_all(&args.directory).with_context(|| format!("creating {place}"))?;
    let mut definition = Cli::definition().disable_help_subcommand(true);
    definition.build();
    let mut pages = Vec::new();
    write_pages(&definition, &args.directory, &mut pages)?;
    if out.is_json() {
        let directory = PathField::new(args.directory.as_os_str().as_bytes());
        out.object("man", &ManBody { directory, pages })?;
    } else {
        out.talk(format_args!("wrote {} pages to {place}", pages.len()));
    }
    Ok(ExitStatus::Success)
}

/// Writes the page of a command and those of its subcommands.
fn write_pages(command: &clap::Command, directory: &Path, pages: &mut Vec<String>) -> Result<()> {
    let man = Man::new(command.clone());
    let name = man.get_filename();
    let mut page = Vec::new();
    man.render(&mut page)?;
    let file = directory.join(&name);
    fs::write(&file, page).with_context(|| format!("writing {}", printable_path(&file)))?;
    pages.push(name);
    command
        .get_subcommands()
        .try_for_each(|below| write_pages(below, directory, pages))
}
