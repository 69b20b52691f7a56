//! Repositories of every shape that a user may have.

use agentvfs::git::{Bring, GitError, HostRepository, outside_directory};

use crate::ground::{Ground, branch, bring, commit};

const FIRST: &str =
    "echo one >file; git add -A; git commit -qm first; echo two >>file; git commit -qam second";

/// Work in a repository that a script made comes home, both ways.
#[track_caller]
fn check(script: &str) -> Ground {
    let mut ground = Ground::with(script);
    let work = ground.work("echo task >>file; git commit -qam task; echo x >x");
    assert_eq!(work.commits(Some(&ground.host())).unwrap().len(), 1);
    bring(&work, &ground.host()).unwrap();
    commit(&work, &ground.host()).unwrap();
    assert_eq!(
        ground.in_host("git log -1 --format=%s avfs/work; git log -1 --format=%s avfs/files"),
        "task\nWhat was done"
    );
    ground.in_host("git fsck --full");
    ground
}

#[test]
fn packed_refs_and_objects() {
    check(&format!(
        "git init -q -b main; {FIRST}; git gc -q; git pack-refs --all"
    ));
}

#[test]
fn sha256() {
    check(&format!("git init -q -b main --object-format=sha256; {FIRST}"));
}

#[test]
fn objects_of_another_repository() {
    check(&format!(
        "mkdir ../origin; cd ../origin; git init -q -b main; {FIRST}
         cd ..; rmdir host; git clone -q --shared origin host"
    ));
}

#[test]
fn a_short_history() {
    check(&format!(
        "mkdir ../origin; cd ../origin; git init -q -b main; {FIRST}
         cd ..; rmdir host; git clone -q --depth 1 file://$PWD/origin host"
    ));
}

#[test]
fn a_path_that_needs_quotes() {
    let script = format!("mkdir 'odd \"dir\\'; cd 'odd \"dir\\'; git init -q -b main; {FIRST}");
    let mut ground = Ground::with(&script);
    let odd = "host/odd \"dir\\";
    crate::ground::sh(
        &ground.path(""),
        "mv host all; mv all/* host; rmdir all; mkdir -p 'o:\"\\'",
    );
    let work = ground.work("echo task >>file; git commit -qam task");
    crate::ground::sh(&ground.path(""), "mv host 'o:\"\\'/host");
    let moved = HostRepository::open(&ground.path("o:\"\\/host")).unwrap();
    bring(&work, &moved).unwrap();
    assert!(!ground.path(odd).exists());
}

#[test]
fn a_bare_repository_takes_commits() {
    let mut ground = Ground::new();
    ground.in_host("git clone -q --bare . ../bare.git");
    let work = ground.work("echo task >>file; git commit -qam task");
    bring(&work, &HostRepository::open(&ground.path("bare.git")).unwrap()).unwrap();
    assert_eq!(
        crate::ground::sh(&ground.path("bare.git"), "git log -1 --format=%s avfs/work"),
        "task"
    );
}

#[test]
fn a_worktree_shares_the_objects_and_branches_of_its_repository() {
    let mut ground = Ground::new();
    ground.in_host("git worktree add -q ../tree -b side");
    let work = ground.work("echo task >>file; git commit -qam task");
    let tree = HostRepository::open(&ground.path("tree")).unwrap();
    let all = Bring {
        branch: branch("side"),
        of: None,
        update: true,
        allowed: Vec::new(),
    };
    assert!(matches!(
        work.bring_commits(&tree, &all),
        Err(GitError::BranchInUse { .. })
    ));
    bring(&work, &tree).unwrap();
    assert_eq!(ground.in_host("git log -1 --format=%s avfs/work"), "task");
}

#[test]
fn a_submodule_is_a_repository_of_its_own() {
    let mut ground = Ground::with(&format!(
        "mkdir ../part; cd ../part; git init -q -b main; {FIRST}
         cd ../host; git init -q -b main; git -c protocol.file.allow=always submodule --quiet add ../part part 2>/dev/null
         git commit -qm all"
    ));
    let part = HostRepository::open(&ground.path("host/part")).unwrap();
    crate::ground::sh(&ground.path(""), "mv host whole; cp -a part host");
    let work = ground.work("echo task >>file; git commit -qam task");
    crate::ground::sh(&ground.path(""), "rm -rf host; mv whole host");
    bring(&work, &part).unwrap();
    assert_eq!(ground.in_host("git -C part log -1 --format=%s avfs/work"), "task");
}

#[test]
fn refs_in_tables_of_the_user_are_read_and_made() {
    let mut ground = Ground::new();
    let work = ground.work("echo task >>file; git commit -qam task");
    crate::ground::sh(
        &ground.path(""),
        "git init -q --bare --ref-format=reftable tables; git -C host push -q ../tables main",
    );
    let tables = HostRepository::open(&ground.path("tables")).unwrap();
    assert_eq!(work.unmerged_commits(Some(&tables)).unwrap(), 1);
    bring(&work, &tables).unwrap();
    assert_eq!(
        crate::ground::sh(&ground.path("tables"), "git log -1 --format=%s avfs/work"),
        "task"
    );
}

#[test]
fn a_git_directory_outside_of_a_project_is_found() {
    let ground = Ground::with(&format!(
        "git init -q -b main; {FIRST}; git worktree add -q ../tree; git worktree add -q inside
         git -c protocol.file.allow=always submodule --quiet add ./. part 2>/dev/null"
    ));
    let host = ground.path("host").canonicalize().unwrap();
    assert_eq!(outside_directory(&host), None);
    assert_eq!(outside_directory(&ground.path("tree")), Some(host.join(".git")));
    assert_eq!(outside_directory(&host.join("inside")), Some(host.join(".git")));
    assert_eq!(
        outside_directory(&host.join("part")),
        Some(host.join(".git/modules/part"))
    );
    assert_eq!(outside_directory(&ground.path("nowhere")), None);
    assert!(matches!(
        HostRepository::open(&ground.path("")),
        Err(GitError::NotARepository { .. })
    ));
}
