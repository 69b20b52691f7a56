//! Scripts of `sed`: most only print, some write files, some start programs.

use super::ToolCall;
use crate::classify::assessor::{Assessor, Findings};
use crate::classify::class::{Class, Classes};
use crate::classify::script::ShellWord;

pub(crate) fn look(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let mut scripts: Vec<&ShellWord> = call.arguments.values(&["-e", "--expression"]).collect();
    let from_file = call.arguments.has(&["-f", "--file"]);
    if scripts.is_empty() && !from_file {
        scripts.extend(call.arguments.operands.first());
    }
    let mut findings = Findings::new();
    if from_file {
        findings.push((
            Class::Mutating.into(),
            "the script of `sed` is in a file".to_owned(),
        ));
    }
    for script in scripts {
        let classes = match script.literal() {
            Some(text) => script_classes(text, &|word| judge.written(word)),
            None => Class::Mutating.into(),
        };
        if !classes.is_read_only() {
            findings.push((classes, "the script of `sed` may do more than print".to_owned()));
        }
    }
    if call.arguments.has(&["-i", "--in-place"]) {
        findings.extend(super::files::changed(judge, call));
    }
    findings
}

/// The effects of a script. A script that is not understood is a risk: it may start programs.
fn script_classes(text: &str, written: &dyn Fn(&ShellWord) -> Classes) -> Classes {
    let mut reader = SedReader { rest: text, written };
    let mut classes = Classes::READ_ONLY;
    loop {
        reader.skip(|c| c.is_whitespace() || matches!(c, ';' | '{' | '}'));
        if reader.rest.is_empty() {
            return classes;
        }
        match reader.command() {
            Some(found) => classes = classes.and(found),
            None => return classes.with(Class::HostEscapeRisk),
        }
    }
}

struct SedReader<'a> {
    rest: &'a str,
    /// The classes of writing a file.
    written: &'a dyn Fn(&ShellWord) -> Classes,
}

impl SedReader<'_> {
    fn skip(&mut self, wanted: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(wanted);
    }

    fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        Some(character)
    }

    /// To the end of the line.
    fn line(&mut self) -> &str {
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        line
    }

    fn file(&mut self) -> Classes {
        let file = ShellWord::exact(self.line().trim());
        (self.written)(&file)
    }

    fn command(&mut self) -> Option<Classes> {
        self.address()?;
        self.skip(|c| c.is_whitespace() || c == '!');
        if self.rest.is_empty() {
            return None;
        }
        match self.next()? {
            '{' | '}' => Some(Classes::READ_ONLY),
            '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' => {
                self.end_of_command()
            }
            'q' | 'Q' | 'l' | 'L' => {
                self.skip(|c| c.is_ascii_digit() || c == ' ');
                self.end_of_command()
            }
            'b' | 't' | 'T' | ':' => {
                self.skip(|c| !matches!(c, ';' | '\n' | '}'));
                Some(Classes::READ_ONLY)
            }
            'a' | 'i' | 'c' => self.text(),
            '#' | 'r' | 'R' | 'v' => {
                self.line();
                Some(Classes::READ_ONLY)
            }
            'w' | 'W' => Some(self.file()),
            's' => self.substitute(),
            'y' => {
                let delimiter = self.next()?;
                self.delimited(delimiter)?;
                self.delimited(delimiter)?;
                self.end_of_command()
            }
            _ => None,
        }
    }

    fn end_of_command(&mut self) -> Option<Classes> {
        self.skip(|c| c == ' ' || c == '\t');
        let ends = self.rest.is_empty() || self.rest.starts_with([';', '\n', '}', '#']);
        ends.then_some(Classes::READ_ONLY)
    }

    /// Text to insert continues over lines that end in a backslash.
    fn text(&mut self) -> Option<Classes> {
        while self.line().ends_with('\\') {}
        Some(Classes::READ_ONLY)
    }

    /// `1`, `$`, `/re/`, `\cREc`, `1,5`, `0~3`, `/re/I,+2`.
    fn address(&mut self) -> Option<()> {
        loop {
            self.skip(|c| c.is_ascii_digit() || matches!(c, '$' | ',' | '~' | '+' | ' '));
            match self.rest.chars().next() {
                Some('/') => {
                    self.next();
                    self.pattern('/')?;
                }
                Some('\\') => {
                    self.next();
                    let delimiter = self.next()?;
                    self.pattern(delimiter)?;
                }
                _ => return Some(()),
            }
        }
    }

    fn pattern(&mut self, delimiter: char) -> Option<()> {
        self.expression(delimiter)?;
        self.skip(|c| matches!(c, 'I' | 'M'));
        Some(())
    }

    /// A regular expression: inside brackets its delimiter is an ordinary character.
    fn expression(&mut self, delimiter: char) -> Option<()> {
        loop {
            match self.next()? {
                '\\' => {
                    self.next()?;
                }
                character if character == delimiter => return Some(()),
                '[' => self.bracket()?,
                _ => {}
            }
        }
    }

    fn bracket(&mut self) -> Option<()> {
        self.rest = self.rest.strip_prefix('^').unwrap_or(self.rest);
        self.rest = self.rest.strip_prefix(']').unwrap_or(self.rest);
        loop {
            match self.next()? {
                ']' => return Some(()),
                '[' if self.rest.starts_with([':', '.', '=']) => {
                    let kind = self.next()?;
                    let end = self.rest.find(&format!("{kind}]"))?;
                    self.rest = &self.rest[end + 2..];
                }
                _ => {}
            }
        }
    }

    fn delimited(&mut self, delimiter: char) -> Option<()> {
        loop {
            match self.next()? {
                '\\' => {
                    self.next()?;
                }
                character if character == delimiter => return Some(()),
                _ => {}
            }
        }
    }

    fn substitute(&mut self) -> Option<Classes> {
        let delimiter = self.next().filter(|c| !matches!(c, '\\' | '\n'))?;
        self.expression(delimiter)?;
        self.delimited(delimiter)?;
        loop {
            match self.rest.chars().next() {
                Some('g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9') => _ = self.next(),
                Some('w') => {
                    self.next();
                    return Some(self.file());
                }
                Some('e') => return Some(Class::HostEscapeRisk.into()),
                _ => return self.end_of_command(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::redirect::written;

    #[track_caller]
    fn check(script: &str, expected: &str) {
        assert_eq!(script_classes(script, &written).to_string(), expected, "{script}");
    }

    #[test]
    fn scripts_that_only_print_are_known() {
        for script in [
            "1,20p",
            "s/a/b/",
            "s/a/b/g;s|c|d|2",
            "/x/d",
            "$!d",
            "/a/,/b/p",
            "s/[/]x/y/gI",
            "1{p;q}",
            "10q",
            "=",
            "y/abc/xyz/",
            "/^$/d; s/^ *//",
            ":a;N;$!ba;s/\\n/,/g",
            "\\%x%p",
            "2~3d",
            "1i\\\nhello",
            "a text e w",
            "s/a/\\/x/w /dev/stdout",
            "/x/!s/a/b/",
            "n;d",
            "1!G;h;$!d",
            "",
        ] {
            check(script, "read_only");
        }
    }

    #[test]
    fn scripts_that_write_or_start_programs_are_known() {
        check("w out", "mutating");
        check("1,3w out", "mutating");
        check("s/a/b/w out", "mutating");
        check("s/a/b/gw /dev/sda", "host_escape_risk");
        for script in [
            "1e touch F",
            "e",
            "s/a/b/e",
            "s/a/touch F/ge",
            "/x/e date",
            "1!e id",
            "\\,x,e id",
            "s/a",
            "k",
            "p e",
        ] {
            check(script, "host_escape_risk");
        }
    }
}
