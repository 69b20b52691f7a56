//! `stat`

use avfs_vfs::{Kind, Stat};

use super::calendar::Date;
use super::list::mode_words;
use super::options::Known;
use super::{GnuCall, Report, words};
use crate::command::CommandResult;

const KNOWN: Known = Known {
    short: "Lc:tf",
    long: &[
        ("dereference", 'L'),
        ("format=", 'c'),
        ("printf=", 'p'),
        ("terse", 't'),
    ],
};
const TERSE: &str = "%n %s %b %f %u %g %D %i %h %t %T %X %Y %Z %W %o";
const WHOLE: &str = "  File: %_\n  Size: %s\tBlocks: %b\tIO Block: %o\t%F\nAccess: (%a/%A)\tUid: (%u/%U)\tGid: (%g/%G)\n\
Access: %x\nModify: %y\nChange: %z\n Birth: -";

pub(super) fn stat(call: &GnuCall<'_>) -> CommandResult {
    let given = match KNOWN.read(call, 1) {
        Ok(given) => given,
        Err(wrong) => return wrong,
    };
    if given.arguments.is_empty() {
        return CommandResult::failure(1, "stat: missing operand\n");
    }
    if given.has('f') {
        return CommandResult::failure(1, "stat: -f is not supported in this shell\n");
    }
    // The last of them holds.
    let (format, is_escaped) = match given.last_of("cpt") {
        Some('p') => (given.value('p').unwrap_or_default(), true),
        Some('c') => (given.value('c').unwrap_or_default(), false),
        Some(_) => (TERSE, false),
        None => (WHOLE, false),
    };
    let mut report = Report::default();
    for argument in &given.arguments {
        let place = call.place(argument);
        let found = if given.has('L') {
            call.vfs().stat(&place)
        } else {
            call.vfs().lstat(&place)
        };
        match found {
            Ok(found) => {
                let target = call.vfs().read_link(&place).ok();
                let shown = Shown {
                    name: argument,
                    stat: &found,
                    target,
                };
                let line = shown.format(format, is_escaped);
                report.stdout.push_str(&line);
                if !is_escaped {
                    report.stdout.push('\n');
                }
            }
            Err(error) => report.fail(1, format!("stat: cannot statx '{argument}': {}", words(&error))),
        }
    }
    report.end()
}

struct Shown<'a> {
    name: &'a str,
    stat: &'a Stat,
    target: Option<Vec<u8>>,
}

impl Shown<'_> {
    fn format(&self, format: &str, is_escaped: bool) -> String {
        let mut line = String::new();
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '%' => {
                    let rest = letters.as_str();
                    let flags =
                        rest.find(|letter: char| !letter.is_ascii_digit() && !"-+ 0#.".contains(letter));
                    let Some(at) = flags else {
                        line.push('%');
                        continue;
                    };
                    let directive = rest[at..].chars().next().unwrap_or('%');
                    line.push_str(&padded(&rest[..at], self.value(directive)));
                    letters = rest[at + directive.len_utf8()..].chars();
                }
                '\\' if is_escaped => match letters.next() {
                    Some('n') => line.push('\n'),
                    Some('t') => line.push('\t'),
                    Some('0') => line.push('\0'),
                    Some(other) => line.push(other),
                    None => line.push('\\'),
                },
                letter => line.push(letter),
            }
        }
        line
    }

    fn value(&self, directive: char) -> String {
        let Stat {
            kind,
            size,
            mode,
            mtime,
            ..
        } = self.stat;
        let size = if *kind == Kind::Directory { 4096 } else { *size };
        let kind_bits = match kind {
            Kind::Directory => 0o040_000,
            Kind::File => 0o100_000,
            Kind::Symlink => 0o120_000,
        };
        match directive {
            'n' => self.name.to_owned(),
            // Not quoted.
            '_' => match &self.target {
                Some(target) => format!("{} -> {}", self.name, String::from_utf8_lossy(target)),
                None => self.name.to_owned(),
            },
            'N' => match &self.target {
                Some(target) if *kind == Kind::Symlink => {
                    format!("'{}' -> '{}'", self.name, String::from_utf8_lossy(target))
                }
                _ => format!("'{}'", self.name),
            },
            's' => size.to_string(),
            'a' => format!("{:o}", mode & 0o7777),
            'A' => mode_words(self.stat),
            'f' => format!("{:x}", kind_bits | (mode & 0o7777)),
            'F' => match kind {
                Kind::Directory => "directory",
                Kind::Symlink => "symbolic link",
                Kind::File if size == 0 => "regular empty file",
                Kind::File => "regular file",
            }
            .to_owned(),
            'b' => (size.div_ceil(4096) * 8).to_string(),
            'B' => "512".to_owned(),
            'o' => "4096".to_owned(),
            'h' => "1".to_owned(),
            'u' | 'g' => "1000".to_owned(),
            'U' | 'G' => "agent".to_owned(),
            'x' | 'y' | 'z' => Date::of(*mtime).whole(),
            'X' | 'Y' | 'Z' => mtime.seconds.to_string(),
            'w' => "-".to_owned(),
            'm' => "/".to_owned(),
            'i' | 'd' | 'D' | 't' | 'T' | 'W' => "0".to_owned(),
            '%' => "%".to_owned(),
            _ => "?".to_owned(),
        }
    }
}

/// A value in the width that stands before its letter.
fn padded(flags: &str, value: String) -> String {
    let width: usize = flags
        .trim_start_matches(['-', '+', ' ', '0', '#'])
        .parse()
        .unwrap_or(0);
    // A line has no room for more.
    let width = width.min(1000);
    if flags.starts_with('-') {
        format!("{value:<width$}")
    } else if flags.starts_with('0') {
        format!("{value:0>width$}")
    } else {
        format!("{value:>width$}")
    }
}
