//! grep, find and search.

use agentvfs::VaultName;
use insta::assert_snapshot;

use crate::sandbox::Sandbox;
use crate::seed::write;

fn sample() -> Sandbox {
    let sandbox = Sandbox::new();
    let files = [
        ("README.md", "A parser for logs\nTODO: say more\n"),
        ("src/main.rs", "fn main() {\n    // TODO: parse\n    run();\n}\n"),
        ("src/deep/lib.rs", "fn run() {}\n"),
        (".hidden", "TODO\n"),
    ];
    let vault = sandbox.seed("web", &files);
    write(&vault, "binary", b"TODO\0\n");
    sandbox
}

#[test]
fn grep_shows_lines_as_ripgrep_does() {
    let sandbox = sample();
    assert_snapshot!(sandbox.run("grep -n TODO"), @"
    status 0
    --- data
    /README.md:2:TODO: say more
    /src/main.rs:2:    // TODO: parse
    --- talk
    ");
    assert_snapshot!(sandbox.run("grep -C 1 todo -i src"), @"
    status 0
    --- data
    /src/main.rs-fn main() {
    /src/main.rs:    // TODO: parse
    /src/main.rs-    run();
    --- talk
    ");
    assert_snapshot!(sandbox.run("grep -l TODO -g *.rs"), @"
    status 0
    --- data
    /src/main.rs
    --- talk
    ");
    assert_snapshot!(sandbox.run("grep -c fn src"), @"
    status 0
    --- data
    /src/deep/lib.rs:1
    /src/main.rs:1
    --- talk
    ");
    assert_snapshot!(sandbox.run("grep parse src/main.rs"), @"
    status 0
    --- data
        // TODO: parse
    --- talk
    ");
    assert!(sandbox.run("grep TODO --hidden -l").contains("/.hidden"));
    let colored = sandbox.run("grep TODO README.md --color always");
    assert!(
        colored.contains("\u{1b}[1m\u{1b}[31mTODO\u{1b}[0m: say more"),
        "{colored:?}"
    );
}

#[test]
fn grep_ends_with_one_if_nothing_matches_and_names_a_bad_pattern() {
    let sandbox = sample();
    assert_eq!(
        sandbox.run("grep nothing-like-this"),
        "status 1\n--- data\n--- talk\n"
    );
    assert_snapshot!(sandbox.run("grep a("), @"
    status 2
    --- data
    --- talk
    error: 'a(' is not a regular expression: regex parse error: unclosed group
    hint: -F takes the pattern as plain text
    ");
    assert_eq!(sandbox.bad("grep a ["), (3, "not-found".to_owned()));
    assert_eq!(sandbox.bad("grep a -g a[b"), (2, "bad-pattern".to_owned()));
    assert_eq!(
        sandbox.bad("grep a --at nonsense"),
        (3, "unknown-revision".to_owned())
    );
}

#[test]
fn grep_in_json_has_lines_files_and_totals() {
    let sandbox = sample();
    let found = sandbox.object("grep TODO --json");
    assert_eq!(found["kind"], "grep");
    assert_eq!(
        (&found["files_matched"], &found["lines_matched"]),
        (&2.into(), &2.into())
    );
    let line = &found["lines"][0];
    assert_eq!((&line["path"], &line["line"]), (&"/README.md".into(), &2.into()));
    assert_eq!(
        (&line["text"], &line["matches"][0]),
        (&"TODO: say more".into(), &serde_json::json!([0, 4]))
    );
    let binary = sandbox.object("grep TODO binary --json");
    let file = &binary["files"][0];
    assert_eq!(
        (&file["path"], &file["binary"]),
        (&"/binary".into(), &true.into()),
        "{binary}"
    );
    assert_eq!(sandbox.object("grep TODO -c --json")["files"][0]["count"], 1);
}

#[test]
fn the_past_can_be_searched() {
    let sandbox = sample();
    sandbox.run("checkpoint save v1");
    write(
        &sandbox.library().vault("web").unwrap(),
        "README.md",
        b"nothing\n",
    );
    assert!(sandbox.run("grep more README.md").starts_with("status 1"));
    assert_eq!(sandbox.data("grep more README.md --at v1"), b"TODO: say more\n");
    assert!(sandbox.run("search parser").starts_with("status 1"));
    assert!(sandbox.run("search parser --at v1").contains("/README.md"));
}

#[test]
fn find_chooses_by_name_kind_size_and_depth() {
    let sandbox = sample();
    assert_eq!(
        sandbox.data("find --name *.rs"),
        b"/src/deep/lib.rs\n/src/main.rs\n"
    );
    assert_eq!(
        sandbox.data("find --name *.md --iname LIB.RS"),
        b"/README.md\n/src/deep/lib.rs\n"
    );
    assert_eq!(sandbox.data("find --type d"), b"/src\n/src/deep\n");
    assert_eq!(sandbox.data("find --type f --size -10"), b"/.hidden\n/binary\n");
    assert_eq!(
        sandbox.data("find src --max-depth 1 -0"),
        b"/src\0/src/deep\0/src/main.rs\0"
    );
    assert!(sandbox.run("find --older 1d").starts_with("status 1\n"));
    let found = sandbox.object("find --name lib.rs --json");
    let entry = &found["entries"][0];
    assert_eq!(
        (&entry["path"], &entry["type"]),
        (&"/src/deep/lib.rs".into(), &"file".into())
    );
    assert_eq!((&entry["size"], &entry["mode"]), (&12.into(), &"0644".into()));
    for line in ["find --size big", "find --newer soon", "find --name a[b"] {
        assert_eq!(sandbox.bad(line).0, 2, "{line}");
    }
    assert_eq!(sandbox.bad("find nowhere"), (3, "not-found".to_owned()));
}

#[test]
fn a_name_that_is_not_utf8_is_escaped_and_exact_where_it_counts() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[]);
    let open = vault.begin().unwrap();
    open.write_bytes(&agentvfs::TreePath::parse(b"caf\xe9").unwrap(), b"x")
        .unwrap();
    open.commit("write", "").unwrap();
    assert_eq!(sandbox.data("find"), b"/caf\\xe9\n");
    assert_eq!(sandbox.data("find -0"), b"/caf\xe9\0");
    let entry = &sandbox.object("find --json")["entries"][0];
    assert_eq!(
        (&entry["path"], &entry["path_bytes_hex"]),
        (&"/caf\\xe9".into(), &"2f636166e9".into())
    );
}

#[test]
fn search_ranks_and_shows_where() {
    let sandbox = sample();
    assert_snapshot!(sandbox.run("search parser logs"), @"
    status 0
    --- data
    /README.md:1: A parser for logs
    --- talk
    ");
    assert_snapshot!(sandbox.run("search run --path src"), @"
    status 0
    --- data
    /src/deep/lib.rs:1: fn run() {}
    /src/main.rs:3: run();
    --- talk
    ");
    let found = sandbox.object("search parser --json");
    assert_eq!(
        (&found["kind"], &found["current"]),
        (&"search".into(), &true.into())
    );
    assert_eq!(
        (&found["hits"][0]["path"], &found["hits"][0]["line"]),
        (&"/README.md".into(), &1.into())
    );
    assert!(sandbox.run("search unheard-of").starts_with("status 1\n"));
    assert_eq!(sandbox.bad("search ..."), (2, "bad-query".to_owned()));
}

#[test]
fn each_vault_sees_its_own_files_in_the_shared_index() {
    let sandbox = sample();
    let vault = sandbox.library().vault("web").unwrap();
    sandbox.run("search parser");
    let fork = vault.fork(&[VaultName::new("fix").unwrap()]).unwrap().remove(0);
    write(&fork, "only-here", b"zebra\n");
    assert!(sandbox.run("search zebra --vault fix").contains("/only-here"));
    assert!(sandbox.run("search zebra").starts_with("status 1\n"));
    assert!(sandbox.run("search parser --vault fix").contains("/README.md"));
}

#[test]
fn after_a_collection_a_state_that_comes_back_is_found_again() {
    let sandbox = sample();
    sandbox.good("checkpoint save v1");
    sandbox.good("search parser");
    sandbox.good("search parser --at v1");
    sandbox.good("rm README.md");
    sandbox.good("gc");
    assert!(sandbox.good("search parser --at v1").contains("/README.md"));
    sandbox.good("undo");
    assert!(sandbox.good("search parser").contains("/README.md"));
}

#[test]
fn search_can_be_switched_off() {
    let sandbox = sample();
    sandbox.user_file("[search]\nenabled = false\n");
    assert_eq!(sandbox.bad("search parser"), (2, "search-disabled".to_owned()));
}

/// A project in a task `fix`, with the same word in its work, in ignored files and in its repository.
fn task_with_ignored_files(sandbox: &Sandbox) -> impl Fn(&str) -> (String, String) {
    use agentvfs::{NewTask, Store, TaskName};
    let root = sandbox.path("web");
    for (path, text) in [
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/hooks/pre-push.sample", "needle\n"),
        (".gitignore", "node_modules\n*.log\n"),
        ("src/main.js", "needle\n"),
        ("src/run.log", "needle\n"),
        ("node_modules/x/index.js", "needle\n"),
    ] {
        std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        std::fs::write(root.join(path), text).unwrap();
    }
    let new = NewTask {
        name: Some(TaskName::new("fix").unwrap()),
        ..NewTask::default()
    };
    Store::open(&sandbox.store())
        .unwrap()
        .project(&root)
        .unwrap()
        .new_task(&new)
        .unwrap();
    move |line: &str| {
        let output = sandbox
            .avfs()
            .current_dir(&root)
            .args(line.split_whitespace())
            .output()
            .unwrap();
        let [out, talk] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (out, talk)
    }
}

#[test]
fn search_in_a_task_leaves_out_what_is_ignored_and_what_git_keeps() {
    let sandbox = Sandbox::new();
    let output = task_with_ignored_files(&sandbox);
    let left_out = "ignored files that match are left out (`--ignored` includes them)\n";
    assert_eq!(
        output("search needle"),
        ("/src/main.js:1: needle\n".to_owned(), left_out.to_owned())
    );
    let (all, talk) = output("search needle --ignored");
    let mut all: Vec<&str> = all.lines().collect();
    all.sort_unstable();
    assert_eq!(
        all,
        [
            "/node_modules/x/index.js:1: needle",
            "/src/main.js:1: needle",
            "/src/run.log:1: needle"
        ]
    );
    assert_eq!(talk, "");
    for (named, found) in [
        ("node_modules", "/node_modules/x/index.js:1: needle\n"),
        (".git", "/.git/hooks/pre-push.sample:1: needle\n"),
    ] {
        assert_eq!(output(&format!("search needle --path {named}")).0, found);
    }
}

#[test]
fn grep_in_a_task_leaves_out_what_is_ignored() {
    let sandbox = Sandbox::new();
    let output = task_with_ignored_files(&sandbox);
    let (found, talk) = output("grep -l needle");
    assert_eq!(found, "/src/main.js\n");
    assert_eq!(
        talk,
        "ignored and not searched: node_modules/, src/run.log (`--ignored` searches them too)\n"
    );
    assert_eq!(
        output("grep -l needle src"),
        (
            "/src/main.js\n".to_owned(),
            "ignored and not searched: src/run.log (`--ignored` searches them too)\n".to_owned()
        )
    );
    assert_eq!(
        output("grep -l needle node_modules").0,
        "/node_modules/x/index.js\n",
        "named files are searched"
    );
    assert_eq!(output("grep -l needle src/run.log").0, "/src/run.log\n");
    let (all, talk) = output("grep -l needle --ignored");
    assert_eq!(all, "/node_modules/x/index.js\n/src/main.js\n/src/run.log\n");
    assert_eq!(talk, "");
    let (json, talk) = output("grep -l needle --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["ignored"][0]["path"], "/node_modules");
    assert_eq!(talk, "");
}
