//! `gdb` and `lldb`: the program that they run, and the commands that they are given.

use super::ToolCall;
use crate::classify::assessor::{Assessor, Findings, shown};
use crate::classify::class::Class;
use crate::classify::script::ShellWord;

/// Flags with a value that is a command of the debugger.
const COMMANDS: [&str; 10] = [
    "-ex",
    "--ex",
    "-eval-command",
    "--eval-command",
    "-iex",
    "-init-eval-command",
    "-o",
    "--one-line",
    "-O",
    "--one-line-before-file",
];
/// Flags with a value that has no effect.
const VALUES: [&str; 18] = [
    "-x",
    "--command",
    "-ix",
    "-cd",
    "--cd",
    "-core",
    "--core",
    "-c",
    "-d",
    "--directory",
    "-s",
    "-S",
    "--source",
    "-symbols",
    "--symbols",
    "-k",
    "-a",
    "--arch",
];
/// Flags that attach to a running program.
const ATTACHES: [&str; 8] = [
    "-p",
    "-pid",
    "--pid",
    "--attach-pid",
    "--attach-name",
    "-interpreter",
    "--interpreter",
    "-i",
];
/// Flags without an effect. Others may be a prefix of any flag.
const PLAIN: [&str; 26] = [
    "-batch",
    "--batch",
    "-batch-silent",
    "--batch-silent",
    "-q",
    "-quiet",
    "--quiet",
    "-silent",
    "--silent",
    "-nx",
    "--nx",
    "-n",
    "-nh",
    "--nh",
    "-nw",
    "--nw",
    "-tui",
    "--tui",
    "-w",
    "-f",
    "-b",
    "-X",
    "--no-lldbinit",
    "--file",
    "-return-child-result",
    "--return-child-result",
];
/// Commands that inspect the program, or let it run.
const LOOKS: [&str; 39] = [
    "backtrace",
    "bt",
    "where",
    "run",
    "r",
    "start",
    "starti",
    "continue",
    "c",
    "info",
    "print",
    "p",
    "list",
    "l",
    "break",
    "b",
    "tbreak",
    "rbreak",
    "watch",
    "thread",
    "frame",
    "f",
    "up",
    "down",
    "finish",
    "next",
    "n",
    "step",
    "s",
    "x",
    "disassemble",
    "ptype",
    "display",
    "quit",
    "q",
    "kill",
    "breakpoint",
    "process",
    "exit",
];

pub(crate) fn look(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let words = call.arguments.rest;
    let mut findings = Findings::new();
    let mut program: Option<&ShellWord> = None;
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        let (name, attached) = match word.text.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (name, Some(word.rest_of(value))),
            _ => (word.text.as_str(), None),
        };
        let takes_value = [&COMMANDS[..], &VALUES[..], &ATTACHES[..]]
            .concat()
            .contains(&name);
        let value = attached.or_else(|| words.get(at).cloned().filter(|_| takes_value));
        match name {
            "-args" | "--args" | "--" => {
                judge.inner(&words[at..]);
                return findings;
            }
            name if ATTACHES.contains(&name) => {
                findings.push((
                    Class::HostEscapeRisk.into(),
                    format!("`{name}` reaches for a program that runs"),
                ));
            }
            name if COMMANDS.contains(&name) => findings.extend(value.as_ref().and_then(command)),
            _ if !word.exact => program = program.or(Some(word)),
            name if !name.starts_with('-') => program = program.or(Some(word)),
            name if PLAIN.contains(&name) || takes_value => {}
            name => findings.push((
                Class::HostEscapeRisk.into(),
                format!("`{}` is not known", shown(name)),
            )),
        }
        at += usize::from(takes_value && !word.text.contains('='));
    }
    if let Some(program) = program {
        judge.inner(std::slice::from_ref(program));
    }
    findings
}

/// A command of a debugger can be a line for a shell, or a program in another language.
fn command(word: &ShellWord) -> Option<(crate::classify::class::Classes, String)> {
    let first = word
        .text
        .split(|c: char| c.is_whitespace() || c == '/')
        .next()
        .unwrap_or_default();
    let sets = matches!(first, "set" | "settings") && !word.text.contains("program");
    let starts = ["shell", "python", "source", "pipe", "!", "|"]
        .iter()
        .any(|way| word.text.contains(way));
    let harmless = word.exact && (LOOKS.contains(&first) || sets) && !starts;
    (!harmless).then(|| {
        (
            Class::HostEscapeRisk.into(),
            format!("`{}` may start a program", shown(&word.shown())),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_is_harmless_and_what_starts_programs_is_not() {
        for text in [
            "bt",
            "run",
            "thread apply all bt",
            "x/20i $pc",
            "set pagination off",
            "info registers",
        ] {
            assert_eq!(command(&ShellWord::exact(text)), None, "{text}");
        }
        for text in [
            "shell rm x",
            "!rm x",
            "python import os",
            "pipe bt | sh",
            "thread apply all shell x",
            "source f",
            "call x",
        ] {
            assert!(command(&ShellWord::exact(text)).is_some(), "{text}");
        }
        assert!(command(&ShellWord::starting("bt")).is_some());
    }
}
