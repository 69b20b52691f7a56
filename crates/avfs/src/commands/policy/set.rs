//! `avfs policy set`: a policy that holds from now on.

use std::path::PathBuf;

use anyhow::Result;

use super::place::{PlaceArgs, PolicyBody};
use crate::commands::exec::policy_text;
use crate::context::Context;
use crate::exit::ExitStatus;

/// Store a policy, which decides where none is given
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without a flag it is stored with the project of the current directory, or with the vault that commands \
work on, and holds for its forks and tasks, too. The nearest policy decides: that of the vault itself, that of the one \
it was forked from, the one for everywhere, the built-in one. `--policy` of `avfs exec` and `avfs session start` \
comes before all of them. The text is kept in the store: set it again after you have edited the file.

Examples:
  avfs policy set strict.toml
  avfs policy set strict.toml --everywhere
  avfs policy set strict.toml --vault web"
)]
pub struct SetArgs {
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,

    #[command(flatten)]
    place: PlaceArgs,
}

pub fn run(context: &mut Context<'_>, args: &SetArgs) -> Result<ExitStatus> {
    let text = policy_text(&args.file)?;
    let name = args.file.file_name().unwrap_or(args.file.as_os_str()).to_string_lossy().into_owned();
    let place = args.place.find(context)?;
    let before = place.set(Some((&name, &text)))?;
    if context.out.is_json() {
        context.out.object("policy", &PolicyBody::new(&place)?)?;
        return Ok(ExitStatus::Success);
    }
    let how = if before.is_some() { "replaces the policy" } else { "is the policy" };
    let name = crate::escape::printable(name.as_bytes());
    context.out.talk(format_args!("{name} {how} of {} from now on", place.name()?));
    Ok(ExitStatus::Success)
}
