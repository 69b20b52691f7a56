//! Every route that the server describes, with a request that would be a good one: a new route is covered by itself.

use serde_json::{Map, Value, json};

use crate::client::{Answer, Client};

pub struct Route {
    pub method: String,
    /// With the names of its parameters in braces.
    pub path: String,
    operation: Value,
    /// What the names in its schemas stand for.
    schemas: Value,
}

/// The routes of the native interface.
pub fn described(client: &Client<'_>) -> Vec<Route> {
    let description = client.get("/api/v1/openapi.json").is(200).json();
    let mut routes = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            routes.push(Route {
                method: method.to_uppercase(),
                path: path.clone(),
                operation: operation.clone(),
                schemas: description["components"]["schemas"].clone(),
            });
        }
    }
    assert!(routes.len() > 30);
    routes
}

impl Route {
    /// The names of the parameters in its path.
    pub fn parameters(&self) -> Vec<String> {
        let parts = self.path.split('/');
        let names = parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        names.map(str::to_owned).collect()
    }

    /// The path with these values, and with the words that it needs behind it.
    pub fn filled(&self, value: impl Fn(&str) -> String) -> String {
        let mut path = self.path.clone();
        for name in self.parameters() {
            path = path.replace(&format!("{{{name}}}"), &value(&name));
        }
        let needed = self.operation["parameters"].as_array().unwrap().iter();
        let needed = needed.filter(|about| about["in"] == "query" && about["required"] == true);
        let words: Vec<String> = needed
            .map(|about| format!("{}={}", about["name"].as_str().unwrap(), sample_word(about)))
            .collect();
        if words.is_empty() {
            path
        } else {
            format!("{path}?{}", words.join("&"))
        }
    }

    /// A body as the description has it.
    pub fn body(&self) -> Vec<u8> {
        match self.operation["requestBody"]["content"]["application/json"].get("schema") {
            Some(schema) => self.sample(schema).to_string().into_bytes(),
            None => Vec::new(),
        }
    }

    fn sample(&self, schema: &Value) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            return self.sample(&self.schemas[reference.rsplit('/').next().unwrap()]);
        }
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(first) = schema["enum"].get(0) {
            return first.clone();
        }
        for word in ["anyOf", "oneOf"] {
            if let Some(first) = schema[word].get(0) {
                return self.sample(first);
            }
        }
        let kind = schema["type"].as_str().or(schema["type"][0].as_str());
        match kind.unwrap_or("object") {
            "string" => json!("x"),
            "boolean" => json!(false),
            "integer" | "number" => json!(schema["minimum"].as_u64().unwrap_or(1).max(1)),
            "array" => json!([]),
            _ => {
                let needed = schema["required"].as_array().into_iter().flatten();
                let fields = needed.map(|name| {
                    let name = name.as_str().unwrap();
                    (name.to_owned(), self.sample(&schema["properties"][name]))
                });
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    /// The names of the headers that its description has.
    pub fn headers(&self) -> Vec<String> {
        let parameters = self.operation["parameters"].as_array().unwrap().iter();
        let headers = parameters.filter(|about| about["in"] == "header");
        headers
            .map(|about| about["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Asks for a path in the way of this route.
    pub fn ask(&self, client: &Client<'_>, path: &str) -> Answer {
        self.ask_with(client, path, &self.body())
    }

    /// The same with another body.
    pub fn ask_with(&self, client: &Client<'_>, path: &str, body: &[u8]) -> Answer {
        let head = format!(
            "{} {path} HTTP/1.1\r\nContent-Length: {}\r\nContent-Type: application/json\r\n{}",
            self.method,
            body.len(),
            client.all_headers()
        );
        client.raw(&head, body)
    }
}

fn sample_word(about: &Value) -> &'static str {
    match about["name"].as_str().unwrap() {
        "path" => "/file",
        _ => "x",
    }
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// Routes of the interface of E2B's clients, which have no description here.
pub const OF_E2B: &[(&str, &str)] = &[
    ("POST", "/sandboxes"),
    ("GET", "/v2/sandboxes"),
    ("GET", "/sandboxes/{id}"),
    ("DELETE", "/sandboxes/{id}"),
    ("POST", "/v2/sandboxes/{id}/connect"),
    ("POST", "/sandboxes/{id}/timeout"),
    ("POST", "/sandboxes/{id}/pause"),
    ("POST", "/sandboxes/{id}/fork"),
    ("POST", "/sandboxes/{id}/snapshots"),
    ("GET", "/snapshots"),
    ("DELETE", "/templates/{id}"),
    ("GET", "/files?path=/x"),
    ("POST", "/files?path=/x"),
    ("GET", "/health"),
    ("POST", "/process.Process/List"),
    ("POST", "/process.Process/Start"),
    ("POST", "/filesystem.Filesystem/Stat"),
];
