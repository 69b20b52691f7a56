//! `edit`: texts of a file replaced by others, all of them or none.

use agentvfs::{Version, WriteMode};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::{Call, change, version_at};
use crate::paths::{path_in, show};
use crate::reply::Reply;
use crate::tool_error::ToolError;

/// Larger files are not edited in memory.
const FILE_MAX: u64 = 64 << 20;
/// The most edits of one call.
const EDITS_MAX: usize = 1_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditArgs {
    /// The workspace; without it, the default one.
    workspace: Option<String>,
    /// The file.
    path: String,
    /// What is replaced, one after the other. If one of them cannot be made, nothing is changed.
    edits: Vec<Edit>,
    /// Edit only if the file still has this version, as `read` tells it.
    expected_version: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// The text that is replaced, exactly as the file has it. It must be there once, unless `all` is set.
    old: String,
    /// The text in its place.
    new: String,
    /// Replace it wherever it is.
    #[serde(default)]
    all: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EditAnswer {
    workspace: String,
    path: String,
    /// The version of the file now.
    version: String,
    /// How many places were replaced.
    replaced: u64,
    /// The state of the workspace that holds the change.
    snapshot: String,
}

pub(crate) fn run(call: &Call<'_>, args: &EditArgs) -> Result<Reply, ToolError> {
    if args.edits.is_empty() {
        return Err(ToolError::argument("there is no edit"));
    }
    if args.edits.len() > EDITS_MAX {
        let text = format!("at most {EDITS_MAX} edits are made at once");
        return Err(ToolError::argument(text).help("make them in several steps, or `write` the whole file"));
    }
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    let path = path_in(&workspace.vault, &args.path)?;
    let expected = args.expected_version.as_deref().map(Version::parse).transpose()?;
    let (replaced, snapshot) = change(&workspace.vault, "edit", &path, |open| {
        let size = open.stat(&path)?.size;
        if size > FILE_MAX {
            let text = format!("{} has {size} bytes, more than can be edited", show(&path));
            return Err(
                ToolError::new("too-large", text).help("`exec` can change it, for example with `sed -i`")
            );
        }
        let bytes = open.read(&path)?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| ToolError::new("not-text", format!("{} is not a text file", show(&path))))?;
        let (edited, replaced) = edited(text, &args.edits)?;
        // The version is checked against what was just read, in the same state.
        open.write(
            &path,
            &mut edited.as_bytes(),
            WriteMode::Replace,
            expected.as_ref(),
        )?;
        Ok(replaced)
    })?;
    let answer = EditAnswer {
        workspace: workspace.name.clone(),
        path: show(&path),
        version: version_at(&workspace.vault, snapshot, &path)?,
        replaced,
        snapshot: snapshot.to_string(),
    };
    let path = avfs_core::printable(answer.path.as_bytes());
    let text = format!(
        "replaced {replaced} place(s) in {path}; version {}",
        &answer.version[..12]
    );
    Reply::new(&answer, text)
}

/// The text with all edits made, and how many places were replaced.
fn edited(text: &str, edits: &[Edit]) -> Result<(String, u64), ToolError> {
    let mut text = text.to_owned();
    let mut replaced = 0;
    for (number, edit) in (1..).zip(edits) {
        if edit.old.is_empty() {
            let text = format!("edit {number} replaces nothing: `old` is empty");
            return Err(ToolError::argument(text).help("`write` writes a whole file"));
        }
        let places: Vec<usize> = text.match_indices(&edit.old).map(|(at, _)| at).collect();
        match places.as_slice() {
            [] => return Err(not_there(&text, number, edit)),
            [_, _, ..] if !edit.all => return Err(not_unique(&text, number, &places)),
            places => replaced += places.len() as u64,
        }
        text = text.replace(&edit.old, &edit.new);
    }
    Ok((text, replaced))
}

fn not_there(text: &str, number: usize, edit: &Edit) -> ToolError {
    let error = ToolError::new(
        "no-match",
        format!("the text of edit {number} is not in the file; nothing was changed"),
    );
    let first = edit
        .old
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim();
    let similar: Vec<String> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !first.is_empty() && line.trim() == first)
        .take(3)
        .map(|(line, _): (usize, _)| line.to_string())
        .collect();
    match similar.as_slice() {
        [] => error.help("`read` the file: `old` must be exactly as the file has it, with its spaces"),
        lines => error.help(format!(
            "its first line is there with other spaces or followed by something else, at line {}: `read` that place",
            lines.join(", ")
        )),
    }
}

fn not_unique(text: &str, number: usize, places: &[usize]) -> ToolError {
    let lines: Vec<String> = places
        .iter()
        .take(10)
        .map(|at| (text[..*at].matches('\n').count() + 1).to_string())
        .collect();
    let message = format!(
        "the text of edit {number} is in the file {} times, at line {}; nothing was changed",
        places.len(),
        lines.join(", ")
    );
    ToolError::new("not-unique", message)
        .help("add lines around it to `old`, or set `all` to replace every one")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str, new: &str, all: bool) -> Edit {
        Edit {
            old: old.into(),
            new: new.into(),
            all,
        }
    }

    #[test]
    fn edits_are_made_one_after_the_other() {
        let done = edited("a b a", &[edit("b", "a", false), edit("a", "c", true)]).unwrap();
        assert_eq!(done, ("c c c".to_owned(), 4));
    }

    #[test]
    fn a_text_that_is_not_unique_names_its_lines() {
        let error = edited("x\ny\nx\n", &[edit("x", "z", false)]).unwrap_err();
        assert_eq!(error.code(), "not-unique");
        assert!(
            error.message().contains("2 times, at line 1, 3"),
            "{}",
            error.message()
        );
    }

    #[test]
    fn a_text_that_is_missing_is_an_error_also_behind_one_that_is_there() {
        let error = edited("x\n", &[edit("x", "z", false), edit("x", "y", false)]).unwrap_err();
        assert_eq!(error.code(), "no-match");
    }
}
