//! From what was read to what it does: every simple command, redirection and assignment becomes a part.

mod reason;
mod sought;
mod tool;

use std::ffi::OsString;

pub(crate) use reason::shown;

use super::bounds::{MAX_DIRECTORIES, MAX_TRIALS, MAX_WRAPPERS};
use super::class::{Class, Classes};
use super::script::{Assignment, Redirect, RedirectKind, Script, Simple, Unreadable, Word};
use super::spelling::{self, Spelling};
use super::tools::{self, Spec};
use super::verb::{self, Verb};
use super::{Classification, Part, agree, arithmetic, environment, readings, redirect, screen, telling};

#[derive(Default)]
pub(crate) struct Judge {
    parts: Vec<Part>,
    /// Variables that get a value, and that programs may see.
    sets: Vec<String>,
    /// Variables that get a value, and that no program sees unless they are in its environment already.
    assigns: Vec<String>,
    functions: Vec<String>,
    /// Wrappers and shells around what is being judged.
    depth: usize,
    /// Inside `bash -c` nothing can be kept as a rule: the text is one word of the command.
    inside_shell: bool,
    /// Directories that a `cd` may have gone to.
    directories: Vec<String>,
    /// Texts that a program may get as its input.
    texts: Vec<String>,
    /// Searches around what is being judged: see [`sought`].
    searches: usize,
    /// Readings and words that were tried, of all that is allowed.
    trials: usize,
}

/// Stands for all variables among names of variables.
const ANY_VARIABLE: &str = "*";

/// Reasons with what each of them means.
pub(crate) type Findings = Vec<(Classes, String)>;

impl Judge {
    pub(crate) fn finish(mut self, has_input: bool) -> Classification {
        for names in [&mut self.sets, &mut self.assigns] {
            names.sort_unstable();
            names.dedup();
        }
        let classes: Classes = self.parts.iter().map(|part| part.classes).collect();
        Classification {
            class: classes.worst(),
            classes,
            parts: self.parts,
            sets: self.sets,
            assigns: self.assigns,
            has_input,
        }
    }

    pub(crate) fn argv(&mut self, words: &[OsString]) {
        let words: Option<Vec<Word>> = words.iter().map(|word| word.to_str().map(Word::exact)).collect();
        let Some(words) = words else {
            return self.unreadable("", &Unreadable::Syntax("a word is no text".to_owned()));
        };
        let deceptive = words.iter().find_map(|word| screen::check(&word.text).err());
        match deceptive {
            Some(why) => self.unreadable(&reason::text_of(&words), &why),
            None if words.is_empty() => {
                self.unreadable("", &Unreadable::Syntax("there is no program".to_owned()));
            }
            None => self.call(&words),
        }
    }

    pub(crate) fn shell(&mut self, text: &str) {
        let script = screen::check(text).and_then(|()| agree::read(text));
        match script {
            Ok(mut script) => {
                arithmetic::look_at_words(&mut script);
                self.script(&script);
            }
            Err(why) => self.unreadable(text, &why),
        }
    }

    /// A shell inside the command.
    pub(crate) fn inner_shell(&mut self, text: &str) {
        let before = std::mem::replace(&mut self.inside_shell, true);
        self.deeper(|judge| judge.shell(text));
        self.inside_shell = before;
    }

    /// A command that another one starts.
    pub(crate) fn inner(&mut self, words: &[Word]) {
        self.deeper(|judge| judge.call(words));
    }

    fn deeper(&mut self, judge_it: impl FnOnce(&mut Judge)) {
        self.depth += 1;
        match self.depth > MAX_WRAPPERS {
            true => self.unreadable("", &Unreadable::TooDeep),
            false => judge_it(self),
        }
        self.depth -= 1;
    }

    /// Whether one more reading may be tried. Without a bound, readings inside of readings would never end.
    fn may_try(&mut self) -> bool {
        self.tried(self.trials + 1);
        self.trials <= MAX_TRIALS
    }

    fn tried(&mut self, trials: usize) {
        if self.trials <= MAX_TRIALS && trials > MAX_TRIALS {
            self.unreadable("", &Unreadable::TooManyReadings(MAX_TRIALS));
        }
        self.trials = trials;
    }

    fn unreadable(&mut self, text: &str, why: &Unreadable) {
        self.parts.push(Part::unreadable(text, why));
    }

    fn script(&mut self, script: &Script) {
        for hazard in &script.hazards {
            self.finding("", Class::HostEscapeRisk.into(), hazard.clone(), true);
        }
        for (classes, name) in arithmetic::classes(script) {
            let reason = format!("the value of `{name}` is evaluated, and may run code");
            self.finding(&name, classes, reason, classes.contains(Class::HostEscapeRisk));
        }
        for name in &script.evaluated {
            self.gives_value(name, false);
        }
        for name in script.evaluated.iter().filter(|name| environment::steers(name)) {
            let reason = format!("arithmetic with `{name}`, which changes what programs do");
            self.finding(name, Class::HostEscapeRisk.into(), reason, false);
        }
        for function in script.functions.iter().filter(|name| tools::find(name).is_some()) {
            let reason = format!("a function takes the place of `{function}`");
            self.finding(function, Class::HostEscapeRisk.into(), reason, true);
        }
        self.functions.extend(script.functions.iter().cloned());
        self.texts.extend(script.simples.iter().flat_map(texts_of));
        for simple in &script.simples {
            self.follow(&simple.words);
        }
        for assignment in &script.other_assignments {
            self.assignment(assignment, false);
        }
        for simple in &script.simples {
            self.simple(simple);
        }
    }

    fn simple(&mut self, simple: &Simple) {
        for assignment in &simple.assignments {
            self.assignment(assignment, !simple.words.is_empty());
        }
        for redirect in &simple.redirects {
            self.redirect(redirect);
        }
        if simple.words.first().is_some_and(|first| !first.choices.is_empty()) {
            let why = "the name of the program is hidden in braces".to_owned();
            self.finding("{…}", Class::HostEscapeRisk.into(), why, false);
        }
        let words: Vec<Word> = simple.words.iter().flat_map(Word::spread).collect();
        if !words.is_empty() {
            self.call(&words);
        }
    }

    fn redirect(&mut self, redirect: &Redirect) {
        let alone = redirect::classes(redirect);
        let classes = match redirect.kind {
            RedirectKind::Write | RedirectKind::Duplicate if !alone.is_read_only() => {
                self.written(&redirect.target)
            }
            RedirectKind::Write
            | RedirectKind::Duplicate
            | RedirectKind::Read
            | RedirectKind::HereDocument
            | RedirectKind::HereString => alone,
        };
        if !classes.is_read_only() {
            let target = shown(&redirect.target.shown());
            let reason = match classes.worst() {
                Class::Networked => format!("`{target}` is a connection"),
                Class::HostEscapeRisk => format!("`{target}` belongs to the machine"),
                Class::ReadOnly | Class::Mutating | Class::Destructive => format!("`{target}` is written"),
            };
            self.finding(">", classes, reason, false);
        }
    }

    /// A `cd` or `pushd`. Commands stand in no order, so that every directory may be the one of any command.
    fn follow(&mut self, words: &[Word]) {
        let literal: Vec<&str> = words.iter().filter_map(Word::literal).collect();
        let Some(("cd" | "pushd", rest)) = literal.split_first().map(|(verb, rest)| (*verb, rest)) else {
            return;
        };
        let Some(to) = rest.iter().find(|word| !word.starts_with('-')) else { return };
        let from: Vec<String> = self.directories.iter().map(|from| format!("{from}/{to}")).collect();
        let room = MAX_DIRECTORIES.saturating_sub(self.directories.len());
        match to.starts_with('/') {
            true => self.directories.extend((room > 0).then(|| (*to).to_owned())),
            false => self.directories.extend(from.into_iter().take(room)),
        }
    }

    /// What it means that a file is written, from all directories that it may be written from.
    pub(crate) fn written(&self, target: &Word) -> Classes {
        let relative = !target.text.starts_with(['/', '~']);
        let from = self.directories.iter().filter(|_| relative);
        from.map(|from| redirect::written_from(from, target)).fold(redirect::written(target), Classes::and)
    }

    /// Texts that a program may get as its input.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    pub(crate) fn assignment(&mut self, assignment: &Assignment, exported: bool) {
        self.gives_value(&assignment.name, exported);
        let classes = environment::classes(&assignment.name, &assignment.value, exported);
        if !classes.is_read_only() {
            let reason = format!("`{}` changes what programs do", shown(&assignment.name));
            self.finding(&format!("{}=", assignment.name), classes, reason, false);
        }
    }

    /// Notes that a variable gets a value.
    pub(crate) fn gives_value(&mut self, name: &str, exported: bool) {
        let name = name.split(['+', '[']).next().unwrap_or_default();
        match exported || environment::may_be_seen(name) {
            true => self.sets.push(name.to_owned()),
            false => self.assigns.push(name.to_owned()),
        }
    }

    /// Notes that any variable may get a value.
    pub(crate) fn gives_any_value(&mut self) {
        self.sets.push(ANY_VARIABLE.to_owned());
    }

    /// A part that is no program.
    pub(crate) fn finding(&mut self, verb: &str, classes: Classes, reason: String, firm: bool) {
        self.parts.push(Part {
            text: shown(verb),
            verb: shown(verb),
            classes,
            reason,
            prefix: Vec::new(),
            complete: false,
            names: Vec::new(),
            also_named: Vec::new(),
            firm,
            savable: false,
        });
    }

    pub(super) fn call(&mut self, words: &[Word]) {
        let Some((first, arguments)) = words.split_first() else { return };
        let Some(verb) = first.literal() else {
            let why = "the name of the program is not known before it runs".to_owned();
            return self.push(words, &[], Class::HostEscapeRisk.into(), vec![], Some(why));
        };
        // The shell has taken `time` away before its flags; other shells start the program of that name.
        if let Some(time) = spelling::of("time").filter(|_| verb.starts_with('-')) {
            return self.spelled(words, &time, words, Class::Mutating.into());
        }
        let (name, place) = match verb::resolve(verb) {
            Verb::Detour(why) => {
                return self.push(words, &[], Class::HostEscapeRisk.into(), vec![], Some(why.to_owned()));
            }
            Verb::Named(name) if self.functions.iter().any(|function| function == name) => {
                return self.push(words, &[name], Classes::READ_ONLY, vec![], None);
            }
            Verb::Named(name) => (name, Classes::READ_ONLY),
            Verb::Elsewhere(name) => (name, Class::Mutating.into()),
        };
        if matches!(name, "source" | ".") || name == "set" && arguments.iter().any(exports_all) {
            self.gives_any_value();
        }
        match spelling::of(name) {
            Some(spelling) => self.spelled(words, &spelling, arguments, place),
            None => self.stranger(words, name, arguments, place),
        }
    }

    /// `place` is what the place of the program alone makes of it.
    fn spelled(&mut self, words: &[Word], spelling: &Spelling<'_>, arguments: &[Word], place: Classes) {
        let least = if spelling.guessed { place.with(Class::Mutating) } else { place };
        let Some(sub) = spelling.sub else {
            return self.tool(words, spelling.name, spelling.tool, arguments, least);
        };
        let arguments: Vec<Word> = [Word::exact(sub)].into_iter().chain(arguments.iter().cloned()).collect();
        self.tool(words, spelling.name, spelling.tool, &arguments, least);
    }

    /// A program that is in no table. Its words may tell what it does, rules may know its subcommands, and behind `--`
    /// another command may follow.
    fn stranger(&mut self, words: &[Word], name: &str, arguments: &[Word], place: Classes) {
        let mut findings = told(name, arguments, place);
        let named = telling::by_name(name).filter(|_| place.is_read_only());
        findings.extend(named.map(|(classes, name)| (classes, format!("`{}` tells it", shown(&name)))));
        let address = telling::address(arguments).filter(|_| place.is_read_only());
        findings
            .extend(address.map(|to| (Class::Networked.into(), format!("`{}` is an address", shown(to)))));
        let reason = findings.is_empty().then(|| reason::unknown(name));
        self.push(words, &[name], Class::Mutating.into(), findings, reason);
        let starts = readings::starts(arguments, &Spec::default(), None);
        let also = starts.iter().map(|at| names_from(name, &arguments[*at..]));
        self.parts.last_mut().expect("it has just been pushed").also_named.extend(also);
        let dashes = arguments.iter().position(|word| word.literal() == Some("--"));
        let behind = dashes.map(|at| &arguments[at + 1..]).unwrap_or_default();
        let is_tool = |word: &Word| word.literal().is_some_and(|name| spelling::of(name).is_some());
        if behind.first().is_some_and(is_tool) && self.may_try() {
            self.inner(behind);
        }
    }

    pub(super) fn push(
        &mut self,
        words: &[Word],
        names: &[&str],
        base: Classes,
        findings: Findings,
        reason: Option<String>,
    ) {
        let classes: Classes = findings.iter().map(|(classes, _)| *classes).fold(base, Classes::and);
        let worst = classes.worst();
        let found =
            findings.into_iter().find(|(classes, _)| classes.contains(worst) && worst != Class::ReadOnly);
        let prefix: Vec<String> = words.iter().map_while(Word::literal).map(str::to_owned).collect();
        let verb = names.first().copied().unwrap_or_default();
        self.parts.push(Part {
            text: shown(&reason::text_of(words)),
            verb: shown(verb),
            classes,
            reason: reason
                .or(found.map(|(_, why)| why))
                .unwrap_or_else(|| reason::ordinary(&names.join(" "), worst)),
            complete: prefix.len() == words.len(),
            prefix,
            also_named: without_version(names).into_iter().collect(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            firm: false,
            savable: !self.inside_shell,
        });
    }
}

/// A word of `set` with which later assignments, or later words, are seen by programs.
fn exports_all(word: &Word) -> bool {
    let is_flag = word.text.starts_with('-') && !word.text.starts_with("--");
    !word.exact || matches!(&*word.text, "allexport" | "keyword") || is_flag && word.text.contains(['a', 'k'])
}

/// Texts of here-strings, and those that are printed: they may go to any other command of the line.
fn texts_of(simple: &Simple) -> Vec<String> {
    let strings = simple.redirects.iter().filter(|redirect| redirect.kind == RedirectKind::HereString);
    let strings = strings.map(|redirect| redirect.target.text.clone());
    let prints = matches!(simple.words.first().and_then(Word::literal), Some("echo" | "printf"));
    let printed = simple.words.iter().skip(1).filter(|_| prints).map(|word| word.text.clone());
    strings.chain(printed).collect()
}

/// What words tell of a subcommand that no table knows. What a program of the tree takes away is not taken from others,
/// and `./build release` is a way to build.
pub(super) fn told(name: &str, arguments: &[Word], place: Classes) -> Findings {
    let of_the_tree = !place.is_read_only();
    let here = |classes: Classes| match of_the_tree && classes.contains(Class::Destructive) {
        true => Class::Destructive.into(),
        false => classes,
    };
    let told = telling::told(arguments).into_iter().filter(|(_, word)| !of_the_tree || word != "release");
    told.map(|(classes, word)| (here(classes), format!("`{}` of `{}`", shown(&word), shown(name)))).collect()
}

/// A program and the words that follow it, as far as a rule may name them.
fn names_from(name: &str, words: &[Word]) -> Vec<String> {
    let plain = words.iter().map_while(Word::literal).take_while(|word| !word.starts_with('-'));
    [name].into_iter().chain(plain.take(3)).map(str::to_owned).collect()
}

/// A rule for `pip` means `pip3.12` as well.
fn without_version(names: &[&str]) -> Option<Vec<String>> {
    let (first, others) = names.split_first()?;
    let bare = spelling::without_version(first);
    let other = bare != *first && !bare.is_empty();
    other.then(|| [bare].into_iter().chain(others.iter().copied()).map(str::to_owned).collect())
}
