//! `write`: the contents of one file.

use agentvfs::{Version, WriteMode};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::{Call, change, version_at};
use crate::paths::{path_in, show};
use crate::reply::Reply;
use crate::tool_error::ToolError;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteArgs {
    /// The workspace; without it, the default one.
    workspace: Option<String>,
    /// The file; missing directories are created.
    path: String,
    /// The whole contents, or what is appended.
    content: String,
    /// Append to the file instead of replacing it.
    #[serde(default)]
    append: bool,
    /// Write only if the file still has this version, as `read` tells it; `absent`: only if it does not exist.
    expected_version: Option<String>,
    /// Make the file executable, or not; as it was if not said.
    executable: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WriteAnswer {
    workspace: String,
    path: String,
    /// The version of the file now.
    version: String,
    /// The state of the workspace that holds the change.
    snapshot: String,
}

pub(crate) fn run(call: &Call<'_>, args: &WriteArgs) -> Result<Reply, ToolError> {
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    let path = path_in(&workspace.vault, &args.path)?;
    let expected = args.expected_version.as_deref().map(Version::parse).transpose()?;
    let mode = if args.append {
        WriteMode::Append
    } else {
        WriteMode::Replace
    };
    let ((), snapshot) = change(&workspace.vault, "write", &path, |open| {
        if let Some((parent, _)) = path.split_last().filter(|(parent, _)| !parent.is_root()) {
            open.make_directory(&parent, true)?;
        }
        open.write(&path, &mut args.content.as_bytes(), mode, expected.as_ref())?;
        if let Some(executable) = args.executable {
            let mode = open.stat(&path)?.meta.mode;
            let mode = if executable { mode | 0o111 } else { mode & !0o111 };
            open.set_mode(&path, mode)?;
        }
        Ok(())
    })?;
    let answer = WriteAnswer {
        workspace: workspace.name.clone(),
        path: show(&path),
        version: version_at(&workspace.vault, snapshot, &path)?,
        snapshot: snapshot.to_string(),
    };
    let text = format!(
        "wrote {}; version {}",
        avfs_core::printable(answer.path.as_bytes()),
        &answer.version[..12]
    );
    Reply::new(&answer, text)
}
