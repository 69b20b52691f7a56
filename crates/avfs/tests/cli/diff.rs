//! Differences, and patches that other tools accept.

use avfs_testkit::TestEnv;
use std::path::Path;
use std::process::{Command, Stdio};

use agentvfs::Vault;
use insta::assert_snapshot;

use crate::sandbox::Sandbox;
use crate::seed::{contents, export, remove, write};

const OLD: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

/// A vault with a checkpoint and every kind of change since.
fn changed(sandbox: &Sandbox) -> Vault {
    let files = [
        ("keep", "same\n"),
        ("src/edit", OLD),
        ("gone", "bye\n"),
        ("old-name", "moved\n"),
    ];
    let vault = sandbox.seed("web", &files);
    sandbox.run("checkpoint save v1");
    write(&vault, "src/edit", OLD.replace('5', "five").trim_end().as_bytes());
    remove(&vault, "gone");
    remove(&vault, "old-name");
    write(&vault, "new-name", b"moved\n");
    write(&vault, "added", b"hello\n");
    vault
}

#[test]
fn differences_are_listed_counted_and_shown() {
    let sandbox = Sandbox::new();
    changed(&sandbox);
    assert_snapshot!(sandbox.run("diff"), @"
    status 0
    --- data
    added     added
    removed   gone
    renamed   old-name -> new-name
    modified  src/edit
    --- talk
    ");
    assert_snapshot!(sandbox.run("diff --stat"), @"
    status 0
    --- data
    added                |    1 +
    gone                 |    1 -
    old-name -> new-name |    0
    src/edit             |    4 ++--
    4 files changed, 3 insertions(+), 3 deletions(-)
    --- talk
    ");
    assert_snapshot!(sandbox.run("diff v1 @ --name-only"), @"
    status 0
    --- data
    added
    gone
    new-name
    src/edit
    --- talk
    ");
    assert_snapshot!(sandbox.scrubbed("diff v1 @ src --patch"), @r"
    status 0
    --- data
    diff --git a/src/edit b/src/edit
    index 07193989308c972f8a2d0f1b3a15c29ea4ac565b..f563de55bf77ac2a987c297edf4cb56e6c480be9 100644
    --- a/src/edit
    +++ b/src/edit
    @@ -2,8 +2,8 @@
     2
     3
     4
    -5
    +five
     6
     7
     8
    -9
    +9
    \ No newline at end of file
    --- talk
    ");
    assert!(
        sandbox
            .run("diff --color always")
            .contains("\u{1b}[32madded   \u{1b}[0m  added")
    );
}

#[test]
fn a_diff_in_json_names_both_states_and_every_change() {
    let sandbox = Sandbox::new();
    let vault = changed(&sandbox);
    let diff = sandbox.object("diff --stat --json");
    assert_eq!(diff["kind"], "diff");
    assert_eq!(
        diff["from"]["snapshot"],
        vault.checkpoint("v1").unwrap().snapshot.to_string()
    );
    assert_eq!(diff["to"]["vault"], "web");
    let changes = diff["changes"].as_array().unwrap();
    let renamed = changes
        .iter()
        .find(|change| change["status"] == "renamed")
        .unwrap();
    assert_eq!(
        (&renamed["path"], &renamed["old_path"]),
        (&"/new-name".into(), &"/old-name".into())
    );
    let edit = changes
        .iter()
        .find(|change| change["path"] == "/src/edit")
        .unwrap();
    assert_eq!((&edit["insertions"], &edit["deletions"]), (&2.into(), &2.into()));
    let patch = sandbox.object("diff --patch --json");
    assert_eq!(
        patch["patch"].as_str().unwrap().as_bytes(),
        sandbox.data("diff --patch")
    );
}

#[test]
fn the_status_tells_of_differences_if_asked() {
    let sandbox = Sandbox::new();
    changed(&sandbox);
    assert!(sandbox.run("diff --exit-code").starts_with("status 1\n"));
    assert!(sandbox.run("diff @ @ --exit-code").starts_with("status 0\n"));
    assert!(sandbox.run("diff --exit-code -- keep").starts_with("status 0\n"));
}

#[test]
fn without_a_checkpoint_the_fork_base_or_the_beginning_is_compared() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[("a", "1")]);
    assert_eq!(sandbox.data("diff"), b"added  a\n");
    let fork = vault
        .fork(&[agentvfs::VaultName::new("fix").unwrap()])
        .unwrap()
        .remove(0);
    write(&fork, "b", b"2");
    assert_eq!(sandbox.data("diff --vault fix"), b"added  b\n");
    assert_eq!(sandbox.data("diff web: fix:"), b"added  b\n");
    assert_eq!(sandbox.data("diff fix: web:"), b"removed  b\n");
}

#[test]
fn unknown_states_and_paths_are_refused() {
    let sandbox = Sandbox::new();
    changed(&sandbox);
    assert_eq!(sandbox.bad("diff nonsense"), (3, "unknown-revision".to_owned()));
    assert_eq!(sandbox.bad("diff v1 @ nowhere"), (3, "not-found".to_owned()));
    assert_eq!(sandbox.bad("diff nowhere: v1"), (3, "unknown-vault".to_owned()));
    assert_eq!(sandbox.bad("diff a:b:c"), (2, "bad-revision".to_owned()));
    assert_eq!(sandbox.bad("diff --stat --patch"), (2, "usage".to_owned()));
}

/// Applies a patch to an exported copy of the old state and compares every file with the new one.
#[track_caller]
fn check_applies(old: &agentvfs::TreeReader, new: &agentvfs::TreeReader, patch: &[u8], tool: &[&str]) {
    let copy = tempfile::tempdir().unwrap();
    export(old, copy.path());
    let patch_file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(patch_file.path(), patch).unwrap();
    let mut command = Command::new(tool[0]);
    // Without a repository above, `git apply` works on plain directories.
    command
        .args(&tool[1..])
        .current_dir(copy.path())
        .env("GIT_CEILING_DIRECTORIES", "/");
    command.stdin(Stdio::from(std::fs::File::open(patch_file.path()).unwrap()));
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{tool:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(on_disk(copy.path()), contents(new), "{tool:?}");
}

fn on_disk(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                open.push(entry);
                continue;
            }
            let name = format!("/{}", entry.strip_prefix(root).unwrap().display());
            files.push((name, std::fs::read(entry).unwrap()));
        }
    }
    files.sort();
    files
}

#[test]
fn a_patch_applies_with_git_and_with_patch() {
    let sandbox = Sandbox::new();
    let vault = changed(&sandbox);
    let patch = sandbox.data("diff --patch");
    let old = vault.reader_at(vault.checkpoint("v1").unwrap().snapshot).unwrap();
    let new = vault.reader().unwrap();
    check_applies(&old, &new, &patch, &["git", "apply", "-"]);
    check_applies(&old, &new, &patch, &["patch", "-p1", "-s"]);
    write(&vault, "binary", &[0, 1, 2, 255]);
    let binary = sandbox.data("diff --patch");
    check_applies(&old, &vault.reader().unwrap(), &binary, &["git", "apply", "-"]);
}

#[test]
fn changes_that_a_patch_cannot_express_are_reported() {
    let sandbox = Sandbox::new();
    let vault = sandbox.seed("web", &[]);
    let open = vault.begin().unwrap();
    open.make_directory(&crate::seed::path("empty"), false).unwrap();
    open.commit("mkdir", "/empty").unwrap();
    assert_snapshot!(sandbox.run("diff --patch"), @"
    status 0
    --- data
    --- talk
    warning: /empty differs in a way that a patch cannot represent
    ");
}

/// A vault whose only change is within lines.
fn edited(sandbox: &Sandbox) -> Vault {
    let vault = sandbox.seed("web", &[("conf", "host = a\nport = 80\nend\n")]);
    sandbox.run("checkpoint save v1");
    write(&vault, "conf", b"host = a\nport = 8080\nend\nmore\n");
    vault
}

#[test]
fn changed_words_are_marked_in_their_lines() {
    let sandbox = Sandbox::new();
    edited(&sandbox);
    let shown = sandbox.run("diff --word-diff");
    let (_, hunks) = shown.split_once("+++ b/conf\n").unwrap();
    assert_snapshot!(hunks, @"
    @@ -1,3 +1,4 @@
    host = a
    port = [-80-]{+8080+}
    end
    {+more+}
    --- talk
    ");
    let colored = sandbox.run("diff --patch --color always");
    assert!(
        colored.contains("\u{1b}[32mport = \u{1b}[0m\u{1b}[7m\u{1b}[32m8080\u{1b}[0m"),
        "{colored:?}"
    );
}

#[test]
fn hunks_are_numbered_if_asked() {
    let sandbox = Sandbox::new();
    edited(&sandbox);
    let numbered = sandbox.run("diff --patch --hunk-numbers");
    assert!(numbered.contains("@@ -1,3 +1,4 @@ hunk 1\n"), "{numbered}");
    assert!(
        sandbox.object("diff --patch --hunk-numbers --json")["patch"]
            .to_string()
            .contains("@@ hunk 1")
    );
    assert!(!sandbox.run("diff --patch").contains("hunk"));
    assert_eq!(sandbox.bad("diff --hunk-numbers"), (2, "usage".to_owned()));
}

/// Runs a line on a terminal with a pager, and returns the output on the terminal.
fn paged(sandbox: &Sandbox, line: &str, pager: &str) -> String {
    let mut script = Command::new("script");
    let program = assert_cmd::cargo::cargo_bin!("avfs").display().to_string();
    script
        .args(["-qec", &format!("{program} {line}"), "/dev/null"])
        .stdin(Stdio::null());
    script
        .env_clear()
        .envs(&TestEnv::of_home(sandbox.path("home")).with_programs())
        .current_dir("/");
    let output = script
        .env("TERM", "xterm")
        .env("AVFS_PAGER", pager)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).replace('\r', "")
}

#[test]
fn on_a_terminal_a_pager_shows_the_differences() {
    let sandbox = Sandbox::new();
    edited(&sandbox);
    assert_eq!(
        paged(&sandbox, "diff", "tr a-z A-Z").trim(),
        "\u{1b}[33MMODIFIED\u{1b}[0M  CONF"
    );
    assert!(paged(&sandbox, "diff --patch", "cat; echo over").ends_with("over\n"));
    assert!(paged(&sandbox, "diff --patch --color never", "cat -").contains("@@ hunk 1\n"));
    assert!(!paged(&sandbox, "diff --no-pager", "echo paged").contains("paged"));
    assert!(!paged(&sandbox, "diff --json", "echo paged").contains("paged"));
    assert_eq!(
        paged(&sandbox, "diff --exit-code --patch; echo $?", "true"),
        "1\n",
        "leaving is no error"
    );
}

#[test]
fn messages_while_a_pager_runs_follow_it() {
    let sandbox = Sandbox::new();
    edited(&sandbox);
    sandbox.good("mkdir empty");
    let shown = paged(&sandbox, "diff --patch --color never", "cat -; echo over");
    assert!(
        shown.ends_with("over\nwarning: /empty differs in a way that a patch cannot represent\n"),
        "{shown}"
    );
}
