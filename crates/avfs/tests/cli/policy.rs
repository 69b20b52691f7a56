//! Policies that are stored.

use crate::sandbox::Sandbox;

const STRICT: &str = "[classes]\nmutating = \"deny\"\n";

fn decides(sandbox: &Sandbox, line: &str) -> String {
    sandbox.object(&format!("policy check {line} --json -- touch a"))["rule"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn the_nearest_stored_policy_decides() {
    let sandbox = Sandbox::new();
    sandbox.seed("web", &[("a", "1")]);
    std::fs::write(sandbox.path("project/src/strict.toml"), STRICT).unwrap();
    assert_eq!(decides(&sandbox, ""), "mutating (built-in)");
    let said = sandbox.run("policy set strict.toml --everywhere");
    assert!(
        said.contains("strict.toml is the policy of all vaults from now on"),
        "{said}"
    );
    assert_eq!(
        decides(&sandbox, ""),
        "mutating (strict.toml (stored for all vaults):2)"
    );
    sandbox.run("policy set strict.toml");
    assert_eq!(
        decides(&sandbox, ""),
        "mutating (strict.toml (stored for vault web):2)"
    );
    let shown = sandbox.object("policy show --json");
    assert_eq!(
        (&shown["origin"], &shown["stored_with"]),
        (&"vault".into(), &"web".into())
    );
    assert_eq!(shown["text"], STRICT);

    std::fs::write(
        sandbox.path("project/src/mine.toml"),
        "[classes]\nmutating = \"ask\"\n",
    )
    .unwrap();
    assert_eq!(
        decides(&sandbox, "--policy mine.toml"),
        "mutating (mine.toml:2)",
        "a file comes first"
    );
    let said = sandbox.run("policy unset");
    assert!(
        said.contains("status 0") && said.contains("strict.toml (stored for all vaults"),
        "{said}"
    );
    assert!(
        sandbox.run("policy unset").contains("status 1"),
        "no policy is left"
    );
    sandbox.run("policy unset --everywhere");
    assert_eq!(decides(&sandbox, ""), "mutating (built-in)");
    let audit = sandbox.run("audit");
    assert!(
        audit.contains("policy-set") && audit.contains("policy-unset"),
        "{audit}"
    );
}

#[test]
fn a_policy_with_a_mistake_replaces_nothing() {
    let sandbox = Sandbox::new();
    sandbox.seed("web", &[("a", "1")]);
    std::fs::write(sandbox.path("project/src/strict.toml"), STRICT).unwrap();
    sandbox.run("policy set strict.toml");
    std::fs::write(sandbox.path("project/src/bad.toml"), "[clases]\n").unwrap();
    assert_eq!(sandbox.bad("policy set bad.toml").0, 2);
    let text = sandbox.run("policy set bad.toml");
    assert!(
        text.contains("error: bad.toml:1:2: unknown key 'clases'"),
        "{text}"
    );
    assert_eq!(sandbox.bad("policy set missing.toml").0, 3);
    assert_eq!(
        decides(&sandbox, ""),
        "mutating (strict.toml (stored for vault web):2)"
    );
}

#[test]
fn where_there_is_neither_a_project_nor_a_vault_the_hint_can_be_typed() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("project/src/strict.toml"), STRICT).unwrap();
    let (status, text) = sandbox.bad("policy set strict.toml");
    assert_eq!(status, 2, "{text}");
    assert!(
        sandbox
            .run("policy set strict.toml --everywhere")
            .contains("status 0")
    );
}

#[test]
fn a_line_in_quotes_is_not_judged_as_the_name_of_a_program() {
    let sandbox = Sandbox::new();
    for line in ["rm -rf /", "ls;curl x", ""] {
        let output = sandbox.avfs().args(["policy", "check", line]).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("avfs policy check -c "), "{told}");
    }
    let program = sandbox.path("project/src/my tool");
    std::fs::write(&program, "").unwrap();
    let output = sandbox
        .avfs()
        .args(["policy", "check", program.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let nameless = sandbox.good_with(["policy", "check", "-c", "''"]);
    assert!(!nameless.contains("``"), "{nameless}");
}
