//! `avfs policy set`: a policy that holds from now on.

use std::path::PathBuf;

use agentvfs::exec::sandbox::policy::Policy;
use anyhow::Result;

use super::place::{PlaceArgs, PolicyBody};
use crate::commands::exec::policy_text;
use crate::context::Context;
use crate::exit::ExitStatus;

/// Store a policy for a project, a vault or everything
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without a flag, the policy is stored with the vault that commands work on, or with the project of the current \
directory if that vault is one of its tasks, and also applies to its forks and tasks. The nearest policy decides: that of the vault itself, that \
of the vault it was forked from, the one for everything, and finally the built-in one. `--policy` of `avfs exec` and \
`avfs session start` takes precedence over all of them. The store keeps a copy of the file: after you edit the file, \
set it again.

Examples:
  avfs policy set strict.toml
  avfs policy set strict.toml --everywhere
  avfs policy set strict.toml --vault web"
)]
pub struct PolicySetArgs {
    /// The policy file
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,

    #[command(flatten)]
    place: PlaceArgs,
}

pub fn run(context: &mut Context<'_>, args: &PolicySetArgs) -> Result<ExitStatus> {
    let text = policy_text(&args.file)?;
    // An error is reported with its position in the file that the user can edit.
    Policy::parse(&args.file, &text).map_err(agentvfs::Error::from)?;
    let name = args
        .file
        .file_name()
        .unwrap_or(args.file.as_os_str())
        .to_string_lossy()
        .into_owned();
    let place = args.place.to_store(context)?;
    let before = place.set(Some((&name, &text)))?;
    if context.out.is_json() {
        context.out.object("policy", &PolicyBody::new(&place)?)?;
        return Ok(ExitStatus::Success);
    }
    let how = if before.is_some() {
        "replaces the policy"
    } else {
        "is the policy"
    };
    let name = crate::escape::printable(name.as_bytes());
    context
        .out
        .talk(format_args!("{name} {how} of {} from now on", place.name()?));
    Ok(ExitStatus::Success)
}
