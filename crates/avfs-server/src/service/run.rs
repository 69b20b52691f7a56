//! Commands in a sandbox: each has a thread that follows it and writes its run down.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::sandbox::processes::{OutputEvent, SandboxProcess};
use agentvfs::exec::sandbox::terminal::TerminalSize;
use agentvfs::exec::{FinishedRun, RunError};
use agentvfs::{Error, ErrorKind, OpenSandbox, SandboxCommand, Streams};
use tokio::sync::oneshot;

use super::error::{ServiceError, ServiceResult};
use super::output::{OutputListener, OutputLog, OutputPiece};
use super::process::Process;
use super::queue::Turn;
use super::sandbox::Sandbox;
use super::tenant::Tenant;
use crate::clock::UnixMillis;

/// How long a command may leave its input unread.
const READING: Duration = Duration::from_secs(24 * 60 * 60);
/// The kernel takes no longer argument.
const WORDS_MAX: usize = 100_000;

/// The streams of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProcessStreams {
    /// Its input is empty.
    #[default]
    NoInput,
    /// These bytes are its input.
    Given(Vec<u8>),
    /// Its input is written while it runs.
    Pipes,
    /// It has a terminal of so many rows and columns.
    Terminal(u16, u16),
}

/// A command to start.
#[derive(Clone, Debug)]
pub struct NewProcess {
    /// A line for a shell, or a program and its arguments.
    pub command: Command,
    /// A path in the sandbox's files, or an absolute one as programs see it.
    pub cwd: Option<PathBuf>,
    /// Variables in addition to those of the sandbox.
    pub env: BTreeMap<String, String>,
    /// Its input and output.
    pub streams: ProcessStreams,
    /// After this time, it is ended.
    pub timeout: Option<Duration>,
}

/// What became of a command that was to be started.
pub enum Started {
    /// It runs.
    Running(Arc<Process>),
    /// It is over already: it is not a program.
    Over(Arc<FinishedRun>),
}

/// The end of a command.
pub type RunEnd = Arc<FinishedRun>;

/// A process that is killed if nobody takes care of it.
struct Held(Option<Arc<Process>>);

impl Held {
    fn keep(mut self) -> Option<Arc<Process>> {
        self.0.take()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(process) = &self.0 {
            process.kill();
        }
    }
}

enum Told {
    Running(Held),
    Over(Box<FinishedRun>),
    Refused(ServiceError),
}

/// Commands in the sandboxes of a tenant.
#[derive(Clone, Copy)]
pub struct TenantCommands<'a> {
    pub(super) tenant: &'a Arc<Tenant>,
}

impl TenantCommands<'_> {
    /// Starts a command that goes on beside its caller.
    pub async fn start(&self, sandbox: &Arc<Sandbox>, new: NewProcess) -> ServiceResult<Started> {
        let kept = |held: Held| held.keep().ok_or_else(ServiceError::ending);
        match self.begin(sandbox, new).await? {
            Told::Running(held) => kept(held).map(Started::Running),
            Told::Over(finished) => over(finished).map(Started::Over),
            Told::Refused(error) => Err(error),
        }
    }

    /// Runs a command to its end. When this is dropped before, the command is killed.
    pub async fn exec(&self, sandbox: &Arc<Sandbox>, new: NewProcess) -> ServiceResult<RunEnd> {
        let (_, end) = self.follow(sandbox, new).await?;
        end.await
    }

    /// Starts a command, and returns what it writes and how it ends. When the latter is dropped before, the command is
    /// killed.
    pub async fn follow(
        &self,
        sandbox: &Arc<Sandbox>,
        new: NewProcess,
    ) -> ServiceResult<(
        OutputListener,
        impl Future<Output = ServiceResult<RunEnd>> + Send + use<>,
    )> {
        let attended = sandbox.attend();
        let told = self.begin(sandbox, new).await?;
        let (output, running) = match told {
            Told::Running(held) => {
                let process = held.0.clone().ok_or_else(ServiceError::ending)?;
                (process.listen(0), Ok((held, process)))
            }
            Told::Over(finished) => {
                let silent = Arc::new(OutputLog::default());
                silent.end();
                (OutputListener::new(silent, 0), Err(over(finished)?))
            }
            Told::Refused(error) => return Err(error),
        };
        let sandbox = Arc::clone(sandbox);
        let end = async move {
            let _attended = attended;
            let (held, process) = match running {
                Ok(running) => running,
                Err(over) => return Ok(over),
            };
            let finished = process.ended().await;
            held.keep();
            sandbox.forget(&process);
            let finished = finished.ok_or_else(ServiceError::ending)?;
            match ServiceError::of_run(&finished) {
                Some(error) => Err(error),
                None => Ok(finished),
            }
        };
        Ok((output, end))
    }

    async fn begin(&self, sandbox: &Arc<Sandbox>, new: NewProcess) -> ServiceResult<Told> {
        check(&new)?;
        self.tenant.check_open()?;
        self.tenant.check_disk()?;
        let turn = self.tenant.queue().turn().await?;
        let (told, heard) = oneshot::channel();
        let (tenant, sandbox) = (Arc::clone(self.tenant), Arc::clone(sandbox));
        let thread = std::thread::Builder::new().name("command".into());
        let spawned = thread.spawn(move || {
            // Behind everything else, so that nothing of the command is left when another takes its place.
            let turn: Turn = turn;
            follow(&tenant, &sandbox, &new, told);
            drop(turn);
        });
        spawned.map_err(|error| ServiceError::host("starting a thread", &error))?;
        heard.await.map_err(|_| {
            ServiceError::new(
                "internal",
                ErrorKind::Internal,
                "the thread of the command failed",
            )
        })
    }
}

/// The end of a command that was never a process, or why it was not allowed to be one.
fn over(finished: Box<FinishedRun>) -> ServiceResult<RunEnd> {
    match ServiceError::of_run(&finished) {
        Some(error) => Err(error),
        None => Ok(finished.into()),
    }
}

/// What no program could be started with is refused before anybody is asked about it.
fn check(new: &NewProcess) -> ServiceResult<()> {
    check_words(&new.command, &new.env)
}

pub(super) fn check_words(command: &Command, env: &BTreeMap<String, String>) -> ServiceResult<()> {
    let words: Vec<&[u8]> = match command {
        Command::Shell(line) => vec![line.as_bytes()],
        Command::Argv(words) => words.iter().map(|word| word.as_encoded_bytes()).collect(),
    };
    if words.first().is_none_or(|word| word.is_empty()) {
        return Err(ServiceError::invalid("there is no command"));
    }
    let env_bytes: usize = env.iter().map(|(name, value)| name.len() + value.len()).sum();
    if words.iter().map(|word| word.len()).sum::<usize>() > WORDS_MAX || env_bytes > WORDS_MAX {
        let text =
            format!("a command and its variables have at most {WORDS_MAX} bytes; `stdin` may be longer");
        return Err(ServiceError::invalid(text));
    }
    let is_variable = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
    let has_nul =
        words.iter().any(|word| word.contains(&0)) || env.values().any(|value| value.contains('\0'));
    if has_nul || !env.keys().all(is_variable) {
        return Err(ServiceError::invalid(
            "a command and its variables have no NUL byte, and names of variables no '='",
        ));
    }
    Ok(())
}

fn follow(tenant: &Tenant, sandbox: &Arc<Sandbox>, new: &NewProcess, told: oneshot::Sender<Told>) {
    let mut caller = Some(told);
    // A second attempt: the owner of the vault's mount may have died, and the command has not run then.
    for is_second in [false, true] {
        let open = match sandbox.opened(tenant) {
            Ok(open) => open,
            Err(error) => return tell(&mut caller, Told::Refused(error)),
        };
        let ran = run_in(&open, sandbox, new, &mut caller);
        let gone = Arc::downgrade(&open);
        // Whoever closes the sandbox waits for everybody who has it, and then for nobody.
        drop(open);
        match ran {
            Ok((process, finished)) => {
                sandbox.touch();
                tenant.counters().count_run(&finished);
                process.finish(finished);
                return tenant.ended().add(sandbox, &process);
            }
            Err(finished) if is_over(&finished) && !is_second && !sandbox.is_gone() => sandbox.lost(&gone),
            Err(finished) => return tell(&mut caller, Told::Over(finished)),
        }
    }
}

/// Tells whoever waits, who may have gone away.
fn tell(caller: &mut Option<oneshot::Sender<Told>>, told: Told) {
    if let Some(caller) = caller.take() {
        drop(caller.send(told));
    }
}

/// Whether the sandbox did not answer any more.
fn is_over(finished: &FinishedRun) -> bool {
    let error = finished.error.as_ref();
    matches!(
        error,
        Some(RunError::Library(Error::Session(_) | Error::Owner(_)))
    )
}

/// Runs a command to its end, if it can be started.
fn run_in(
    open: &OpenSandbox,
    sandbox: &Sandbox,
    new: &NewProcess,
    caller: &mut Option<oneshot::Sender<Told>>,
) -> Result<(Arc<Process>, RunEnd), Box<FinishedRun>> {
    let started = open.start(command_of(new), streams_of(&new.streams))?;
    let process = Arc::new(Process::new(
        started.process().clone(),
        started.run().to_owned(),
        words_of(&new.command),
        UnixMillis::now().0,
        matches!(new.streams, ProcessStreams::Terminal(..)),
    ));
    sandbox.add(&process);
    feed(started.process(), &new.streams);
    tell(caller, Told::Running(Held(Some(Arc::clone(&process)))));
    pump(started.process(), &process);
    Ok((process, Arc::new(started.finish())))
}

/// Gives the process its input, and closes it unless more is to come.
fn feed(process: &SandboxProcess, streams: &ProcessStreams) {
    match streams {
        ProcessStreams::Pipes | ProcessStreams::Terminal(..) => {}
        ProcessStreams::NoInput => process.close_stdin(),
        ProcessStreams::Given(bytes) => {
            let (process, bytes) = (process.clone(), bytes.clone());
            let thread = std::thread::Builder::new().name("input".into());
            let fed = thread.spawn(move || {
                // A command that does not read has a reason.
                let _ = process.write_stdin(&bytes, Some(READING));
                process.close_stdin();
            });
            drop(fed);
        }
    }
}

/// Takes its output in, until it has ended.
fn pump(from: &SandboxProcess, process: &Process) {
    let events = from.subscribe();
    let so_far = events.so_far();
    for (bytes, is_stdout) in [(so_far.stdout.bytes(), true), (so_far.stderr.bytes(), false)] {
        if !bytes.is_empty() {
            let bytes: Arc<[u8]> = bytes.into();
            process.log.add(if is_stdout {
                OutputPiece::Stdout(bytes)
            } else {
                OutputPiece::Stderr(bytes)
            });
        }
    }
    for event in events {
        match event {
            OutputEvent::Stdout(bytes) => process.log.add(OutputPiece::Stdout(bytes)),
            OutputEvent::Stderr(bytes) => process.log.add(OutputPiece::Stderr(bytes)),
            OutputEvent::Skipped { .. } => {}
            // What it has left in the background may write on; the command is over.
            OutputEvent::Ended(_) => return,
        }
    }
}

fn command_of(new: &NewProcess) -> SandboxCommand {
    SandboxCommand {
        cwd: new.cwd.clone(),
        env: new
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        timeout: new.timeout,
        ..SandboxCommand::new(new.command.clone())
    }
}

fn streams_of(streams: &ProcessStreams) -> Streams {
    match streams {
        ProcessStreams::NoInput | ProcessStreams::Given(_) | ProcessStreams::Pipes => Streams::Pipes,
        ProcessStreams::Terminal(rows, columns) => Streams::Terminal(TerminalSize {
            rows: *rows,
            columns: *columns,
        }),
    }
}

fn words_of(command: &Command) -> Vec<String> {
    match command {
        Command::Shell(line) => vec!["bash".to_owned(), "-c".to_owned(), line.clone()],
        Command::Argv(words) => words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
    }
}
