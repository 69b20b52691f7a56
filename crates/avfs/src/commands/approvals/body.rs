//! An approval in JSON.

use agentvfs::Store;
use agentvfs::approvals::{
    Approval, ApprovalState, AskedCommand, AskedLimits, AskedNetwork, BoundInput, FoundProgram, NamedProgram,
    StoredBytes,
};
use agentvfs::exec::sandbox::classify::{Classes, CommandPart};
use agentvfs::exec::sandbox::policy::PrefixRule;
use anyhow::Result;
use serde::Serialize;

use super::vault_name;
use crate::json;
use crate::time::show_rfc3339;

#[derive(Serialize)]
pub struct ApprovalBody {
    id: String,
    vault: String,
    pub state: &'static str,
    scope: Option<&'static str>,
    by: Option<String>,
    denied_because: Option<String>,
    replaced_with: Option<String>,
    created: String,
    expires: String,
    run: String,
    used_by_run: Option<String>,
    command: Vec<WordBody>,
    command_mode: &'static str,
    cwd: WordBody,
    path: Option<WordBody>,
    home: Option<WordBody>,
    env: Vec<VariableBody>,
    /// The caller's variables that are passed on, without their values.
    env_passed: Vec<WordBody>,
    env_inherited: Vec<VariableBody>,
    stdin: Option<BoundInput>,
    rules: Option<Vec<String>>,
    network: AskedNetwork,
    published: Vec<String>,
    limits: AskedLimits,
    readonly: bool,
    checkpoint_mode: String,
    isolation: String,
    principal: Option<String>,
    session: Option<String>,
    /// Variables of the session's shell that the command does not have.
    left_out: Vec<String>,
    programs: Vec<ProgramBody>,
    /// The directories in which programs are looked for, and to which runs can write.
    searched: Vec<WordBody>,
    idle_seconds: Option<u64>,
    /// Why it can be allowed for one run only.
    once_only: Option<String>,
    policy: String,
    head: String,
    digest: String,
    reason: String,
    classes: Classes,
    parts: Vec<CommandPart>,
    always: Vec<ApprovalsRuleBody>,
    /// The rule that `always` saves applies to the command as a whole.
    always_whole: bool,
    earlier: Option<EarlierBody>,
}

json::byte_field!(WordBody, text, text_bytes_hex);
json::byte_field!(NameField, name, name_bytes_hex);
json::byte_field!(ValueField, value, value_bytes_hex);

#[derive(Serialize)]
struct VariableBody {
    #[serde(flatten)]
    name: NameField,
    #[serde(flatten)]
    value: ValueField,
}

/// A program that the command names, and where it is.
#[derive(Serialize)]
pub struct ProgramBody {
    name: String,
    found: &'static str,
    path: Option<WordBody>,
}

impl ProgramBody {
    pub fn of(program: &NamedProgram) -> ProgramBody {
        let (found, path) = match &program.found {
            FoundProgram::Builtin => ("builtin", None),
            FoundProgram::Installed(path) => ("installed", Some(path)),
            FoundProgram::InVault(path) => ("vault", Some(path)),
            FoundProgram::Unknown => ("unknown", None),
        };
        ProgramBody {
            name: program.name.clone(),
            found,
            path: path.map(word),
        }
    }
}

/// A rule that would be saved, or was.
#[derive(Serialize)]
pub struct ApprovalsRuleBody {
    pub prefix: Vec<String>,
    pub exact: bool,
    pub classes: Option<Classes>,
}

#[derive(Serialize)]
struct EarlierBody {
    id: String,
    changed: Vec<String>,
}

impl ApprovalBody {
    pub fn of(store: &Store, approval: &Approval) -> Result<ApprovalBody> {
        let found = approval.classification();
        let binding = &approval.binding;
        let (command, command_mode) = command(&binding.command);
        let state = StateFields::of(&approval.state);
        Ok(ApprovalBody {
            id: approval.id.to_string(),
            vault: vault_name(store, approval)?,
            state: approval.state.as_str(),
            scope: state.scope,
            by: state.by,
            denied_because: state.denied_because,
            replaced_with: state.replaced_with,
            created: show_rfc3339(approval.created),
            expires: show_rfc3339(approval.expires),
            run: approval.run.clone(),
            used_by_run: state.used_by_run,
            command,
            command_mode,
            cwd: word(&binding.cwd),
            path: binding.path.as_ref().map(word),
            home: binding.home.as_ref().map(word),
            env: variables(&binding.env),
            env_passed: binding.passed.iter().map(|(name, _)| word(name)).collect(),
            env_inherited: variables(&binding.inherited),
            stdin: binding.stdin.clone(),
            rules: binding.rules.clone(),
            network: binding.network.clone(),
            published: binding.published.clone(),
            limits: binding.limits.clone(),
            readonly: binding.read_only,
            checkpoint_mode: binding.checkpoint.clone(),
            isolation: binding.isolation.clone(),
            principal: binding.principal.clone(),
            session: binding.session.clone(),
            left_out: binding.left_out.clone(),
            programs: binding.programs.iter().map(ProgramBody::of).collect(),
            searched: binding.searched.iter().map(word).collect(),
            idle_seconds: binding.idle_seconds,
            once_only: binding.once_only(),
            policy: binding.policy.clone(),
            head: binding.head.to_string(),
            digest: binding.digest(),
            reason: approval.reason.clone(),
            classes: found.classes,
            parts: found.parts,
            always: approval
                .rules_to_save()
                .iter()
                .map(ApprovalsRuleBody::of)
                .collect(),
            always_whole: approval.saves_whole_command(),
            earlier: approval.earlier.as_ref().map(|earlier| EarlierBody {
                id: earlier.id.to_string(),
                changed: earlier.changed.clone(),
            }),
        })
    }
}

impl ApprovalsRuleBody {
    pub fn of(rule: &PrefixRule) -> ApprovalsRuleBody {
        ApprovalsRuleBody {
            prefix: rule.prefix.clone(),
            exact: rule.exact,
            classes: rule.classes,
        }
    }
}

/// The fields of an approval's state besides its name.
#[derive(Default)]
struct StateFields {
    scope: Option<&'static str>,
    by: Option<String>,
    denied_because: Option<String>,
    replaced_with: Option<String>,
    used_by_run: Option<String>,
}

impl StateFields {
    fn of(state: &ApprovalState) -> StateFields {
        let none = StateFields::default();
        match state.clone() {
            ApprovalState::Pending | ApprovalState::Expired => none,
            ApprovalState::Allowed { scope, by, .. } => StateFields {
                scope: Some(scope.as_str()),
                by: Some(by),
                ..none
            },
            ApprovalState::Denied { by, reason, .. } => StateFields {
                by: Some(by),
                denied_because: reason,
                ..none
            },
            ApprovalState::Used { run, by } => StateFields {
                by: Some(by),
                used_by_run: Some(run),
                ..none
            },
            ApprovalState::Replaced { with } => StateFields {
                replaced_with: Some(with.to_string()),
                ..none
            },
        }
    }
}

fn command(command: &AskedCommand) -> (Vec<WordBody>, &'static str) {
    match command {
        AskedCommand::Argv(words) => (words.iter().map(word).collect(), "argv"),
        AskedCommand::Shell(line) => (vec![WordBody::new(line.as_bytes())], "shell"),
        AskedCommand::Session => (Vec::new(), "session"),
    }
}

fn word(raw: &StoredBytes) -> WordBody {
    WordBody::new(raw.as_bytes())
}

fn variables(pairs: &[(StoredBytes, StoredBytes)]) -> Vec<VariableBody> {
    let variable = |(name, value): &(StoredBytes, StoredBytes)| VariableBody {
        name: NameField::new(name.as_bytes()),
        value: ValueField::new(value.as_bytes()),
    };
    pairs.iter().map(variable).collect()
}
