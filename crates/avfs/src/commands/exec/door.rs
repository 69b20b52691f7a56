//! `avfs` inside a sandbox: it sends requests through the inner door, and here they are answered. Only a few
//! commands about the run's own vault are possible, through the run's own rules.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use agentvfs::exec::inner_environment::DOOR_VARIABLE;
use agentvfs::exec::{DoorReply, DoorScope, InnerDoor, ask};
use agentvfs::rules::{Rule, Rules};

use crate::cli::Cli;
use crate::commands::checkpoint::CheckpointCommand;
use crate::commands::rules::RulesCommand;
use crate::commands::{self, Command};
use crate::context::CommandScope;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::global_args::{ColorArg, EarlyFlags, GlobalArgs};
use crate::printer::Printer;
use crate::rule_args::RuleArgs;

/// Asks through the door, if there is one: then this is the inside of a sandbox.
pub fn through_door() -> Option<u8> {
    let door = PathBuf::from(std::env::var_os(DOOR_VARIABLE)?);
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let told = ask(&door, &words).and_then(|reply| {
        io::stdout().write_all(&reply.stdout)?;
        io::stderr().write_all(&reply.stderr)?;
        Ok(reply.status)
    });
    Some(told.unwrap_or_else(|error| {
        let _ = writeln!(
            io::stderr(),
            "error: the door of this run does not answer: {error}"
        );
        ExitStatus::Refused.number()
    }))
}

/// Answers for one vault, as one run sees it.
pub struct HostDoor {
    pub home: PathBuf,
    pub vault: String,
    pub rules: Option<Vec<Rule>>,
}

impl InnerDoor for HostDoor {
    fn answer(&self, words: &[OsString], run: &DoorScope) -> DoorReply {
        // Collected and sent as a whole: the process inside prints it with its own streams.
        let (stdout, stderr) = (GatheredOutput::default(), GatheredOutput::default());
        let flags = EarlyFlags::scan(words.iter().cloned());
        let mut out = Printer::to(Box::new(stdout.clone()), Box::new(stderr.clone()), flags.style());
        let outcome = self.run(words, run, &mut out);
        let status = outcome.unwrap_or_else(|error| crate::report(&mut out, &error));
        // Output in memory can always be flushed.
        let _ = out.flush();
        DoorReply {
            status: status.number(),
            stdout: stdout.take(),
            stderr: stderr.take(),
        }
    }
}

impl HostDoor {
    fn run(&self, words: &[OsString], run: &DoorScope, out: &mut Printer) -> anyhow::Result<ExitStatus> {
        let line = [OsString::from("avfs")].into_iter().chain(words.iter().cloned());
        // Parsed like any command line, so that mistakes get the same messages as outside.
        let cli = Cli::read(line, Some(ColorArg::Never))?;
        if let Command::Status(_) = &cli.command
            && !out.is_json()
        {
            return self.tell_status(run, out);
        }
        let effect =
            DoorEffect::of(&cli.command).filter(|_| cli.global.home.is_none() && cli.global.vault.is_none());
        match effect {
            None => return Err(shut().into()),
            Some(DoorEffect::Change) if !run.write => return Err(cannot_write().into()),
            Some(DoorEffect::Read | DoorEffect::Change) => {}
        }
        // Fixed here: the store and the vault are those of the run, whatever the words say.
        let global = GlobalArgs {
            home: Some(self.home.clone()),
            vault: Some(self.vault.clone()),
            ..cli.global.clone()
        };
        let rules = RuleArgs::fixed(self.rules_of(run)?);
        commands::run_within(Cli { global, ..cli }, CommandScope::OwnVault(rules), out)
    }

    /// What a run knows of itself, and nothing of the host: other answers name its vault, too.
    fn tell_status(&self, run: &DoorScope, out: &mut Printer) -> anyhow::Result<ExitStatus> {
        let access = if run.write { "read and write" } else { "read only" };
        out.line(format_args!("vault    {} (of this run)", self.vault))?;
        if let Some(path) = &run.path {
            out.line(format_args!("path     {path}"))?;
        }
        out.line(format_args!("access   {access}"))?;
        out.line(format_args!(
            "inside   {INSIDE}; other commands work outside only"
        ))?;
        Ok(ExitStatus::Success)
    }

    /// Through which rules a run sees its vault: nothing outside of the directory that it was given.
    fn rules_of(&self, run: &DoorScope) -> Result<Option<Vec<Rule>>, Failure> {
        match &run.path {
            None => Ok(self.rules.clone()),
            Some(path) => Rules::confined(self.rules.clone(), path)
                .map(Some)
                .ok_or_else(unnamed_directory),
        }
    }
}

/// The effect of a command that can be requested from inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DoorEffect {
    /// It shows information, and changes nothing.
    Read,
    /// It changes files of the vault, or its history.
    Change,
}

impl DoorEffect {
    /// `None`: it cannot be requested from inside. That applies to every command that is not listed here.
    fn of(command: &Command) -> Option<DoorEffect> {
        let plain = RuleArgs::default();
        match command {
            Command::Checkpoint(command) => match command {
                CheckpointCommand::List(_) | CheckpointCommand::Show(_) => Some(DoorEffect::Read),
                CheckpointCommand::Save(_) | CheckpointCommand::Restore(_) => Some(DoorEffect::Change),
                CheckpointCommand::Delete(_) => None,
            },
            Command::Checkout(args) if args.rules == plain => Some(DoorEffect::Change),
            Command::Diff(args) if args.rules == plain => Some(DoorEffect::Read),
            Command::Rules(RulesCommand::Explain(args)) if args.rules == plain => Some(DoorEffect::Read),
            Command::Rules(RulesCommand::List(args)) if args.rules == plain => Some(DoorEffect::Read),
            // Listed by what is allowed: a new command cannot be reached from inside by oversight.
            _ => None,
        }
    }
}

const INSIDE: &str = "`avfs status`, `avfs checkpoint save|list|show|restore`, `avfs diff`, `avfs checkout` and \
                      `avfs rules explain|list` work on the run's own vault";

fn shut() -> Failure {
    let text = "not available inside a run";
    let hint = format!("inside, {INSIDE}");
    Failure::new("inside-run", ExitStatus::Denied, text).hint(Some(hint))
}

fn cannot_write() -> Failure {
    let text = "this run has no write access to its vault, so `avfs` cannot change it either";
    let hint = "the run was started with `--read-only`, its command only reads, or its rules let nothing be \
                written; `avfs checkpoint list|show`, `avfs diff` and `avfs rules explain|list` work";
    Failure::new("read-only-run", ExitStatus::Denied, text).hint(Some(hint.to_owned()))
}

fn unnamed_directory() -> Failure {
    let text = "`avfs` cannot be used in this run, because the path of its directory is not UTF-8";
    Failure::new("inside-run", ExitStatus::Denied, text)
}

/// Output in memory. Clones share it.
#[derive(Clone, Default)]
struct GatheredOutput(Arc<Mutex<Vec<u8>>>);

impl GatheredOutput {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for GatheredOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
