//! From what was read to what it does: every simple command, redirection and assignment becomes a part.

use std::ffi::OsString;

use super::arguments::{Arguments, Until};
use super::bounds::MAX_WRAPPERS;
use super::class::{Class, Classes};
use super::handler::Call;
use super::script::{Assignment, Redirect, Script, Simple, Unreadable, Word};
use super::tools::{self, Spec, Tool};
use super::verb::{self, Verb};
use super::{Part, agree, arithmetic, environment, redirect, screen};

/// A part's text is for people, who do not read a whole file on one line.
const LONGEST_TEXT: usize = 200;

#[derive(Default)]
pub(crate) struct Judge {
    parts: Vec<Part>,
    functions: Vec<String>,
    /// Wrappers and shells around what is being judged.
    depth: usize,
    /// Inside `bash -c` nothing can be kept as a rule: the text is one word of the command.
    inside_shell: bool,
}

/// Reasons with what each of them means.
pub(crate) type Findings = Vec<(Classes, String)>;

impl Judge {
    pub(crate) fn finish(self) -> Vec<Part> {
        self.parts
    }

    pub(crate) fn argv(&mut self, words: &[OsString]) {
        let words: Option<Vec<Word>> = words.iter().map(|word| word.to_str().map(Word::exact)).collect();
        let Some(words) = words else {
            return self.unreadable("", &Unreadable::Syntax("a word is no text".to_owned()));
        };
        let deceptive = words.iter().find_map(|word| screen::check(&word.text).err());
        match deceptive {
            Some(why) => self.unreadable(&text_of(&words), &why),
            None if words.is_empty() => {
                self.unreadable("", &Unreadable::Syntax("there is no program".to_owned()));
            }
            None => self.call(&words),
        }
    }

    pub(crate) fn shell(&mut self, text: &str) {
        let script = screen::check(text).and_then(|()| agree::read(text));
        match script {
            Ok(script) => self.script(&script),
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
        for function in script.functions.iter().filter(|name| tools::find(name).is_some()) {
            let reason = format!("a function takes the place of `{function}`");
            self.finding(function, Class::HostEscapeRisk.into(), reason, true);
        }
        self.functions.extend(script.functions.iter().cloned());
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
        if !simple.words.is_empty() {
            self.call(&simple.words);
        }
    }

    fn redirect(&mut self, redirect: &Redirect) {
        let classes = redirect::classes(redirect);
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

    pub(crate) fn assignment(&mut self, assignment: &Assignment, exported: bool) {
        let classes = environment::classes(&assignment.name, &assignment.value, exported);
        if !classes.is_read_only() {
            let reason = format!("`{}` changes what programs do", shown(&assignment.name));
            self.finding(&format!("{}=", assignment.name), classes, reason, false);
        }
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
            firm,
            savable: false,
        });
    }

    fn call(&mut self, words: &[Word]) {
        let Some((first, arguments)) = words.split_first() else { return };
        let Some(verb) = first.literal() else {
            let why = "the name of the program is not known before it runs".to_owned();
            return self.push(words, &[], Class::HostEscapeRisk.into(), vec![], Some(why));
        };
        match verb::resolve(verb) {
            Verb::Detour(why) => {
                self.push(words, &[], Class::HostEscapeRisk.into(), vec![], Some(why.to_owned()));
            }
            Verb::Named(name) if self.functions.iter().any(|function| function == name) => {
                self.push(words, &[name], Classes::READ_ONLY, vec![], None);
            }
            Verb::Named(name) => match tools::find(name) {
                Some(tool) => self.tool(words, name, tool, arguments, Classes::READ_ONLY),
                None => self.push(words, &[name], Class::Mutating.into(), vec![], Some(unknown(name))),
            },
            Verb::Elsewhere(name) => match tools::find(name) {
                Some(tool) => self.tool(words, name, tool, arguments, Class::Mutating.into()),
                None => self.push(words, &[name], Class::Mutating.into(), vec![], Some(unknown(verb))),
            },
        }
    }

    /// `least` is what the place of the program alone makes of it.
    fn tool(&mut self, words: &[Word], name: &str, tool: &Tool, arguments: &[Word], least: Classes) {
        if is_information(tool, arguments) {
            return self.push(words, &[name], least, vec![], None);
        }
        if tool.subs.is_empty() {
            return self.judge_spec(words, &[name], &tool.spec, None, arguments, least, vec![]);
        }
        let global = Arguments::read(arguments, &tool.spec, None, Until::Operands(0));
        let mut findings = self.global_findings(name, tool, &global);
        let rest = global.rest;
        let literal: Vec<&str> = rest.iter().map_while(Word::literal).collect();
        match tool.sub(&literal) {
            Some(sub) => {
                let names: Vec<&str> =
                    [name].into_iter().chain(literal[..sub.length()].iter().copied()).collect();
                let after = &rest[sub.length()..];
                self.judge_spec(words, &names, &sub.spec, Some(&tool.spec), after, least, findings);
            }
            None if rest.is_empty() => {
                self.push(words, &[name], least.and(tool.spec.classes), findings, None);
            }
            None if literal.is_empty() => {
                findings.push((Class::HostEscapeRisk.into(), "the subcommand is not known".to_owned()));
                self.push(words, &[name], least, findings, None);
            }
            None => {
                let why = format!("`{name} {}` is not known", shown(literal[0]));
                findings.push((tool.spec.unknown(), why));
                self.push(words, &[name, literal[0]], least.and(tool.spec.classes), findings, None);
            }
        }
    }

    /// What flags before the subcommand add.
    fn global_findings(&mut self, name: &str, tool: &Tool, global: &Arguments<'_>) -> Findings {
        let mut findings = flag_findings(name, global);
        if let Some(handler) = tool.spec.handler {
            let call = Call { name, arguments: global, lowered: false };
            findings.extend(handler.look(self, &call));
        }
        findings
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one call taken apart: passing it in a struct reads no better"
    )]
    fn judge_spec(
        &mut self,
        words: &[Word],
        names: &[&str],
        spec: &Spec,
        above: Option<&Spec>,
        after: &[Word],
        least: Classes,
        mut findings: Findings,
    ) {
        let until = match spec.wraps {
            _ if spec.raw => Until::Start,
            Some(count) => Until::Operands(count),
            None => Until::End,
        };
        let arguments = Arguments::read(after, spec, above, until);
        let name = names.join(" ");
        findings.extend(flag_findings(&name, &arguments));
        let quiet = findings.iter().all(|(classes, _)| classes.is_read_only());
        let lowered = arguments.lowered.filter(|_| quiet);
        let base = lowered.unwrap_or(spec.classes);
        let at = self.parts.len();
        let call = Call { name: &name, arguments: &arguments, lowered: lowered == Some(Classes::READ_ONLY) };
        match spec.handler {
            Some(handler) => findings.extend(handler.look(self, &call)),
            None if spec.wraps.is_some() && !arguments.rest.is_empty() => self.inner(arguments.rest),
            None => {}
        }
        let inner = self.parts.split_off(at);
        self.push(words, names, least.and(base), findings, None);
        self.parts.extend(inner);
    }

    fn push(
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
            text: shown(&text_of(words)),
            verb: shown(verb),
            classes,
            reason: reason.or(found.map(|(_, why)| why)).unwrap_or_else(|| ordinary(&names.join(" "), worst)),
            complete: prefix.len() == words.len(),
            prefix,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            firm: false,
            savable: !self.inside_shell,
        });
    }
}

/// `--version` and `--help` alone only print, also after a subcommand.
fn is_information(tool: &Tool, arguments: &[Word]) -> bool {
    let literal: Vec<&str> = arguments.iter().map_while(Word::literal).collect();
    let Some((last, before)) = literal.split_last().filter(|_| literal.len() == arguments.len()) else {
        return false;
    };
    let quiet = tool.spec.info.first() == Some(&"none");
    let prints = matches!(*last, "--version" | "--help") || tool.spec.info.contains(last);
    let only_subcommand = tool.sub(before).is_some_and(|sub| sub.length() == before.len());
    prints && !quiet && (before.is_empty() || only_subcommand)
}

fn flag_findings(name: &str, arguments: &Arguments<'_>) -> Findings {
    let effects = arguments.adds.iter().filter(|(classes, _)| !classes.is_read_only());
    effects.map(|(classes, flag)| (*classes, format!("`{}` of `{name}`", shown(flag)))).collect()
}

fn unknown(name: &str) -> String {
    format!("nobody knows what `{}` does", shown(name))
}

/// A reason for what a tool does by itself.
fn ordinary(name: &str, class: Class) -> String {
    let does = match class {
        Class::ReadOnly => "changes nothing",
        Class::Mutating => "changes files, or runs code that may",
        Class::Destructive => "takes away what was there",
        Class::Networked => "talks to others",
        Class::HostEscapeRisk => "reaches for the host, or runs what nobody has seen",
    };
    format!("`{}` {does}", shown(name))
}

fn text_of(words: &[Word]) -> String {
    let mut text = String::new();
    for word in words {
        if text.len() > LONGEST_TEXT {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&word.shown());
    }
    text
}

/// One line that is safe on a terminal.
pub(crate) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(LONGEST_TEXT).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    avfs_core::printable(cut.as_bytes()) + more
}
