//! Settings in JSON, with comments: what is not ours stays as it is, to the byte.

use std::path::Path;

use anyhow::Result;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::{Value, json};

use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// Something that is to be in a file of settings, or not.
pub struct JsonEntry {
    /// The objects on the way to it.
    section: Vec<String>,
    kind: JsonEntryKind,
}

enum JsonEntryKind {
    Member {
        name: String,
        value: Option<Value>,
    },
    /// An element of the list of an event that runs `avfs hook HOOK`.
    Hook {
        event: String,
        matcher: Option<String>,
        hook: String,
        line: Option<String>,
    },
}

impl JsonEntry {
    /// A member of an object; without a value, it is removed.
    pub fn member(section: &[&str], name: &str, value: Option<Value>) -> JsonEntry {
        JsonEntry {
            section: section.iter().map(|part| (*part).to_owned()).collect(),
            kind: JsonEntryKind::Member {
                name: name.to_owned(),
                value,
            },
        }
    }

    /// A hook; without a command line, it is removed.
    pub fn hook(event: &str, matcher: Option<&str>, hook: &str, line: Option<String>) -> JsonEntry {
        JsonEntry {
            section: vec!["hooks".to_owned()],
            kind: JsonEntryKind::Hook {
                event: event.to_owned(),
                matcher: matcher.map(str::to_owned),
                hook: hook.to_owned(),
                line,
            },
        }
    }
}

/// The text of a file after the entries; `None`: there is nothing left in it.
///
/// A removal leaves empty objects and an empty file where they are, unless the file is our own.
pub fn edited(
    file: &Path,
    text: Option<&str>,
    is_ours: bool,
    entries: &[JsonEntry],
) -> Result<Option<String>> {
    let is_removal = entries.iter().all(|entry| match &entry.kind {
        JsonEntryKind::Member { value, .. } => value.is_none(),
        JsonEntryKind::Hook { line, .. } => line.is_none(),
    });
    let Some(text) = text.or((!is_removal).then_some("{}\n")) else {
        return Ok(None);
    };
    let root = parse(file, text)?;
    let top = root
        .object_value_or_create()
        .ok_or_else(|| bad(file, "it is no object"))?;
    for entry in entries {
        apply(file, &top, is_ours, entry)?;
    }
    let after = root.to_string();
    // A file that holds nothing but comments is still the user's.
    let is_empty = is_removal && top.properties().is_empty() && !has_comment(&after);
    Ok(if is_empty && is_ours {
        None
    } else if text.trim().is_empty() && !after.ends_with('\n') {
        Some(after + "\n")
    } else {
        Some(after)
    })
}

fn has_comment(text: &str) -> bool {
    text.contains("//") || text.contains("/*")
}

fn apply(file: &Path, top: &CstObject, is_ours: bool, entry: &JsonEntry) -> Result<()> {
    let section = &entry.section[0];
    match &entry.kind {
        JsonEntryKind::Member {
            name,
            value: Some(value),
        } => {
            let object = section_of(file, top, section)?;
            match object.get(name) {
                Some(found) => found.set_value(input(value)),
                None => drop(object.append(name, input(value))),
            }
        }
        JsonEntryKind::Member { name, value: None } => {
            let Some(object) = top.object_value(section) else {
                return Ok(());
            };
            if let Some(found) = object.get(name) {
                found.remove();
            }
            if is_ours {
                remove_if_empty(top, section);
            }
        }
        JsonEntryKind::Hook {
            event,
            matcher,
            hook,
            line,
        } => {
            let object = match line {
                Some(_) => section_of(file, top, section)?,
                None => match top.object_value(section) {
                    Some(object) => object,
                    None => return Ok(()),
                },
            };
            // Also before adding: the path of the program in an older entry may be outdated.
            remove_hook(&object, event, hook);
            if let Some(line) = line {
                let list = object
                    .array_value_or_create(event)
                    .ok_or_else(|| bad(file, &format!("'{event}' is no list")))?;
                let mut element = json!({ "hooks": [{ "type": "command", "command": line }] });
                if let Some(matcher) = matcher {
                    element =
                        json!({ "matcher": matcher, "hooks": [{ "type": "command", "command": line }] });
                }
                list.append(input(&element));
            } else if is_ours {
                remove_if_empty(top, section);
            }
        }
    }
    Ok(())
}

fn section_of(file: &Path, top: &CstObject, name: &str) -> Result<CstObject> {
    Ok(top
        .object_value_or_create(name)
        .ok_or_else(|| bad(file, &format!("'{name}' is no object")))?)
}

fn remove_if_empty(top: &CstObject, section: &str) {
    let is_empty = top
        .object_value(section)
        .is_some_and(|object| object.properties().is_empty() && !has_comment(&object.to_string()));
    if let Some(found) = top.get(section).filter(|_| is_empty) {
        found.remove();
    }
}

/// Removes what runs our hook from the list of an event, and the list if nothing is left in it.
fn remove_hook(object: &CstObject, event: &str, hook: &str) {
    let Some(list) = object.array_value(event) else {
        return;
    };
    let mut removed = false;
    for element in list.elements() {
        if element.to_serde_value().is_some_and(|value| runs(&value, hook)) {
            element.remove();
            removed = true;
        }
    }
    if removed
        && list.elements().is_empty()
        && !has_comment(&list.to_string())
        && let Some(found) = object.get(event)
    {
        found.remove();
    }
}

/// Whether an element of the list of an event runs our hook.
fn runs(element: &Value, hook: &str) -> bool {
    let end = format!(" hook {hook}");
    let hooks = element["hooks"].as_array();
    hooks.is_some_and(|hooks| {
        hooks.iter().any(|one| {
            one["command"]
                .as_str()
                // Recognised by its end, because the path of the program and the options before it vary.
                .is_some_and(|line| line.contains("avfs") && line.ends_with(&end))
        })
    })
}

pub fn has_member(file: &Path, text: &str, path: &[&str]) -> Result<bool> {
    let mut at = parse(file, text)?.to_serde_value().unwrap_or_default();
    for part in path {
        at = at[*part].take();
    }
    Ok(!at.is_null())
}

pub fn has_hook(file: &Path, text: &str, event: &str, hook: &str) -> Result<bool> {
    let value = parse(file, text)?.to_serde_value().unwrap_or_default();
    let list = value["hooks"][event].as_array();
    Ok(list.is_some_and(|list| list.iter().any(|element| runs(element, hook))))
}

fn parse(file: &Path, text: &str) -> Result<CstRootNode> {
    // A concrete syntax tree keeps comments, order and spaces.
    Ok(CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| bad(file, &error.to_string()))?)
}

fn bad(file: &Path, reason: &str) -> Failure {
    let text = format!("{} cannot be changed: {reason}", printable_path(file));
    Failure::new("bad-settings", ExitStatus::BadInput, text).hint(Some(
        "correct the file, or add the server in the agent itself".to_owned(),
    ))
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(members) => CstInputValue::Object(
            members
                .iter()
                .map(|(name, value)| (name.clone(), input(value)))
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(text: Option<&str>, entries: &[JsonEntry]) -> Option<String> {
        edited(Path::new("f.json"), text, true, entries).unwrap()
    }

    fn server(value: Option<Value>) -> [JsonEntry; 1] {
        [JsonEntry::member(&["mcpServers"], "agentvfs", value)]
    }

    const COMMENTED: &str = "// mine\n{\n\t\"theme\": \"dark\", // keep\n\t\"mcpServers\": {\n\t\t/* first */\n\t\t\"a\": {\"command\": \"a\"},\n\t},\n}\n";

    #[test]
    fn comments_order_and_spaces_stay_and_removing_restores_the_file() {
        let added = edit(Some(COMMENTED), &server(Some(json!({ "command": "avfs" })))).unwrap();
        for kept in [
            "// mine\n",
            "\"theme\": \"dark\", // keep\n",
            "/* first */\n",
            "\"a\": {\"command\": \"a\"},\n",
        ] {
            assert!(added.contains(kept), "{added}");
        }
        assert!(has_member(Path::new("f"), &added, &["mcpServers", "agentvfs"]).unwrap());
        assert_eq!(edit(Some(&added), &server(None)).unwrap(), COMMENTED);
    }

    #[test]
    fn a_file_that_was_made_for_the_server_goes_with_it() {
        let made = edit(None, &server(Some(json!({ "command": "avfs", "args": ["mcp"] })))).unwrap();
        assert!(serde_json::from_str::<Value>(&made).is_ok(), "{made}");
        assert_eq!(edit(Some(&made), &server(None)), None);
        assert_eq!(edit(None, &server(None)), None);
    }

    #[test]
    fn nothing_of_the_user_goes_with_the_server() {
        for own in [
            "{}",
            "{\"mcpServers\":{}}\n",
            "{\n  \"mcpServers\": {\n    // later\n  }\n}\n",
        ] {
            let file = Path::new("f.json");
            let added = edited(file, Some(own), false, &server(Some(json!({}))))
                .unwrap()
                .unwrap();
            let removed = edited(file, Some(&added), false, &server(None)).unwrap().unwrap();
            assert!(!removed.contains("agentvfs"), "{removed}");
            assert_eq!(
                removed.contains("// later"),
                own.contains("// later"),
                "{removed}"
            );
        }
    }

    #[test]
    fn hooks_are_added_once_beside_those_of_the_user() {
        let own = "{\n  \"hooks\": {\n    \"Stop\": [\n      { \"hooks\": [{ \"type\": \"command\", \"command\": \"say done\" }] }\n    ]\n  }\n}\n";
        let hook = |line: Option<&str>| [JsonEntry::hook("Stop", None, "stop", line.map(str::to_owned))];
        let added = edit(Some(own), &hook(Some("avfs hook stop"))).unwrap();
        let again = edit(Some(&added), &hook(Some("avfs hook stop"))).unwrap();
        assert_eq!(added.matches("avfs hook stop").count(), 1);
        assert_eq!(added, again);
        assert!(has_hook(Path::new("f"), &added, "Stop", "stop").unwrap());
        assert_eq!(edit(Some(&added), &hook(None)).unwrap(), own);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_touched() {
        for text in ["{ \"a\": ", "[1]", "{\"mcpServers\": 3}"] {
            assert!(
                edited(Path::new("f"), Some(text), false, &server(Some(json!({})))).is_err(),
                "{text}"
            );
        }
    }
}
