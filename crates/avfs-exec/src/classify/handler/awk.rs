//! Programs of `awk`: most only print, some write files, some start programs.

use super::Call;
use crate::classify::class::{Class, Classes};
use crate::classify::judge::{Findings, Judge};

pub(crate) fn look(_: &mut Judge, call: &Call<'_>) -> Findings {
    let from_file = call.arguments.has(&["-f", "--file", "-E", "--exec"]);
    if from_file {
        return vec![(Class::Mutating.into(), "the program of `awk` is in a file".to_owned())];
    }
    let Some(program) = call.arguments.operands.first() else { return Vec::new() };
    let classes = match program.literal() {
        Some(text) => program_classes(text),
        None => Class::HostEscapeRisk.into(),
    };
    match classes.is_read_only() {
        true => Vec::new(),
        false => vec![(classes, "the program of `awk` may do more than print".to_owned())],
    }
}

/// What a program can do. What it does not understand is a risk: it may start programs.
fn program_classes(text: &str) -> Classes {
    // A slash after a bracket divides, or begins an expression: `(a)/b` and `if (a) /b/`.
    let readings = [tokens(text, true), tokens(text, false)];
    let read: Vec<Classes> = readings.iter().flatten().map(|tokens| token_classes(tokens)).collect();
    match read.is_empty() {
        true => Class::HostEscapeRisk.into(),
        false => read.into_iter().collect(),
    }
}

fn token_classes(tokens: &[Token<'_>]) -> Classes {
    let mut classes = Classes::READ_ONLY;
    let mut printing = None;
    let mut depth = 0_i32;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Name("system") | Token::Sign('|') | Token::Sign('@') => {
                classes = classes.with(Class::HostEscapeRisk);
            }
            Token::Name("print" | "printf") => printing = Some(depth),
            Token::Name(_) => {}
            Token::Text(text) if text.starts_with("/inet") => classes = classes.with(Class::Networked),
            Token::Text(_) | Token::Value => {}
            Token::Sign('(' | '[') => depth += 1,
            Token::Sign(')' | ']') => depth -= 1,
            Token::Sign(';' | '\n' | '{' | '}') => printing = None,
            Token::Sign('>') if printing == Some(depth) => {
                let harmless = matches!(tokens.get(at + 1), Some(Token::Text("/dev/stderr" | "/dev/stdout")));
                classes = if harmless { classes } else { classes.with(Class::Mutating) };
            }
            Token::Sign(_) => {}
        }
    }
    classes
}

#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    Text(&'a str),
    /// A number or a regular expression.
    Value,
    Sign(char),
}

fn tokens(text: &str, brackets_are_values: bool) -> Option<Vec<Token<'_>>> {
    let mut found: Vec<Token<'_>> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => {
                let length = quoted(rest, '"')?;
                found.push(Token::Text(&rest[1..length - 1]));
                length
            }
            '/' if !follows_value(&found, brackets_are_values) => {
                found.push(Token::Value);
                quoted(rest, '/')?
            }
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '|' if rest.starts_with("||") => {
                found.push(Token::Sign('&'));
                2
            }
            '\\' if rest.starts_with("\\\n") => 2,
            c if c.is_alphabetic() || c == '_' => {
                let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                found.push(Token::Name(&rest[..length]));
                length
            }
            c if c.is_ascii_digit() => {
                found.push(Token::Value);
                rest.find(|c: char| !c.is_alphanumeric() && c != '.').unwrap_or(rest.len())
            }
            ' ' | '\t' => 1,
            sign => {
                found.push(Token::Sign(sign));
                sign.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    Some(found)
}

/// The length of a text in quotes, the quotes included. It does not go over a line.
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

/// After a value a slash divides. `print /x/` and the like are no values.
fn follows_value(found: &[Token<'_>], brackets_are_values: bool) -> bool {
    match found.last() {
        Some(Token::Name(name)) => !matches!(
            *name,
            "print" | "printf" | "return" | "in" | "case" | "getline" | "else" | "do" | "exit"
        ),
        Some(Token::Sign(')')) => brackets_are_values,
        Some(Token::Text(_) | Token::Value | Token::Sign(']' | '$')) => true,
        Some(Token::Sign(_)) | None => false,
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
