//! The description of the interface says what the server does.

use serde_json::{Value, json};

use crate::client::{Server, token};
use crate::sandbox::Sandbox;

#[test]
fn the_description_is_whole() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let client = server.with(&token(&house, "--scope read"));
    let description = client.get("/api/v1/openapi.json").is(200).json();
    assert_eq!(description["openapi"], "3.1.0");
    let mut names = Vec::new();
    let mut references = Vec::new();
    collect(&description, &mut references);
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            names.push(operation["operationId"].as_str().unwrap().to_owned());
            let parameters = operation["parameters"].as_array().unwrap();
            let of_path = parameters.iter().filter(|parameter| parameter["in"] == "path");
            assert_eq!(of_path.count(), path.matches('{').count(), "{method} {path}");
        }
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "each operation has a name of its own");
    assert!(count > 30);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(description.pointer(pointer).is_some(), "{reference}");
    }
    let page = client.get("/api/v1/docs").is(200);
    assert!(
        page.header("content-security-policy")
            .unwrap()
            .contains("default-src 'none'")
    );
    assert!(
        String::from_utf8(page.body)
            .unwrap()
            .contains("/api/v1/sandboxes/{id}/exec")
    );
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str().filter(|_| name == "$ref") {
                    Some(reference) => references.push(reference.to_owned()),
                    None => collect(value, references),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}

/// Every request that changes something is refused to a token that may only look.
#[test]
fn each_operation_has_the_scope_that_is_described() {
    let house = Sandbox::new();
    let server = Server::start(&house, &[]);
    let reader = server.with(&token(&house, "--scope read"));
    let runner = server.with(&token(&house, "--scope run"));
    let description = reader.get("/api/v1/openapi.json").is(200).json();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let about = operation["description"].as_str().unwrap();
            let path = path.replace(['{', '}'], "");
            let refused = |client: &crate::client::Client<'_>| {
                let head = format!(
                    "{} {path} HTTP/1.1\r\nContent-Length: 2\r\nContent-Type: application/json\r\n",
                    method.to_uppercase()
                );
                let answer = client.raw(&format!("{head}{}", client.authorization()), b"{}");
                answer.status == 403 && answer.json()["code"] == json!("missing-scope")
            };
            assert_eq!(refused(&reader), !about.contains("`read`"), "{method} {path}");
            let needs_more = about.contains("`admin`") || about.contains("`approve`");
            assert_eq!(refused(&runner), needs_more, "{method} {path}");
        }
    }
}
