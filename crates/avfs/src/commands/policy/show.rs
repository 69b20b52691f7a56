//! `avfs policy show`: the policy that decides.

use anyhow::Result;

use super::place::{PlaceArgs, PolicyBody, origin};
use crate::context::Context;
use crate::escape::printable_text;
use crate::exit::ExitStatus;

/// Show which policy decides, and what it says
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints the policy on standard output, so that you can edit it and set it again, and its origin on
standard error. `avfs approvals rules` lists the rules that were saved in addition to it.

Examples:
  avfs policy show
  avfs policy show --everywhere
  avfs policy show --vault web > policy.toml"
)]
pub struct PolicyShowArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

pub fn run(context: &mut Context<'_>, args: &PolicyShowArgs) -> Result<ExitStatus> {
    let place = args.place.of_commands(context)?;
    let body = PolicyBody::new(&place)?;
    if context.out.is_json() {
        context.out.object("policy", &body)?;
        return Ok(ExitStatus::Success);
    }
    context.out.talk(format_args!(
        "{} decides for {}",
        origin(&place.in_force()?),
        place.name()?
    ));
    let text = if context.out.is_terminal() {
        printable_text(body.text().as_bytes())
    } else {
        body.text().to_owned()
    };
    context.out.bytes(text.as_bytes())?;
    Ok(ExitStatus::Success)
}
