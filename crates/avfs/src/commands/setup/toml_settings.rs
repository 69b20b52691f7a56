//! Codex's settings in TOML: what is not ours stays as it is.

use std::path::Path;

use anyhow::Result;
use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::agent::NAME;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;

const SERVERS: &str = "mcp_servers";

/// The text of the file with the server, or without it; `None`: there is nothing left in a file of our own.
pub fn edited(
    file: &Path,
    text: Option<&str>,
    is_ours: bool,
    server: Option<(&String, &Vec<String>)>,
) -> Result<Option<String>> {
    let mut document = parse(file, text.unwrap_or_default())?;
    match server {
        Some((program, words)) => {
            let mut implicit = Table::new();
            implicit.set_implicit(true);
            let servers = document.entry(SERVERS).or_insert(Item::Table(implicit));
            let servers = servers
                .as_table_like_mut()
                .ok_or_else(|| bad(file, "'mcp_servers' is no table"))?;
            let mut table = Table::new();
            table.insert("command", value(program.as_str()));
            table.insert("args", value(words.iter().map(String::as_str).collect::<Array>()));
            servers.insert(NAME, Item::Table(table));
        }
        None => {
            let Some(servers) = document.get_mut(SERVERS).and_then(Item::as_table_like_mut) else {
                return Ok(text.map(str::to_owned));
            };
            servers.remove(NAME);
            if servers.is_empty() {
                document.remove(SERVERS);
            }
        }
    }
    let after = document.to_string();
    Ok(
        if server.is_none() && (is_ours || text.is_none()) && after.trim().is_empty() {
            None
        } else {
            Some(after)
        },
    )
}

pub fn has(file: &Path, text: &str) -> Result<bool> {
    let document = parse(file, text)?;
    let servers = document.get(SERVERS).and_then(Item::as_table_like);
    Ok(servers.is_some_and(|servers| servers.contains_key(NAME)))
}

fn parse(file: &Path, text: &str) -> Result<DocumentMut> {
    Ok(text
        .parse()
        .map_err(|error: toml_edit::TomlError| bad(file, error.message()))?)
}

fn bad(file: &Path, reason: &str) -> Failure {
    let text = format!("{} cannot be changed: {reason}", printable_path(file));
    Failure::new("bad-settings", ExitStatus::BadInput, text).hint(Some(
        "correct the file, or add the server with `codex mcp add`".to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_order_stay_and_removing_restores_the_file() {
        let own =
            "# mine\nmodel = \"x\" # keep\n\n[mcp_servers.other] # other\ncommand = \"o\"\n\n[z]\na = 1\n";
        let (program, words) = ("avfs".to_owned(), vec!["mcp".to_owned()]);
        let added = edited(Path::new("f"), Some(own), true, Some((&program, &words)))
            .unwrap()
            .unwrap();
        assert!(
            added.contains("[mcp_servers.agentvfs]\ncommand = \"avfs\"\nargs = [\"mcp\"]\n"),
            "{added}"
        );
        assert!(has(Path::new("f"), &added).unwrap());
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
        assert!(edited(Path::new("f"), Some("a = "), true, None).is_err());
    }
}
