//! The tools as clients see them: names, descriptions, schemas and hints, always in the same order.

use std::sync::Arc;

use rmcp::handler::server::tool::{schema_for_input, schema_for_output};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use rmcp::schemars::JsonSchema;
use serde_json::{Value, json};

use crate::command::{ExecAnswer, ExecArgs};
use crate::reply::NOTES;
use crate::tools::{
    changes, checkpoint, delete, edit, fork, glob, grep, list, move_path, read, restore, status, write,
};

/// A tool of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolName {
    Read,
    List,
    Glob,
    Grep,
    Write,
    Edit,
    Move,
    Delete,
    Exec,
    Changes,
    Checkpoint,
    Restore,
    Fork,
    Status,
}

impl ToolName {
    /// In the order in which clients are shown them.
    pub const ALL: [ToolName; 14] = [
        ToolName::Read,
        ToolName::List,
        ToolName::Glob,
        ToolName::Grep,
        ToolName::Write,
        ToolName::Edit,
        ToolName::Move,
        ToolName::Delete,
        ToolName::Exec,
        ToolName::Changes,
        ToolName::Checkpoint,
        ToolName::Restore,
        ToolName::Fork,
        ToolName::Status,
    ];

    pub fn named(name: &str) -> Option<ToolName> {
        ToolName::ALL.into_iter().find(|tool| tool.as_str() == name)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            ToolName::Read => "read",
            ToolName::List => "list",
            ToolName::Glob => "glob",
            ToolName::Grep => "grep",
            ToolName::Write => "write",
            ToolName::Edit => "edit",
            ToolName::Move => "move",
            ToolName::Delete => "delete",
            ToolName::Exec => "exec",
            ToolName::Changes => "changes",
            ToolName::Checkpoint => "checkpoint",
            ToolName::Restore => "restore",
            ToolName::Fork => "fork",
            ToolName::Status => "status",
        }
    }

    /// Whether a call of it can change a workspace.
    pub fn changes_files(self) -> bool {
        match self {
            ToolName::Write
            | ToolName::Edit
            | ToolName::Move
            | ToolName::Delete
            | ToolName::Exec
            | ToolName::Restore => true,
            ToolName::Read
            | ToolName::List
            | ToolName::Glob
            | ToolName::Grep
            | ToolName::Changes
            | ToolName::Checkpoint
            | ToolName::Fork
            | ToolName::Status => false,
        }
    }

    /// The tool as it is listed. `network`: whether commands reach hosts without being asked about.
    pub fn definition(self, network: bool) -> Tool {
        let (title, description) = self.words();
        let (input, output) = self.schemas();
        Tool::new(self.as_str(), description, input)
            .with_title(title)
            .with_raw_output_schema(output)
            .with_annotations(self.annotations(network))
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            ToolName::Read => (
                "Read a file",
                "Read lines of a file, with line numbers and the version of the file. Binary files are described, not shown.",
            ),
            ToolName::List => (
                "List a directory",
                "List the entries of a directory, to any depth.",
            ),
            ToolName::Glob => (
                "Find files",
                "Find files whose paths match patterns such as `src/**/*.rs`.",
            ),
            ToolName::Grep => (
                "Search text",
                "Search files for lines that match a regular expression.",
            ),
            ToolName::Write => (
                "Write a file",
                "Write or append to a file; missing directories are created. The state before is kept.",
            ),
            ToolName::Edit => (
                "Edit a file",
                "Replace texts in a file, all of them or none. A text that is not there exactly once changes nothing.",
            ),
            ToolName::Move => ("Move a file", "Move or rename a file or directory."),
            ToolName::Delete => (
                "Delete a file",
                "Delete a file, or a directory with everything in it. `restore` can bring it back.",
            ),
            ToolName::Exec => (
                "Run a command",
                "Run a shell command in a sandbox on the workspace, with the user's tools and without a network unless \
                 it is granted. Files that it changes are changed in the workspace only. Some commands wait for the \
                 user's approval.",
            ),
            ToolName::Changes => (
                "Show changes",
                "List the files that differ from the beginning of the work or from a checkpoint, with a diff if wanted.",
            ),
            ToolName::Checkpoint => (
                "Save a checkpoint",
                "Save the present state of all files under a name. It costs next to nothing: save one before anything risky.",
            ),
            ToolName::Restore => (
                "Restore a state",
                "Bring files, or everything, back from a checkpoint or an earlier snapshot. The present state is kept.",
            ),
            ToolName::Fork => (
                "Fork the workspace",
                "Copy the workspace as it is now, at once, to try something beside it.",
            ),
            ToolName::Status => (
                "Show the status",
                "Show the workspaces, and the checkpoints, last changes and waiting approvals of one of them.",
            ),
        }
    }

    fn schemas(self) -> (Arc<JsonObject>, Arc<JsonObject>) {
        match self {
            ToolName::Read => schemas::<read::ReadArgs, read::ReadAnswer>(),
            ToolName::List => schemas::<list::ListArgs, list::ListAnswer>(),
            ToolName::Glob => schemas::<glob::GlobArgs, glob::GlobAnswer>(),
            ToolName::Grep => schemas::<grep::GrepArgs, grep::GrepAnswer>(),
            ToolName::Write => schemas::<write::WriteArgs, write::WriteAnswer>(),
            ToolName::Edit => schemas::<edit::EditArgs, edit::EditAnswer>(),
            ToolName::Move => schemas::<move_path::MoveArgs, move_path::MoveAnswer>(),
            ToolName::Delete => schemas::<delete::DeleteArgs, delete::DeleteAnswer>(),
            ToolName::Exec => schemas::<ExecArgs, ExecAnswer>(),
            ToolName::Changes => schemas::<changes::ChangesArgs, changes::ChangesAnswer>(),
            ToolName::Checkpoint => schemas::<checkpoint::CheckpointArgs, checkpoint::CheckpointAnswer>(),
            ToolName::Restore => schemas::<restore::RestoreArgs, restore::RestoreAnswer>(),
            ToolName::Fork => schemas::<fork::ForkArgs, fork::ForkAnswer>(),
            ToolName::Status => schemas::<status::StatusArgs, status::StatusAnswer>(),
        }
    }

    /// Hints for clients. They enforce nothing: the rules and the policy do.
    fn annotations(self, network: bool) -> ToolAnnotations {
        let annotations = ToolAnnotations::new().open_world(false);
        match self {
            ToolName::Read
            | ToolName::List
            | ToolName::Glob
            | ToolName::Grep
            | ToolName::Changes
            | ToolName::Status => annotations.read_only(true).destructive(false).idempotent(true),
            ToolName::Write | ToolName::Restore => {
                annotations.read_only(false).destructive(true).idempotent(true)
            }
            ToolName::Edit | ToolName::Move | ToolName::Delete => {
                annotations.read_only(false).destructive(true).idempotent(false)
            }
            ToolName::Exec => annotations
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(network),
            // They add something and change no file.
            ToolName::Checkpoint | ToolName::Fork => {
                annotations.read_only(false).destructive(false).idempotent(false)
            }
        }
    }
}

fn schemas<Input: JsonSchema + 'static, Output: JsonSchema + 'static>() -> (Arc<JsonObject>, Arc<JsonObject>)
{
    let input = schema_for_input::<Input>().expect("the arguments of every tool are an object");
    (plain(&input), with_notes(&schema_for_output::<Output>()))
}

/// The schema of an answer: its own fields, and the notes that every answer can have.
fn with_notes(schema: &JsonObject) -> Arc<JsonObject> {
    let mut schema = (*plain(schema)).clone();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        let notes = json!({
            "type": "array",
            "items": { "type": "string" },
            "description": "What the server says about the answer, such as how to read on.",
        });
        properties.insert(NOTES.to_owned(), notes);
    }
    Arc::new(schema)
}

/// A schema without the sizes of integers, which validators do not know.
fn plain(schema: &JsonObject) -> Arc<JsonObject> {
    let mut schema = Value::Object(schema.clone());
    remove_sizes(&mut schema);
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => unreachable!("an object stays one"),
    }
}

fn remove_sizes(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is_size = |format: &Value| format.as_str().is_some_and(|format| format.contains("int"));
            if members.get("format").is_some_and(is_size) {
                members.remove("format");
            }
            members.values_mut().for_each(remove_sizes);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_sizes),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_found_by_its_name_and_takes_a_workspace() {
        for tool in ToolName::ALL {
            assert_eq!(ToolName::named(tool.as_str()), Some(tool));
            let definition = tool.definition(false);
            let properties = &definition.input_schema["properties"];
            assert!(properties.get("workspace").is_some(), "{}", tool.as_str());
            assert_eq!(
                definition.input_schema["additionalProperties"],
                false,
                "{}",
                tool.as_str()
            );
            let output = definition.output_schema.expect("every tool has an output schema");
            assert_eq!(output["type"], "object", "{}", tool.as_str());
            assert!(output["properties"].get(NOTES).is_some(), "{}", tool.as_str());
        }
    }

    #[test]
    fn only_tools_that_change_nothing_are_called_read_only() {
        for tool in ToolName::ALL {
            let hints = tool.definition(false).annotations.unwrap();
            if tool.changes_files() {
                assert_eq!(hints.read_only_hint, Some(false), "{}", tool.as_str());
                assert_eq!(hints.destructive_hint, Some(true), "{}", tool.as_str());
            }
        }
    }

    #[test]
    fn no_tool_decides_what_belongs_to_the_user() {
        for name in ["apply", "merge", "discard", "approve", "allow", "approvals"] {
            assert_eq!(ToolName::named(name), None);
        }
    }
}
