//! The user's editor.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Has the user edit a file, with `$VISUAL` or `$EDITOR`. Says whether the editor ended well.
pub fn edit(file: &Path) -> Result<bool> {
    let set = |name| std::env::var_os(name).filter(|editor| !editor.is_empty());
    let mut script = set("VISUAL")
        .or_else(|| set("EDITOR"))
        .unwrap_or_else(|| "vi".into());
    // The setting may have arguments.
    script.push(" \"$@\"");
    let ended = Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg("editor")
        .arg(file)
        .status();
    Ok(ended.context("starting the editor")?.success())
}
