//! The changes of a run: complete, exact, and undone in one step.

use std::fs;

use serde_json::Value;

use crate::program::Ended;
use crate::runs::{Answer, Runs};

/// The differences between the states before and after a run according to `avfs diff`, in the format of the
/// answer.
fn differences(runs: &Runs, answer: &Answer) -> Vec<String> {
    let (before, after) = (answer.text("snapshot_before"), answer.text("snapshot_after"));
    let told = runs.ground.ended(&["--json", "diff", &before, &after]);
    assert!(matches!(told.status.code(), Some(0 | 1)), "{}", told.err);
    let object: Value = serde_json::from_slice(&told.out).unwrap();
    let changes = object["changes"]
        .as_array()
        .unwrap_or_else(|| panic!("{object:#}"));
    changes.iter().map(difference).collect()
}

fn difference(change: &Value) -> String {
    let (kind, path) = (
        change["status"].as_str().unwrap(),
        change["path"].as_str().unwrap(),
    );
    let kind = match kind {
        "removed" => "deleted",
        "type-changed" => "modified",
        "attributes" => "metadata",
        same => same,
    };
    match change["old_path"].as_str() {
        Some(from) => format!("{kind} {from} -> {path}"),
        None => format!("{kind} {path}"),
    }
}

const BEFORE: &str = "mkdir -p keep old dir/sub; echo 1 > keep/same; echo 1 > changed; echo 12345 > gone; echo moved > from; \
     echo 1 > mode; echo l > linked; ln -s changed link; ln -s x relinked; echo 1 > touched; echo f > becomes; \
     echo deep > dir/sub/deep; touch old/empty";

const CHANGING: &str = "echo 22 > changed; rm gone; mv from to; chmod 600 mode; ln linked second; ln -sf y relinked; \
     rm link; echo new > new; mkdir made nothing; echo in > made/in; rm becomes; mkdir becomes; mv dir moved; rm -r old; touch touched; \
     python3 -c \"import os; open(b'not\\\\xfftext', 'w').close()\"";

#[test]
fn every_kind_of_change_is_listed_as_the_tree_has_it() {
    let runs = Runs::new();
    assert_eq!(runs.free(&[], BEFORE).status, 0);
    let answer = runs.free(&[], CHANGING);
    assert_eq!(answer.status, 0, "{:#}", answer.value);
    // A directory is listed if its files do not imply it. Times alone are not a change.
    let expected = [
        "modified /becomes",
        "modified /changed",
        "deleted /gone",
        "deleted /link",
        "added /made/in",
        "metadata /mode",
        "renamed /dir/sub/deep -> /moved/sub/deep",
        "added /new",
        "added /nothing",
        r"added /not\xfftext",
        "deleted /old/empty",
        "modified /relinked",
        "added /second",
        "renamed /from -> /to",
    ];
    let changes = answer.changes();
    assert_eq!(changes, expected);
    let file = |path: &str| {
        let files = answer.result("changed_files").as_array().unwrap();
        files.iter().find(|file| file["path"] == path).unwrap().clone()
    };
    assert_eq!(
        (&file("/changed")["size_before"], &file("/changed")["size_after"]),
        (&2.into(), &3.into())
    );
    assert_eq!(
        (&file("/gone")["size_before"], &file("/gone")["size_after"]),
        (&6.into(), &Value::Null)
    );
    assert_eq!(file(r"/not\xfftext")["path_bytes_hex"], "2f6e6f74ff74657874");
    let mut told = differences(&runs, &answer);
    let mut ours = changes.clone();
    told.sort();
    ours.sort();
    assert_eq!(ours, told, "the same as a diff of the two states");
}

#[test]
fn a_run_that_changes_nothing_lists_nothing_and_leaves_no_step() {
    let runs = Runs::new();
    runs.avfs(&["write", "file", "text"]);
    let answer = runs.sh("cat file > /tmp/copy; echo x > /dev/null; touch /tmp/y");
    assert_eq!((answer.status, answer.changes()), (0, vec![]));
    let said = runs.avfs(&["--json", "undo"]);
    assert!(
        said.contains("\"write"),
        "the last change is the one before: {said}"
    );
}

#[test]
fn hidden_paths_are_never_listed() {
    let runs = Runs::new();
    runs.avfs(&["write", "-p", "secrets/key", "hidden"]);
    runs.avfs(&["write", ".env", "hidden"]);
    let mount = runs.ground.mount("work", "elsewhere");
    fs::write(mount.path("begin"), "").unwrap();
    // The owner changes hidden files while the run is active.
    let script = "echo 1 > seen; until [ -e go ]; do sleep 0.02; done; ls -A";
    let mut command = runs.command(&["--preset", "development", "-c", script]);
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    crate::program::await_that("it has begun", crate::program::LIMIT, || {
        mount.path("seen").exists()
    });
    fs::write(mount.path("secrets/key"), "changed").unwrap();
    fs::write(mount.path(".env"), "changed").unwrap();
    fs::write(mount.path("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let answer = Answer {
        value,
        status: output.status.code().unwrap(),
    };
    assert_eq!(
        answer.changes(),
        ["added /go", "added /seen"],
        "{:#}",
        answer.value
    );
    assert_eq!(answer.stdout(), "begin\ngo\nseen\n");
    let mut told = differences(&runs, &answer);
    told.sort();
    assert_eq!(
        told,
        [
            "added /go",
            "added /seen",
            "modified /.env",
            "modified /secrets/key"
        ],
        "the control"
    );
    runs.ground.unmount(mount);
}

#[test]
fn undo_takes_a_long_run_back_as_one_step() {
    // Idle for longer than the snapshot interval of an owner, which is late on a busy machine.
    let with_snapshots = ["3.2", "15", "60"].into_iter().find_map(|pause| {
        let runs = Runs::new();
        runs.avfs(&["write", "file", "before"]);
        let script =
            format!("for i in 1 2; do echo $i > file; echo $i > made$i; sleep {pause}; done; echo 3 > last");
        let answer = runs.exec(&["--principal", "tester", "-c", &script]);
        assert_eq!(answer.status, 0);
        runs.avfs(&["audit"])
            .contains("\"detail\":\"automatic\"")
            .then_some(runs)
    });
    let runs = with_snapshots.expect("the control: there were snapshots during the run");
    assert_eq!(runs.avfs(&["ls"]), "file\nlast\nmade1\nmade2\n");
    runs.avfs(&["undo"]);
    assert_eq!(
        (runs.avfs(&["ls"]).as_str(), runs.avfs(&["cat", "file"]).as_str()),
        ("file\n", "before\n")
    );
    runs.avfs(&["undo"]);
    assert_eq!(runs.avfs(&["ls"]), "", "the next step is the one before the run");
}

#[test]
fn undo_takes_a_run_back_that_another_process_served() {
    let runs = Runs::new();
    let mount = runs.ground.mount("work", "elsewhere");
    fs::write(mount.path("file"), "before\n").unwrap();
    let answer = runs.sh("for i in 1 2; do echo $i > file; echo $i > made$i; sleep 3.2; done; echo 3 > last");
    assert_eq!(
        answer.changes(),
        ["modified /file", "added /last", "added /made1", "added /made2"]
    );
    runs.avfs(&["undo"]);
    assert_eq!(
        (runs.avfs(&["ls"]).as_str(), runs.avfs(&["cat", "file"]).as_str()),
        ("file\n", "before\n")
    );
    assert_eq!(runs.sh("echo 4 > file").changes(), ["modified /file"]);
    runs.avfs(&["undo"]);
    assert_eq!(runs.avfs(&["cat", "file"]), "before\n");
    runs.ground.unmount(mount);
}

#[test]
fn a_checkpoint_before_a_run_is_a_way_back() {
    let runs = Runs::new();
    runs.avfs(&["write", "file", "before"]);
    let first = runs.sh("echo 1 > file");
    let name = first.result("checkpoint")["name"].as_str().unwrap().to_owned();
    assert_eq!(name, format!("before-{}", first.text("run")));
    let again = runs.sh("cat file; true > /dev/null; echo 2 > file");
    assert!(
        again.result("checkpoint")["name"].is_string(),
        "something changed since"
    );
    let never = runs.exec(&["--checkpoint", "never", "-c", "echo 3 > file"]);
    assert_eq!(never.result("checkpoint")["skipped"], "it was not wanted");
    let always = runs.exec(&["--checkpoint", "always", "--", "cat", "file"]);
    assert!(always.result("checkpoint")["name"].is_string());
    let same = runs.sh("echo 4 > file");
    assert_eq!(
        same.result("checkpoint")["skipped"],
        "nothing changed since the last one"
    );
    runs.avfs(&["checkpoint", "restore", &name]);
    assert_eq!(runs.avfs(&["cat", "file"]), "before\n");
}

/// A million in `scripts/soak`.
#[test]
fn a_run_may_make_very_many_files() {
    let count: usize = std::env::var("AVFS_RUN_FILES").map_or(100_000, |text| text.parse().unwrap());
    let runs = Runs::new();
    let making = format!(
        "import os\nfor d in range(0, {count}, 1000):\n    os.mkdir(f'd{{d}}')\n    for f in range(d, min(d + 1000, {count})): \
         os.close(os.open(f'd{{d}}/f{{f}}', os.O_CREAT | os.O_WRONLY))"
    );
    let words = ["--timeout", "3000000", "--", "/usr/bin/python3", "-c", &making];
    let output = runs.command(&words).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let answer = Answer::of(&Ended {
        status: output.status,
        out: output.stdout,
        err,
    });
    assert_eq!(answer.status, 0, "{}", answer.stderr());
    let changes = answer.changes();
    assert_eq!(changes.len(), count);
    let distinct: std::collections::BTreeSet<&String> = changes.iter().collect();
    assert_eq!(distinct.len(), changes.len());
    assert!(changes.iter().all(|change| change.starts_with("added /d")));
    runs.avfs(&["undo"]);
    assert_eq!(runs.avfs(&["ls"]), "");
}
