//! Rules and labels, as a user meets them.

use insta::assert_snapshot;
use serde_json::Value;

use crate::sandbox::Sandbox;

/// A vault with something to see, something to hide and something that is only listed, in two states.
fn scene() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.good("vault create web --use");
    for text in ["first", "second"] {
        sandbox.good(&format!("write -p src/a.txt {text}-needle"));
        sandbox.good(&format!("write -p secrets/k.pem {text}-needle-hidden"));
        sandbox.good(&format!("write -p listed/x.txt {text}-needle-listed"));
    }
    sandbox.good("checkpoint save stable");
    sandbox
}

const VIEW: [&str; 6] = [
    "--rule",
    "/**=write",
    "--rule",
    "/secrets/**=none",
    "--rule",
    "/listed/**=view",
];

/// A line with the rules of [`VIEW`].
fn through(sandbox: &Sandbox, line: &str) -> String {
    let output = sandbox
        .avfs()
        .args(line.split_whitespace())
        .args(VIEW)
        .output()
        .unwrap();
    sandbox.show(&output)
}

#[test]
fn hidden_entry_is_in_the_output_of_no_command() {
    let sandbox = scene();
    sandbox.good("write src/a.txt third-needle");
    sandbox.good("write secrets/new third-needle-hidden");
    let target = sandbox.path("out");
    let lines = [
        "ls -laR",
        "ls -R --json",
        "tree -a",
        "tree --json",
        "stat /",
        "stat / --json",
        "diff stable @",
        "diff stable @ --patch",
        "diff stable @ --stat",
        "diff stable @ --json --patch",
        "log",
        "log --json",
        "log --graph",
        "log --graph --json",
        "checkpoint show stable",
        "checkpoint list --auto --json",
        "grep -. hidden",
        "grep hidden --json",
        "find",
        "find --json",
        "search hidden",
        "search needle --json",
        "export /",
        "rm -r secrets",
        "cat secrets/k.pem",
        "stat secrets/k.pem",
        "log secrets/k.pem",
        "checkout stable secrets/k.pem",
        "revert secrets",
        "diff -- secrets",
    ];
    for line in lines {
        let line = if line == "export /" {
            format!("export / {}", target.display())
        } else {
            line.to_owned()
        };
        let shown = through(&sandbox, &line);
        let named = line.contains("secrets");
        let told = shown.replace("/secrets/k.pem", "").replace("/secrets", "");
        assert!(named || !shown.contains("secrets"), "{line}: {shown}");
        assert!(
            !told.contains("k.pem") && !told.contains("hidden"),
            "{line}: {shown}"
        );
        assert_eq!(named, shown.starts_with("status 3"), "{line}: {shown}");
    }
    assert!(target.join("src/a.txt").exists() && !target.join("secrets").exists());
    assert_eq!(sandbox.good("cat secrets/k.pem"), "second-needle-hidden\n");
}

#[test]
fn view_only_file_is_reported_without_its_contents() {
    let sandbox = scene();
    sandbox.good("write listed/x.txt third-needle-listed");
    assert!(through(&sandbox, "ls -l listed").contains("x.txt"));
    assert!(through(&sandbox, "diff stable @").contains("listed/x.txt"));
    for line in [
        "diff stable @ --patch",
        "grep needle",
        "search needle",
        "stat listed/x.txt --json",
    ] {
        let shown = through(&sandbox, line);
        assert!(
            !shown.contains("needle-listed") && !shown.contains("\"version\""),
            "{line}: {shown}"
        );
    }
    assert_snapshot!(through(&sandbox, "cat listed/x.txt"), @"
    status 9
    --- data
    --- talk
    error: vault 'web': /listed/x.txt: the rules give view there, and this takes read
    hint: `avfs rules explain --rule '/**=write' --rule '/secrets/**=none' --rule '/listed/**=view' /listed/x.txt` shows which rule decides
    ");
}

#[test]
fn changes_are_refused_with_the_way_to_the_rule() {
    let sandbox = scene();
    assert_snapshot!(sandbox.run("write src/a.txt x --preset read-only"), @"
    status 9
    --- data
    --- talk
    error: /src/a.txt in vault 'web': the rules give read there, and this takes write
    hint: `avfs rules explain --preset read-only /src/a.txt` shows which rule decides
    ");
    sandbox.good("rules set --preset read-only");
    let shown = sandbox.run("write src/a.txt x --vault web");
    assert!(
        shown.contains("hint: `avfs rules explain --vault web /src/a.txt` shows"),
        "{shown}"
    );
    sandbox.good("rules set --none");
    let before = sandbox.good("log");
    for line in [
        "rm src/a.txt",
        "mv src/a.txt b",
        "chmod 600 src/a.txt",
        "touch src/a.txt",
        "mkdir d",
        "ln -s x l",
    ] {
        let shown = sandbox.run(&format!("{line} --preset read-only"));
        assert!(shown.starts_with("status 9"), "{line}: {shown}");
    }
    assert_eq!(sandbox.good("log"), before, "nothing was changed");
    sandbox.good("write src/a.txt --append more --rule /**=append");
    assert_eq!(sandbox.good("cat src/a.txt"), "second-needle\nmore\n");
    assert!(
        sandbox
            .run("write src/a.txt other --rule /**=append")
            .starts_with("status 9")
    );
}

#[test]
fn a_directory_with_something_hidden_is_not_removed_and_copied_without_it() {
    let sandbox = scene();
    sandbox.good("write src/.env secret");
    let rules = "--rule /**=write --rule **/.env=none";
    let (status, code) = sandbox.bad(&format!("rm -r src {rules}"));
    assert_eq!((status, code.as_str()), (4, "not-empty"));
    sandbox.good(&format!("cp -r src copy {rules}"));
    assert_eq!(sandbox.good("ls -a copy"), "a.txt\n");
    assert_eq!(sandbox.good("ls -a src"), ".env\na.txt\n");
}

#[test]
fn stored_rules_hold_until_they_are_taken_away() {
    let sandbox = scene();
    sandbox.good("rules set --rule /**=write --rule /secrets/**=none");
    assert_eq!(sandbox.good("ls"), "listed\nsrc\n");
    assert_eq!(sandbox.good("ls --no-rules"), "listed\nsecrets\nsrc\n");
    assert_eq!(sandbox.good("ls --preset full-access"), "listed\nsecrets\nsrc\n");
    assert_eq!(sandbox.bad("cat secrets/k.pem").1, "not-found");
    sandbox.good("vault fork web fork");
    assert_eq!(sandbox.good("ls --vault fork"), "listed\nsrc\n");
    assert_eq!(
        sandbox.good("rules show"),
        "/**=write         --rule\n/secrets/**=none  --rule\n"
    );
    let shown = sandbox.object("rules show --json");
    assert_eq!(shown["rules"][1]["rule"], "/secrets/**=none");
    sandbox.good("rules set --none");
    assert_eq!(sandbox.good("ls"), "listed\nsecrets\nsrc\n");
    assert_eq!(sandbox.bad("rules set").1, "usage");
}

#[test]
fn a_projects_rules_hold_only_where_it_is_named() {
    let sandbox = scene();
    sandbox.project_file(
        "vault = \"web\"\n[rules]\nextends = \"full-access\"\n[rules.levels]\n\"/secrets/**\" = \"none\"\n",
    );
    assert_eq!(sandbox.good("ls"), "listed\nsecrets\nsrc\n");
    assert_eq!(sandbox.good("ls --rules ../avfs.toml"), "listed\nsrc\n");
}

#[test]
fn a_file_is_checked_and_a_mistake_in_it_changes_nothing() {
    let sandbox = scene();
    std::fs::write(sandbox.path("good.toml"), "[rules]\nextends = \"read-only\"\n[rules.levels]\n\".env\" = \"none\"\n[rules.expect]\n\"/a\" = \"read\"\n").unwrap();
    std::fs::write(
        sandbox.path("bad.toml"),
        "[rules]\nextends = \"read-only\"\n[rules.levels]\n\"/a\" = \"wriet\"\n",
    )
    .unwrap();
    let run = |line: &str, file: &str| {
        let output = sandbox
            .avfs()
            .args(line.split(' '))
            .arg(sandbox.path(file))
            .output()
            .unwrap();
        sandbox.show(&output)
    };
    assert_snapshot!(run("rules check", "good.toml"), @"
    status 0
    --- data
    ROOT/good.toml: 2 rules, 1 expectation met
    --- talk
    warning: ROOT/good.toml:4:1: '.env' means the one at the root; '**/.env' is about every one, at any depth
    ");
    assert_snapshot!(run("write src/a.txt x --rules", "bad.toml"), @"
    status 2
    --- data
    --- talk
    error: ROOT/bad.toml:4:9: 'wriet' is not a level: none, view, read, append or write
    hint: did you mean 'write'?
    ");
    for line in [
        "rules check",
        "rules set --rules",
        "ls --rules",
        "rules explain /a --rules",
    ] {
        let shown = run(line, "bad.toml");
        assert!(
            shown.starts_with("status 2") && shown.contains("bad.toml:4:9"),
            "{shown}"
        );
    }
    assert_eq!(sandbox.bad("ls --rule /a").1, "bad-rules");
    assert_eq!(sandbox.bad("ls --preset nothing").1, "bad-rules");
    assert_eq!(sandbox.good("cat src/a.txt"), "second-needle\n");
    assert_eq!(sandbox.object("rules show --json")["rules"], Value::Null);
}

#[test]
fn a_path_is_explained_without_any_vault() {
    let sandbox = Sandbox::new();
    let rules = "--preset read-only --rule /out/**=write --rule /out/**=append@-1";
    assert_snapshot!(sandbox.run(&format!("rules explain {rules} /out/x")), @"
    status 0
    --- data
    /out/x: write
    decided by /out/**=write (--rule)
    not by /**=read (preset read-only): it is about more paths
    not by /out/**=append@-1 (--rule): its priority is lower
    --- talk
    ");
    let object = sandbox.object(&format!("rules explain {rules} /out/x --json"));
    assert_eq!(
        (&object["path"], &object["level"]),
        (&"/out/x".into(), &"write".into())
    );
    assert_eq!(
        (&object["rule"], &object["deciding"]["origin"]),
        (&"/out/**=write".into(), &"--rule".into())
    );
    assert_eq!(object["beaten"][0]["why"], "it is about more paths");
    assert!(!sandbox.store().exists(), "no store was made");
    let both = sandbox.object("rules explain --preset view-only a b --json");
    assert_eq!(both["explanations"].as_array().unwrap().len(), 2);
    assert_eq!(both["path"], Value::Null);
    assert!(sandbox.good("rules explain /x").contains("there are no rules"));
}

#[test]
fn lists_tell_where_rules_come_from() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.run("rules list --preset read-only --rule label:x=none@2"), @"
    status 0
    --- data
    /**=read        preset read-only
    label:x=none@2  --rule
    --- talk
    ");
    assert!(sandbox.run("rules list").contains("there are no rules"));
    assert!(sandbox.good("rules presets").contains("agent-safe"));
    assert_eq!(sandbox.good("rules presets view-only"), "/**=view\n");
    assert_eq!(sandbox.bad("rules presets agentsafe").1, "bad-rules");
    let presets = sandbox.object("rules presets --json");
    assert_eq!(presets["presets"].as_array().unwrap().len(), 5);
}

#[test]
fn labels_hide_what_has_them_and_follow_it() {
    let sandbox = scene();
    sandbox.good("label set src private draft");
    assert_eq!(sandbox.good("label list"), "/src  draft private\n");
    let view = "--preset full-access --rule label:private=none@1";
    assert_eq!(sandbox.good(&format!("ls {view}")), "listed\nsecrets\n");
    sandbox.good("mv src moved");
    assert_eq!(sandbox.bad(&format!("cat moved/a.txt {view}")).1, "not-found");
    let explained = sandbox.good(&format!("rules explain {view} /moved/a.txt"));
    assert!(
        explained.starts_with("/moved/a.txt: none\ndecided by label:private=none@1"),
        "{explained}"
    );
    let object = sandbox.object("label remove moved private --json");
    assert_eq!(object["labels"], serde_json::json!(["draft"]));
    assert_eq!(
        sandbox.good(&format!("cat moved/a.txt {view}")),
        "second-needle\n"
    );
    sandbox.good("undo");
    assert_eq!(sandbox.good("label list moved"), "/moved  draft private\n");
    for bad in ["Private", "system:fresh-repository", ".x"] {
        assert_eq!(
            sandbox.bad(&format!("label set moved {bad}")),
            (2, "bad-name".to_owned()),
            "{bad}"
        );
    }
    assert_eq!(sandbox.bad("label set missing x").1, "not-found");
}

#[test]
fn another_vault_is_seen_through_its_own_stored_rules() {
    let sandbox = scene();
    sandbox.good("vault create other");
    sandbox.good("rules set --rule /**=write --rule /secrets/**=none");
    assert!(!sandbox.good("--vault other ls --at web:").contains("secrets"));
    assert!(
        sandbox
            .good("--vault other ls --at web: --no-rules")
            .contains("secrets")
    );
    assert!(!sandbox.good("--vault other diff @ web:").contains("secrets"));
}

#[test]
fn the_past_is_seen_through_rules_too() {
    let sandbox = scene();
    let shown = through(&sandbox, "ls --at @~1");
    assert!(shown.contains("src") && !shown.contains("secrets"), "{shown}");
    assert!(through(&sandbox, "checkout @~3 src/a.txt").starts_with("status 0"));
    assert!(through(&sandbox, "checkout @~3 listed/x.txt").starts_with("status 9"));
}

#[test]
fn imports_obey() {
    let sandbox = scene();
    std::fs::create_dir_all(sandbox.path("from/secrets")).unwrap();
    std::fs::write(sandbox.path("from/secrets/k"), "x").unwrap();
    let from = sandbox.path("from").display().to_string();
    let shown = through(&sandbox, &format!("import {from} /new"));
    assert!(shown.starts_with("status 0"), "{shown}");
    let shown = through(&sandbox, &format!("import {from} /"));
    assert!(shown.starts_with("status 9"), "{shown}");
    assert_eq!(sandbox.good("ls secrets"), "k.pem\n");
}

#[test]
fn rules_of_a_task_are_told_as_its_programs_get_them() {
    use agentvfs::rules::{Preset, Rule};
    use agentvfs::{NewTask, Store, TaskName};
    let sandbox = Sandbox::new();
    let root = sandbox.path("web");
    std::fs::create_dir_all(root.join(".git")).unwrap();
    std::fs::write(root.join(".env"), "A=1\n").unwrap();
    std::fs::write(root.join("draft.txt"), "x\n").unwrap();
    let object = |line: &str| -> serde_json::Value {
        let words = line.split_whitespace();
        let output = sandbox
            .avfs()
            .current_dir(&root)
            .arg("--json")
            .args(words)
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", sandbox.show(&output)))
    };
    let hidden = |line: &str| -> Vec<String> {
        let files = object(line)["files"].as_array().unwrap().clone();
        files
            .iter()
            .map(|file| file["path"].as_str().unwrap().to_owned())
            .collect()
    };
    let level = |line: &str| object(line)["level"].as_str().unwrap().to_owned();
    object("vault list");
    assert_eq!(hidden("rules hidden"), ["/.env"], "of a new task");
    assert_eq!(level("rules explain /.env"), "none");
    assert_eq!(level("rules explain /draft.txt"), "write");

    let rules = [
        Preset::Development.rules(),
        vec![Rule::parse("/draft.txt=none").unwrap()],
    ]
    .concat();
    let new = NewTask {
        name: Some(TaskName::new("fix").unwrap()),
        rules: Some(rules),
        ..NewTask::default()
    };
    Store::open(&sandbox.store())
        .unwrap()
        .project(&root)
        .unwrap()
        .new_task(&new)
        .unwrap();
    for flag in ["", " --vault fix"] {
        assert_eq!(
            hidden(&format!("rules hidden{flag}")),
            ["/.env", "/draft.txt"],
            "of the task"
        );
        assert_eq!(level(&format!("rules explain /draft.txt{flag}")), "none");
        let shown = object(&format!("rules show{flag}"));
        assert_eq!(shown["stored"], false);
        let last = shown["rules"]
            .as_array()
            .unwrap()
            .iter()
            .any(|rule| rule["rule"] == "/draft.txt=none");
        assert!(last, "{shown}");
    }
    object("rules set --vault fix --rule /**=write");
    assert_eq!(
        hidden("rules hidden"),
        Vec::<String>::new(),
        "rules that are stored with a task apply to its programs"
    );
    assert_eq!(level("rules explain /.env"), "write");
}

#[test]
fn rules_that_allow_nothing_are_told_when_they_are_set_and_when_something_is_run() {
    let sandbox = scene();
    let shown = sandbox.run("rules set --rule .env=none");
    assert!(shown.contains("warning: these rules allow nothing"), "{shown}");
    assert!(shown.contains("--rule '/**=write'"), "{shown}");
    let refused = sandbox.run("exec -- true");
    assert!(refused.contains("status 9"), "{refused}");
    assert!(refused.contains("the rules hide all of vault 'web'"), "{refused}");
    let shown = sandbox.run("rules set --rule .env=none --rule /src/**=read");
    assert!(!shown.contains("warning"), "{shown}");
}
