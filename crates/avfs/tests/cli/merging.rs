//! `merge`, `conflicts` and `resolve`.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;
use crate::seed::write;

/// A vault and a fork of it that both changed `a.txt`; the fork has also a file of its own.
fn two_sides() -> Sandbox {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a.txt", "1\n2\n3\n")]);
    sandbox.good("vault use web");
    sandbox.good("vault fork web fix");
    write(&vault, "a.txt", b"one\n2\n3\n");
    write(&vault.store().vault("fix").unwrap(), "a.txt", b"uno\n2\n3\n");
    write(&vault.store().vault("fix").unwrap(), "new.txt", b"new\n");
    sandbox
}

#[test]
fn a_merge_with_a_conflict_says_so_until_it_is_resolved() {
    let sandbox = two_sides();
    assert_snapshot!(sandbox.scrubbed("merge fix --dry-run"), @"
    status 1
    --- data
    text             /a.txt
    --- talk
    would change 2 files of web
    warning: there would be 1 conflict
    ");
    assert_snapshot!(sandbox.scrubbed("merge fix"), @"
    status 1
    --- data
    text             /a.txt
    --- talk
    merged into web: 2 files changed, now snapshot ID (`avfs undo` undoes it)
    warning: 1 conflict: settle it with `avfs resolve PATH --ours` (what was there) or `--theirs` (what was merged in); `avfs resolve --help` has other ways
    ");
    assert_eq!(
        sandbox.good("cat a.txt"),
        "<<<<<<< web\none\n=======\nuno\n>>>>>>> fix\n2\n3\n"
    );
    assert_snapshot!(sandbox.run("conflicts"), @"
    status 1
    --- data
    text             /a.txt  (merging fix)
    --- talk
    ");
    for line in ["vault info", "vault list", "log", "stats", "checkpoint save now"] {
        let said = sandbox.run(line);
        let warning = "warning: vault 'web' has 1 open conflict; `avfs conflicts --vault web` lists them\n";
        assert!(said.contains(warning), "{line}: {said}");
    }
    assert_eq!(sandbox.object("vault info --json")["conflicts"], 1);
    assert_eq!(sandbox.object("log --json")["conflicts"], 1);
    assert_snapshot!(sandbox.run("resolve a.txt --theirs"), @"
    status 0
    --- data
    --- talk
    no conflict is left
    ");
    assert_eq!(sandbox.good("cat a.txt"), "uno\n2\n3\n");
    assert_eq!(sandbox.good("conflicts"), "");
    assert_eq!(
        sandbox.bad("resolve a.txt --theirs"),
        (3, "no-conflict".to_owned())
    );
    assert!(sandbox.run("merge fix").contains("web has everything already\n"));
}

#[test]
fn the_sides_of_a_merge_of_vaults_are_not_called_a_task_and_its_directory() {
    let sandbox = two_sides();
    sandbox.run("merge fix");
    for line in ["resolve a.txt --task", "resolve a.txt --directory"] {
        assert_eq!(sandbox.bad(line), (4, "not-resolved".to_owned()));
        let said = sandbox.run(line);
        assert!(
            said.contains("--ours is what 'web' has, --theirs what 'fix' has"),
            "{said}"
        );
    }
}

#[test]
fn everything_is_told_in_json_too() {
    let sandbox = two_sides();
    let merge = sandbox.object("merge fix --json");
    assert_eq!(merge["sources"][0]["vault"], "fix");
    assert_eq!(
        merge["changes"][1],
        serde_json::json!({ "path": "/new.txt", "status": "added" })
    );
    let conflict = serde_json::json!({
        "path": "/a.txt", "conflict": "text", "from": "fix",
        "base": { "type": "file", "size": 6, "mode": "0644" },
        "ours": { "type": "file", "size": 8, "mode": "0644" },
        "theirs": { "type": "file", "size": 8, "mode": "0644" },
    });
    assert_eq!(merge["conflicts"], serde_json::json!([conflict]));
    assert_eq!(
        sandbox.object("conflicts --json")["conflicts"],
        merge["conflicts"]
    );
    let resolved = sandbox.object("resolve a.txt --base --json");
    assert_eq!(
        (&resolved["path"], &resolved["conflicts"]),
        (&"/a.txt".into(), &0.into())
    );
}

#[test]
fn an_editor_and_a_file_resolve_conflicts() {
    let sandbox = two_sides();
    sandbox.run("merge fix");
    let edit = |editor: &str| {
        let mut avfs = sandbox.avfs();
        avfs.env("PATH", "/usr/bin:/bin").env("EDITOR", editor);
        sandbox.show(&avfs.args(["resolve", "a.txt", "--edit"]).output().unwrap())
    };
    assert!(edit("true").contains("error: nothing was resolved: the text still has conflict markers\n"));
    assert!(edit("false").contains("error: nothing was resolved: the editor ended with an error\n"));
    assert!(edit("sed -i -e '/^[<=>]/d'").contains("no conflict is left\n"));
    assert_eq!(sandbox.good("cat a.txt"), "one\nuno\n2\n3\n");

    sandbox.good("undo");
    std::fs::write(sandbox.path("project/src/merged"), "by hand\n").unwrap();
    sandbox.good("resolve a.txt --file merged");
    assert_eq!(sandbox.good("cat a.txt"), "by hand\n");
    sandbox.good("undo --steps 1");
    assert_eq!(
        sandbox.object("conflicts --json")["conflicts"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn several_forks_are_merged_into_a_vault_that_is_named() {
    let sandbox = two_sides();
    sandbox.good("vault fork web other");
    sandbox.good_with(["--vault", "other", "write", "b.txt", "b"]);
    sandbox.good("merge fix other --into web --conflicts theirs");
    assert_eq!(sandbox.good("cat a.txt b.txt new.txt"), "uno\n2\n3\nb\nnew\n");
    assert_eq!(
        sandbox
            .good("log")
            .lines()
            .next()
            .unwrap()
            .split_whitespace()
            .last(),
        Some("other")
    );
    sandbox.good("undo");
    assert_eq!(sandbox.good("cat a.txt"), "one\n2\n3\n");
}

#[test]
fn unmergeable_change_is_refused() {
    let sandbox = two_sides();
    sandbox.good("vault create stranger");
    assert_eq!(sandbox.bad("merge stranger"), (4, "not-related".to_owned()));
    assert_eq!(sandbox.bad("merge web"), (2, "merge-with-itself".to_owned()));
    assert_eq!(sandbox.bad("merge nowhere"), (3, "unknown-vault".to_owned()));
    for line in [
        "resolve a.txt",
        "resolve a.txt --ours --theirs",
        "merge",
        "merge fix --conflicts both",
    ] {
        assert_eq!(sandbox.bad(line).0, 2, "{line}");
    }
}
