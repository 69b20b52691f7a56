//! `avfs policy unset`: removes a stored policy.

use anyhow::Result;

use super::place::{PlaceArgs, PolicyBody, origin};
use crate::context::Context;
use crate::exit::ExitStatus;

/// Remove a stored policy
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The next nearest policy then decides; see `avfs policy show`. Exits with status 1 if none was stored.

Examples:
  avfs policy unset
  avfs policy unset --everywhere
  avfs policy unset --vault web"
)]
pub struct UnsetArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

pub fn run(context: &mut Context<'_>, args: &UnsetArgs) -> Result<ExitStatus> {
    let place = args.place.to_store(context)?;
    let before = place.set(None)?;
    if context.out.is_json() {
        context.out.object("policy", &PolicyBody::new(&place)?)?;
    } else {
        let now = origin(&place.in_force()?);
        let name = place.name()?;
        match &before {
            Some(_) => context
                .out
                .talk(format_args!("the policy of {name} is removed; {now} decides")),
            None => context
                .out
                .talk(format_args!("no policy was stored for {name}; {now} decides")),
        }
    }
    Ok(if before.is_some() {
        ExitStatus::Success
    } else {
        ExitStatus::No
    })
}
