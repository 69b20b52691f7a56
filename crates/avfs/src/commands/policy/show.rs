//! `avfs policy show`: the policy that decides.

use anyhow::Result;

use super::place::{PlaceArgs, PolicyBody, origin};
use crate::context::Context;
use crate::escape::printable_text;
use crate::exit::ExitStatus;

/// Show which policy decides, and what it says
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The policy goes to standard output and can be edited and set again; where it comes from goes to
standard error. `avfs approvals rules` lists the answers that were saved besides it.

Examples:
  avfs policy show
  avfs policy show --everywhere
  avfs policy show --vault web > policy.toml"
)]
pub struct ShowArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

pub fn run(context: &mut Context<'_>, args: &ShowArgs) -> Result<ExitStatus> {
    let place = args.place.find(context)?;
    let body = PolicyBody::new(&place)?;
    if context.out.is_json() {
        context.out.object("policy", &body)?;
        return Ok(ExitStatus::Success);
    }
    context.out.talk(format_args!("{} decides for {}", origin(&place.in_force()?), place.name()?));
    let text = match context.out.is_terminal() {
        true => printable_text(body.text().as_bytes()),
        false => body.text().to_owned(),
    };
    context.out.bytes(text.as_bytes())?;
    Ok(ExitStatus::Success)
}
