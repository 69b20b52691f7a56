//! `avfs rules presets`: the rules that come with avfs.

use agentvfs::rules::{self, Preset};
use anyhow::Result;
use serde::Serialize;

use super::{ListedRuleBody, bodies, print_rules};
use crate::context::Context;
use crate::exit::ExitStatus;

/// List the presets, or the rules of one
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs rules presets
  avfs rules presets agent-safe")]
pub struct PresetsArgs {
    /// Show the rules of this preset
    name: Option<String>,
}

#[derive(Serialize)]
struct PresetsBody {
    presets: Vec<PresetBody>,
}

#[derive(Serialize)]
struct PresetBody {
    name: &'static str,
    description: &'static str,
    rules: Vec<ListedRuleBody>,
}

pub fn run(context: &mut Context<'_>, args: &PresetsArgs) -> Result<ExitStatus> {
    let one = args
        .name
        .as_ref()
        .map(|name| rules::preset("rules presets", name))
        .transpose()?;
    let presets = one.map_or(Preset::ALL.to_vec(), |preset| vec![preset]);
    if context.out.is_json() {
        let presets = presets.iter().map(|preset| PresetBody {
            name: preset.name(),
            description: preset.description(),
            rules: bodies(&preset.rules()),
        });
        context.out.object(
            "rules-presets",
            &PresetsBody {
                presets: presets.collect(),
            },
        )?;
        return Ok(ExitStatus::Success);
    }
    if let Some(preset) = one {
        context.out.talk(preset.description());
        let rules: Vec<_> = preset
            .rules()
            .into_iter()
            .map(|rule| rule.with_origin(Default::default()))
            .collect();
        print_rules(context.out, &rules)?;
        return Ok(ExitStatus::Success);
    }
    for preset in presets {
        context
            .out
            .line(format_args!("{:<12} {}", preset.name(), preset.description()))?;
    }
    Ok(ExitStatus::Success)
}
