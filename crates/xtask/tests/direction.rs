//! Dependencies between our crates point in one direction.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// Each crate, and those of ours that it may use. The last two are for development only.
const ALLOWED: &[(&str, &[&str])] = &[
    ("avfs-core", &[]),
    ("avfs-vfs", &["avfs-core"]),
    ("avfs-shell", &["avfs-core", "avfs-vfs"]),
    ("avfs-store", &["avfs-core"]),
    ("avfs-tree", &["avfs-core", "avfs-store"]),
    ("avfs-fuse", &["avfs-core", "avfs-tree"]),
    ("avfs-inside", &["avfs-core"]),
    (
        "avfs-exec",
        &["avfs-core", "avfs-inside", "avfs-store", "avfs-tree", "avfs-fuse"],
    ),
    ("avfs-query", &["avfs-core", "avfs-store", "avfs-tree"]),
    ("avfs-transfer", &["avfs-core", "avfs-tree"]),
    (
        "agentvfs",
        &[
            "avfs-core",
            "avfs-vfs",
            "avfs-store",
            "avfs-tree",
            "avfs-fuse",
            "avfs-exec",
            "avfs-query",
            "avfs-transfer",
        ],
    ),
    // The library is the only dependency of the command line; plain values without interfaces are allowed.
    ("avfs-mcp", &["agentvfs", "avfs-core"]),
    ("avfs-server", &["agentvfs", "avfs-core"]),
    ("avfs", &["agentvfs", "avfs-core", "avfs-mcp", "avfs-server"]),
    ("avfs-python", &["agentvfs", "avfs-shell"]),
    ("avfs-testkit", &["avfs-core", "avfs-store", "avfs-tree"]),
    (
        "xtask",
        &[
            "avfs-core",
            "avfs-store",
            "avfs-tree",
            "avfs-fuse",
            "agentvfs",
            "avfs-testkit",
        ],
    ),
];

/// Crates that no product may be built from.
const DEVELOPMENT_ONLY: [&str; 2] = ["avfs-testkit", "xtask"];

/// One use of one of our crates by another.
#[derive(Debug, PartialEq, Eq)]
struct Use {
    by: String,
    of: String,
    development: bool,
}

#[test]
fn dependencies_point_in_one_direction() {
    let packages = packages();
    let names: Vec<&str> = packages.keys().map(String::as_str).collect();
    for name in &names {
        assert!(
            allowed(name).is_some(),
            "{name} has no place in the order of crates: give it one in this test"
        );
    }
    let uses = packages
        .iter()
        .flat_map(|(name, package)| uses(name, package, &names));
    let wrong: Vec<Use> = uses.filter(|of| !is_right(of)).collect();
    assert!(wrong.is_empty(), "against the direction: {wrong:?}");
}

#[test]
fn the_check_can_fail() {
    let case = |by: &str, of: &str, development| {
        is_right(&Use {
            by: by.into(),
            of: of.into(),
            development,
        })
    };
    assert!(case("avfs-store", "avfs-core", false));
    assert!(!case("avfs-core", "avfs-store", false));
    assert!(!case("avfs", "avfs-store", false));
    assert!(!case("agentvfs", "avfs-testkit", false));
    assert!(case("agentvfs", "avfs-testkit", true));
    assert!(!case("agentvfs", "xtask", true));
    assert!(case("avfs", "avfs-store", true));
    assert!(!case("avfs-store", "avfs-tree", true));
}

fn is_right(edge: &Use) -> bool {
    let is_tool = DEVELOPMENT_ONLY.contains(&edge.by.as_str());
    match edge.of.as_str() {
        "xtask" => false,
        "avfs-testkit" if !is_tool => edge.development,
        of if edge.development => rank(of) < rank(&edge.by),
        of => allowed(&edge.by).is_some_and(|below| below.contains(&of)),
    }
}

/// Tests may reach further down than the product does, never up.
fn rank(name: &str) -> Option<usize> {
    ALLOWED.iter().position(|(known, _)| *known == name)
}

fn allowed(name: &str) -> Option<&'static [&'static str]> {
    ALLOWED
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, below)| *below)
}

fn uses(name: &str, package: &Value, ours: &[&str]) -> Vec<Use> {
    let dependencies = package["dependencies"]
        .as_array()
        .expect("metadata lists dependencies");
    let edge = |dependency: &Value| {
        let of = dependency["name"].as_str().filter(|of| ours.contains(of))?;
        Some(Use {
            by: name.into(),
            of: of.into(),
            development: dependency["kind"] == "dev",
        })
    };
    dependencies.iter().filter_map(edge).collect()
}

fn packages() -> BTreeMap<String, Value> {
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| (package["name"].as_str().unwrap().to_owned(), package.clone()))
        .collect()
}
