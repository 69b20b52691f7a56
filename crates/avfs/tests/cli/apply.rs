//! A task's changes in its directory, and back.

use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// A project with a task that changed it, as a workspace leaves one.
fn with_task(sandbox: &Sandbox) -> PathBuf {
    let root = sandbox.path("web");
    fs::create_dir_all(root.join("src")).unwrap();
    fs::write(root.join("src/main.rs"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
    fs::write(root.join("notes"), "note\n").unwrap();
    let start = format!("workspace start fix --from {}", root.display());
    let dir = PathBuf::from(sandbox.good(&start).trim_end());
    // Files that a task has read are known from then on, whatever happens in the directory.
    assert!(
        fs::read_to_string(dir.join("src/main.rs"))
            .unwrap()
            .starts_with("1\n")
    );
    assert_eq!(fs::read_to_string(dir.join("notes")).unwrap(), "note\n");
    fs::write(dir.join("src/main.rs"), "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
    fs::write(dir.join("package.json"), "{}").unwrap();
    fs::remove_file(dir.join("notes")).unwrap();
    sandbox.good("workspace stop fix");
    root
}

#[test]
fn task_is_applied_and_undone() {
    let sandbox = Sandbox::new();
    let root = with_task(&sandbox);
    assert_snapshot!(sandbox.run("apply fix --dry-run"), @r"
    status 0
    --- data
    removed   notes
    added     package.json
    modified  src/main.rs
    --- talk
    warning: look at package.json: npm runs its scripts, some of them on install
    would apply task 'fix' to ROOT/web: 1 added, 1 removed, 1 modified
    ");
    assert!(root.join("notes").exists());
    let applied = sandbox.object("apply fix --json");
    assert_eq!(
        (&applied["kind"], &applied["files"][0]["action"]),
        (&"apply".into(), &"removed".into())
    );
    assert_eq!(applied["pointed"][0]["path"], "/package.json");
    assert_eq!(
        fs::read_to_string(root.join("src/main.rs")).unwrap(),
        "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n"
    );
    assert!(!root.join("notes").exists());
    assert_eq!(
        sandbox.object("tasks --all --json")["tasks"][0]["state"],
        "applied"
    );
    assert_eq!(sandbox.object("apply fix --json")["id"], serde_json::Value::Null);
    assert_eq!(
        sandbox.bad("undo --apply"),
        (4, "nothing-to-undo".into()),
        "not of another directory"
    );
    let undone = sandbox.object("undo --apply 1 --json");
    assert_eq!(
        (&undone["kind"], &undone["apply"]),
        (&"apply-undone".into(), &applied["id"])
    );
    assert_eq!(fs::read_to_string(root.join("notes")).unwrap(), "note\n");
    assert!(!root.join("package.json").exists());
    assert_eq!(
        sandbox.object("tasks --all --json")["tasks"][0]["state"],
        "unmerged"
    );
    assert_eq!(sandbox.bad("undo --apply"), (4, "nothing-to-undo".into()));
    assert_eq!(sandbox.bad("undo --apply 99"), (3, "unknown-apply".into()));
}

#[test]
fn conflicts_stop_an_apply_or_are_decided() {
    let sandbox = Sandbox::new();
    let root = with_task(&sandbox);
    fs::write(root.join("src/main.rs"), "1\nzwei\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
    assert_eq!(sandbox.bad("apply fix"), (1, "apply-conflicts".into()));
    assert!(root.join("notes").exists(), "nothing was applied");
    let planned = sandbox.run("apply fix --dry-run");
    assert!(
        planned.starts_with("status 1\n") && planned.contains("would not apply task 'fix'"),
        "{planned}"
    );
    assert!(planned.ends_with("1 conflict\n"), "{planned}");
    for decided in ["mark", "ours", "theirs"] {
        let planned = sandbox.run(&format!("apply fix --dry-run --conflicts {decided}"));
        assert!(
            planned.starts_with("status 1\n") && planned.contains("both sides changed src/main.rs"),
            "{decided}: {planned}"
        );
    }
    assert_eq!(
        sandbox.bad("apply fix --conflicts ask"),
        (2, "no-terminal".into())
    );
    assert_eq!(sandbox.bad("apply fix nowhere"), (3, "not-changed".into()));
    assert_eq!(
        sandbox.bad("apply fix --hunks src/main.rs:9"),
        (2, "bad-hunks".into())
    );
    let marked = sandbox.run("apply fix --conflicts mark");
    assert!(marked.starts_with("status 1\n"), "{marked}");
    let text = fs::read_to_string(root.join("src/main.rs")).unwrap();
    assert!(
        text.contains("<<<<<<< here\nzwei\n=======\ntwo\n>>>>>>> fix\n"),
        "{text}"
    );
}

#[test]
fn a_conflict_that_is_settled_for_one_side_keeps_what_else_both_did() {
    for (choice, line_2, state) in [
        ("theirs", "two", "applied"),
        ("task", "two", "applied"),
        ("ours", "zwei", "unmerged"),
        ("directory", "zwei", "unmerged"),
    ] {
        let sandbox = Sandbox::new();
        let root = with_task(&sandbox);
        fs::write(root.join("src/main.rs"), "1\nzwei\n3\n4\n5\n6\n7\n8\nMY EDIT\n").unwrap();
        let refused = sandbox.run("apply fix");
        for side in ["directory (or ours) keeps", "task (or theirs) takes"] {
            assert!(refused.contains(side), "{refused}");
        }
        sandbox.run(&format!("apply fix --yes --conflicts {choice}"));
        assert_eq!(
            fs::read_to_string(root.join("src/main.rs")).unwrap(),
            format!("1\n{line_2}\n3\n4\n5\n6\n7\n8\nMY EDIT\n"),
            "{choice}"
        );
        assert_eq!(
            sandbox.object("tasks --all --json")["tasks"][0]["state"],
            state,
            "{choice}"
        );
    }
}

#[test]
fn a_part_is_applied_alone_and_merged_with_what_the_user_did() {
    let sandbox = Sandbox::new();
    let root = with_task(&sandbox);
    fs::write(root.join("src/main.rs"), "1\n2\n3\n4\n5\n6\n7\n8\nnine\n").unwrap();
    sandbox.good("apply fix src");
    assert_eq!(
        fs::read_to_string(root.join("src/main.rs")).unwrap(),
        "1\ntwo\n3\n4\n5\n6\n7\n8\nnine\n"
    );
    assert!(root.join("notes").exists());
    assert_eq!(
        sandbox.object("tasks --all --json")["tasks"][0]["state"],
        "unmerged"
    );
}

/// The output of a command in a directory.
fn said(sandbox: &Sandbox, root: &Path, line: &str) -> String {
    sandbox.show(
        &sandbox
            .avfs()
            .current_dir(root)
            .args(line.split(' '))
            .output()
            .unwrap(),
    )
}

#[test]
fn an_undo_that_is_refused_says_so_and_is_forced_without_a_number() {
    let sandbox = Sandbox::new();
    let root = with_task(&sandbox);
    sandbox.good("apply fix");
    fs::write(root.join("package.json"), "{ }").unwrap();
    let refused = said(&sandbox, &root, "undo");
    assert!(refused.starts_with("status 1\n"), "{refused}");
    assert!(
        refused.contains("1 file is in conflict, and nothing was undone"),
        "{refused}"
    );
    assert!(
        refused.contains("hint: --force skips these files and undoes everything else"),
        "{refused}"
    );
    let forced = said(&sandbox, &root, "undo --force");
    assert!(
        forced.contains("left as it is: package.json") && forced.contains("undid apply 1 in"),
        "{forced}"
    );
    assert!(root.join("notes").exists());
    fs::write(root.join("notes"), "mine").unwrap();
    let refused = said(&sandbox, &root, "redo");
    assert!(
        refused.contains("1 file is in conflict, and nothing was redone"),
        "{refused}"
    );
    let forced = said(&sandbox, &root, "redo --force");
    assert!(forced.contains("redid apply 1 in"), "{forced}");
    assert_eq!(fs::read_to_string(root.join("notes")).unwrap(), "mine");
}

#[test]
fn an_undo_without_anything_to_do_claims_nothing() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("web");
    fs::create_dir(&root).unwrap();
    let start = format!("workspace start add --from {}", root.display());
    let dir = PathBuf::from(sandbox.good(&start).trim_end());
    fs::write(dir.join("f.txt"), "new\n").unwrap();
    sandbox.good("workspace stop add");
    sandbox.good("apply add");
    fs::remove_file(root.join("f.txt")).unwrap();
    let place = "apply 1 in ROOT/web";
    assert_eq!(
        said(&sandbox, &root, "undo"),
        format!(
            "status 1\n--- data\n--- talk\nf.txt is gone already\n{place} had nothing left to undo: nothing changed\n"
        )
    );
    assert_eq!(
        said(&sandbox, &root, "redo"),
        format!(
            "status 1\n--- data\n--- talk\n{place} was undone without a change, so there is nothing to redo: nothing changed\n"
        )
    );
}

#[test]
fn a_file_that_was_renamed_and_changed_is_undone_and_redone() {
    let sandbox = Sandbox::new();
    let root = sandbox.path("web");
    fs::create_dir(&root).unwrap();
    let lines: String = (1..=12).map(|line| format!("{line}\n")).collect();
    fs::write(root.join("f"), &lines).unwrap();
    fs::write(root.join("tool"), &lines).unwrap();
    let start = format!("workspace start move --from {}", root.display());
    let dir = PathBuf::from(sandbox.good(&start).trim_end());
    fs::rename(dir.join("f"), dir.join("g")).unwrap();
    let mut file = fs::File::options().append(true).open(dir.join("g")).unwrap();
    std::io::Write::write_all(&mut file, b"more\n").unwrap();
    drop(file);
    fs::rename(dir.join("tool"), dir.join("run")).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(dir.join("run"), executable).unwrap();
    sandbox.good("workspace stop move");
    let names = || {
        let entries = fs::read_dir(&root).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    sandbox.good("apply move");
    for _ in 0..2 {
        let undone = said(&sandbox, &root, "undo");
        assert!(undone.starts_with("status 0\n"), "{undone}");
        assert_eq!(names(), ["f", "tool"]);
        assert_eq!(fs::read_to_string(root.join("f")).unwrap(), lines);
        let redone = said(&sandbox, &root, "redo");
        assert!(redone.starts_with("status 0\n"), "{redone}");
        assert_eq!(names(), ["g", "run"]);
        assert_eq!(
            fs::read_to_string(root.join("g")).unwrap(),
            format!("{lines}more\n")
        );
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(root.join("run")).unwrap());
        assert_eq!(mode & 0o777, 0o755);
    }
}

#[test]
fn an_apply_has_the_number_that_the_user_was_told_whatever_was_redone() {
    let sandbox = Sandbox::new();
    let root = with_task(&sandbox);
    sandbox.good("apply fix");
    assert!(said(&sandbox, &root, "undo").contains("undid apply 1 in"));
    assert!(said(&sandbox, &root, "redo").contains("redid apply 1 in"));
    let several = said(&sandbox, &root, "undo --steps 2");
    assert!(
        several.contains("the last thing done here was apply 1, "),
        "{several}"
    );
    let kept = sandbox.object("prune --applies --dry-run --json");
    assert_eq!(
        (
            kept["applies"].as_array().unwrap().len(),
            &kept["applies"][0]["apply"]
        ),
        (1, &1.into())
    );
    sandbox.good("prune --applies --yes");
    let gone = said(&sandbox, &root, "undo --apply 1");
    assert!(gone.contains("what apply 1 replaced is no longer kept"), "{gone}");
}

#[test]
fn files_kept_by_applies_are_counted_and_removed_on_request() {
    let sandbox = Sandbox::new();
    let root = with_task(&sandbox);
    sandbox.good("apply fix");
    let stats = sandbox.object("stats --json");
    assert_eq!(
        (&stats["applies"], stats["apply_bytes"].as_u64().unwrap() > 0),
        (&1.into(), true)
    );
    assert!(
        sandbox
            .run("stats")
            .contains("are kept so that 1 apply can be undone")
    );
    assert!(said(&sandbox, &root, "status").contains("apply 1 of task"));
    assert_eq!(sandbox.good("prune --applies --older 1h --dry-run"), "");
    assert!(
        sandbox
            .good("prune --applies --dry-run")
            .starts_with("apply 1 to ")
    );
    assert_eq!(sandbox.bad("prune --applies"), (2, "needs-confirmation".into()));
    assert_eq!(sandbox.bad("prune --older 1h"), (2, "usage".into()));
    assert_eq!(
        sandbox.object("prune --applies --yes --json")["freed_bytes"],
        stats["apply_bytes"]
    );
    assert_eq!(sandbox.object("stats --json")["applies"], 0);
    assert!(
        !said(&sandbox, &root, "status").contains("apply 1 of task"),
        "it is no longer offered"
    );
}
