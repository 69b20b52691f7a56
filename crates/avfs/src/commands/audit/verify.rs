//! `avfs audit verify`: whether the record was tampered with.

/// Check that no record was changed, removed or added in between
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs audit verify
  avfs audit verify --expect 9f2c…        a head that was kept elsewhere")]
pub struct VerifyArgs {
    /// The chain must contain this record
    #[arg(long, value_name = "HASH")]
    expect: Option<String>,
}
