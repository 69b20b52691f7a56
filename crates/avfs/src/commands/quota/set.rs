//! `avfs quota set`: limits for a vault.

use anyhow::Result;

use super::print_object;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::size::{BadSize, HumanSize, parse_size};

/// Limit the size of a vault or its number of entries (files, directories and links)
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("limit").required(true).multiple(true), after_help = "Examples:
  avfs quota set --bytes 2G --files 100000
  avfs quota set --bytes none")]
pub struct QuotaSetArgs {
    /// The total size that the files may have, such as 2G, or 'none'
    #[arg(long, value_name = "SIZE", group = "limit", value_parser = bytes_limit)]
    bytes: Option<Limit>,

    /// The number of files, directories and links that there may be, or 'none'
    #[arg(long, value_name = "N", group = "limit", value_parser = files_limit)]
    files: Option<Limit>,
}

pub fn run(context: &mut Context<'_>, args: &QuotaSetArgs) -> Result<ExitStatus> {
    let vault = context.vault()?;
    let before = vault.info()?;
    let bytes = args.bytes.map_or(before.max_bytes, Limit::value);
    let files = args.files.map_or(before.max_files, Limit::value);
    vault.set_quota(bytes, files)?;
    let info = vault.info()?;
    let out = &mut *context.out;
    if out.is_json() {
        print_object(out, &info)?;
        return Ok(ExitStatus::Success);
    }
    let shown = |limit: Option<String>| limit.unwrap_or_else(|| "any number of".to_owned());
    let bytes_shown = bytes.map(|bytes| HumanSize(bytes).to_string());
    out.talk(format_args!(
        "{} may hold {} in {} entries",
        info.name,
        bytes_shown.unwrap_or_else(|| "any number of bytes".to_owned()),
        shown(files.map(|files| files.to_string()))
    ));
    if bytes.is_some_and(|limit| info.bytes > limit) || files.is_some_and(|limit| info.files > limit) {
        out.warn("it already exceeds this limit: files can only be removed or made smaller");
    }
    Ok(ExitStatus::Success)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Unlimited,
    AtMost(u64),
}

impl Limit {
    fn value(self) -> Option<u64> {
        match self {
            Limit::Unlimited => None,
            Limit::AtMost(limit) => Some(limit),
        }
    }
}

fn bytes_limit(text: &str) -> Result<Limit, BadSize> {
    match text {
        "none" | "unlimited" => Ok(Limit::Unlimited),
        size => parse_size(size).map(Limit::AtMost),
    }
}

fn files_limit(text: &str) -> Result<Limit, std::num::ParseIntError> {
    match text {
        "none" | "unlimited" => Ok(Limit::Unlimited),
        count => count.parse().map(Limit::AtMost),
    }
}
