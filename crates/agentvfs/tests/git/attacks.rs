//! Attacks through the repository of a tree, all without effect.

use agentvfs::git::{Bounds, GitError, Work};

use crate::ground::{Ground, bring};

/// Asserts that bringing is refused for a reason, and the user's repository is unchanged.
#[track_caller]
fn is_refused(ground: &Ground, work: &Work, reason: &str) {
    let before = ground.state();
    match bring(work, &ground.host()) {
        Err(GitError::Refused { reason: told }) => assert!(told.contains(reason), "{told}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(ground.state(), before);
}

/// A commit whose tree is constructed line by line for `git mktree`.
fn commit_of(tree: &str) -> String {
    format!(
        "blob=$(echo payload | git hash-object -w --stdin)
         tree=$({tree} | git mktree)
         git update-ref refs/heads/main $(git commit-tree -p HEAD -m made $tree)"
    )
}

#[test]
fn names_that_git_would_not_check_out_are_refused() {
    for name in [".git", "..", ".", ".GIT", "git~1"] {
        let mut ground = Ground::new();
        let work = ground.work(&commit_of(&format!("printf '100644 blob %s\\t{name}\\n' $blob")));
        is_refused(&ground, &work, "contains '");
    }
}

#[test]
fn a_git_directory_in_a_tree_is_refused() {
    let mut ground = Ground::new();
    let inner = "inner=$(printf '100755 blob %s\\tpost-checkout\\n' $blob | git mktree)";
    let work = ground.work(&commit_of(&format!(
        "{{ {inner}; printf '040000 tree %s\\t.git\\n' $inner; }}"
    )));
    is_refused(&ground, &work, "hasDotgit");
}

#[test]
fn module_files_that_run_something_are_refused() {
    let mut ground = Ground::new();
    let work = ground.work(
        "printf '[submodule \"x\"]\\npath = x\\nurl = --upload-pack=touch${IFS}ran\\n' >.gitmodules
         git add -A; git commit -qm modules",
    );
    is_refused(&ground, &work, "gitmodules");
    let work = ground.work(&commit_of("printf '120000 blob %s\\t.gitmodules\\n' $blob"));
    is_refused(&ground, &work, "gitmodulesSymlink");
}

#[test]
fn an_object_with_the_name_of_another_is_refused() {
    let mut ground = Ground::new();
    let work = ground.work(
        "echo good >a; echo bad >b; git add -A; git commit -qm both
         object() { git rev-parse HEAD:$1 | sed 's,^..,.git/objects/&/,'; }
         cp -f $(object b) $(object a)",
    );
    is_refused(&ground, &work, "");
}

#[test]
fn an_object_that_is_there_with_other_bytes_stays_as_it_is() {
    let mut ground = Ground::new();
    let work = ground.work(
        "object() { echo $1 | sed 's,^..,.git/objects/&/,'; }
         first=$(git rev-parse HEAD:sub/other)
         other=$(echo other | git hash-object -w --stdin)
         cp -f $(object $other) $(object $first); git update-index --refresh || true
         echo x >x; git add x; git commit -qm new",
    );
    bring(&work, &ground.host()).unwrap();
    assert_eq!(ground.in_host("git show avfs/work:sub/other"), "two");
}

#[test]
fn missing_object_is_reported() {
    let mut ground = Ground::new();
    let work = ground.work(
        "echo gone >gone; git add -A; git commit -qm gone
         rm -f $(git rev-parse HEAD:gone | sed 's,^..,.git/objects/&/,')",
    );
    is_refused(&ground, &work, "");
    let summary = work.git_summary(Some(&ground.host())).unwrap();
    assert_eq!(summary.commits.len(), 1, "the commit itself is there");
}

#[test]
fn damaged_objects_are_reported_and_do_not_hide_moved_refs() {
    let mut ground = Ground::new();
    let work = ground.work(
        "echo x >x; git add -A; git commit -qm x
         echo nonsense >forged; cp -f forged $(git rev-parse HEAD | sed 's,^..,.git/objects/&/,')",
    );
    is_refused(&ground, &work, "");
    let summary = work.git_summary(Some(&ground.host())).unwrap();
    assert_eq!((summary.moved.len(), summary.commits.len()), (1, 0));
    assert!(summary.trouble.is_some());
}

#[test]
fn objects_of_other_directories_are_not_reached() {
    let mut ground = Ground::new();
    let elsewhere = ground.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    crate::ground::sh(
        &elsewhere,
        "git init -q; echo secret >secret; git add -A; git commit -qm secret",
    );
    let work = ground.work(&format!(
        "echo {0}/.git/objects >.git/objects/info/alternates
         git update-ref refs/heads/main $(git -C {0} rev-parse HEAD)",
        elsewhere.display()
    ));
    is_refused(&ground, &work, "");
}

#[test]
fn replaced_and_grafted_commits_come_as_they_are() {
    let mut ground = Ground::new();
    let work = ground.work(
        "echo real >>file; git commit -qam real; real=$(git rev-parse HEAD)
         fake=$(git commit-tree -m fake $(git write-tree))
         git replace $real $fake
         echo $real >.git/info/grafts; echo $real >.git/shallow",
    );
    let replaced = work.moved_refs().unwrap().iter().any(|moved| {
        moved
            .name
            .as_ref()
            .is_some_and(|name| name.as_bytes().starts_with(b"refs/replace/"))
    });
    assert!(replaced, "it is listed");
    bring(&work, &ground.host()).unwrap();
    assert_eq!(
        ground.in_host("git log --format=%s avfs/work"),
        "real\nsecond\nfirst"
    );
    assert_eq!(
        ground.in_host("git for-each-ref refs/replace; ls .git/shallow 2>/dev/null || true"),
        ""
    );
}

#[test]
fn refs_that_lead_elsewhere_or_have_no_good_names_are_no_refs() {
    let mut ground = Ground::new();
    let secret = ground.path("secret");
    std::fs::write(&secret, "a".repeat(40)).unwrap();
    let work = ground.work(&format!(
        "ln -s {} .git/refs/heads/link
         ln -s ../../../../.. .git/refs/heads/up
         git rev-parse HEAD~1 >\".git/refs/heads/new
line\"
         git rev-parse HEAD~1 >$'.git/refs/heads/\\e[31mred'
         git rev-parse HEAD~1 >.git/refs/heads/x.lock
         echo 'ref: ../../../secret' >.git/refs/heads/out
         echo 'ref: refs/heads/loop' >.git/refs/heads/loop
         printf '%s refs/heads/../../config\\n' $(git rev-parse HEAD~1) >.git/packed-refs
         mkfifo .git/refs/heads/pipe",
        secret.display()
    ));
    assert_eq!(work.moved_refs().unwrap(), []);
    assert!(matches!(bring(&work, &ground.host()), Err(GitError::NoCommits)));
}

#[test]
fn a_ref_that_names_no_commit_is_refused() {
    let mut ground = Ground::new();
    let work = ground.work("git tag data $(echo data | git hash-object -w --stdin)");
    is_refused(&ground, &work, "commit");
    let work = ground.work(&format!("echo {} >.git/refs/heads/nothing", "a".repeat(40)));
    is_refused(&ground, &work, "");
}

#[test]
fn a_pack_that_lies_about_itself_is_refused() {
    let mut ground = Ground::new();
    let work = ground.work(
        "echo x >x; git add -A; git commit -qm x; git gc -q --prune=now
         pack=$(ls .git/objects/pack/*.pack); chmod u+w $pack
         printf 'oops' | dd of=$pack bs=1 seek=40 conv=notrunc status=none",
    );
    is_refused(&ground, &work, "");
}

#[test]
fn a_repository_with_other_object_names_is_refused() {
    let mut ground = Ground::new();
    let work = ground
        .work("rm -rf .git; git init -q -b main --object-format=sha256; git add -A; git commit -qm other");
    let before = ground.state();
    assert!(bring(&work, &ground.host()).is_err());
    assert_eq!(ground.state(), before);
}

/// A few bytes in the form of an object that claims to be large: its header, in a block that is not compressed.
fn claims_to_have(bytes: u64) -> Vec<u8> {
    let header = format!("commit {bytes}\0");
    let (mut one, mut other) = (1u32, 0u32);
    for byte in header.bytes() {
        one = (one + u32::from(byte)) % 65_521;
        other = (other + one) % 65_521;
    }
    let length = header.len() as u16;
    let sum = (other << 16 | one).to_be_bytes();
    let parts: [&[u8]; 5] = [
        &[0x78, 0x01, 0x01],
        &length.to_le_bytes(),
        &(!length).to_le_bytes(),
        header.as_bytes(),
        &sum,
    ];
    parts.concat()
}

#[test]
fn an_object_that_needs_more_memory_than_there_shall_be_is_refused() {
    let mut ground = Ground::new();
    let name = "a".repeat(40);
    let place = ground.path("bomb");
    std::fs::write(&place, claims_to_have(3 << 30)).unwrap();
    let work = ground.work(&format!(
        "mkdir -p .git/objects/aa; cp {} .git/objects/aa/{}; echo {name} >.git/refs/heads/bomb",
        place.display(),
        &name[2..]
    ));
    let work = work.within(Bounds {
        memory: 1 << 30,
        ..Bounds::default()
    });
    is_refused(&ground, &work, "memory");
    let summary = work.git_summary(Some(&ground.host())).unwrap();
    assert!(
        summary.trouble.unwrap().contains("memory"),
        "the cause is reported"
    );
}

#[test]
fn more_objects_than_are_looked_at_are_refused() {
    let mut ground = Ground::new();
    let work = ground.work("head -c 100000 /dev/urandom >x; git add x; git commit -qm x");
    is_refused(
        &ground,
        &work.clone().within(Bounds {
            objects: 50_000,
            ..Bounds::default()
        }),
        "50000",
    );
    bring(&work, &ground.host()).unwrap();
}
