//! `avfs ln`: symbolic and hard links.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use agentvfs::{InodeKind, OpenVault};
use anyhow::Result;
use avfs_core::{EntryName, TreePath};
use serde::Serialize;

use crate::args::{PathArg, path_arg};
use crate::change::{ChangedBody, describe};
use crate::context::Context;
use crate::entry::TargetField;
use crate::exit::ExitStatus;
use crate::json::{PathField, from_root};
use crate::rule_args::RuleArgs;

/// Create a link
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs ln -s releases/4 current
  avfs ln data.bin same-data.bin")]
pub struct LnArgs {
    /// The target of the link: a file in the vault, or with -s any text
    target: OsString,

    /// The path of the link
    #[arg(value_parser = path_arg())]
    name: PathArg,

    /// Create a symbolic link instead of a hard link
    #[arg(short, long)]
    symbolic: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct LnBody {
    #[serde(flatten)]
    path: PathField,
    #[serde(flatten)]
    target: TargetField,
    symbolic: bool,
    #[serde(flatten)]
    changed: ChangedBody,
}

pub fn run(context: &mut Context<'_>, args: &LnArgs) -> Result<ExitStatus> {
    let name = context.path(&args.name)?;
    let raw = args.target.as_bytes();
    // Any text is good enough for a symbolic link; the other sort needs a file of the vault.
    let file = if args.symbolic {
        None
    } else {
        Some(context.path(&PathArg::parse(raw)?)?)
    };
    let (path, changed) = context.change("ln", &describe([&name]), |open| {
        let path = place(open, &name, raw)?;
        match &file {
            Some(file) => open.hard_link(file, &path)?,
            None => open.symlink(raw, &path)?,
        }
        Ok(path)
    })?;
    if context.out.is_json() {
        let target = file.as_ref().map_or_else(|| raw.to_vec(), from_root);
        let target = TargetField::new(&target);
        let body = LnBody {
            path: (&path).into(),
            target,
            symbolic: args.symbolic,
            changed: changed.body(),
        };
        context.out.object("ln", &body)?;
    }
    Ok(ExitStatus::Success)
}

/// A link that is put into a directory has the name of its target.
fn place(open: &OpenVault, name: &TreePath, target: &[u8]) -> Result<TreePath> {
    if !open.exists(name)? || open.stat(name)?.kind != InodeKind::Directory {
        return Ok(name.clone());
    }
    let last = target
        .split(|byte| *byte == b'/')
        .rfind(|part| !part.is_empty())
        .unwrap_or_default();
    Ok(name.join(&EntryName::new(last)?))
}
