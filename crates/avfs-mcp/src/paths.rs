//! Paths as agents write them: from the root of the workspace, or as commands in its sandbox see them.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use agentvfs::exec::sandbox::plan::WORKSPACE;
use agentvfs::{TreePath, Vault};

use crate::tool_error::ToolError;

/// The path of the workspace that a text means. The place at which commands see the workspace may stand in front of it.
pub(crate) fn path_in(vault: &Vault, text: &str) -> Result<TreePath, ToolError> {
    let below = match vault.own_path()? {
        Some(root) => below(text, root.as_os_str().as_bytes()),
        None => None,
    };
    let below = below.or_else(|| below_workspace(vault, text));
    TreePath::parse(below.unwrap_or(text).as_bytes()).map_err(|error| {
        ToolError::new(
            "bad-name",
            format!("{}: {error}", avfs_core::printable(text.as_bytes())),
        )
        .help("paths start at the root of the workspace, such as src/main.rs; '..' is not part of one")
    })
}

/// Unless the vault itself has something of that name.
fn below_workspace<'a>(vault: &Vault, text: &'a str) -> Option<&'a str> {
    let rest = below(text, WORKSPACE.as_bytes())?;
    let own = TreePath::parse(WORKSPACE.as_bytes()).ok()?;
    let is_entry = vault.reader().is_ok_and(|reader| reader.find(&own).is_ok());
    (!is_entry).then_some(rest)
}

fn below<'a>(text: &'a str, root: &[u8]) -> Option<&'a str> {
    let root = std::str::from_utf8(root).ok()?;
    let rest = Path::new(text).strip_prefix(root).ok()?;
    rest.to_str()
}

/// A path as answers show it.
pub(crate) fn show(path: &TreePath) -> String {
    if path.is_root() {
        ".".to_owned()
    } else {
        String::from_utf8_lossy(path.as_bytes()).into_owned()
    }
}
