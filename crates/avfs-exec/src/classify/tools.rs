//! The knowledge about each tool, read from the tables in `tools/*.tools`.
//!
//! ```text
//! tool sort : read_only              names, and what it is without further flags
//!   flags -n -r -k= --key=           known flags; `=` takes a value
//!   adds mutating : -o= --output=    flags that make it worse
//!   lowers read_only : --dry-run     flags with which it is only that, if nothing else adds to it
//!   unknown mutating                 any other flag (default: mutating)
//!   others mutating                  any other subcommand (default: what the tool is, and its unknown flags)
//!   words destructive : rm delete-*  words that make it worse wherever they stand
//!   alone destructive : clean        words that make it worse if all of its operands are such words
//!   verbs                            what its words tell counts, as for a tool that is in no table
//!   runs -c= --command=              flags whose value is a command line
//!   seeks                            any of its words may be a program that it starts
//!   any                              any other flag is harmless
//!   info -V                          alone, it only prints (besides --version and --help)
//!   operands 1 : mutating            more operands than that make it worse, unless a flag lowers it
//!   wraps 1                          after so many operands comes another command
//!   handler sed                      code that looks closer
//!   single                           short flags cannot be put together in one word
//!   stops                            after the first operand there are no more flags
//!   through                          flags after `--` are flags of it as well
//!   raw                              which gets the words as they are
//!   sub add|new : mutating           a subcommand, with lines of its own until the next
//! ```

mod table;

use std::collections::HashMap;
use std::sync::LazyLock;

use table::ToolIndex;

use super::class::{Class, Classes};
use super::handler::Handler;

/// Tables are compiled in: the class of a command never depends on the machine.
const TABLES: &[(&str, &str)] = &[
    ("files", include_str!("tools/files.tools")),
    ("text", include_str!("tools/text.tools")),
    ("git", include_str!("tools/git.tools")),
    ("languages", include_str!("tools/languages.tools")),
    ("javascript", include_str!("tools/javascript.tools")),
    ("python", include_str!("tools/python.tools")),
    ("network", include_str!("tools/network.tools")),
    ("services", include_str!("tools/services.tools")),
    ("system", include_str!("tools/system.tools")),
    ("shell", include_str!("tools/shell.tools")),
    ("wrappers", include_str!("tools/wrappers.tools")),
];

static TOOLS: LazyLock<ToolIndex> = LazyLock::new(|| match ToolIndex::of(TABLES) {
    Ok(index) => index,
    Err(error) => panic!("the tables are checked by a test: {error}"),
});

/// The table of a tool by its plain name.
pub(crate) fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.find(name)
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tool {
    pub(crate) spec: ToolSpec,
    pub(crate) subs: Vec<ToolSubcommand>,
}

#[derive(Clone, Debug)]
pub(crate) struct ToolSubcommand {
    /// The words before the last one, such as `remote` of `remote add`.
    pub(crate) before: Vec<&'static str>,
    /// The last word: any of these.
    pub(crate) names: Vec<&'static str>,
    pub(crate) spec: ToolSpec,
}

/// The meaning of flags and operands of a tool or a subcommand.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolSpec {
    pub(crate) classes: Classes,
    pub(crate) flags: HashMap<&'static str, ToolFlag>,
    /// Flags that are not listed are harmless.
    pub(crate) any: bool,
    pub(crate) unknown: Option<Classes>,
    pub(crate) others: Option<Classes>,
    pub(crate) words: Vec<ActionWord>,
    pub(crate) alone: Vec<ActionWord>,
    pub(crate) verbs: bool,
    pub(crate) seeks: bool,
    pub(crate) info: Vec<&'static str>,
    pub(crate) operands: Option<(usize, Classes)>,
    pub(crate) wraps: Option<usize>,
    pub(crate) through: bool,
    pub(crate) single: bool,
    pub(crate) stops: bool,
    /// Its words are not flags and operands: a handler parses them.
    pub(crate) raw: bool,
    pub(crate) handler: Option<Handler>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ToolFlag {
    pub(crate) takes_value: bool,
    pub(crate) adds: Classes,
    pub(crate) lowers: Option<Classes>,
    /// Its value is a command line.
    pub(crate) runs: bool,
}

/// A word that indicates the action, with `*` at its beginning, its end or both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActionWord {
    pub(crate) classes: Classes,
    pattern: &'static str,
}

impl ActionWord {
    pub(crate) fn fits(&self, word: &str) -> bool {
        match (self.pattern.strip_prefix('*'), self.pattern.strip_suffix('*')) {
            (Some(end), None) => word.ends_with(end),
            (None, Some(start)) => word.starts_with(start),
            (Some(_), Some(_)) => word.contains(self.pattern.trim_matches('*')),
            (None, None) => word == self.pattern,
        }
    }
}

impl Tool {
    /// The longest subcommand with which the words begin.
    pub(crate) fn sub(&self, words: &[&str]) -> Option<&ToolSubcommand> {
        self.subs
            .iter()
            .filter(|sub| sub.fits(words))
            .max_by_key(|sub| sub.before.len())
    }
}

impl ToolSubcommand {
    pub(crate) fn length(&self) -> usize {
        self.before.len() + 1
    }

    fn fits(&self, words: &[&str]) -> bool {
        let last = words.get(self.before.len());
        last.is_some_and(|last| self.names.contains(last)) && words.starts_with(&self.before)
    }
}

impl ToolSpec {
    /// The effect of an unlisted flag. Only a read-only tool becomes worse by it.
    pub(crate) fn unknown(&self) -> Classes {
        let default = if self.classes.is_read_only() {
            Class::Mutating
        } else {
            Class::ReadOnly
        };
        self.unknown.unwrap_or(default.into())
    }

    /// The effect of a word that might be any flag.
    pub(crate) fn hidden_flag(&self) -> Classes {
        let harmless = self.any && self.flags.values().all(|flag| flag.adds.is_read_only());
        if harmless {
            Classes::READ_ONLY
        } else {
            self.unknown()
        }
    }
}
