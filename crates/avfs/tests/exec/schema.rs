//! The part of JSON Schema that `docs/exec.schema.json` uses. A keyword that is not known here is a mistake.

use serde_json::{Map, Value};

pub fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../docs/exec.schema.json")).unwrap()
}

/// Asserts that the value matches the schema; otherwise reports all violations.
#[track_caller]
pub fn assert_envelope(value: &Value) {
    let schema = schema();
    let wrong = Checker { root: &schema }.check(&schema, value, "");
    assert!(wrong.is_empty(), "{}\n{value:#}", wrong.join("\n"));
}

#[track_caller]
pub fn assert_event(value: &Value) {
    let schema = schema();
    let wrong = Checker { root: &schema }.check(&schema["$defs"]["event"], value, "");
    assert!(wrong.is_empty(), "{}\n{value:#}", wrong.join("\n"));
}

struct Checker<'a> {
    root: &'a Value,
}

impl Checker<'_> {
    /// The violations of a value.
    fn check(&self, schema: &Value, value: &Value, at: &str) -> Vec<String> {
        let keywords = schema.as_object().unwrap();
        keywords
            .iter()
            .flat_map(|(keyword, wanted)| self.keyword(keyword, wanted, keywords, value, at))
            .collect()
    }

    fn keyword(
        &self,
        keyword: &str,
        wanted: &Value,
        beside: &Map<String, Value>,
        value: &Value,
        at: &str,
    ) -> Vec<String> {
        let holds = match keyword {
            "$schema" | "title" | "description" | "$defs" => true,
            "$ref" => {
                let pointer = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                return self.check(self.root.pointer(pointer).unwrap(), value, at);
            }
            "properties" => return self.properties(wanted, value, at),
            "items" => return self.items(wanted, value, at),
            "oneOf" => {
                let matching = |one: &&Value| self.check(one, value, at).is_empty();
                wanted.as_array().unwrap().iter().filter(matching).count() == 1
            }
            "type" => is_one_of(wanted, value),
            "const" => wanted == value,
            "enum" => wanted.as_array().unwrap().contains(value),
            "minimum" => value
                .as_i64()
                .is_none_or(|number| number >= wanted.as_i64().unwrap()),
            "minItems" => value
                .as_array()
                .is_none_or(|all| all.len() as u64 >= wanted.as_u64().unwrap()),
            "required" => {
                let names = wanted.as_array().unwrap();
                names
                    .iter()
                    .all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "additionalProperties" => {
                let known = beside["properties"].as_object().unwrap();
                value
                    .as_object()
                    .is_none_or(|fields| fields.keys().all(|name| known.contains_key(name)))
            }
            unknown => panic!("the keyword {unknown} is not known here"),
        };
        if holds {
            Vec::new()
        } else {
            vec![format!("{at}: not {keyword} {wanted}: {value}")]
        }
    }

    fn properties(&self, wanted: &Value, value: &Value, at: &str) -> Vec<String> {
        let known = wanted.as_object().unwrap();
        let there = known
            .iter()
            .filter_map(|(name, schema)| Some((name, schema, value.get(name)?)));
        there
            .flat_map(|(name, schema, value)| self.check(schema, value, &format!("{at}/{name}")))
            .collect()
    }

    fn items(&self, wanted: &Value, value: &Value, at: &str) -> Vec<String> {
        let items = value.as_array().into_iter().flatten().enumerate();
        items
            .flat_map(|(index, item)| self.check(wanted, item, &format!("{at}/{index}")))
            .collect()
    }
}

fn is_one_of(types: &Value, value: &Value) -> bool {
    match types {
        Value::Array(types) => types.iter().any(|one| is_one_of(one, value)),
        one => one.as_str() == Some(type_of(value)),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Every field of the schema, by its path: `result.usage.cpu_ms`.
pub fn fields() -> Vec<String> {
    let schema = schema();
    let mut found = Vec::new();
    collect(&schema, &schema, "", &mut found);
    found.sort();
    found.dedup();
    found
}

fn collect(root: &Value, schema: &Value, above: &str, found: &mut Vec<String>) {
    if let Some(pointer) = schema.get("$ref") {
        let pointer = pointer.as_str().unwrap().strip_prefix('#').unwrap();
        collect(root, root.pointer(pointer).unwrap(), above, found);
    }
    for choice in schema
        .get("oneOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        collect(root, choice, above, found);
    }
    if let Some(items) = schema.get("items") {
        collect(root, items, &format!("{above}[]"), found);
    }
    for (name, field) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let path = if above.is_empty() {
            name.clone()
        } else {
            format!("{above}.{name}")
        };
        found.push(path.clone());
        collect(root, field, &path, found);
    }
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let schema = schema();
    let checker = Checker { root: &schema };
    let request = serde_json::json!({
        "vault": "v", "cwd": "/", "command": [], "command_mode": "args", "checkpoint_mode": "auto",
        "readonly": 1, "network": ["a"], "isolation": "bubblewrap", "dry_run": false, "more": true,
        "limits": {"timeout_ms": -1, "memory_bytes": null, "pids": 1, "cpu_seconds": null, "output_bytes": 1.5}
    });
    let answer = serde_json::json!({"schema_version": 2, "kind": "exec", "request": request});
    let wrong = checker.check(&schema, &answer, "");
    let expected = [
        ": not required",
        "/request: not additionalProperties",
        "/request/command: not minItems",
        "/request/command_mode: not enum",
        "/request/limits/output_bytes: not type",
        "/request/limits/timeout_ms: not minimum",
        "/request/readonly: not type",
    ];
    for part in expected {
        assert!(
            wrong.iter().any(|line| line.starts_with(part)),
            "{part}: {wrong:#?}"
        );
    }
    assert_eq!(wrong.len(), expected.len(), "{wrong:#?}");
}
