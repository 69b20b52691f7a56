//! Executes a project's set-up in a new task.

use std::io::Write;
use std::process::{Command, Stdio};

use agentvfs::Task;
use agentvfs::setup::Setup;
use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// A set-up whose exact text was allowed needs no classification.
const POLICY: &str = "[classes]
read_only = \"allow\"
mutating = \"allow\"
destructive = \"allow\"
networked = \"allow\"
host_escape_risk = \"allow\"
";

/// Puts the files of a set-up into a task and runs its commands there, each in the sandbox through `rules`.
/// Their results belong to the initial state, not to the changes of the task. Ends at the first command that
/// fails.
pub fn carry_out(context: &mut Context<'_>, task: &mut Task, setup: &Setup, rules: &[String]) -> Result<()> {
    setup.put_files(task)?;
    for command in &setup.commands {
        let shown = crate::escape::printable(command.as_bytes());
        context.out.talk(format_args!("setup: {shown}"));
        if !exec(context, task, command, rules)? {
            let text = format!("the setup command '{shown}' failed");
            let name = context.here()?.name_of(task);
            let hint = format!("task '{name}' stays as it is; `avfs discard {name}` deletes it");
            return Err(Failure::new("setup-failed", ExitStatus::No, text)
                .hint(Some(hint))
                .into());
        }
    }
    if setup.commands.is_empty() {
        Ok(())
    } else {
        Ok(task.begin_here()?)
    }
}

/// Runs one command through `avfs exec`; returns whether it succeeded. Its output is printed as messages.
fn exec(context: &Context<'_>, task: &Task, command: &str, rules: &[String]) -> Result<bool> {
    let mut exec = Command::new(std::env::current_exe()?);
    exec.arg("exec")
        .arg("--home")
        .arg(context.home()?)
        .arg("--vault")
        .arg(task.vault_name().as_str());
    exec.args(["--checkpoint", "never", "--policy", "/dev/stdin", "--cwd", "."])
        .args(rules);
    exec.arg("-c").arg(command);
    exec.stdin(Stdio::piped())
        .stdout(std::io::stderr())
        .stderr(Stdio::inherit());
    let mut child = exec.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(POLICY.as_bytes())?;
    }
    Ok(child.wait()?.success())
}
