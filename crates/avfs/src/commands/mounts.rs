//! `avfs mounts`: the active mounts.

use std::collections::HashMap;

use agentvfs::mount::{MountOptions, MountState};
use agentvfs::{KnownMount, LiveOwner, Store};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::size::HumanSize;
use crate::table;

/// List the mounts of all vaults
#[derive(Debug, clap::Args)]
#[command(after_help = "Also cleans up mounts whose process has died.

Examples:
  avfs mounts
  avfs mounts --json")]
pub struct MountsArgs {}

#[derive(Serialize)]
struct MountsBody {
    mounts: Vec<MountLine>,
}

/// One mount, with the information from the process that serves it.
#[derive(Serialize)]
struct MountLine {
    vault: String,
    #[serde(flatten)]
    state: MountState,
}

pub fn run(context: &mut Context<'_>, _args: &MountsArgs) -> Result<ExitStatus> {
    let store = context.store()?;
    store.mounts().clean_up(&mut agentvfs::mount::take_away)?;
    let mounts = lines(&store)?;
    for list in store.mounts().unreadable_lists()? {
        let list = printable_path(&list);
        context.out.warn(format_args!(
            "{list} is not readable and was ignored; `avfs fsck --repair` removes it"
        ));
    }
    if context.out.is_json() {
        context.out.object("mounts", &MountsBody { mounts })?;
        return Ok(ExitStatus::Success);
    }
    if mounts.is_empty() {
        context
            .out
            .talk("nothing is mounted; `avfs mount VAULT DIR` mounts one");
        return Ok(ExitStatus::Success);
    }
    let rows: Vec<[String; 6]> = mounts.into_iter().map(row).collect();
    let heading = ["VAULT", "DIRECTORY", "PROCESS", "MEMORY", "TRANSPORT", "OPTIONS"];
    table::print(context.out, heading, &rows)?;
    Ok(ExitStatus::Success)
}

fn row(MountLine { vault, state }: MountLine) -> [String; 6] {
    let options = summary(&state.record.options);
    let options = if options.is_empty() {
        "-".to_owned()
    } else {
        options
    };
    let memory = HumanSize(state.memory_bytes).to_string();
    let directory = printable_path(&state.record.dir);
    [
        vault,
        directory,
        state.record.pid.to_string(),
        memory,
        state.transport.to_string(),
        options,
    ]
}

/// The options of a mount in one line: of rules, how many they are.
fn summary(words: &[String]) -> String {
    let Ok(options) = MountOptions::parse(words) else {
        return words.join(",");
    };
    let rules = options
        .rules
        .as_ref()
        .map(|rules| format!("rules={}", rules.len()));
    let others = MountOptions {
        rules: None,
        ..options
    }
    .words();
    let all: Vec<String> = others.into_iter().chain(rules).collect();
    agentvfs::printable(all.join(",").as_bytes())
}

fn lines(store: &Store) -> Result<Vec<MountLine>> {
    let mut asked: HashMap<String, Vec<MountState>> = HashMap::new();
    let mut lines = Vec::new();
    for KnownMount { vault, mount, .. } in store.mounts().list()? {
        let name = vault.to_string();
        if !asked.contains_key(&name) {
            let mounts = store.vault(&name)?.look_at_owner(LiveOwner::mounts)?;
            asked.insert(name.clone(), mounts.unwrap_or_default());
        }
        let state = asked[&name].iter().find(|state| state.record.dir == mount.dir);
        lines.extend(state.map(|state| MountLine {
            vault: name,
            state: state.clone(),
        }));
    }
    Ok(lines)
}
