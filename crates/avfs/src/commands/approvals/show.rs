//! `avfs approvals show`: everything that an approval would hold for.

use agentvfs::Store;
use agentvfs::approvals::{
    Approval, ApprovalState, AskedCommand, AskedNetwork, Binding, FoundProgram, NamedProgram, Preview, Scope,
    StoredBytes,
};
use agentvfs::exec::sandbox::classify::{Classes, named_parameters, named_variables};
use agentvfs::exec::sandbox::launch::CommandEnd;
use agentvfs::rules::Preset;
use anyhow::Result;
use serde::Serialize;

use super::body::ApprovalBody;
use super::{find, vault_name, wrapped};
use crate::commands::exec::supervised;
use crate::context::Context;
use crate::escape::{printable, printable_line, printable_text};
use crate::exit::ExitStatus;
use crate::foreground::{self, Side, Worker};
use crate::printer::{HEADING, PrintError, Printer};
use crate::time::show_rfc3339;
use crate::versions::count;

/// Variables that every run has.
const OF_THE_SANDBOX: [&str; 10] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "PATH",
    "LANG",
    "PWD",
    "AVFS_VAULT",
    "TERM",
];

/// Show exactly what is requested, and what an answer would cover
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Control characters and anything else that could hide text are shown as escapes.
--diff runs the command in a temporary fork with the same rules and limits, but without network access and
without variables that look like credentials. It is refused for commands that might affect the host.

Examples:
  avfs approvals show a1-5f0c21d8
  avfs approvals show a1-5f0c21d8 --diff
  avfs approvals show a1-5f0c21d8 --json"
)]
pub struct ApprovalsShowArgs {
    /// The id of the approval
    #[arg(value_name = "ID")]
    id: String,
    /// Also show what the command would change
    #[arg(long)]
    diff: bool,
}

#[derive(Serialize)]
struct ApprovalsShowBody {
    #[serde(flatten)]
    approval: ApprovalBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<PreviewBody>,
}

#[derive(Serialize)]
struct PreviewBody {
    patch: String,
    exit_code: Option<i32>,
    withheld: Vec<String>,
    run: agentvfs::exec::Envelope,
}

pub fn run(context: &mut Context<'_>, args: &ApprovalsShowArgs) -> Result<ExitStatus> {
    if !args.diff {
        return show_all(context, args, None);
    }
    // A front that is killed leaves the worker to throw the fork away.
    match foreground::split()? {
        Side::Foreground(front) => front.wait(),
        Side::Worker(worker) => show_all(context, args, Some(&worker)),
    }
}

/// Shows an approval, and the changes that a worker would make according to it.
fn show_all(
    context: &mut Context<'_>,
    args: &ApprovalsShowArgs,
    worker: Option<&Worker>,
) -> Result<ExitStatus> {
    let (store, approval) = find(context, &args.id)?;
    let preview = worker
        .map(|worker| preview(worker, &store, &approval))
        .transpose()?;
    if context.out.is_json() {
        let approval = ApprovalBody::of(&store, &approval)?;
        let body = ApprovalsShowBody {
            approval,
            preview: preview.map(PreviewBody::from),
        };
        context.out.object("approval", &body)?;
        return Ok(ExitStatus::Success);
    }
    show(context.out, &store, &approval, RulesShown::All)?;
    if let Some(preview) = preview {
        show_preview(context.out, &preview)?;
    }
    Ok(ExitStatus::Success)
}

fn preview(worker: &Worker, store: &Store, approval: &Approval) -> Result<Preview> {
    let shown = supervised(worker, None, None, &mut (), |running| {
        store.preview(approval, running)
    })??;
    Ok(shown)
}

impl From<Preview> for PreviewBody {
    fn from(preview: Preview) -> PreviewBody {
        let envelope = preview.run.envelope();
        PreviewBody {
            patch: String::from_utf8_lossy(&preview.patch).into_owned(),
            exit_code: envelope.result.as_ref().and_then(|result| result.exit_code),
            withheld: preview.withheld,
            run: envelope,
        }
    }
}

/// How many rules are listed above a question. More would push the command off the screen.
const RULES_ABOVE_QUESTION: usize = 8;

/// How the rules of a view are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesShown {
    All,
    /// A long list is counted.
    Counted,
}

/// The preset that consists of exactly these rules, if they are many.
fn preset_of(rules: &[&String]) -> Option<Preset> {
    let is_same = |preset: &Preset| {
        let own = preset.rules();
        own.len() == rules.len() && own.iter().zip(rules).all(|(own, rule)| own.to_string() == **rule)
    };
    let is_long = rules.len() > RULES_ABOVE_QUESTION;
    is_long
        .then(|| Preset::ALL.iter().copied().find(is_same))
        .flatten()
}

fn show_view(out: &mut Printer, approval: &Approval, shown: RulesShown) -> Result<()> {
    let rules: Vec<&String> = approval.binding.rules.iter().flatten().collect();
    if let Some(preset) = preset_of(&rules) {
        let (name, count) = (preset.name(), rules.len());
        let told = format!("preset {name} ({count} rules; `avfs rules presets {name}` lists them)");
        return Ok(line(out, "rules", &told)?);
    }
    if shown == RulesShown::Counted && rules.len() > RULES_ABOVE_QUESTION {
        let told = format!(
            "{} of them: `avfs approvals show {}` lists them",
            rules.len(),
            approval.id
        );
        return Ok(line(out, "rules", &told)?);
    }
    for rule in rules {
        line(out, "rule", &printable(rule.as_bytes()))?;
    }
    Ok(())
}

/// Tells everything that an approval would hold for.
pub fn show(out: &mut Printer, store: &Store, approval: &Approval, rules: RulesShown) -> Result<()> {
    let binding = &approval.binding;
    line(out, "approval", &format!("{}, {}", approval.id, state(approval)))?;
    line(out, "command", &binding.command.shown())?;
    show_programs(out, binding)?;
    line(
        out,
        "vault",
        &format!("{} at {}", vault_name(store, approval)?, binding.head),
    )?;
    for (key, value) in [("directory", Some(&binding.cwd)), ("part", binding.path.as_ref())] {
        value
            .into_iter()
            .try_for_each(|value| line(out, key, &raw(value)))?;
    }
    for (name, value) in &binding.env {
        line(out, "variable", &format!("{}={}", raw(name), raw(value)))?;
    }
    for (name, _) in &binding.passed {
        line(
            out,
            "variable",
            &format!("{} of the user who runs it, which is not stored", raw(name)),
        )?;
    }
    for (name, value) in &binding.inherited {
        line(out, "inherited", &format!("{}={}", raw(name), raw(value)))?;
    }
    if !binding.left_out.is_empty() {
        let told = "the command does not have them";
        line(
            out,
            "left out",
            &format!("{} of the session's shell: {told}", binding.left_out.join(", ")),
        )?;
    }
    line(out, "input", &input(approval))?;
    line(out, "given", &given(store, approval)?)?;
    line(out, "network", &network(&binding.network))?;
    binding
        .published
        .iter()
        .try_for_each(|one| line(out, "published", &printable(one.as_bytes())))?;
    show_view(out, approval, rules)?;
    for (key, value) in [("principal", &binding.principal), ("session", &binding.session)] {
        value
            .iter()
            .try_for_each(|value| line(out, key, &printable(value.as_bytes())))?;
    }
    line(out, "limits", &limits(approval))?;
    if let Some(seconds) = binding.idle_seconds {
        line(
            out,
            "idle",
            &format!("it ends after {seconds} seconds without a command"),
        )?;
    }
    line(
        out,
        "asked",
        &format!("{} by run {}", show_rfc3339(approval.created), approval.run),
    )?;
    // An answer for good no longer expires, although the request once did.
    if !matches!(
        approval.state,
        ApprovalState::Allowed {
            scope: Scope::Always,
            ..
        }
    ) {
        line(out, "expires", &show_rfc3339(approval.expires))?;
    }
    line(out, "because", &printable_line(approval.reason.as_bytes()))?;
    show_parts(out, approval)?;
    show_earlier(out, approval)?;
    show_rules(out, approval)
}

/// A key and its complete value: a value that is wider than the terminal continues in the rows below.
fn line(out: &mut Printer, key: &str, value: &str) -> Result<(), PrintError> {
    let mut rows = wrapped::rows(key, value, wrapped::width()).into_iter();
    let first = rows.next().unwrap_or_default();
    // The key is painted afterwards, because escape sequences would count as columns when rows are cut.
    let value = first.strip_prefix(&format!("{key}:")).unwrap_or_default();
    let key = out.paint(HEADING, format!("{key}:"));
    out.line(format_args!("{key}{value}"))?;
    rows.try_for_each(|row| out.line(row))
}

/// Which program each word means, and which names of a line have no value.
fn show_programs(out: &mut Printer, binding: &Binding) -> Result<()> {
    for NamedProgram { name, found } in &binding.programs {
        // A command that could not be parsed is named by its escaped text.
        let name = match found {
            FoundProgram::Unknown => printable_line(name.as_bytes()),
            _ => printable(name.as_bytes()),
        };
        let told = match found {
            FoundProgram::Builtin => format!("{name} is part of the shell"),
            FoundProgram::Installed(path) => format!("{name} is {}", raw(path)),
            FoundProgram::InVault(path) => {
                format!(
                    "{name} is {}, a file of the vault, which runs can change",
                    raw(path)
                )
            }
            FoundProgram::Unknown => format!("{name} is not known before it runs"),
        };
        line(out, "program", &told)?;
    }
    if !binding.searched.is_empty() {
        let searched: Vec<String> = binding.searched.iter().map(raw).collect();
        line(
            out,
            "searched",
            &format!("{}, where runs can put programs", searched.join(", ")),
        )?;
    }
    let AskedCommand::Shell(text) = &binding.command else {
        return Ok(());
    };
    // A variable without a value changes what the line does, and its author may not have meant that.
    let is_set = |name: &str| {
        let given = binding.env.iter().chain(&binding.inherited).map(|(own, _)| own);
        given
            .chain(binding.passed.iter().map(|(own, _)| own))
            .any(|own| own.as_bytes() == name.as_bytes())
            || OF_THE_SANDBOX.contains(&name)
    };
    let unset = named_variables(text)
        .into_iter()
        .filter(|name| !is_set(name))
        .map(|name| format!("${name}"));
    let unset: Vec<String> = unset.chain(named_parameters(text)).collect();
    if !unset.is_empty() {
        line(
            out,
            "not set",
            &format!("{} when the line begins", unset.join(", ")),
        )?;
    }
    Ok(())
}

/// The run's grants besides its network.
fn given(store: &Store, approval: &Approval) -> Result<String> {
    let binding = &approval.binding;
    // A session writes later, whatever the class of the command that is asked about now.
    let stays = binding.session.is_some() || binding.command == AskedCommand::Session;
    let reads = binding.read_only || !stays && approval.classification().classes.is_read_only();
    let view = if reads {
        "reads the files of the vault"
    } else {
        "reads and writes the files of the vault"
    };
    let place = match store.vault_by_id(binding.vault).own_path()? {
        Some(path) if binding.isolation == "bubblewrap" => {
            format!(
                ", at their own path {}",
                printable(path.as_os_str().as_encoded_bytes())
            )
        }
        _ => String::new(),
    };
    let home = binding
        .home
        .as_ref()
        .map(|home| format!(", with tools and caches of {}", raw(home)));
    let shell = match (&binding.command, &binding.session) {
        (AskedCommand::Session, _) => ", for every command of the session",
        (_, Some(_)) => ", in a fresh shell with the variables and in the directory shown here",
        (_, None) => "",
    };
    Ok(format!("{view}{place}{}{shell}", home.unwrap_or_default()))
}

fn raw(raw: &StoredBytes) -> String {
    printable(raw.as_bytes())
}

fn state(approval: &Approval) -> String {
    match &approval.state {
        ApprovalState::Pending => "waits for an answer".to_owned(),
        ApprovalState::Allowed { scope, by, .. } => {
            format!("allowed by {} ({})", printable(by.as_bytes()), scope.as_str())
        }
        ApprovalState::Denied { by, reason, .. } => {
            let reason = reason
                .as_deref()
                .map(|reason| format!(": {}", printable(reason.as_bytes())));
            format!(
                "denied by {}{}",
                printable(by.as_bytes()),
                reason.unwrap_or_default()
            )
        }
        ApprovalState::Used { run, by } => {
            format!("allowed by {}, used by run {run}", printable(by.as_bytes()))
        }
        ApprovalState::Expired => "has expired".to_owned(),
        ApprovalState::Replaced { with } => format!("replaced by {with}, since the vault has changed"),
    }
}

fn input(approval: &Approval) -> String {
    match &approval.binding.stdin {
        Some(input) => format!("{} bytes, BLAKE3 {}", input.length, input.hash),
        None => "nothing".to_owned(),
    }
}

fn network(network: &AskedNetwork) -> String {
    match network {
        AskedNetwork::None => "none: it can reach nothing, whatever it tries".to_owned(),
        AskedNetwork::Host => "everything that this machine can reach".to_owned(),
        AskedNetwork::Hosts(hosts) if hosts.is_empty() => "none: the list of hosts is empty".to_owned(),
        AskedNetwork::Hosts(hosts) => hosts.join(", "),
    }
}

fn limits(approval: &Approval) -> String {
    let (binding, limits) = (&approval.binding, &approval.binding.limits);
    let limit = |name: &str, value: Option<u64>| value.map(|value| format!("{name} {value}"));
    let mut parts: Vec<String> = [
        limits.timeout_ms.map(time_limit),
        limits.memory_bytes.map(memory_limit),
        limit("processes", limits.pids),
        limit("processor seconds", limits.cpu_seconds),
    ]
    .into_iter()
    .flatten()
    .collect();
    parts.push(format!("isolation {}", binding.isolation));
    parts.push(format!("checkpoint {}", binding.checkpoint));
    parts.extend(binding.read_only.then(|| "read-only".to_owned()));
    parts.join(", ")
}

/// A number in the largest unit that divides it: requested values are shown exactly.
fn exactly(number: u64, units: &[(u64, &'static str)]) -> (u64, &'static str) {
    let fits = |(size, _): &&(u64, &'static str)| number > 0 && number.is_multiple_of(*size);
    let (size, name) = units.iter().find(fits).unwrap_or(&units[units.len() - 1]);
    (number / size, *name)
}

fn time_limit(milliseconds: u64) -> String {
    let units = [
        (3_600_000, "hour"),
        (60_000, "minute"),
        (1000, "second"),
        (1, "millisecond"),
    ];
    let (number, unit) = exactly(milliseconds, &units);
    count(number, unit)
}

fn memory_limit(bytes: u64) -> String {
    let (number, unit) = exactly(
        bytes,
        &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes")],
    );
    format!("memory {number} {unit}")
}

fn show_parts(out: &mut Printer, approval: &Approval) -> Result<()> {
    let found = approval.classification();
    line(out, "does", &classes(found.classes))?;
    for part in &found.parts {
        let told = format!("{} ({}): {}", part.text, classes(part.classes), part.reason);
        below(out, &told)?;
    }
    Ok(())
}

/// A text below its key, all of it. Every row has the margin.
fn below(out: &mut Printer, text: &str) -> Result<(), PrintError> {
    let width = wrapped::width().saturating_sub(wrapped::MARGIN.len());
    let (rows, _) = wrapped::beginning(text, width, usize::MAX);
    rows.iter()
        .try_for_each(|row| out.line(format_args!("{}{row}", wrapped::MARGIN)))
}

fn classes(classes: Classes) -> String {
    classes
        .iter()
        .map(|class| class.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

fn show_earlier(out: &mut Printer, approval: &Approval) -> Result<()> {
    let Some(earlier) = &approval.earlier else {
        return Ok(());
    };
    let told = if earlier.changed.is_empty() {
        format!("the same was asked for by {}", earlier.id)
    } else {
        format!(
            "{} asked for the same command; {}",
            earlier.id,
            earlier.what_changed()
        )
    };
    Ok(line(out, "before", &told)?)
}

/// The rules that `--always` would save, or a note that there are none.
fn show_rules(out: &mut Printer, approval: &Approval) -> Result<()> {
    if let Some(reason) = approval.binding.once_only() {
        return Ok(line(out, "once only", &reason)?);
    }
    // The rule names the command and not the contents of its files, which runs can change.
    if approval.binding.network != AskedNetwork::None {
        let told = "with --session and --always, it has this network whatever the files that it runs contain by then";
        line(out, "note", told)?;
    }
    let rules = approval.rules_to_save();
    if rules.is_empty() {
        return Ok(line(
            out,
            "always",
            "nothing can be saved for it: allow it once or for a session",
        )?);
    }
    let told = if approval.saves_whole_command() {
        "would save, for this line as a whole, with the programs, variables and view shown here"
    } else {
        "would save, with the programs, variables and view shown here"
    };
    line(out, "always", told)?;
    for rule in rules {
        for text in printable_text(rule.to_toml().as_bytes()).lines() {
            below(out, text)?;
        }
    }
    Ok(())
}

fn show_preview(out: &mut Printer, preview: &Preview) -> Result<()> {
    let ended = match (&preview.run.error, &preview.run.outcome.process) {
        (Some(error), _) => format!("it did not run: {}", error.body().message),
        (None, Some(process)) if process.timed_out() => {
            "without network it took too long and was ended".to_owned()
        }
        (None, Some(process)) => match process.end {
            CommandEnd::Signaled(_) => "without network it was killed".to_owned(),
            CommandEnd::Exited(_) | CommandEnd::NotStarted { .. } => {
                format!("without network it ended with {}", process.status())
            }
        },
        (None, None) => "it did not run".to_owned(),
    };
    line(out, "preview", &ended)?;
    if !preview.withheld.is_empty() {
        line(out, "withheld", &preview.withheld.join(", "))?;
    }
    if preview.patch.is_empty() {
        return Ok(out.line("it changed nothing")?);
    }
    // Escaped even here: the command chose the contents, and could draw over what is shown above.
    Ok(out.bytes(printable_text(&preview.patch).as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_a_preset_are_one_line() {
        let rules: Vec<String> = Preset::Development
            .rules()
            .iter()
            .map(ToString::to_string)
            .collect();
        let mut rules: Vec<&String> = rules.iter().collect();
        assert_eq!(preset_of(&rules), Some(Preset::Development));
        rules.pop();
        assert_eq!(preset_of(&rules), None);
    }

    #[test]
    fn limits_are_shown_exactly_in_units_that_people_use() {
        let times = [600_000, 60_000, 90_000, 1500, 0].map(time_limit);
        assert_eq!(
            times,
            [
                "10 minutes",
                "1 minute",
                "90 seconds",
                "1500 milliseconds",
                "0 milliseconds"
            ]
        );
        let sizes = [4 << 30, 1536 << 20, 4097].map(memory_limit);
        assert_eq!(sizes, ["memory 4 GiB", "memory 1536 MiB", "memory 4097 bytes"]);
    }
}
