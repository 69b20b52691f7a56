//! Programs that start others in more ways than a table can say: a debugger, another machine, a container.
//!
//! Every word that may be a program is looked at. What is found makes the call that starts it worse, and rules that
//! are stricter know it by name; it is no part of its own, because nobody knows where and as whom it would run.

use super::{Judge, names_from};
use crate::classify::class::{Class, Classes};
use crate::classify::script::Word;
use crate::classify::verb::{self, Verb};
use crate::classify::{Part, spelling};

/// Words that are looked at.
const WORDS: usize = 24;
/// Searches inside of searches.
const DEPTH: usize = 2;

impl Judge {
    /// Looks for programs in the words of the part at `into`.
    pub(super) fn seek(&mut self, into: usize, words: &[Word]) {
        if self.searches >= DEPTH {
            return;
        }
        for (at, word) in words.iter().enumerate().take(WORDS) {
            let Some(text) = word.literal().filter(|text| !text.starts_with('-')) else { continue };
            if !self.may_try() {
                return;
            }
            let (searches, depth, trials) = (self.searches + 1, self.depth, self.trials);
            let mut inside = Judge { searches, depth, trials, ..Judge::default() };
            match named(text) {
                _ if text.contains(char::is_whitespace) => inside.shell(text),
                Some((_, true)) => inside.call(&words[at..]),
                Some((name, false)) => self.parts[into].also_named.push(names_from(name, &words[at + 1..])),
                None => {}
            }
            self.tried(inside.trials);
            take_in(&mut self.parts[into], inside.parts);
        }
    }
}

/// The name of a program, and whether it is one that the tables know.
fn named(text: &str) -> Option<(&str, bool)> {
    let (Verb::Named(name) | Verb::Elsewhere(name)) = verb::resolve(text) else { return None };
    let is_name = name.contains(|c: char| c.is_ascii_alphanumeric());
    is_name.then(|| (name, spelling::of(name).is_some()))
}

/// Files that it changes may be anywhere; what is lost and who is talked to counts here as well.
fn take_in(part: &mut Part, found: Vec<Part>) {
    for found in found.into_iter().filter(|found| !found.names.is_empty()) {
        let counts = |class: &Class| matches!(class, Class::Destructive | Class::Networked);
        let worse: Classes = found.classes.iter().filter(counts).map(Classes::one).collect();
        part.classes = part.classes.and(worse);
        part.also_named.push(found.names);
        part.also_named.extend(found.also_named);
    }
}
