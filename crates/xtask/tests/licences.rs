//! Every dependency has a licence that `deny.toml` allows.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn every_dependency_has_a_licence_that_is_allowed() {
    let allowed = allowed();
    // What other platforms need may not be on this machine, and never becomes part of anything here.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo
        .args(["metadata", "--offline", "--format-version", "1"])
        .args(["--filter-platform", &platform])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "only {} packages are known", packages.len());
    let wrong: Vec<String> = packages
        .iter()
        .filter(|package| {
            !package["license"]
                .as_str()
                .is_some_and(|licence| is_allowed(licence, &allowed))
        })
        .map(|package| format!("{}: {}", package["name"], package["license"]))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_check_can_fail() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Zlib".to_owned()]);
    for good in [
        "MIT",
        "MIT OR GPL-3.0",
        "GPL-3.0/MIT",
        "(GPL-3.0 OR MIT) AND Zlib",
    ] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Zlib) AND GPL-3.0", ""] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}

/// Whether one of the choices that an expression leaves is allowed. Parentheses stand around choices only.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ");
    // `AND` binds more tightly, but within parentheses it is the other way round.
    let parts: Vec<&str> = if expression.contains('(') {
        expression.split(" AND ").collect()
    } else {
        vec![&expression]
    };
    let one = |choice: &str| {
        choice
            .split(" AND ")
            .all(|licence| allowed.contains(licence.trim()))
    };
    let choices = |part: &str| part.trim_matches(['(', ')', ' ']).split(" OR ").any(one);
    parts.into_iter().all(choices)
}

/// The licences that `deny.toml` lists.
fn allowed() -> BTreeSet<String> {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deny.toml")).unwrap();
    let list = text.split("allow = [").nth(1).unwrap().split(']').next().unwrap();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}
