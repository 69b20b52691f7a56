//! Why a tool did not do what it was asked for, told to the agent with what would help.

use agentvfs::error::FileError;
use agentvfs::exec::ErrorBody;
use agentvfs::{Error, Hint, ReadError};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::json;

use crate::options::FrontEnd;

/// A refusal or a failure. It is an ordinary answer of the protocol, because the agent is the one that can react.
#[derive(Debug)]
pub(crate) struct ToolError {
    code: String,
    message: String,
    help: Option<Help>,
}

#[derive(Debug)]
enum Help {
    Words(String),
    Data(Hint),
}

impl ToolError {
    pub fn new(code: &str, message: impl Into<String>) -> ToolError {
        ToolError {
            code: code.to_owned(),
            message: message.into(),
            help: None,
        }
    }

    pub fn help(self, words: impl Into<String>) -> ToolError {
        ToolError {
            help: Some(Help::Words(words.into())),
            ..self
        }
    }

    /// Adds words in front of those that help already.
    pub fn help_first(self, words: impl Into<String>) -> ToolError {
        let words = match self.help {
            Some(Help::Data(Hint::RunWithNetwork { .. })) => {
                format!(
                    "{}. If it needs the network, name the hosts in `network`",
                    words.into()
                )
            }
            _ => words.into(),
        };
        ToolError {
            help: Some(Help::Words(words)),
            ..self
        }
    }

    /// A mistake in the arguments.
    pub fn argument(message: impl Into<String>) -> ToolError {
        ToolError::new("bad-argument", message)
    }

    /// Why a command has no ordinary end.
    pub fn of_run(body: &ErrorBody) -> ToolError {
        ToolError {
            code: body.code.clone(),
            message: body.message.clone(),
            help: body.hint.clone().map(Help::Data),
        }
    }

    pub fn code(&self) -> &str {
        &self.code
    }

    /// The text of the error alone.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The answer, without structured content: the output schemas describe what a tool has done.
    pub fn into_result(self, front_end: &dyn FrontEnd) -> CallToolResult {
        let help = self.help.map(|help| match help {
            Help::Words(words) => words,
            Help::Data(hint) => words_for_tools(&hint).unwrap_or_else(|| front_end.hint(&hint)),
        });
        let mut text = format!("error ({}): {}", self.code, self.message);
        if let Some(help) = &help {
            text.push_str("\nwhat would help: ");
            text.push_str(help);
        }
        let body = json!({ "code": self.code, "message": self.message, "help": help });
        let mut meta = MetaObject::default();
        meta.insert("agentvfs/error".to_owned(), body);
        CallToolResult::error(vec![ContentBlock::text(text)]).with_meta(Some(meta))
    }
}

impl From<Error> for ToolError {
    fn from(error: Error) -> ToolError {
        ToolError {
            code: error.code().to_string(),
            message: avfs_core::with_causes(&error),
            help: error.hint().map(Help::Data),
        }
    }
}

/// The workspace is not named: the agent has said which it means.
impl From<ReadError> for ToolError {
    fn from(source: ReadError) -> ToolError {
        let vault = String::new();
        let text = source.to_string();
        let error = ToolError::from(Error::File(FileError::Read { vault, source }));
        ToolError {
            message: text,
            ..error
        }
    }
}

/// Where a tool of this server helps, the agent is told of that and not of a command for people.
fn words_for_tools(hint: &Hint) -> Option<String> {
    let words = match hint {
        Hint::ReadAgain { path } => format!("someone changed it: `read` {path} again and repeat the change on what it has now"),
        Hint::ListCheckpoints | Hint::ListRevisions | Hint::ListKeptStates => {
            "`status` lists the checkpoints and the last snapshots".to_owned()
        }
        Hint::SaveCheckpoint => "`checkpoint` saves one".to_owned(),
        Hint::ListVaults | Hint::ListTasks | Hint::NameTask | Hint::ChooseTask => {
            "`status` lists the workspaces".to_owned()
        }
        Hint::ExplainRule { .. } => {
            "the rules of this workspace decide that, and only a person can change them; work without this path".to_owned()
        }
        _ => return None,
    };
    Some(words)
}
