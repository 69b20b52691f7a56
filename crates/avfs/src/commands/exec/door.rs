//! What `avfs` does when it is run inside a sandbox: it asks through the inner door, and here it is answered. A few
//! commands about the run's own vault, through the run's own rules, and nothing else.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use agentvfs::exec::{DOOR_VARIABLE, DoorReply, InnerDoor, ask};
use agentvfs::rules::Rule;

use crate::cli::{Cli, ColorArg, EarlyFlags, GlobalArgs};
use crate::commands::checkpoint::CheckpointCommand;
use crate::commands::rules::RulesCommand;
use crate::commands::{self, Command};
use crate::context::Scope;
use crate::exit::ExitStatus;
use crate::failure::Failure;
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
        let _ = writeln!(io::stderr(), "error: the door of this run does not answer: {error}");
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
    fn answer(&self, words: &[OsString]) -> DoorReply {
        let (stdout, stderr) = (Gathered::default(), Gathered::default());
        let flags = EarlyFlags::scan(words.iter().cloned());
        let mut out = Printer::to(Box::new(stdout.clone()), Box::new(stderr.clone()), flags.manner());
        let outcome = self.run(words, &mut out);
        let status = outcome.unwrap_or_else(|error| crate::report(&mut out, &error));
        // What is gathered in memory can always be flushed.
        let _ = out.flush();
        DoorReply { status: status.number(), stdout: stdout.take(), stderr: stderr.take() }
    }
}

impl HostDoor {
    fn run(&self, words: &[OsString], out: &mut Printer) -> anyhow::Result<ExitStatus> {
        let line = [OsString::from("avfs")].into_iter().chain(words.iter().cloned());
        let cli = Cli::read(line, Some(ColorArg::Never))?;
        if cli.global.home.is_some() || cli.global.vault.is_some() || !is_open(&cli.command) {
            return Err(shut().into());
        }
        let global = GlobalArgs {
            home: Some(self.home.clone()),
            vault: Some(self.vault.clone()),
            ..cli.global.clone()
        };
        let rules = RuleArgs::fixed(self.rules.clone());
        commands::run_within(Cli { global, ..cli }, Scope::OwnVault(rules), out)
    }
}

/// What can be asked from inside.
fn is_open(command: &Command) -> bool {
    match command {
        Command::Checkpoint(command) => match command {
            CheckpointCommand::Save(_)
            | CheckpointCommand::List(_)
            | CheckpointCommand::Show(_)
            | CheckpointCommand::Restore(_) => true,
            CheckpointCommand::Delete(_) => false,
        },
        Command::Diff(args) => args.rules == RuleArgs::default(),
        Command::Checkout(args) => args.rules == RuleArgs::default(),
        Command::Rules(RulesCommand::Explain(args)) => args.rules == RuleArgs::default(),
        Command::Rules(RulesCommand::List(args)) => args.rules == RuleArgs::default(),
        _ => false,
    }
}

fn shut() -> Failure {
    let text = "this cannot be asked for from inside a run";
    let hint = "inside, `avfs checkpoint save|list|show|restore`, `avfs diff`, `avfs checkout` and \
                `avfs rules explain|list` work on the run's own vault";
    Failure::new("inside-run", ExitStatus::Denied, text).hint(Some(hint.to_owned()))
}

/// Output in memory. Clones share it.
#[derive(Clone, Default)]
struct Gathered(Arc<Mutex<Vec<u8>>>);

impl Gathered {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Gathered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
