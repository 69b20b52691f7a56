//! The interpreter of the crate `bashkit`. It is asynchronous; nothing above this file is.

mod commands;
mod files;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use avfs_vfs::Vfs;
use bashkit::{Bash, ExecOptions, ExecutionLimits, LimitExceeded, SessionLimits, StreamData};
use tokio::runtime::{Builder, Runtime};

use super::ShellEngine;
use crate::command::{CommandResult, OwnCommand};
use crate::error::ShellError;
use crate::gnu;
use crate::shell::ShellOptions;
use commands::{BuiltinOf, CommandLookup, GnuBuiltin, OwnCommands};
use files::VfsFiles;

const OUTPUT_MAX: usize = 1 << 20;
/// The status of a script that cannot be parsed.
const SYNTAX_STATUS: i32 = 2;
/// The interpreter calls itself for each level of a script, with large frames.
const STACK_BYTES: usize = 32 << 20;
/// How long a command that waits may go on after it was cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(10);

pub(crate) struct BashkitEngine {
    bash: Bash,
    runtime: EngineRuntime,
    commands: OwnCommands,
    options: ShellOptions,
}

/// A shell may be dropped by a command of another shell, and so on an executor's thread, where a runtime may not wait
/// for its end.
struct EngineRuntime(Option<Runtime>);

impl EngineRuntime {
    fn get(&self) -> &Runtime {
        self.0.as_ref().expect("it is only taken when it is dropped")
    }
}

impl Drop for EngineRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl BashkitEngine {
    pub(crate) fn new(vfs: Vfs, options: ShellOptions) -> BashkitEngine {
        let output = options.max_output_bytes.unwrap_or(OUTPUT_MAX);
        let limits = ExecutionLimits::new()
            .timeout(options.limits.time)
            .max_commands(options.limits.commands)
            .max_loop_iterations(options.limits.loop_rounds)
            .max_function_depth(options.limits.depth)
            .max_stdout_bytes(output)
            .max_stderr_bytes(output);
        let commands = OwnCommands::default();
        let resolver = CommandLookup::new(vfs.clone(), commands.clone(), &options);
        let mut builder = Bash::builder()
            .fs(Arc::new(VfsFiles::new(vfs.clone())))
            .rootfs(false)
            .cwd(options.cwd.as_deref().unwrap_or("/"))
            .limits(limits)
            .session_limits(SessionLimits::unlimited())
            .username("agent")
            .hostname("sandbox");
        let mut env = vec![("HOME", "/"), ("PATH", "/usr/local/bin:/usr/bin:/bin")];
        // The caller's values win.
        env.retain(|(name, _)| !options.env.contains_key(*name));
        let given = options
            .env
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in env.into_iter().chain(given) {
            builder = builder.env(name, value);
        }
        if let Some(allowed) = options.allowed_commands.clone() {
            builder = builder.builtin_filter(move |name| allowed.contains(name));
        }
        // Those that are not allowed stay with the interpreter, whose filter leaves them out.
        let is_allowed = |name: &str| {
            options
                .allowed_commands
                .as_ref()
                .is_none_or(|allowed| allowed.contains(name))
        };
        for (name, command) in gnu::COMMANDS.into_iter().filter(|(name, _)| is_allowed(name)) {
            builder = builder.builtin(name, Box::new(GnuBuiltin::new(name, command, vfs.clone())));
        }
        for (name, command) in &options.commands {
            let builtin = BuiltinOf::own(name, Arc::clone(command), vfs.clone());
            builder = builder.builtin(name.clone(), Box::new(builtin));
        }
        let runtime = Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime without I/O needs nothing of the system");
        BashkitEngine {
            bash: builder.command_resolver(Arc::new(resolver)).build(),
            runtime: EngineRuntime(Some(runtime)),
            commands,
            options,
        }
    }

    fn run(&mut self, script: &str, stdin: &[u8]) -> bashkit::Result<bashkit::ExecResult> {
        let mut options = ExecOptions::new();
        if !stdin.is_empty() {
            options = options.stdin(StreamData::from(stdin.to_vec()));
        }
        let runtime = self.runtime.get();
        let flag = self.bash.cancellation_token();
        let bash = &mut self.bash;
        let run = || {
            runtime.block_on(async {
                tokio::select! {
                    result = bash.exec_with_options(script, options) => result,
                    () = cancelled(&flag) => Err(bashkit::Error::Cancelled),
                }
            })
        };
        // A thread of its own has room for deep scripts, and may block even where the caller's thread may not.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("avfs-shell".to_owned())
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, run);
            match thread {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|_| Err(bashkit::Error::Internal("the interpreter panicked".to_owned()))),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn check_output(&self, result: &bashkit::ExecResult) -> Result<(), ShellError> {
        let limit = self.options.max_output_bytes.unwrap_or(OUTPUT_MAX);
        let is_cut = result.stdout_truncated || result.stderr_truncated;
        if is_cut || result.stdout.len() + result.stderr.len() > limit {
            return Err(ShellError::OutputTooLarge { limit });
        }
        Ok(())
    }
}

impl ShellEngine for BashkitEngine {
    fn exec(&mut self, script: &str, stdin: &[u8]) -> Result<CommandResult, ShellError> {
        self.bash.cancellation_token().store(false, Ordering::Relaxed);
        match self.run(script, stdin) {
            Ok(result) => {
                self.check_output(&result)?;
                Ok(CommandResult {
                    stdout: result.stdout.as_bytes().to_vec(),
                    stderr: result.stderr.as_bytes().to_vec(),
                    exit_code: result.exit_code,
                })
            }
            Err(error) => failed(&error, script),
        }
    }

    fn register(&mut self, name: &str, command: Arc<OwnCommand>) {
        let mut commands = self.commands.write().unwrap_or_else(PoisonError::into_inner);
        commands.insert(name.to_owned(), command);
    }

    fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.bash.cancellation_token()
    }

    fn cwd(&self) -> String {
        self.bash.shell_state_view().cwd.display().to_string()
    }

    fn variable(&self, name: &str) -> Option<String> {
        let state = self.bash.shell_state_view();
        state.variables.get(name).or_else(|| state.env.get(name)).cloned()
    }

    fn set_variable(&mut self, name: &str, value: &str) {
        self.bash.set_env(name, value);
    }
}

/// Ends once the flag is set. Between commands the interpreter looks at it itself, but not while one of them waits.
async fn cancelled(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        tokio::time::sleep(CANCEL_POLL).await;
    }
}

fn failed(error: &bashkit::Error, script: &str) -> Result<CommandResult, ShellError> {
    if let Some(report) = error.syntax_report("bash: -c", script) {
        return Ok(CommandResult::failure(SYNTAX_STATUS, report));
    }
    match error {
        bashkit::Error::Cancelled => Err(ShellError::Cancelled),
        bashkit::Error::ResourceLimit(
            LimitExceeded::Timeout(limit) | LimitExceeded::ParserTimeout(limit),
        ) => Err(ShellError::Timeout { limit: *limit }),
        bashkit::Error::ResourceLimit(limit) => Err(ShellError::Limit(limit.to_string())),
        bashkit::Error::CommandFailure(text) => Ok(CommandResult::failure(1, format!("{text}\n"))),
        error => Err(ShellError::Internal(error.to_string())),
    }
}
