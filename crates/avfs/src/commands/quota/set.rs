//! `avfs quota set`: limits for a vault.

use crate::size::{BadSize, parse_size};

/// Set limits; every way in obeys them
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("limit").required(true).multiple(true), after_help = "Examples:
  avfs quota set --bytes 2G --files 100000
  avfs quota set --bytes unlimited")]
pub struct SetArgs {
    /// Bytes that the files may have, or 'unlimited'
    #[arg(long, value_name = "SIZE", group = "limit", value_parser = bytes_limit)]
    bytes: Option<Limit>,

    /// How many files there may be, or 'unlimited'
    #[arg(long, value_name = "N", group = "limit", value_parser = files_limit)]
    files: Option<Limit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Unlimited,
    AtMost(u64),
}

fn bytes_limit(text: &str) -> Result<Limit, BadSize> {
    match text {
        "unlimited" => Ok(Limit::Unlimited),
        size => parse_size(size).map(Limit::AtMost),
    }
}

fn files_limit(text: &str) -> Result<Limit, std::num::ParseIntError> {
    match text {
        "unlimited" => Ok(Limit::Unlimited),
        count => count.parse().map(Limit::AtMost),
    }
}
