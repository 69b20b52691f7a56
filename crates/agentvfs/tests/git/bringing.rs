//! Commits that were made in a tree come into the user's repository.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agentvfs::git::{Bring, GitError};

use crate::ground::{Ground, branch, bring, commit};

const TWO_COMMITS: &str = "echo task >>file; git commit -qam 'third: it works'
     mkdir -p new/deep; echo x >new/deep/x; git add -A; git commit -qm fourth";

#[test]
fn commits_come_as_a_new_branch_and_nothing_else_changes() {
    let mut ground = Ground::new();
    let work = ground.work(TWO_COMMITS);
    let files = "find . -path ./.git -prune -o -type f -printf '%p %s %T@\\n' | sort; cat .git/index .git/config | sha1sum";
    let before = ground.in_host(files);
    let brought = bring(&work, &ground.host()).unwrap();
    assert_eq!(brought.objects, 8, "2 commits, 4 directories, 2 files");
    assert_eq!(brought.tip.as_str(), ground.in_task("git rev-parse HEAD"));
    assert_eq!(ground.in_host("git rev-parse avfs/work"), brought.tip.as_str());
    assert_eq!(
        ground.in_host("git symbolic-ref HEAD; git branch --format='%(refname:short)'"),
        "refs/heads/main\navfs/work\nmain"
    );
    assert_eq!(ground.in_host(files), before);
    ground.in_host("git fsck --strict --full; test -z \"$(ls .git/objects/pack/*.keep 2>/dev/null)\"");
    assert_eq!(ground.in_host("git show avfs/work:new/deep/x"), "x");
}

#[test]
fn moved_refs_and_new_commits_are_listed() {
    let mut ground = Ground::new();
    let work = ground.work(&format!(
        "{TWO_COMMITS}; git tag v1; git branch old HEAD~3; git branch -D old"
    ));
    let moved: Vec<String> = work
        .moved_refs()
        .unwrap()
        .iter()
        .map(|moved| format!("{} {}", moved.name.as_ref().unwrap(), moved.before.is_some()))
        .collect();
    assert_eq!(moved, ["refs/heads/main true", "refs/tags/v1 false"]);
    let commits = work.commits(Some(&ground.host())).unwrap();
    let lines: Vec<String> = commits
        .iter()
        .map(|line| format!("{} {} {}", line.author, line.subject, line.files))
        .collect();
    assert_eq!(lines, ["Someone fourth 1", "Someone third: it works 1"]);
    assert_eq!(work.unmerged_commits(Some(&ground.host())).unwrap(), 2);
    bring(&work, &ground.host()).unwrap();
    assert_eq!(work.unmerged_commits(Some(&ground.host())).unwrap(), 0);
    assert_eq!(work.git_summary(Some(&ground.host())).unwrap().commits, []);
}

#[test]
fn refs_that_were_only_packed_have_not_moved() {
    let mut ground = Ground::new();
    ground.in_host("git tag v1; git tag -m annotated v2; git pack-refs --all; git branch loose");
    let work = ground.work("git pack-refs --all; touch .git/HEAD; git gc -q");
    assert_eq!(work.moved_refs().unwrap(), []);
    assert!(matches!(bring(&work, &ground.host()), Err(GitError::NoCommits)));
    let work = ground.go_on("git tag -d v1; git branch -f loose HEAD~1; git pack-refs --all");
    let names: Vec<String> = work
        .moved_refs()
        .unwrap()
        .iter()
        .map(|moved| moved.name.as_ref().unwrap().short())
        .collect();
    assert_eq!(names, ["loose", "v1"]);
    assert_eq!(
        work.unmerged_commits(Some(&ground.host())).unwrap(),
        0,
        "the commits are in the repository"
    );
}

#[test]
fn commits_that_a_clean_up_packed_come_too() {
    let mut ground = Ground::new();
    let work = ground.work(&format!(
        "{TWO_COMMITS}; git gc -q --prune=now; git pack-refs --all"
    ));
    let brought = bring(&work, &ground.host()).unwrap();
    assert_eq!(brought.objects, 8);
    ground.in_host("git fsck --strict --full");
}

#[test]
fn a_commit_without_a_branch_comes_too() {
    let mut ground = Ground::new();
    let work = ground.work("git checkout -q --detach; echo x >>file; git commit -qam detached");
    assert_eq!(work.moved_refs().unwrap().len(), 1);
    assert_eq!(work.commits(Some(&ground.host())).unwrap().len(), 1);
    bring(&work, &ground.host()).unwrap();
    assert_eq!(ground.in_host("git log -1 --format=%s avfs/work"), "detached");
}

#[test]
fn merges_list_the_commits_of_both_sides() {
    let mut ground = Ground::new();
    let work = ground.work(
        "git checkout -qb side HEAD~1; echo s >side; git add side; git commit -qm side
         git checkout -q main; echo m >mine; git add mine; git commit -qm mine
         git merge -q --no-edit -m merged side",
    );
    let subjects: Vec<String> = work
        .commits(Some(&ground.host()))
        .unwrap()
        .into_iter()
        .map(|line| line.subject)
        .collect();
    assert_eq!(subjects.len(), 3, "{subjects:?}");
    let brought = bring(&work, &ground.host()).unwrap();
    assert!(
        brought.left.is_empty(),
        "merged commits came along: {:?}",
        brought.left
    );
}

#[test]
fn of_several_branches_one_is_named() {
    let mut ground = Ground::new();
    let work = ground.work(
        "for name in one two; do
             git checkout -qb $name main; echo $name >$name; git add -A; git commit -qm $name
         done; git checkout -q main",
    );
    let host = ground.host();
    assert!(matches!(
        bring(&work, &host),
        Err(GitError::SeveralBranches { .. })
    ));
    let of = |name: &str| {
        let bring = Bring {
            branch: branch("avfs/work"),
            of: Some(name.into()),
            update: false,
            allowed: Vec::new(),
        };
        work.bring_commits(&host, &bring)
    };
    assert!(matches!(of("three"), Err(GitError::NotMoved { .. })));
    of("two").unwrap();
    assert_eq!(ground.in_host("git log -1 --format=%s avfs/work"), "two");
    assert_eq!(
        work.unmerged_commits(Some(&host)).unwrap(),
        1,
        "the other branch is still there alone"
    );
}

#[test]
fn a_branch_without_commits_of_its_own_is_passed_over() {
    let mut ground = Ground::new();
    let work = ground.work("git branch empty; echo x >>file; git commit -qam made; git checkout -q empty");
    let host = ground.host();
    bring(&work, &host).unwrap();
    assert_eq!(ground.in_host("git log -1 --format=%s avfs/work"), "made");
    let mut ground = Ground::new();
    let work = ground.work("git checkout -qb empty; git tag same");
    let before = ground.state();
    assert!(matches!(bring(&work, &ground.host()), Err(GitError::NoCommits)));
    assert_eq!(ground.state(), before);
}

#[test]
fn a_branch_that_is_there_is_moved_on_only_if_that_is_asked_for_and_loses_nothing() {
    let mut ground = Ground::new();
    let work = ground.work("echo a >>file; git commit -qam a");
    let host = ground.host();
    bring(&work, &host).unwrap();
    assert_eq!(bring(&work, &host).unwrap().objects, 0, "it is as it should be");
    let work = ground.go_on("echo b >>file; git commit -qam b");
    let before = ground.state();
    assert!(matches!(bring(&work, &host), Err(GitError::BranchExists { .. })));
    assert_eq!(ground.state(), before);
    let update = Bring {
        branch: branch("avfs/work"),
        of: None,
        update: true,
        allowed: Vec::new(),
    };
    let other = Bring {
        branch: branch("main"),
        ..update.clone()
    };
    assert!(matches!(
        work.bring_commits(&host, &other),
        Err(GitError::BranchInUse { .. })
    ));
    assert_eq!(ground.state(), before);
    work.bring_commits(&host, &update).unwrap();
    assert_eq!(ground.in_host("git log -1 --format=%s avfs/work"), "b");
    let work = ground.go_on("git reset -q --hard HEAD~1; echo c >>file; git commit -qam c");
    let before = ground.state();
    assert!(matches!(
        work.bring_commits(&host, &update),
        Err(GitError::BranchExists { .. })
    ));
    assert_eq!(ground.state(), before);
}

#[test]
fn work_in_a_repository_of_its_own_comes_into_a_new_one() {
    let mut ground = Ground::with("git init -q -b main");
    let work = ground.work("rm -rf .git; git init -q -b trunk; echo x >x; git add -A; git commit -qm root");
    bring(&work, &ground.host()).unwrap();
    assert_eq!(ground.in_host("git log --format=%s avfs/work"), "root");
}

#[test]
fn a_thousand_commits_come_in_one_pack() {
    let mut ground = Ground::new();
    let work = ground.work(
        "for i in $(seq 1000); do
             printf 'commit refs/heads/main\\ncommitter A <a@b> %s +0000\\ndata 2\\nc\\n' $((1600000000 + i))
             [ $i -gt 1 ] || echo 'from refs/heads/main^0'
             printf 'M 644 inline f%s\\ndata 2\\nx\\n' $((i % 50))
         done | git -c fastimport.unpackLimit=100000 fast-import --quiet",
    );
    assert_eq!(work.commits(Some(&ground.host())).unwrap().len(), 1000);
    bring(&work, &ground.host()).unwrap();
    assert_eq!(ground.in_host("git rev-list --count main..avfs/work"), "1000");
    assert_eq!(ground.in_host("ls .git/objects/pack/*.pack | wc -l"), "1");
}

#[test]
fn objects_brought_by_root_belong_to_the_owner_of_the_repository() {
    // An ordinary user can only bring into repositories of their own.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut ground = Ground::new();
    let owned = "find .git -not -user 4242 -o -not -group 4243 | head";
    let work = ground.work(TWO_COMMITS);
    ground.in_host("chown -R 4242:4243 .");
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    open(ground.path("host").parent().unwrap());
    let brought = bring(&work, &ground.host()).unwrap();
    assert_eq!(ground.in_host(owned), "");
    let as_owner = |script: &str| {
        let script = format!("setpriv --reuid 4242 --regid 4243 --clear-groups bash -euc '{script}'");
        ground.in_host(&script)
    };
    assert_eq!(as_owner("git rev-parse avfs/work"), brought.tip.as_str());
    as_owner("git branch avfs/other; git checkout -q avfs/work; echo x >>file; git commit -qam more");
    let committed = commit(&work, &ground.host()).unwrap();
    assert_eq!(as_owner("git rev-parse avfs/files"), committed.commit.as_str());
    assert_eq!(ground.in_host(owned), "");
    // Files that an earlier root left in the way are named.
    as_owner("git branch -q -D avfs/files");
    ground.in_host("chown root:root .git/refs/heads/avfs");
    let refused = commit(&work, &ground.host()).unwrap_err();
    assert!(
        refused.to_string().contains("`chown -Rh 4242:4243 /"),
        "{refused}"
    );
}
