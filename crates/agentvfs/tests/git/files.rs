//! The files of a tree as one commit.

use agentvfs::Timestamp;
use agentvfs::git::{CommitFiles, GitError, WhyLeftOut, Work};
use agentvfs::rules::{Rule, Rules};

use crate::ground::{Ground, branch, commit};

#[test]
fn changed_files_become_one_commit_beside_the_work_of_the_user() {
    let mut ground = Ground::new();
    let work = ground.work(
        "echo task >>file; rm sub/other; rmdir sub; echo file >sub
         mkdir -p new; echo '#!/bin/sh' >new/run; chmod +x new/run; ln -s run new/link
         printf 'a\\r\\nb\\0' >'new/odd \"name\"
line'; touch .gitignore",
    );
    ground.in_host("git config user.name Me; git config user.email '<me>@example.org'");
    ground.in_host("echo mine >>sub/other; git add -A; echo unstaged >>file");
    let looks = "git status --porcelain; git diff; git diff --cached; git symbolic-ref HEAD; sha1sum .git/index .git/config";
    let before = ground.in_host(looks);
    let committed = commit(&work, &ground.host()).unwrap();
    assert_eq!(ground.in_host(looks), before);
    assert_eq!((committed.files, committed.left_out.len()), (6, 0));
    assert_eq!(
        ground.in_host("git log --format='%an <%ae> %at %B' -1 avfs/files"),
        "Me <me@example.org> 1700000000 What was done"
    );
    assert_eq!(
        ground.in_host("git diff-tree -r --name-status main avfs/files"),
        "M\tfile\nA\tnew/link\nA\t\"new/odd \\\"name\\\"\\nline\"\nA\tnew/run\nA\tsub\nD\tsub/other"
    );
    ground.in_host("git fsck --strict --full; git worktree add -q ../out avfs/files");
    ground.in_host("diff -r --no-dereference -x .git ../out ../task; test -x ../out/new/run");
}

#[test]
fn user_can_merge_after_committing_meanwhile() {
    let mut ground = Ground::new();
    let work = ground.work("echo task >sub/other");
    ground.in_host("sed -i '1i first line' file; git commit -qam meanwhile");
    commit(&work, &ground.host()).unwrap();
    ground.in_host("git merge -q --no-edit avfs/files");
    assert_eq!(ground.in_host("head -1 file; cat sub/other"), "first line\ntask");
}

#[test]
fn ignored_files_are_left_out_and_tracked_ones_are_not() {
    let mut ground = Ground::new();
    ground.in_host(
        "echo tracked >kept.log; git add -f kept.log; git commit -qm kept; echo host-only >.git/info/exclude",
    );
    let work = ground.work(
        "echo x >a.log; echo changed >kept.log; echo target/ >>.gitignore; mkdir -p target/deep; echo x >target/deep/x
         mkdir inner; echo secret >inner/.gitignore; echo x >inner/secret; echo x >inner/other; echo x >host-only",
    );
    let committed = commit(&work, &ground.host()).unwrap();
    let mut left: Vec<String> = committed
        .left_out
        .iter()
        .map(|left| left.path.to_string())
        .collect();
    left.sort();
    assert_eq!(left, ["/a.log", "/host-only", "/inner/secret", "/target/deep/x"]);
    assert_eq!(
        ground.in_host("git diff-tree -r --name-only main avfs/files"),
        ".gitignore\ninner/.gitignore\ninner/other\nkept.log"
    );
}

#[test]
fn other_repositories_and_pipes_are_left_out_and_git_directories_are_not_named() {
    let mut ground = Ground::new();
    let work = ground.work(
        "mkfifo pipe; git init -q cloned; echo x >cloned/x; mkdir cloned/deep; echo y >cloned/deep/y
         echo hook >.git/hooks/post-commit; mkdir -p a/.GIT; echo x >a/.GIT/config; echo good >a/good; echo odd >':(top)odd'",
    );
    let committed = commit(&work, &ground.host()).unwrap();
    let mut left: Vec<(String, WhyLeftOut)> = committed
        .left_out
        .iter()
        .map(|left| (left.path.to_string(), left.why.clone()))
        .collect();
    left.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("/cloned/deep/y", WhyLeftOut::InRepository),
        ("/cloned/x", WhyLeftOut::InRepository),
        ("/pipe", WhyLeftOut::NotAFile),
    ];
    assert_eq!(left, expected.map(|(path, why)| (path.to_owned(), why)));
    assert_eq!(
        ground.in_host("git diff-tree -r --name-only main avfs/files"),
        ":(top)odd\na/good"
    );
}

#[test]
fn hidden_files_are_neither_committed_nor_removed() {
    let mut ground = Ground::new();
    ground.in_host("echo key >.env; git add -A; git commit -qm env");
    ground.work("rm .env; echo x >x; echo other >sub/.env");
    let rules = Rules::new(vec![
        Rule::parse("/**=write").unwrap(),
        Rule::parse("**/.env=none").unwrap(),
    ])
    .unwrap();
    let seen = |directory: &str| ground.reader(directory).through(rules.clone());
    let work = Work::new(seen("host"), seen("task"));
    commit(&work, &ground.host()).unwrap();
    // A file that is gone from a tree and was hidden there counts as removed only if it could be seen.
    assert_eq!(
        ground.in_host("git diff-tree -r --name-only main avfs/files"),
        "x"
    );
}

#[test]
fn empty_commit_is_refused_and_a_branch_is_never_replaced() {
    let mut ground = Ground::new();
    let work = ground.work("touch file; chmod g+w file; mkdir empty; git commit -q --allow-empty -m only");
    let before = ground.state();
    assert!(matches!(commit(&work, &ground.host()), Err(GitError::NoFiles)));
    assert_eq!(ground.state(), before);
    ground.in_host("git branch avfs/files");
    let work = ground.work("echo x >x");
    let before = ground.state();
    assert!(matches!(
        commit(&work, &ground.host()),
        Err(GitError::BranchExists { .. })
    ));
    assert_eq!(ground.state(), before);
}

#[test]
fn the_same_files_are_the_same_branch_whenever_they_are_committed() {
    let mut ground = Ground::new();
    let work = ground.work("echo x >x");
    let at = |seconds: i64, message: &str| CommitFiles {
        branch: branch("made"),
        message: message.into(),
        paths: Vec::new(),
        allowed: Vec::new(),
        time: Timestamp { seconds, nanos: 0 },
        author: "tester".into(),
    };
    let first = work
        .commit_files(&ground.host(), &at(1_700_000_000, "Made"))
        .unwrap();
    assert!(!first.was_there);
    let before = ground.state();
    let second = work
        .commit_files(&ground.host(), &at(1_700_000_100, "Made"))
        .unwrap();
    assert!(second.was_there);
    assert_eq!(second.commit, first.commit);
    let other = work.commit_files(&ground.host(), &at(1_700_000_200, "Other words"));
    assert!(matches!(other, Err(GitError::BranchExists { .. })));
    let more = ground.go_on("echo more >>x");
    let other = more.commit_files(&ground.host(), &at(1_700_000_200, "Made"));
    assert!(matches!(other, Err(GitError::BranchExists { .. })));
    assert_eq!(ground.state(), before);
}

#[test]
fn the_first_commit_of_a_repository_has_no_parent() {
    let mut ground =
        Ground::with("git init -q -b main; git config user.name Me; git config user.email me@example.org");
    let work = ground.work("echo x >x");
    commit(&work, &ground.host()).unwrap();
    assert_eq!(
        ground.in_host("git log --format='%an <%ae>|%P|%s' avfs/files"),
        "Me <me@example.org>||What was done"
    );
}
