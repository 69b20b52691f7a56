//! Tools for which a table of flags is not enough.

mod awk;
mod builtins;
mod files;
mod find;
mod git;
mod sed;
mod wrappers;

use super::arguments::Arguments;
use super::judge::{Findings, Judge};

/// One call of a tool, with its arguments taken apart.
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a Arguments<'a>,
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

            /// Looks at a call, judges what it starts, and tells what it found.
            pub(crate) fn look(self, judge: &mut Judge, call: &Call<'_>) -> Findings {
                match self { $(Handler::$variant => $look(judge, call)),* }
            }
        }
    };
}

handlers! {
    "awk" Awk awk::look;
    "command" CommandBuiltin builtins::command;
    "date" Date files::date;
    "dd" Dd files::dd;
    "declare" Declare builtins::declare;
    "download" Download files::download;
    "env" Env wrappers::env;
    "eval" Eval builtins::eval;
    "find" Find find::look;
    "fd" Fd find::fd;
    "git" Git git::global;
    "git_checkout" GitCheckout git::checkout;
    "git_config" GitConfig git::config;
    "join" Join wrappers::join;
    "names" Names builtins::names;
    "sed" Sed sed::look;
    "shell" Shell wrappers::shell;
    "sql" Sql files::sql;
    "tar" Tar files::tar;
    "target" Target files::target;
    "test" Test builtins::test;
    "trap" Trap builtins::trap;
    "xargs" Xargs wrappers::xargs;
}
