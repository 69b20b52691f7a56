//! From the parsed script to its effects: every simple command, redirection and assignment becomes a part.

mod reason;
mod sought;
mod tool;

use std::ffi::OsString;

pub(crate) use reason::shown;

use super::bounds::{MAX_DIRECTORIES, MAX_TRIALS, MAX_WRAPPERS};
use super::class::{Class, Classes};
use super::script::{
    RedirectKind, ShellAssignment, ShellRedirect, ShellScript, ShellWord, SimpleCommand, UnreadableScript,
};
use super::spelling::{self, ToolSpelling};
use super::tools::{self, ToolSpec};
use super::verb::{self, CommandVerb};
use super::{
    Classification, CommandPart, agree, arithmetic, environment, readings, redirect, screen, telling,
};

#[derive(Default)]
pub(crate) struct Assessor {
    parts: Vec<CommandPart>,
    /// Variables that get a value, and that programs may see.
    sets: Vec<String>,
    /// Variables that get a value, and that programs see only if they are in the environment already.
    assigns: Vec<String>,
    functions: Vec<String>,
    /// The number of wrappers and shells around the current command.
    depth: usize,
    /// Inside `bash -c` nothing can be saved as a rule: the text is one word of the command.
    inside_shell: bool,
    /// Directories that a `cd` may have entered.
    directories: Vec<String>,
    /// Texts that a program may receive as input.
    texts: Vec<String>,
    /// The number of searches around the current command: see [`sought`].
    searches: usize,
    /// The number of readings and words that were tried, which is bounded.
    trials: usize,
}

/// Represents all variables among names of variables.
const ANY_VARIABLE: &str = "*";

/// Reasons with the classes that each of them implies.
pub(crate) type Findings = Vec<(Classes, String)>;

impl Assessor {
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
        let words: Option<Vec<ShellWord>> = words
            .iter()
            .map(|word| word.to_str().map(ShellWord::exact))
            .collect();
        let Some(words) = words else {
            return self.unreadable("", &UnreadableScript::Syntax("a word is no text".to_owned()));
        };
        // Also without a shell: characters that a terminal hides would deceive the person who approves the
        // command.
        let deceptive = words.iter().find_map(|word| screen::check(&word.text).err());
        match deceptive {
            Some(why) => self.unreadable(&reason::text_of(&words), &why),
            None if words.is_empty() => {
                self.unreadable("", &UnreadableScript::Syntax("there is no program".to_owned()));
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

    /// A command that another command starts.
    pub(crate) fn inner(&mut self, words: &[ShellWord]) {
        self.deeper(|judge| judge.call(words));
    }

    fn deeper(&mut self, judge_it: impl FnOnce(&mut Assessor)) {
        self.depth += 1;
        if self.depth > MAX_WRAPPERS {
            self.unreadable("", &UnreadableScript::TooDeep)
        } else {
            judge_it(self)
        }
        self.depth -= 1;
    }

    /// Whether one more reading may be tried. Without a bound, nested readings would never end.
    pub(crate) fn may_try(&mut self) -> bool {
        self.tried(self.trials + 1);
        self.trials <= MAX_TRIALS
    }

    fn tried(&mut self, trials: usize) {
        if self.trials <= MAX_TRIALS && trials > MAX_TRIALS {
            self.unreadable("", &UnreadableScript::TooManyReadings(MAX_TRIALS));
        }
        self.trials = trials;
    }

    fn unreadable(&mut self, text: &str, why: &UnreadableScript) {
        self.parts.push(CommandPart::unreadable(text, why));
    }

    fn script(&mut self, script: &ShellScript) {
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
        // A function of that name runs instead of the tool, wherever the script defines it.
        for function in script.functions.iter().filter(|name| tools::find(name).is_some()) {
            let reason = format!("a function takes the place of `{function}`");
            self.finding(function, Class::HostEscapeRisk.into(), reason, true);
        }
        self.functions.extend(script.functions.iter().cloned());
        self.texts.extend(script.simples.iter().flat_map(texts_of));
        self.texts.extend(script.documents.iter().cloned());
        // All directories are collected before any command is judged, because commands have no order here.
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

    fn simple(&mut self, simple: &SimpleCommand) {
        for assignment in &simple.assignments {
            self.assignment(assignment, !simple.words.is_empty());
        }
        for redirect in &simple.redirects {
            self.redirect(redirect);
            if redirect::empties(simple, redirect) {
                let reason = format!("`{}` is emptied", shown(&redirect.target.shown()));
                self.finding(">", Class::Destructive.into(), reason, false);
            }
        }
        // The shell expands `{rm,-rf}` into a program and its flag; other readers see one word.
        if simple
            .words
            .first()
            .is_some_and(|first| !first.choices.is_empty())
        {
            let why = "the name of the program is hidden in braces".to_owned();
            self.finding("{…}", Class::HostEscapeRisk.into(), why, false);
        }
        let words: Vec<ShellWord> = simple.words.iter().flat_map(ShellWord::spread).collect();
        if !words.is_empty() {
            self.call(&words);
        }
    }

    fn redirect(&mut self, redirect: &ShellRedirect) {
        let alone = redirect::classes(redirect);
        let classes = match redirect.kind {
            RedirectKind::Write | RedirectKind::Append | RedirectKind::Duplicate if !alone.is_read_only() => {
                self.written(&redirect.target)
            }
            RedirectKind::Write
            | RedirectKind::Append
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

    /// A `cd` or `pushd`. Commands have no order here, so every directory may be that of any command.
    fn follow(&mut self, words: &[ShellWord]) {
        let literal: Vec<&str> = words.iter().filter_map(ShellWord::literal).collect();
        let Some(("cd" | "pushd", rest)) = literal.split_first().map(|(verb, rest)| (*verb, rest)) else {
            return;
        };
        let Some(to) = rest.iter().find(|word| !word.starts_with('-')) else {
            return;
        };
        let from: Vec<String> = self
            .directories
            .iter()
            .map(|from| format!("{from}/{to}"))
            .collect();
        // Each `cd` can double the number of directories.
        let room = MAX_DIRECTORIES.saturating_sub(self.directories.len());
        if to.starts_with('/') {
            self.directories.extend((room > 0).then(|| (*to).to_owned()))
        } else {
            self.directories.extend(from.into_iter().take(room))
        }
    }

    /// The classes of writing a file, considering all directories from which it may be written.
    pub(crate) fn written(&self, target: &ShellWord) -> Classes {
        let relative = !target.text.starts_with(['/', '~']);
        let from = self.directories.iter().filter(|_| relative);
        from.map(|from| redirect::written_from(from, target))
            .fold(redirect::written(target), Classes::and)
    }

    /// Texts that a program may receive as input.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    pub(crate) fn assignment(&mut self, assignment: &ShellAssignment, exported: bool) {
        self.gives_value(&assignment.name, exported);
        let classes = environment::classes(&assignment.name, &assignment.value, exported);
        if !classes.is_read_only() {
            let reason = format!("`{}` changes what programs do", shown(&assignment.name));
            self.finding(&format!("{}=", assignment.name), classes, reason, false);
        }
    }

    /// Records that a variable gets a value.
    pub(crate) fn gives_value(&mut self, name: &str, exported: bool) {
        let name = name.split(['+', '[']).next().unwrap_or_default();
        if exported || environment::may_be_seen(name) {
            self.sets.push(name.to_owned())
        } else {
            self.assigns.push(name.to_owned())
        }
    }

    /// Records that any variable may get a value.
    pub(crate) fn gives_any_value(&mut self) {
        self.sets.push(ANY_VARIABLE.to_owned());
    }

    /// A part that is not a program.
    pub(crate) fn finding(&mut self, verb: &str, classes: Classes, reason: String, firm: bool) {
        self.parts.push(CommandPart {
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

    pub(super) fn call(&mut self, words: &[ShellWord]) {
        let Some((first, arguments)) = words.split_first() else {
            return;
        };
        let Some(verb) = first.literal() else {
            let why = "the name of the program is not known before it runs".to_owned();
            return self.push(words, &[], Class::HostEscapeRisk.into(), vec![], Some(why));
        };
        // The shell has removed `time` before its flags; other shells start the program of that name.
        if let Some(time) = spelling::of("time").filter(|_| verb.starts_with('-')) {
            return self.spelled(words, &time, words, Class::Mutating.into());
        }
        let (name, place) = match verb::resolve(verb) {
            CommandVerb::Detour(why) => {
                return self.push(
                    words,
                    &[],
                    Class::HostEscapeRisk.into(),
                    vec![],
                    Some(why.to_owned()),
                );
            }
            // The commands in the body of the function are judged on their own.
            CommandVerb::Named(name) if self.functions.iter().any(|function| function == name) => {
                return self.push(words, &[name], Classes::READ_ONLY, vec![], None);
            }
            CommandVerb::Named(name) => (name, Classes::READ_ONLY),
            CommandVerb::Elsewhere(name) => (name, Class::Mutating.into()),
        };
        // What the file sets, or which variables are exported from now on, cannot be known.
        if matches!(name, "source" | ".") || name == "set" && arguments.iter().any(exports_all) {
            self.gives_any_value();
        }
        match spelling::of(name) {
            Some(spelling) => self.spelled(words, &spelling, arguments, place),
            None => self.stranger(words, name, arguments, place),
        }
    }

    /// `place` is the classes that follow from the location of the program alone.
    fn spelled(
        &mut self,
        words: &[ShellWord],
        spelling: &ToolSpelling<'_>,
        arguments: &[ShellWord],
        place: Classes,
    ) {
        let least = if spelling.guessed {
            place.with(Class::Mutating)
        } else {
            place
        };
        let Some(sub) = spelling.sub else {
            return self.tool(words, spelling.name, spelling.tool, arguments, least);
        };
        let arguments: Vec<ShellWord> = [ShellWord::exact(sub)]
            .into_iter()
            .chain(arguments.iter().cloned())
            .collect();
        self.tool(words, spelling.name, spelling.tool, &arguments, least);
    }

    /// A program that is in no table. Its words may indicate its effects, rules may name its subcommands, and
    /// another command may follow after `--`.
    fn stranger(&mut self, words: &[ShellWord], name: &str, arguments: &[ShellWord], place: Classes) {
        let mut findings = told(name, arguments, place);
        let named = telling::by_name(name).filter(|_| place.is_read_only());
        findings.extend(named.map(|(classes, name)| (classes, format!("`{}` tells it", shown(&name)))));
        let address = telling::address(arguments).filter(|_| place.is_read_only());
        findings
            .extend(address.map(|to| (Class::Networked.into(), format!("`{}` is an address", shown(to)))));
        let device = arguments.iter().find(|word| redirect::is_device(word));
        findings.extend(device.map(|word| {
            (
                Class::HostEscapeRisk.into(),
                format!("`{}` belongs to the machine", shown(&word.text)),
            )
        }));
        let reason = findings.is_empty().then(|| reason::unknown(name));
        self.push(words, &[name], Class::Mutating.into(), findings, reason);
        // Without a table it is unknown which flags take values, so each way of reading them gives names
        // that rules may match.
        let starts = readings::starts(arguments, &ToolSpec::default(), None);
        let also = starts.iter().map(|at| names_from(name, &arguments[*at..]));
        self.parts
            .last_mut()
            .expect("it has just been pushed")
            .also_named
            .extend(also);
        let dashes = arguments.iter().position(|word| word.literal() == Some("--"));
        let behind = dashes.map(|at| &arguments[at + 1..]).unwrap_or_default();
        let is_tool = |word: &ShellWord| word.literal().is_some_and(|name| spelling::of(name).is_some());
        if behind.first().is_some_and(is_tool) && self.may_try() {
            self.inner(behind);
        }
    }

    pub(super) fn push(
        &mut self,
        words: &[ShellWord],
        names: &[&str],
        base: Classes,
        findings: Findings,
        reason: Option<String>,
    ) {
        let classes: Classes = findings
            .iter()
            .map(|(classes, _)| *classes)
            .fold(base, Classes::and);
        let worst = classes.worst();
        let found = findings
            .into_iter()
            .find(|(classes, _)| classes.contains(worst) && worst != Class::ReadOnly);
        let prefix: Vec<String> = words
            .iter()
            .map_while(ShellWord::literal)
            .map(str::to_owned)
            .collect();
        let verb = names.first().copied().unwrap_or_default();
        self.parts.push(CommandPart {
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
            // A rule that was saved for a part of `bash -c` could not be matched against the command later.
            savable: !self.inside_shell,
        });
    }
}

/// A word of `set` that exports later assignments, or turns later words into exports.
fn exports_all(word: &ShellWord) -> bool {
    let is_flag = word.text.starts_with('-') && !word.text.starts_with("--");
    !word.exact || matches!(&*word.text, "allexport" | "keyword") || is_flag && word.text.contains(['a', 'k'])
}

/// Texts of here-strings, and texts that are printed: any other command of the line may receive them.
fn texts_of(simple: &SimpleCommand) -> Vec<String> {
    let strings = simple
        .redirects
        .iter()
        .filter(|redirect| redirect.kind == RedirectKind::HereString);
    let strings = strings.map(|redirect| redirect.target.text.clone());
    let prints = matches!(
        simple.words.first().and_then(ShellWord::literal),
        Some("echo" | "printf")
    );
    let printed = simple
        .words
        .iter()
        .skip(1)
        .filter(|_| prints)
        .map(|word| word.text.clone());
    strings.chain(printed).collect()
}

/// The effects that words indicate for a subcommand without a table. Removals by a program of the tree are
/// not removals from others, and `./build release` is a build.
pub(super) fn told(name: &str, arguments: &[ShellWord], place: Classes) -> Findings {
    let of_the_tree = !place.is_read_only();
    let here = |classes: Classes| {
        if of_the_tree && classes.contains(Class::Destructive) {
            Class::Destructive.into()
        } else {
            classes
        }
    };
    let told = telling::told(arguments)
        .into_iter()
        .filter(|(_, word)| !of_the_tree || !telling::tells_of_builds(word));
    told.map(|(classes, word)| (here(classes), format!("`{}` of `{}`", shown(&word), shown(name))))
        .collect()
}

/// A program and the words that follow it, as far as a rule may name them.
fn names_from(name: &str, words: &[ShellWord]) -> Vec<String> {
    let plain = words
        .iter()
        .map_while(ShellWord::literal)
        .take_while(|word| !word.starts_with('-'));
    [name]
        .into_iter()
        .chain(plain.take(3))
        .map(str::to_owned)
        .collect()
}

/// A rule for `pip` also matches `pip3.12`.
fn without_version(names: &[&str]) -> Option<Vec<String>> {
    let (first, others) = names.split_first()?;
    let bare = spelling::without_version(first);
    let other = bare != *first && !bare.is_empty();
    other.then(|| {
        [bare]
            .into_iter()
            .chain(others.iter().copied())
            .map(str::to_owned)
            .collect()
    })
}
