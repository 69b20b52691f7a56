//! Vaults: made, listed, chosen, forked, renamed and deleted.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn a_vault_is_made_listed_and_chosen() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run("vault list"), @r"
    status 0
    --- data
    --- talk
    there is no vault yet; create one with `avfs vault create NAME`
    ");
    sandbox.good("vault create web --use");
    sandbox.good("vault create docs");
    assert_snapshot!(sandbox.run("vault list"), @r"
    status 0
    --- data
      NAME    ENTRIES       SIZE  FROM  CREATED
      docs          0        0 B  -     just now
    * web           0        0 B  -     just now
    --- talk
    ");
    sandbox.good("vault use docs");
    let list = sandbox.object("vault list --json");
    assert_eq!(list["kind"], "vault-list");
    assert_eq!(
        (&list["vaults"][0]["name"], &list["vaults"][0]["current"]),
        (&"docs".into(), &true.into())
    );
    assert_eq!(list["vaults"][1]["current"], false);
}

#[test]
fn stronger_choice_is_reported() {
    let sandbox = Sandbox::with_files();
    sandbox.good("vault create docs");
    let output = sandbox
        .avfs()
        .args(["vault", "use", "docs"])
        .env("AVFS_VAULT", "web")
        .output()
        .unwrap();
    assert_snapshot!(sandbox.show(&output), @r"
    status 0
    --- data
    --- talk
    warning: AVFS_VAULT names another vault, which beats this choice
    ");
}

#[test]
fn a_new_vault_has_the_limits_of_the_settings() {
    let sandbox = Sandbox::new();
    sandbox.user_file("[quota]\nbytes = \"1k\"\nfiles = 2");
    let made = sandbox.object("vault create web --use --json");
    assert_eq!(
        (&made["max_bytes"], &made["max_files"]),
        (&1024.into(), &2.into())
    );
    sandbox.good("touch a b");
    assert_eq!(sandbox.bad("touch c"), (7, "quota-files".into()));
    sandbox.good("rm b");
    let large = "x".repeat(1025);
    let output = sandbox
        .avfs()
        .args(["write", "b", "--json"])
        .write_stdin(large)
        .output()
        .unwrap();
    assert!(
        sandbox.show(&output).contains("quota-bytes"),
        "{}",
        sandbox.show(&output)
    );
    assert_eq!(sandbox.good("ls"), "a\n");
}

#[test]
fn a_fork_has_the_same_files_and_goes_its_own_way() {
    let sandbox = Sandbox::with_files();
    let head = sandbox.object("vault info --json")["head"]
        .as_str()
        .unwrap()
        .to_owned();
    sandbox.good("write notes.txt second");
    let forks = sandbox.object(&format!("vault fork web try --count 3 --at {head} --json"));
    let names: Vec<&str> = forks["vaults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fork| fork["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["try-1", "try-2", "try-3"]);
    assert_eq!(forks["vaults"][0]["parent"], "web");
    assert_eq!(sandbox.good("cat notes.txt --vault try-2"), "first\n");
    sandbox.good("vault fork web fix --use");
    sandbox.good("write notes.txt third");
    assert_eq!(sandbox.good("cat notes.txt --at web:"), "second\n");
    let info = sandbox.object("vault info web --json");
    assert_eq!(
        info["forks"],
        serde_json::json!(["fix", "try-1", "try-2", "try-3"])
    );
    assert_eq!(sandbox.bad("vault fork web fix"), (4, "vault-exists".into()));
    let taken = sandbox.run("vault create fix");
    assert!(
        taken.starts_with("status 4\n") && taken.contains("hint: choose another name"),
        "{taken}"
    );
    assert_eq!(sandbox.bad("vault fork web x --at fix:"), (2, "usage".into()));
}

#[test]
fn some_forks_that_exist_already_stop_all_of_them() {
    let sandbox = Sandbox::with_files();
    sandbox.good("vault create try-2");
    assert_eq!(
        sandbox.bad("vault fork web try --count 3"),
        (4, "vault-exists".into())
    );
    assert_eq!(
        sandbox.object("vault list --json")["vaults"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn a_renamed_vault_stays_chosen() {
    let sandbox = Sandbox::with_files();
    let renamed = sandbox.object("vault rename web site --json");
    assert_eq!(
        (&renamed["from"], &renamed["to"]),
        (&"web".into(), &"site".into())
    );
    assert_eq!(sandbox.good("cat notes.txt"), "first\n");
    assert_eq!(sandbox.bad("ls --vault web"), (3, "unknown-vault".into()));
    assert_eq!(sandbox.bad("vault rename site a/b"), (2, "bad-name".into()));
}

#[test]
fn a_vault_is_deleted_after_a_question() {
    let sandbox = Sandbox::with_files();
    assert_snapshot!(sandbox.run("vault delete web"), @r"
    status 2
    --- data
    --- talk
    error: this needs a confirmation: Delete vault 'web' with its checkpoints and history?
    hint: pass --yes to go ahead
    ");
    assert!(
        sandbox
            .on_terminal("vault delete web", "n\n")
            .contains("history? [y/N]")
    );
    sandbox.good("ls");
    assert!(
        sandbox
            .on_terminal("vault delete web", "y\n")
            .contains("deleted vault 'web'")
    );
    assert_eq!(sandbox.bad("vault delete web"), (3, "unknown-vault".into()));
    assert_eq!(sandbox.bad("ls"), (2, "no-vault".into()));
}

#[test]
fn a_vault_that_forks_need_is_deleted_by_force_only() {
    let sandbox = Sandbox::with_files();
    sandbox.good("vault fork web fix");
    sandbox.good("write new text --vault fix");
    assert_snapshot!(sandbox.run("vault delete web --yes"), @r"
    status 4
    --- data
    --- talk
    error: vault 'web' has a fork that needs it: fix
    hint: delete or merge each fork first, or force it by name: --force web
    ");
    assert_eq!(sandbox.bad("vault delete web --force fix"), (2, "usage".into()));
    assert_eq!(
        sandbox.object("vault delete web --force web --json")["name"],
        "web"
    );
    assert_eq!(sandbox.good("cat new --vault fix"), "text\n");
    assert_eq!(
        sandbox.object("vault info fix --json")["parent"],
        serde_json::Value::Null
    );
}
