//! Tools for which a table of flags is not enough.

mod awk;
mod builtins;
mod debugger;
mod files;
mod find;
mod git;
mod packages;
mod sed;
mod wrappers;

use super::arguments::ParsedArguments;
use super::assessor::{Assessor, Findings};

/// One call of a tool, with its arguments parsed.
pub(crate) struct ToolCall<'a> {
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a ParsedArguments<'a>,
    /// A flag has made it read-only.
    pub(crate) lowered: bool,
}

macro_rules! handlers {
    ($($name:literal $variant:ident $look:path;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Handler { $($variant),* }

        impl Handler {
            pub(crate) fn named(name: &str) -> Option<Handler> {
                match name { $($name => Some(Handler::$variant),)* _ => None }
            }

            /// Examines a call, classifies the programs that it starts, and returns its findings.
            pub(crate) fn look(self, judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
                match self { $(Handler::$variant => $look(judge, call)),* }
            }
        }
    };
}

handlers! {
    "again" Again wrappers::again;
    "awk" Awk awk::look;
    "changed" Changed files::changed;
    "code" Code packages::interpreter;
    "command" CommandBuiltin builtins::command;
    "copies" Copies files::copies;
    "dashes" Dashes wrappers::dashes;
    "date" Date files::date;
    "dd" Dd files::dd;
    "debugger" Debugger debugger::look;
    "declare" Declare builtins::declare;
    "dotenv" Dotenv wrappers::dotenv;
    "download" Download files::download;
    "entr" Entr wrappers::entr;
    "env" Env wrappers::env;
    "eval" Eval builtins::eval;
    "fd" Fd find::fd;
    "find" Find find::look;
    "flock" Flock wrappers::flock;
    "git" Git git::global;
    "git_checkout" GitCheckout git::checkout;
    "git_config" GitConfig git::config;
    "git_push" GitPush git::push;
    "git_remote" GitRemote git::remote;
    "join" Join wrappers::join;
    "lines" Lines wrappers::lines;
    "module_run" ModuleRun packages::module_run;
    "names" Names builtins::names;
    "npx" Npx packages::npx;
    "owner" Owner files::owner;
    "processes" Processes files::processes;
    "python" Python packages::python;
    "rsync" Rsync files::rsync;
    "sed" Sed sed::look;
    "shell" Shell wrappers::shell;
    "source" Source builtins::source;
    "sql" Sql files::sql;
    "tar" Tar files::tar;
    "target" Target files::target;
    "test" Test builtins::test;
    "trap" Trap builtins::trap;
    "uv_run" UvRun packages::uv_run;
    "xargs" Xargs wrappers::xargs;
}
