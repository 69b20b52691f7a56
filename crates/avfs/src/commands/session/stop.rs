//! `avfs session stop`.

use agentvfs::Error;
use agentvfs::error::SessionError;
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;

/// Stop sessions
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Everything that runs in a session ends with it, and what it has done to the vault is kept.

Examples:
  avfs session stop s1f2e3d4c
  avfs session stop --all"
)]
pub struct SessionStopArgs {
    /// The ids of the sessions
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// Stop all sessions of the store
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
struct StoppedBody {
    stopped: Vec<String>,
}

pub fn run(context: &mut Context<'_>, args: &SessionStopArgs) -> Result<ExitStatus> {
    let store = context.store()?;
    let ids = if args.all {
        store
            .sessions()
            .list()?
            .into_iter()
            .map(|session| session.record.id)
            .collect()
    } else {
        args.ids.clone()
    };
    let mut stopped = Vec::new();
    for id in ids {
        match store.sessions().get(&id).and_then(|session| session.stop()) {
            Ok(()) => stopped.push(id),
            // It has ended by itself meanwhile.
            Err(Error::Session(SessionError::Unknown { .. })) if args.all => {}
            Err(error) => return Err(error.into()),
        }
    }
    if context.out.is_json() {
        context.out.object("sessions-stopped", &StoppedBody { stopped })?;
        return Ok(ExitStatus::Success);
    }
    stopped
        .iter()
        .for_each(|id| context.out.talk(format_args!("session {id} has ended")));
    Ok(ExitStatus::Success)
}
