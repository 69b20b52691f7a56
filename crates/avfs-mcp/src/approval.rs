//! Asking the person at the client whether a command may run.
//!
//! The answer comes from the client in reply to a question of the server, never from a tool call: what a model says is no
//! approval. A newer client is sent back with the question and repeats its request with the answer; the state that it
//! brings along is sealed, and holds for the same request alone. An older one is asked while its request waits. The question
//! is a form, or the address of a page for a client that can only open one. A client that cannot ask is told what a person
//! has to do.

use std::time::Duration;

use agentvfs::Store;
use agentvfs::approvals::{Allowance, Approval, ApprovalId, ApprovalState, AskedNetwork};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, InputRequest, InputRequests, InputRequiredResult, ProtocolVersion, RequestStateCodec,
    SealOptions,
};
use rmcp::service::RequestContext;
use serde_json::json;

use crate::tool_error::ToolError;

/// The key of the one question in a result that asks.
const QUESTION: &str = "approval";
/// For how long a client may come back with an answer.
const VALID: Duration = Duration::from_secs(60 * 60);
/// How much of a command is shown to the person.
const COMMAND_MAX: usize = 4_000;
/// How much of the value of a variable.
const VALUE_MAX: usize = 500;

/// How a client can put a question to its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// By a result that asks; the request comes again.
    ByResult(Question),
    /// By a request of its own.
    ByRequest(Question),
    /// Not at all.
    Never,
}

/// What a client shows to its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// The client shows the choices itself, and its answer is the user's.
    Form,
    /// The client opens an address. That its user agreed to this is no answer: the answer is given there.
    Page,
}

impl Asking {
    pub fn of(context: &RequestContext<RoleServer>) -> Asking {
        let capabilities = context.client_capabilities();
        let Some(elicitation) = capabilities.and_then(|capabilities| capabilities.elicitation) else {
            return Asking::Never;
        };
        // An older client that names no mode means forms. They take the user to no other window.
        let question = match (&elicitation.form, &elicitation.url) {
            (None, Some(_)) => Question::Page,
            _ => Question::Form,
        };
        let is_new = context
            .protocol_version()
            .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        if is_new {
            Asking::ByResult(question)
        } else {
            Asking::ByRequest(question)
        }
    }
}

/// Seals what a client carries back. The key is of this process alone.
pub(crate) fn codec() -> Result<RequestStateCodec, std::io::Error> {
    let mut key = [0_u8; 32];
    crate::http::random(&mut key)?;
    RequestStateCodec::try_new(key).map_err(std::io::Error::other)
}

/// A result that sends the client to its user with a question.
pub(crate) fn question(
    codec: &RequestStateCodec,
    request: &CallToolRequestParams,
    id: &ApprovalId,
    question: Question,
    asked: ElicitRequestParams,
) -> Result<InputRequiredResult, ToolError> {
    let asked = ElicitRequest::new(asked);
    let requests = InputRequests::from([(QUESTION.to_owned(), InputRequest::Elicitation(asked))]);
    let context = binding(request, question);
    let options = SealOptions::new().associated_data(&context).ttl(VALID);
    let state = codec.seal_with(id.to_string().as_bytes(), &options);
    Ok(InputRequiredResult::new(Some(requests), Some(state)))
}

/// What the user of a client that was sent away has answered, and to which question.
pub(crate) fn answered(
    codec: &RequestStateCodec,
    request: &CallToolRequestParams,
    question: Question,
) -> Result<Option<(ApprovalId, Answer)>, ToolError> {
    let Some(state) = &request.request_state else {
        return Ok(None);
    };
    let sealed = codec.open_with(state, &binding(request, question)).map_err(|_| {
        ToolError::new(
            "bad-request-state",
            "the state of the request is not one that this server gave for it",
        )
        .help("call the tool again without it")
    })?;
    let id = ApprovalId::parse(&String::from_utf8_lossy(&sealed))?;
    let response = request
        .input_responses
        .as_ref()
        .and_then(|responses| responses.get(QUESTION));
    // A client that brings the state and no answer is asked again.
    let Some(response) = response else { return Ok(None) };
    let result: ElicitResult = serde_json::from_value(response.clone()).map_err(|error| {
        ToolError::argument(format!("the answer to the question cannot be read: {error}"))
    })?;
    Ok(Some((id, Answer::of(&result, question))))
}

/// A state holds for the same tool with the same arguments, and for an answer of the kind that was asked for.
fn binding(request: &CallToolRequestParams, question: Question) -> Vec<u8> {
    let arguments = request.arguments.clone().unwrap_or_default();
    let is_page = question == Question::Page;
    json!([request.name, arguments, is_page]).to_string().into_bytes()
}

/// What a person answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Once,
    Session,
    Deny,
    /// It is given on a page, now or in a while.
    OnPage,
    /// The question was put away without an answer.
    Later,
}

impl Answer {
    pub fn of(result: &ElicitResult, question: Question) -> Answer {
        match (&result.action, question) {
            (ElicitationAction::Accept, Question::Page) => Answer::OnPage,
            (ElicitationAction::Accept, Question::Form) => result
                .content
                .as_ref()
                .and_then(|content| content["decision"].as_str())
                .and_then(Answer::of_word)
                // What is not one of the choices lets nothing run.
                .unwrap_or(Answer::Later),
            (ElicitationAction::Decline, _) => Answer::Deny,
            _ => Answer::Later,
        }
    }

    /// One of the choices.
    pub fn of_word(word: &str) -> Option<Answer> {
        match word {
            "once" => Some(Answer::Once),
            "session" => Some(Answer::Session),
            "deny" => Some(Answer::Deny),
            _ => None,
        }
    }
}

/// Writes an answer down. A question that was answered elsewhere meanwhile keeps that answer.
pub(crate) fn decide(store: &Store, id: &ApprovalId, answer: Answer) -> Result<(), ToolError> {
    if store.approval(id)?.state != ApprovalState::Pending {
        return Ok(());
    }
    match answer {
        Answer::Once => drop(store.allow(id, &Allowance::Once)?),
        Answer::Session => drop(store.allow(id, &Allowance::Session)?),
        Answer::Deny => drop(store.deny(id, None)?),
        Answer::OnPage | Answer::Later => {}
    }
    Ok(())
}

/// The words of the answers to a request, as [`Answer::of_word`] reads them.
pub(crate) fn choices(approval: &Approval) -> &'static [&'static str] {
    match approval.binding.once_only() {
        Some(_) => &["once", "deny"],
        None => &["once", "session", "deny"],
    }
}

/// The question as the address of a page.
pub(crate) fn page(approval: &Approval, url: String) -> ElicitRequestParams {
    ElicitRequestParams::UrlElicitationParams {
        meta: None,
        message: message(approval),
        url,
        elicitation_id: approval.id.to_string(),
    }
}

/// The question as a form.
pub(crate) fn form(approval: &Approval) -> Result<ElicitRequestParams, ToolError> {
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": "once: this command now; session: the same command for the next hours; deny: not at all",
                "enum": choices(approval),
            }
        },
        "required": ["decision"],
    });
    let schema: ElicitationSchema = serde_json::from_value(schema)
        .map_err(|error| ToolError::new("internal", format!("the form cannot be made: {error}")))?;
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(approval),
        requested_schema: schema,
    })
}

/// The question in words. Nothing in the command can begin a line of its own.
fn message(approval: &Approval) -> String {
    let facts = facts(approval, Some(COMMAND_MAX));
    let lines = facts.iter().map(|(what, value)| format!("{what}: {value}"));
    std::iter::once("An agent asks to run a command that needs your approval.".to_owned())
        .chain(lines)
        .collect::<Vec<_>>()
        .join("\n")
}

/// The exact command and what it would be given, each on one line. A text that is longer than `most` bytes says so.
pub(crate) fn facts(approval: &Approval, most: Option<usize>) -> Vec<(&'static str, String)> {
    let printable = |text: &str| avfs_core::printable(text.as_bytes());
    let command = avfs_core::printable(approval.binding.command.shown().as_bytes());
    let shown = crate::reply::beginning(&command, most.unwrap_or(command.len()));
    let rest = if shown.len() < command.len() {
        format!(
            " … ({} characters more: look at approval {} before you allow it)",
            command.len() - shown.len(),
            approval.id
        )
    } else {
        String::new()
    };
    let classes: Vec<&str> = approval
        .classification()
        .classes
        .iter()
        .map(|class| class.as_str())
        .collect();
    let mut facts = vec![
        ("command", format!("{shown}{rest}")),
        ("why it needs it", printable(&approval.reason)),
        ("what it does", classes.join(", ")),
    ];
    let binding = &approval.binding;
    match &binding.network {
        AskedNetwork::None => {}
        AskedNetwork::Host => facts.push(("network", "all of it".to_owned())),
        AskedNetwork::Hosts(hosts) => facts.push(("network", printable(&hosts.join(", ")))),
    }
    for (name, value) in &binding.env {
        let [name, value] = [name, value].map(|raw| avfs_core::printable(raw.as_bytes()));
        let most = most.map_or(value.len(), |_| VALUE_MAX);
        let value = crate::reply::beginning(&value, most);
        facts.push(("variable", format!("{name}={value}")));
    }
    if let Some(input) = &binding.stdin {
        facts.push((
            "it reads",
            format!("{} bytes that the agent gives it", input.length),
        ));
    }
    facts
}
