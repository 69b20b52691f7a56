//! Programs that start others in more ways than a table can describe: a debugger, another machine, a
//! container.
//!
//! Every word that may be a program is examined. A program that is found makes the class of the call worse,
//! and stricter rules match its name; it does not become a separate part, because it is unknown where and as
//! which user it would run.

use super::{Assessor, names_from};
use crate::classify::class::{Class, Classes};
use crate::classify::script::ShellWord;
use crate::classify::verb::{self, CommandVerb};
use crate::classify::{CommandPart, spelling};

/// The number of words that are examined.
const WORDS: usize = 24;
/// The depth of nested searches.
const DEPTH: usize = 2;

impl Assessor {
    /// Searches for programs in the words of the part at `into`.
    pub(super) fn seek(&mut self, into: usize, words: &[ShellWord]) {
        if self.searches >= DEPTH {
            return;
        }
        for (at, word) in words.iter().enumerate().take(WORDS) {
            let Some(text) = word.literal().filter(|text| !text.starts_with('-')) else {
                continue;
            };
            if !self.may_try() {
                return;
            }
            let (searches, depth, trials) = (self.searches + 1, self.depth, self.trials);
            let mut inside = Assessor {
                searches,
                depth,
                trials,
                ..Assessor::default()
            };
            match named(text) {
                _ if text.contains(char::is_whitespace) => inside.shell(text),
                Some((_, true)) => inside.call(&words[at..]),
                Some((name, false)) => self.parts[into]
                    .also_named
                    .push(names_from(name, &words[at + 1..])),
                None => {}
            }
            self.tried(inside.trials);
            take_in(&mut self.parts[into], inside.parts);
        }
    }
}

/// The name of a program, and whether the tables contain it.
fn named(text: &str) -> Option<(&str, bool)> {
    let (CommandVerb::Named(name) | CommandVerb::Elsewhere(name)) = verb::resolve(text) else {
        return None;
    };
    let is_name = name.contains(|c: char| c.is_ascii_alphanumeric());
    is_name.then(|| (name, spelling::of(name).is_some()))
}

/// The files that it changes may be anywhere; removals and network access count here as well.
fn take_in(part: &mut CommandPart, found: Vec<CommandPart>) {
    for found in found.into_iter().filter(|found| !found.names.is_empty()) {
        let counts = |class: &Class| matches!(class, Class::Destructive | Class::Networked);
        let worse: Classes = found.classes.iter().filter(counts).map(Classes::one).collect();
        part.classes = part.classes.and(worse);
        part.also_named.push(found.names);
        part.also_named.extend(found.also_named);
    }
}
