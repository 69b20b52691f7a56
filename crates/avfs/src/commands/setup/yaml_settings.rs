//! Goose's settings in YAML. The server is one block of lines below `extensions:`; no other line is touched.

use std::path::Path;

use anyhow::Result;

use super::agent::NAME;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;

const SECTION: &str = "extensions:";

/// The text of the file with the server, or without it; `None`: there is nothing left in a file of our own.
pub fn edited(
    file: &Path,
    text: Option<&str>,
    is_ours: bool,
    server: Option<(&String, &Vec<String>)>,
) -> Result<Option<String>> {
    let is_ours = is_ours || text.is_none();
    let text = text.unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let section = lines.iter().position(|line| line.trim_end() == SECTION);
    if section.is_none()
        && lines
            .iter()
            .any(|line| line.starts_with(SECTION) || line.contains('\t'))
    {
        let text = format!(
            "{} cannot be changed: its extensions are not written line by line",
            printable_path(file)
        );
        return Err(Failure::new("bad-settings", ExitStatus::BadInput, text)
            .hint(Some("add the server with `goose configure`".to_owned()))
            .into());
    }
    if let Some(block) = block(&lines) {
        lines.drain(block);
    }
    match server {
        Some((program, words)) => {
            let at = match section {
                Some(at) => at + 1,
                None => {
                    lines.push(SECTION.to_owned());
                    lines.len()
                }
            };
            let indent = indent_below(&lines, at);
            let of = |line: &str| format!("{indent}{line}");
            let mut new = vec![
                of(&format!("{NAME}:")),
                of("  name: agentvfs"),
                of("  type: stdio"),
                of("  enabled: true"),
            ];
            new.push(of(&format!("  cmd: {}", quoted(program))));
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            new.push(of(&format!("  args: [{}]", words.join(", "))));
            new.push(of("  timeout: 300"));
            lines.splice(at..at, new);
        }
        None => {
            // The section itself goes if it was there for the server alone.
            let is_empty =
                section.is_some_and(|at| lines.get(at + 1).is_none_or(|line| !line.starts_with(' ')));
            if let Some(at) = section.filter(|_| is_empty && is_ours) {
                lines.remove(at);
            }
        }
    }
    if server.is_none() && is_ours && lines.iter().all(|line| line.trim().is_empty()) {
        return Ok(None);
    }
    Ok(Some(lines.join("\n") + "\n"))
}

pub fn has(text: &str) -> bool {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    block(&lines).is_some()
}

/// The lines of the server: its name and everything that is further in.
fn block(lines: &[String]) -> Option<std::ops::Range<usize>> {
    let section = lines.iter().position(|line| line.trim_end() == SECTION)?;
    let inside = lines[section + 1..]
        .iter()
        .take_while(|line| line.starts_with([' ', '#']) || line.trim().is_empty());
    let count = inside.count();
    let start = (section + 1..section + 1 + count).find(|at| lines[*at].trim() == format!("{NAME}:"))?;
    let indent = indent(&lines[start]);
    let more = lines[start + 1..]
        .iter()
        .take_while(|line| self::indent(line) > indent)
        .count();
    Some(start..start + 1 + more)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// As the entries of the section are indented.
fn indent_below(lines: &[String], at: usize) -> String {
    let first = lines
        .get(at)
        .filter(|line| line.starts_with(' '))
        .map_or(2, |line| indent(line));
    " ".repeat(first)
}

/// A string in quotes, as YAML and JSON both read it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_stay_and_removing_restores_the_file() {
        let own = "# mine\nGOOSE_MODEL: x\nextensions:\n  developer: # keep\n    enabled: true\nother: 1\n";
        let (program, words) = ("avfs".to_owned(), vec!["mcp".to_owned()]);
        let added = edited(Path::new("f"), Some(own), true, Some((&program, &words)))
            .unwrap()
            .unwrap();
        assert!(
            added.contains("extensions:\n  agentvfs:\n    name: agentvfs\n"),
            "{added}"
        );
        assert!(has(&added) && !has(own));
        let again = edited(Path::new("f"), Some(&added), true, Some((&program, &words)))
            .unwrap()
            .unwrap();
        assert_eq!(again, added);
        assert_eq!(
            edited(Path::new("f"), Some(&added), true, None).unwrap().unwrap(),
            own
        );
    }

    #[test]
    fn a_file_that_was_made_for_the_server_goes_with_it() {
        let (program, words) = ("avfs".to_owned(), vec!["mcp".to_owned()]);
        let made = edited(Path::new("f"), None, true, Some((&program, &words)))
            .unwrap()
            .unwrap();
        assert_eq!(edited(Path::new("f"), Some(&made), true, None).unwrap(), None);
        assert!(
            edited(
                Path::new("f"),
                Some("extensions: {}\n"),
                true,
                Some((&program, &words))
            )
            .is_err()
        );
    }
}
