//! One call of a tool, classified by its table.

use super::{Assessor, Findings, reason, shown};
use crate::classify::arguments::{OptionsEnd, ParsedArguments};
use crate::classify::class::{Class, Classes};
use crate::classify::handler::ToolCall;
use crate::classify::readings;
use crate::classify::script::ShellWord;
use crate::classify::spelling;
use crate::classify::tools::{Tool, ToolSpec, ToolSubcommand};

/// A call of a tool with subcommands, before any part of it is classified.
struct SubcommandCall<'a> {
    words: &'a [ShellWord],
    name: &'a str,
    tool: &'a Tool,
    /// The classes that follow from the location of the program alone.
    least: Classes,
    /// The findings from words before the subcommand.
    findings: Findings,
}

impl Assessor {
    /// `least` is the classes that follow from the location of the program alone.
    pub(super) fn tool(
        &mut self,
        words: &[ShellWord],
        name: &str,
        tool: &Tool,
        arguments: &[ShellWord],
        least: Classes,
    ) {
        if is_information(tool, arguments) {
            return self.push(words, &[name], least, vec![], None);
        }
        if tool.subs.is_empty() {
            return self.judge_spec(words, &[name], &tool.spec, None, arguments, least, vec![]);
        }
        let arguments = after_toolchain(arguments);
        let global = ParsedArguments::read(arguments, &tool.spec, None, OptionsEnd::Operands(0));
        let findings = self.global_findings(name, tool, &global, arguments);
        let calling = SubcommandCall {
            words,
            name,
            tool,
            least,
            findings,
        };
        self.readings(&calling, arguments, arguments.len() - global.rest.len());
    }

    /// The findings from flags before the subcommand, and from words that have the same meaning after any
    /// subcommand.
    fn global_findings(
        &mut self,
        name: &str,
        tool: &Tool,
        global: &ParsedArguments<'_>,
        arguments: &[ShellWord],
    ) -> Findings {
        let mut findings = reason::flag_findings(name, global);
        findings.extend(word_findings(name, &tool.spec, arguments));
        if let Some(handler) = tool.spec.handler {
            let call = ToolCall {
                name,
                arguments: global,
                lowered: false,
            };
            findings.extend(handler.look(self, &call));
        }
        findings
    }

    /// The subcommand may be at several positions: all known ones count. `usual` is the position if unknown
    /// flags take no value.
    fn readings(&mut self, calling: &SubcommandCall<'_>, arguments: &[ShellWord], usual: usize) {
        let starts = readings::starts(arguments, &calling.tool.spec, None);
        let known = |at: &usize| calling.tool.sub(&literals(&arguments[*at..])).is_some();
        let first = if known(&usual) {
            usual
        } else {
            starts.iter().copied().find(known).unwrap_or(usual)
        };
        let at = self.parts.len();
        self.subcommand(calling, &arguments[first..]);
        for other in starts.iter().copied().filter(|start| *start != first) {
            if known(&other) && self.may_try() {
                let from = self.parts.len();
                self.subcommand(calling, &arguments[other..]);
                self.merge(at, from);
            } else {
                self.parts[at]
                    .also_named
                    .push(super::names_from(calling.name, &arguments[other..]))
            }
        }
        if starts.len() > readings::MOST {
            self.parts[at].classes = self.parts[at].classes.with(Class::HostEscapeRisk);
            self.parts[at].reason = "its flags can be read in too many ways".to_owned();
        }
    }

    /// Merges a part that is another reading of an earlier one into that one.
    fn merge(&mut self, into: usize, from: usize) {
        let mut read = self.parts.split_off(from).into_iter();
        let Some(other) = read.next() else { return };
        let part = &mut self.parts[into];
        if other.classes.worst() > part.classes.worst() {
            part.reason = other.reason;
        }
        part.classes = part.classes.and(other.classes);
        part.also_named.push(other.names);
        part.also_named.extend(other.also_named);
        self.parts.extend(read);
    }

    fn subcommand(&mut self, calling: &SubcommandCall<'_>, rest: &[ShellWord]) {
        let SubcommandCall {
            words,
            name,
            tool,
            least,
            ..
        } = *calling;
        let mut findings = calling.findings.clone();
        let literal = literals(rest);
        match tool.sub(&literal) {
            Some(sub) => self.known_subcommand(calling, sub, &literal, rest),
            None if rest.is_empty() => {
                self.push(words, &[name], least.and(tool.spec.classes), findings, None);
            }
            None if literal.is_empty() => {
                findings.push((
                    Class::HostEscapeRisk.into(),
                    "the subcommand is not known".to_owned(),
                ));
                self.push(words, &[name], least, findings, None);
            }
            None => {
                let why = format!("`{name} {}` is not known", shown(literal[0]));
                let base = tool
                    .spec
                    .others
                    .unwrap_or(tool.spec.classes.and(tool.spec.unknown()));
                findings.push((base, why));
                // If any other word is a script of the tree, its name indicates nothing.
                if tool.spec.others.is_none() {
                    findings.extend(super::told(name, rest, Classes::READ_ONLY));
                }
                self.push(words, &[name, literal[0]], least, findings, None);
            }
        }
    }

    /// Flags between the words of a subcommand hide its end: `docker compose -f x down` is a `compose down`.
    fn known_subcommand(
        &mut self,
        calling: &SubcommandCall<'_>,
        sub: &ToolSubcommand,
        literal: &[&str],
        rest: &[ShellWord],
    ) {
        let SubcommandCall {
            words,
            name,
            tool,
            least,
            ..
        } = *calling;
        let (path, after) = (&literal[..sub.length()], &rest[sub.length()..]);
        let names: Vec<&str> = [name].into_iter().chain(path.iter().copied()).collect();
        let at = self.parts.len();
        let findings = || calling.findings.clone();
        self.judge_spec(
            words,
            &names,
            &sub.spec,
            Some(&tool.spec),
            after,
            least,
            findings(),
        );
        let flagged = after.first().is_some_and(|word| word.text.starts_with('-'));
        if !flagged || !tool.subs.iter().any(|longer| longer.before.starts_with(path)) {
            return;
        }
        for start in readings::starts(after, &sub.spec, Some(&tool.spec)) {
            let whole: Vec<&str> = path.iter().copied().chain(literals(&after[start..])).collect();
            let longer = tool.sub(&whole).filter(|longer| longer.length() > path.len());
            if let Some(longer) = longer.filter(|_| self.may_try()) {
                let from = self.parts.len();
                let after = &after[start + longer.length() - path.len()..];
                let names: Vec<&str> = [name]
                    .into_iter()
                    .chain(whole[..longer.length()].iter().copied())
                    .collect();
                self.judge_spec(
                    words,
                    &names,
                    &longer.spec,
                    Some(&tool.spec),
                    after,
                    least,
                    findings(),
                );
                self.merge(at, from);
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one call taken apart: passing it in a struct reads no better"
    )]
    fn judge_spec(
        &mut self,
        words: &[ShellWord],
        names: &[&str],
        spec: &ToolSpec,
        above: Option<&ToolSpec>,
        after: &[ShellWord],
        least: Classes,
        mut findings: Findings,
    ) {
        let until = match spec.wraps {
            _ if spec.raw => OptionsEnd::Start,
            Some(count) => OptionsEnd::Operands(count),
            None => OptionsEnd::End,
        };
        let arguments = ParsedArguments::read(after, spec, above, until);
        let name = names.join(" ");
        findings.extend(reason::flag_findings(&name, &arguments));
        findings.extend(word_findings(&name, spec, after));
        if spec.verbs {
            findings.extend(super::told(&name, after, Classes::READ_ONLY));
        }
        let quiet = findings.iter().all(|(classes, _)| classes.is_read_only());
        let lowered = arguments.lowered.filter(|_| quiet);
        let base = lowered.unwrap_or(spec.classes);
        let at = self.parts.len();
        let call = ToolCall {
            name: &name,
            arguments: &arguments,
            lowered: lowered == Some(Classes::READ_ONLY),
        };
        findings.extend(alone_findings(&name, spec, &arguments));
        findings.extend(self.lines_of_flags(spec, &arguments));
        match spec.handler {
            Some(handler) => findings.extend(handler.look(self, &call)),
            None if spec.wraps.is_some() && !arguments.rest.is_empty() => self.inner(arguments.rest),
            None => {}
        }
        if spec.wraps.is_some() {
            self.other_commands(spec, above, after, arguments.rest.len());
        }
        let inner = self.parts.split_off(at);
        self.push(words, names, least.and(base), findings, None);
        if spec.seeks {
            self.seek(at, after);
        }
        self.parts.extend(inner);
    }

    /// Values of flags that are command lines.
    fn lines_of_flags(&mut self, spec: &ToolSpec, arguments: &ParsedArguments<'_>) -> Findings {
        let mut findings = Findings::new();
        let runs = |name: &String| spec.flags.get(name.as_str()).is_some_and(|flag| flag.runs);
        for (_, value) in arguments.flags.iter().filter(|(name, _)| runs(name)) {
            findings.extend(self.line(value.as_ref()));
        }
        findings
    }

    /// A word that a shell will read.
    pub(crate) fn line(&mut self, word: Option<&ShellWord>) -> Findings {
        match word.and_then(ShellWord::literal) {
            Some(text) => {
                self.inner_shell(text);
                Findings::new()
            }
            None => {
                let why = "the text of the command is not known before it runs";
                vec![(Class::HostEscapeRisk.into(), why.to_owned())]
            }
        }
    }

    /// The command after flags of a wrapper that may or may not take a value. The usual reading has been
    /// classified already.
    fn other_commands(
        &mut self,
        spec: &ToolSpec,
        above: Option<&ToolSpec>,
        after: &[ShellWord],
        usual: usize,
    ) {
        let count = spec.wraps.unwrap_or_default();
        let starts = readings::starts(after, spec, above)
            .into_iter()
            .map(|start| start + count);
        for start in starts.filter(|start| *start + usual != after.len() && *start < after.len()) {
            let is_tool = after[start]
                .literal()
                .is_some_and(|word| spelling::of(word).is_some());
            if is_tool && self.may_try() {
                self.inner(&after[start..]);
            }
        }
    }
}

fn literals(words: &[ShellWord]) -> Vec<&str> {
    // Subcommands consist of only a few words.
    words.iter().take(8).map_while(ShellWord::literal).collect()
}

/// `cargo +nightly build`: the first word names a toolchain.
fn after_toolchain(arguments: &[ShellWord]) -> &[ShellWord] {
    match arguments.split_first() {
        Some((first, rest)) if first.text.starts_with('+') => rest,
        _ => arguments,
    }
}

/// Words that indicate the action, wherever they stand.
fn word_findings(name: &str, spec: &ToolSpec, words: &[ShellWord]) -> Findings {
    let literal = words.iter().filter_map(ShellWord::literal);
    let said = |word: &'_ str| {
        spec.words
            .iter()
            .find(|said| said.fits(word))
            .map(|said| said.classes)
    };
    let found = literal.filter_map(|word| Some((said(word)?, format!("`{}` of `{name}`", shown(word)))));
    found.collect()
}

/// Words that indicate the action if there is no other: `make clean` differs from `make clean all`.
fn alone_findings(name: &str, spec: &ToolSpec, arguments: &ParsedArguments<'_>) -> Findings {
    let is_number = |word: &ShellWord| word.exact && word.text.bytes().all(|byte| byte.is_ascii_digit());
    let targets = arguments
        .operands
        .iter()
        .filter(|word| !word.text.contains('=') && !is_number(word));
    let said = |word: &ShellWord| {
        let said = spec
            .alone
            .iter()
            .find(|said| word.literal().is_some_and(|word| said.fits(word)));
        said.map(|said| (said.classes, format!("`{}` of `{name}`", shown(&word.text))))
    };
    targets
        .map(|word| said(word))
        .collect::<Option<Findings>>()
        .unwrap_or_default()
}

/// `--version` and `--help` alone only print, also after a subcommand. Other flags that print belong to the
/// tool itself: `docker -v` prints its version, `docker compose down -v` removes volumes.
fn is_information(tool: &Tool, arguments: &[ShellWord]) -> bool {
    let arguments = after_toolchain(arguments);
    let literal: Vec<&str> = arguments.iter().map_while(ShellWord::literal).collect();
    let Some((last, before)) = literal.split_last().filter(|_| literal.len() == arguments.len()) else {
        return false;
    };
    let quiet = tool.spec.info.first() == Some(&"none");
    let general = |word: &str| matches!(word, "--version" | "--help");
    let only_subcommand = tool.sub(before).is_some_and(|sub| sub.length() == before.len());
    let verbose = matches!(*last, "-v" | "--verbose") && matches!(before, ["--version" | "-V"]);
    let prints = if before.is_empty() {
        general(last) || tool.spec.info.contains(last)
    } else {
        general(last) && only_subcommand || verbose
    };
    prints && !quiet
}
