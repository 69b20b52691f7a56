//! Programs of `awk`: most only print, some write files, some start programs.

use super::ToolCall;
use crate::classify::assessor::{Assessor, Findings};
use crate::classify::class::{Class, Classes};

pub(crate) fn look(_: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let from_file = call.arguments.has(&["-f", "--file", "-E", "--exec"]);
    if from_file {
        return vec![(
            Class::Mutating.into(),
            "the program of `awk` is in a file".to_owned(),
        )];
    }
    let Some(program) = call.arguments.operands.first() else {
        return Vec::new();
    };
    let classes = match program.literal() {
        Some(text) => program_classes(text),
        None => Class::HostEscapeRisk.into(),
    };
    if classes.is_read_only() {
        Vec::new()
    } else {
        vec![(classes, "the program of `awk` may do more than print".to_owned())]
    }
}

/// The effects of a program. A program that is not understood is a risk: it may start programs.
fn program_classes(text: &str) -> Classes {
    // A slash after a bracket divides, or begins an expression: `(a)/b` and `if (a) /b/`.
    let readings = [tokens(text, true), tokens(text, false)];
    let read: Vec<Classes> = readings
        .iter()
        .flatten()
        .map(|tokens| token_classes(tokens))
        .collect();
    if read.is_empty() {
        Class::HostEscapeRisk.into()
    } else {
        read.into_iter().collect()
    }
}

fn token_classes(tokens: &[AwkToken<'_>]) -> Classes {
    let mut classes = Classes::READ_ONLY;
    let mut printing = None;
    let mut depth = 0_i32;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            AwkToken::Name("system") | AwkToken::Sign('|') | AwkToken::Sign('@') => {
                classes = classes.with(Class::HostEscapeRisk);
            }
            AwkToken::Name("print" | "printf") => printing = Some(depth),
            AwkToken::Name(_) => {}
            AwkToken::Text(text) if text.starts_with("/inet") => classes = classes.with(Class::Networked),
            AwkToken::Text(_) | AwkToken::Value => {}
            AwkToken::Sign('(' | '[') => depth += 1,
            AwkToken::Sign(')' | ']') => depth -= 1,
            AwkToken::Sign(';' | '\n' | '{' | '}') => printing = None,
            AwkToken::Sign('>') if printing == Some(depth) => {
                let harmless = matches!(
                    tokens.get(at + 1),
                    Some(AwkToken::Text("/dev/stderr" | "/dev/stdout"))
                );
                classes = if harmless {
                    classes
                } else {
                    classes.with(Class::Mutating)
                };
            }
            AwkToken::Sign(_) => {}
        }
    }
    classes
}

#[derive(Debug, PartialEq, Eq)]
enum AwkToken<'a> {
    Name(&'a str),
    Text(&'a str),
    /// A number or a regular expression.
    Value,
    Sign(char),
}

fn tokens(text: &str, brackets_are_values: bool) -> Option<Vec<AwkToken<'_>>> {
    let mut found: Vec<AwkToken<'_>> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => {
                let length = quoted(rest, '"')?;
                found.push(AwkToken::Text(&rest[1..length - 1]));
                length
            }
            '/' if !follows_value(&found, brackets_are_values) => {
                found.push(AwkToken::Value);
                quoted(rest, '/')?
            }
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '|' if rest.starts_with("||") => {
                found.push(AwkToken::Sign('&'));
                2
            }
            '\\' if rest.starts_with("\\\n") => 2,
            c if c.is_alphabetic() || c == '_' => {
                let length = rest
                    .find(|c: char| !c.is_alphanumeric() && c != '_')
                    .unwrap_or(rest.len());
                found.push(AwkToken::Name(&rest[..length]));
                length
            }
            c if c.is_ascii_digit() => {
                found.push(AwkToken::Value);
                rest.find(|c: char| !c.is_alphanumeric() && c != '.')
                    .unwrap_or(rest.len())
            }
            ' ' | '\t' => 1,
            sign => {
                found.push(AwkToken::Sign(sign));
                sign.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    Some(found)
}

/// The length of a quoted text, including the quotes. It does not continue on the next line.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices().skip(1);
    let mut in_brackets = false;
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => _ = characters.next(),
            '\n' => return None,
            '[' if quote == '/' => in_brackets = true,
            ']' if quote == '/' => in_brackets = false,
            c if c == quote && in_brackets => return None,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// After a value, a slash divides. `print /x/` and the like are not values.
fn follows_value(found: &[AwkToken<'_>], brackets_are_values: bool) -> bool {
    match found.last() {
        Some(AwkToken::Name(name)) => !matches!(
            *name,
            "print" | "printf" | "return" | "in" | "case" | "getline" | "else" | "do" | "exit"
        ),
        Some(AwkToken::Sign(')')) => brackets_are_values,
        Some(AwkToken::Text(_) | AwkToken::Value | AwkToken::Sign(']' | '$')) => true,
        Some(AwkToken::Sign(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(program: &str, expected: &str) {
        assert_eq!(program_classes(program).to_string(), expected, "{program}");
    }

    #[test]
    fn programs_that_only_print_are_known() {
        for program in [
            "{print $1}",
            "$3 > 100",
            "NR==1 || /x|y/ {print}",
            "{s+=$1} END {print s/NR}",
            "BEGIN{FS=\":\"}",
            "{ if ($1 > 5) print $2; else print $1 }",
            "{printf \"%s|%d\\n\", $1, $2}",
            "/a\\/b/",
            "!seen[$0]++",
            "{print ($1 > 2)}",
            "{print \"system(x) | sh > f\"}",
            "# system()\n{print}",
            "{print > \"/dev/stderr\"}",
            "length > 80",
            "NR>=10 && NR<=20",
            "{print ($1 + $2) / 2}",
            "{print ($1 + $2) / 2 \"%\", ($3) / 4}",
            "{ if ($1) /x/; print }",
        ] {
            check(program, "read_only");
        }
    }

    #[test]
    fn programs_that_write_or_start_programs_are_known() {
        check("{print > \"out\"}", "mutating");
        check("{print $1 >> f}", "mutating");
        check("{printf(\"%s\", $1) > $2}", "mutating");
        check("BEGIN{getline x < \"/inet/tcp/0/h/80\"}", "networked");
        for program in [
            "BEGIN{system(\"touch F\")}",
            "{print | \"sh\"}",
            "\"date\" | getline d",
            "BEGIN{f=\"system\"; @f(\"id\")}",
            "BEGIN { print |& \"sh\" }",
            "/[/]/{system(1)}",
            "{ if (1) /\"/; system(\"id\"); x = \"/\" }",
            "\"unclosed",
        ] {
            check(program, "host_escape_risk");
        }
    }
}
