//! Commands that the interpreter does not have itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use avfs_vfs::Vfs;
use bashkit::{Builtin, BuiltinContext, CommandResolver, ExecResult, StreamData, async_trait};

use crate::bridge::{HostBridge, host_command, no_bridge, program_call};
use crate::command::{CommandCall, CommandResult, OwnCommand};
use crate::gnu::{GnuCall, GnuCommand, PIPES};
use crate::shell::ShellOptions;

/// Commands that were registered after the shell was made.
pub(super) type OwnCommands = Arc<RwLock<BTreeMap<String, Arc<OwnCommand>>>>;

/// The names that always lead to the bridge.
const PYTHON: [&str; 2] = ["python", "python3"];

/// A command of ours for the interpreter.
pub(super) struct BuiltinOf {
    name: String,
    command: Arc<OwnCommand>,
    vfs: Vfs,
}

impl BuiltinOf {
    pub(super) fn own(name: &str, command: Arc<OwnCommand>, vfs: Vfs) -> BuiltinOf {
        BuiltinOf {
            name: name.to_owned(),
            command,
            vfs,
        }
    }
}

#[async_trait]
impl Builtin for BuiltinOf {
    async fn execute(&self, context: BuiltinContext<'_>) -> bashkit::Result<ExecResult> {
        let call = call_of(&self.name, &context, &self.vfs);
        Ok(answer((self.command)(&call)))
    }
}

/// A command with the options of the GNU one, in place of the interpreter's.
pub(super) struct GnuBuiltin {
    name: &'static str,
    command: GnuCommand,
    vfs: Vfs,
}

impl GnuBuiltin {
    pub(super) fn new(name: &'static str, command: GnuCommand, vfs: Vfs) -> GnuBuiltin {
        GnuBuiltin { name, command, vfs }
    }
}

#[async_trait]
impl Builtin for GnuBuiltin {
    async fn execute(&self, context: BuiltinContext<'_>) -> bashkit::Result<ExecResult> {
        let call = call_of(self.name, &context, &self.vfs);
        let mut pipes = BTreeMap::new();
        for argument in call.args.iter().filter(|argument| argument.starts_with(PIPES)) {
            // One that is not open is missing for the command as well.
            if let Ok(bytes) = context.fs.read_file(Path::new(argument)).await {
                pipes.insert(argument.clone(), bytes);
            }
        }
        Ok(answer((self.command)(&GnuCall { call: &call, pipes })))
    }
}

fn call_of(name: &str, context: &BuiltinContext<'_>, vfs: &Vfs) -> CommandCall {
    let env = context.env.iter();
    CommandCall {
        name: name.to_owned(),
        args: context.args.to_vec(),
        stdin: context.stdin_bytes().map(<[u8]>::to_vec).unwrap_or_default(),
        cwd: context.cwd.display().to_string(),
        env: env.map(|(name, value)| (name.clone(), value.clone())).collect(),
        vfs: vfs.clone(),
    }
}

fn answer(result: CommandResult) -> ExecResult {
    ExecResult {
        stdout: StreamData::from(result.stdout),
        stderr: StreamData::from(result.stderr),
        exit_code: result.exit_code,
        ..ExecResult::default()
    }
}

/// Finds commands by name, after the interpreter has looked among its own.
pub(super) struct CommandLookup {
    vfs: Vfs,
    commands: OwnCommands,
    allowed: Option<BTreeSet<String>>,
    bridge: Option<Arc<dyn HostBridge>>,
    host_fallback: bool,
}

impl CommandLookup {
    pub(super) fn new(vfs: Vfs, commands: OwnCommands, options: &ShellOptions) -> CommandLookup {
        CommandLookup {
            vfs,
            commands,
            allowed: options.allowed_commands.clone(),
            bridge: options.bridge.clone(),
            host_fallback: options.host_fallback,
        }
    }

    fn command(&self, name: &str) -> Option<Arc<OwnCommand>> {
        if self
            .allowed
            .as_ref()
            .is_some_and(|allowed| !allowed.contains(name))
        {
            let text = format!("{name}: not allowed in this shell\n");
            return Some(Arc::new(move |_| CommandResult::failure(126, text.clone())));
        }
        let own = self.commands.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = own.get(name) {
            return Some(Arc::clone(own));
        }
        let is_asked = name == "host" || PYTHON.contains(&name) || self.host_fallback;
        if !is_asked {
            return None;
        }
        let bridge = self.bridge.clone();
        Some(Arc::new(move |call: &CommandCall| {
            let Some(bridge) = &bridge else {
                return no_bridge(&call.name);
            };
            if call.name != "host" {
                return bridge.run(&program_call(call));
            }
            match host_command(call) {
                Ok(call) => bridge.run(&call),
                Err(refused) => refused,
            }
        }))
    }
}

impl CommandResolver for CommandLookup {
    fn resolve(&self, name: &str) -> Option<Arc<dyn Builtin>> {
        let command = self.command(name)?;
        Some(Arc::new(BuiltinOf::own(name, command, self.vfs.clone())))
    }
}
