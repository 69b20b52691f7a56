//! Settings: layers, and mistakes in them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn config_show_says_where_each_value_comes_from() {
    let sandbox = Sandbox::new();
    sandbox.user_file("vault = \"mine\"\n\n[retention]\nall = \"2d\"\ndaily = \"60d\"\n");
    sandbox.project_file("vault = \"web\"\nretention.all = \"3d\"\nquota.bytes = \"1G\"\n");
    let mut avfs = sandbox.avfs();
    avfs.env("AVFS_SEARCH_ENABLED", "false")
        .env("AVFS_VAULT", "lost")
        .args(["config", "show", "--vault", "fix", "--home", "/store"]);
    assert_snapshot!(sandbox.show(&avfs.output().unwrap()), @r"
    status 0
    --- data
    KEY                   VALUE       FROM
    home                  /store      flag
    vault                 fix         flag
    color                 auto        default
    wait                  10s         default
    retention.all         3d          ROOT/project/avfs.toml:2
    retention.hourly      7d          default
    retention.daily       60d         ROOT/home/.config/agentvfs/avfs.toml:5
    retention.disk_share  0.1         default
    search.enabled        false       AVFS_SEARCH_ENABLED
    quota.bytes           1073741824  ROOT/project/avfs.toml:3
    quota.files           unlimited   default
    mount.transport       auto        default
    run.memory            unlimited   default
    run.timeout           unlimited   default
    run.pids              8192        default
    run.detach_keys       ctrl-\\ d   default
    containers.runtime    -           default
    tasks.ignored         false       default
    --- talk
    ");
}

#[test]
fn config_show_in_json_carries_types_and_sources() {
    let sandbox = Sandbox::new();
    sandbox.project_file("retention.disk_share = 0.5\n");
    let object = sandbox.object("config show --json");
    assert_eq!(object["schema_version"], 2);
    assert_eq!(object["kind"], "config");
    let find = |key: &str| {
        let settings = object["settings"].as_array().unwrap();
        settings
            .iter()
            .find(|setting| setting["key"] == key)
            .unwrap()
            .clone()
    };
    let share = find("retention.disk_share");
    assert_eq!(share["value"], 0.5);
    assert_eq!(
        (&share["source"], &share["line"]),
        (&"project-file".into(), &1.into())
    );
    assert_eq!(
        share["file"],
        sandbox.path("project/avfs.toml").display().to_string()
    );
    assert_eq!(find("quota.bytes")["value"], serde_json::Value::Null);
    assert_eq!(object["files"].as_array().unwrap().len(), 1);
}

#[test]
fn a_home_that_is_not_utf8_is_carried_without_loss() {
    let sandbox = Sandbox::new();
    let mut avfs = sandbox.avfs();
    avfs.args(["config", "show", "--json"])
        .env("AVFS_HOME", OsStr::from_bytes(b"/data/\xff"));
    let object: serde_json::Value = serde_json::from_slice(&avfs.output().unwrap().stdout).unwrap();
    let home = &object["settings"][0];
    assert_eq!(
        (&home["key"], &home["value"]),
        (&"home".into(), &"/data/\\xff".into())
    );
    assert_eq!(home["value_bytes_hex"], "2f646174612fff");
}

#[test]
fn an_unknown_key_is_an_error_with_file_line_and_suggestion() {
    let sandbox = Sandbox::new();
    sandbox.project_file("[retention]\nhurly = \"2d\"\n");
    assert_snapshot!(sandbox.run("config show"), @r"
    status 2
    --- data
    --- talk
    error: ROOT/project/avfs.toml:2: unknown key 'retention.hurly'
    hint: did you mean 'retention.hourly'?
    ");
    assert_snapshot!(sandbox.run("config show --json"), @r#"
    status 2
    --- data
    {"schema_version":2,"kind":"error","error":{"code":"config-unknown-key","message":"ROOT/project/avfs.toml:2: unknown key 'retention.hurly'","hint":"did you mean 'retention.hourly'?"}}
    --- talk
    "#);
}

#[test]
fn a_wrong_type_is_an_error_with_file_and_line() {
    let sandbox = Sandbox::new();
    sandbox.user_file("vault = true\n");
    assert_snapshot!(sandbox.run("config show"), @r"
    status 2
    --- data
    --- talk
    error: ROOT/home/.config/agentvfs/avfs.toml:1: vault is true, and should be a name in quotes
    ");
}

#[test]
fn help_and_completions_work_in_spite_of_a_broken_file() {
    let sandbox = Sandbox::new();
    sandbox.user_file("this is no toml");
    sandbox.avfs().args(["completions", "zsh"]).assert().success();
    sandbox.avfs().arg("--help").assert().success();
    sandbox.avfs().args(["config", "show"]).assert().code(2);
}
