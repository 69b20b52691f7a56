//! `avfs profiles groups`: the names for several hosts.

use agentvfs::exec::sandbox::network::groups;
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;

/// List the host groups that --net accepts
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs profiles groups
  avfs run --net +npm,+github -- claude
  avfs profiles groups --json | jq -r '.groups[] | select(.name == \"npm\").hosts[]'")]
pub struct GroupsArgs {}

#[derive(Serialize)]
struct GroupsBody {
    groups: Vec<GroupBody>,
}

#[derive(Serialize)]
struct GroupBody {
    name: &'static str,
    about: &'static str,
    hosts: Vec<String>,
}

pub fn list(context: &mut Context<'_>) -> Result<ExitStatus> {
    let all = groups().iter().map(|group| GroupBody {
        name: &group.name,
        about: &group.about,
        hosts: group.hosts.iter().map(ToString::to_string).collect(),
    });
    if context.out.is_json() {
        context.out.object(
            "network-groups",
            &GroupsBody {
                groups: all.collect(),
            },
        )?;
        return Ok(ExitStatus::Success);
    }
    for GroupBody { name, about, hosts } in all {
        context
            .out
            .line(format_args!("+{name:<12} {about}: {}", hosts.join(" ")))?;
    }
    Ok(ExitStatus::Success)
}
