//! `avfs chmod`: permission bits.

use agentvfs::{InodeKind, OpenVault};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use crate::args::{PathArg, path_arg};
use crate::change::{ChangedBody, describe};
use crate::context::Context;
use crate::entry::octal;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::json::PathField;
use crate::mode::ModeChange;
use crate::rule_args::RuleArgs;

/// Change permission bits
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs chmod 755 run.sh
  avfs chmod u+x run.sh
  avfs chmod -R go-w src")]
pub struct ChmodArgs {
    /// Octal (755) or symbolic (u+x,go-w)
    mode: ModeChange,

    /// The files and directories to change
    #[arg(value_name = "PATH", required = true, value_parser = path_arg())]
    paths: Vec<PathArg>,

    /// Include everything below directories
    #[arg(short = 'R', long)]
    recursive: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct ChmodBody {
    entries: Vec<ModeBody>,
    #[serde(flatten)]
    changed: ChangedBody,
}

/// An entry whose mode has changed.
#[derive(Serialize)]
struct ModeBody {
    #[serde(flatten)]
    path: PathField,
    mode: String,
}

pub fn run(context: &mut Context<'_>, args: &ChmodArgs) -> Result<ExitStatus> {
    let paths = context.paths(&args.paths)?;
    let (entries, changed) = context.change("chmod", &describe(&paths), |open| {
        let mut entries = Vec::new();
        for path in &paths {
            change_mode(open, path, args, &mut entries)?;
        }
        Ok(entries)
    })?;
    if context.out.is_json() {
        context.out.object(
            "chmod",
            &ChmodBody {
                entries,
                changed: changed.body(),
            },
        )?;
    }
    Ok(ExitStatus::Success)
}

fn change_mode(open: &OpenVault, top: &TreePath, args: &ChmodArgs, done: &mut Vec<ModeBody>) -> Result<()> {
    let mut waiting = vec![top.clone()];
    while let Some(path) = waiting.pop() {
        let attr = open.stat(&path)?;
        match attr.kind {
            // Its own permissions mean nothing, and its target was not named.
            InodeKind::Symlink if path == *top => return Err(link_has_no_mode(&path).into()),
            InodeKind::Symlink => continue,
            InodeKind::Directory if args.recursive => waiting.extend(open.children(&path)?),
            _ => {}
        }
        let mode = args.mode.apply(attr.meta.mode, attr.kind == InodeKind::Directory);
        if mode != attr.meta.mode {
            open.set_mode(&path, mode)?;
            done.push(ModeBody {
                path: (&path).into(),
                mode: octal(mode),
            });
        }
    }
    Ok(())
}

fn link_has_no_mode(path: &TreePath) -> Failure {
    let message = format!("{path} is a symbolic link, which has no permissions of its own");
    Failure::new("invalid", ExitStatus::BadInput, message).hint(Some("name what it points to".to_owned()))
}
