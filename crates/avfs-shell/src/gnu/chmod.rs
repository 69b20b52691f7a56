//! `chmod`, and modes as it reads them.

use avfs_vfs::Kind;

use super::options::Known;
use super::{GnuCall, Report, below, words};
use crate::command::CommandResult;

const KNOWN: Known = Known {
    short: "cfvRrwxXstugoa",
    long: &[
        ("changes", 'c'),
        ("quiet", 'f'),
        ("recursive", 'R'),
        ("reference=", '='),
        ("silent", 'f'),
        ("verbose", 'v'),
    ],
};

pub(super) fn chmod(call: &GnuCall<'_>) -> CommandResult {
    let given = match KNOWN.read(call, 1) {
        Ok(given) => given,
        Err(wrong) => return wrong,
    };
    let mut arguments = given.arguments.clone();
    let reference = match given
        .value('=')
        .map(|argument| (argument, call.found(&call.place(argument))))
    {
        None => None,
        Some((_, Some(stat))) => Some(format!("{:o}", stat.mode)),
        Some((argument, None)) => {
            let text =
                format!("chmod: failed to get attributes of '{argument}': No such file or directory\n");
            return CommandResult::failure(1, text);
        }
    };
    // `chmod -x file`: the mode looks like options.
    let taken: String = "rwxXst".chars().filter(|letter| given.has(*letter)).collect();
    let mode = match reference {
        Some(mode) => mode,
        None if !taken.is_empty() => format!("-{taken}"),
        None if arguments.is_empty() => return CommandResult::failure(1, "chmod: missing operand\n"),
        None => arguments.remove(0),
    };
    if arguments.is_empty() {
        return CommandResult::failure(1, format!("chmod: missing operand after '{mode}'\n"));
    }
    if changed_mode(&mode, 0, false).is_none() {
        return CommandResult::failure(1, format!("chmod: invalid mode: '{mode}'\n"));
    }
    let mut report = Report::default();
    for argument in &arguments {
        let change = Change {
            call,
            mode: &mode,
            is_recursive: given.has('R'),
            is_told: given.last_of("cvf"),
        };
        change.at(argument, &call.place(argument), &mut report);
    }
    report.end()
}

struct Change<'a> {
    call: &'a GnuCall<'a>,
    mode: &'a str,
    is_recursive: bool,
    is_told: Option<char>,
}

impl Change<'_> {
    fn at(&self, shown: &str, place: &str, report: &mut Report) {
        let vfs = self.call.vfs();
        let stat = match vfs.stat(place) {
            Ok(stat) => stat,
            Err(_) if self.is_told == Some('f') => return report.status = 1,
            Err(error) => {
                return report.fail(1, format!("chmod: cannot access '{shown}': {}", words(&error)));
            }
        };
        let is_directory = stat.kind == Kind::Directory;
        let before = stat.mode & 0o7777;
        let after = changed_mode(self.mode, before, is_directory).unwrap_or(before);
        if let Err(error) = vfs.set_mode(place, after) {
            return report.fail(
                1,
                format!("chmod: changing permissions of '{shown}': {}", words(&error)),
            );
        }
        if self.is_told == Some('v') && before == after {
            report.say(format!("mode of '{shown}' retained as {before:04o}"));
        } else if matches!(self.is_told, Some('v' | 'c')) && before != after {
            report.say(format!(
                "mode of '{shown}' changed from {before:04o} to {after:04o}"
            ));
        }
        if !self.is_recursive || !is_directory {
            return;
        }
        for entry in vfs.ls(place).unwrap_or_default() {
            // Links that are met on the way are left alone.
            if entry.kind != Kind::Symlink {
                let name = String::from_utf8_lossy(entry.name.as_bytes()).into_owned();
                self.at(&below(shown, &name), &below(place, &name), report);
            }
        }
    }
}

/// A mode after a change as `644`, `u+x` or `go=rX,+t`; nothing, if it is none.
pub(super) fn changed_mode(text: &str, before: u32, is_directory: bool) -> Option<u32> {
    if text.starts_with(|letter: char| letter.is_ascii_digit()) {
        return u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    }
    let mut mode = before;
    for clause in text.split(',') {
        let operators = clause.find(['+', '-', '='])?;
        let (who, mut rest) = clause.split_at(operators);
        let mut whose = 0;
        for letter in who.chars() {
            whose |= match letter {
                'u' => 0o4700,
                'g' => 0o2070,
                'o' => 0o1007,
                'a' => 0o7777,
                _ => return None,
            };
        }
        // Without a word about whose they are, the usual mask holds.
        let (whose, masked) = if who.is_empty() {
            (0o7777, 0o022)
        } else {
            (whose, 0)
        };
        while let Some(operator) = rest.chars().next() {
            rest = &rest[1..];
            let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
            let mut bits = 0;
            for letter in rest[..end].chars() {
                bits |= match letter {
                    'r' => 0o444,
                    'w' => 0o222,
                    'x' => 0o111,
                    'X' if is_directory || mode & 0o111 != 0 => 0o111,
                    'X' => 0,
                    's' => 0o6000,
                    't' => 0o1000,
                    'u' => (mode >> 6 & 7) * 0o111,
                    'g' => (mode >> 3 & 7) * 0o111,
                    'o' => (mode & 7) * 0o111,
                    _ => return None,
                };
            }
            rest = &rest[end..];
            let bits = bits & whose & !masked;
            mode = match operator {
                '+' => mode | bits,
                '-' => mode & !bits,
                '=' => mode & !(whose & !masked & if is_directory { 0o1777 } else { 0o7777 }) | bits,
                _ => return None,
            };
        }
    }
    Some(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_changed_as_chmod_says() {
        for (text, before, after) in [
            ("755", 0o600, Some(0o755)),
            ("u+x", 0o644, Some(0o744)),
            ("+x", 0o644, Some(0o755)),
            ("go=", 0o777, Some(0o700)),
            ("u=rw,go=r", 0o777, Some(0o644)),
            ("a-w", 0o666, Some(0o444)),
            ("g=u", 0o640, Some(0o660)),
            ("o+X", 0o644, Some(0o644)),
            ("o+X", 0o744, Some(0o745)),
            ("u+s", 0o755, Some(0o4755)),
            ("u+rw-x", 0o100, Some(0o600)),
            ("99", 0o644, None),
            ("u+z", 0o644, None),
            ("x", 0o644, None),
        ] {
            assert_eq!(changed_mode(text, before, false), after, "{text} of {before:o}");
        }
    }
}
