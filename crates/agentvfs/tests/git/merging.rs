//! Repositories in merges of two sides: in a sync with the directory, and in a merge.

use agentvfs::transfer::{DirectoryExport, export_directory};
use agentvfs::{MergeOptions, MergeReport, NewTask, RepositoryOutcome, Store, Task, TreePath};

use crate::ground::{Ground, sh};

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

fn made(ground: &Ground, store: &Store) -> Task {
    store
        .project(&ground.path("host"))
        .unwrap()
        .new_task(&NewTask::default())
        .unwrap()
}

/// Exports a task into the directory `task`, runs a script there, and imports the result.
#[track_caller]
fn inside(ground: &Ground, task: &Task, script: &str) -> String {
    let printed = look(ground, task, script);
    let open = task.vault().begin().unwrap();
    for child in open.children(&TreePath::root()).unwrap() {
        open.remove(&child, true).unwrap();
    }
    for entry in std::fs::read_dir(ground.path("task")).unwrap() {
        let (from, to) = {
            let entry = entry.unwrap();
            (entry.path(), path(entry.file_name().to_str().unwrap()))
        };
        if from.is_dir() {
            drop(open.imports().directory(&from, &to, &()).unwrap())
        } else {
            open.write_bytes(&to, &std::fs::read(from).unwrap()).unwrap()
        }
    }
    open.commit("work", "").unwrap();
    printed
}

/// The output of a script in a task, whose changes are discarded.
#[track_caller]
fn look(ground: &Ground, task: &Task, script: &str) -> String {
    sh(&ground.path(""), "rm -rf task");
    let reader = task.vault().reader().unwrap();
    let (from, to) = (TreePath::root(), ground.path("task"));
    export_directory(&reader, &from, &to, &DirectoryExport::default(), &()).unwrap();
    ground.in_task(script)
}

#[track_caller]
fn synced(task: &mut Task) -> MergeReport {
    let report = task.sync(&MergeOptions::default()).unwrap();
    assert_eq!(report.conflicts, []);
    assert!(
        !report
            .changes
            .iter()
            .any(|change| agentvfs::git::is_in_repository(&change.path))
    );
    report
}

fn outcomes(report: &MergeReport) -> Vec<String> {
    let told = |one: &agentvfs::MergedRepository| match &one.outcome {
        RepositoryOutcome::Theirs => format!("{} theirs", one.place),
        RepositoryOutcome::Ours { refs } => {
            let refs: Vec<String> = refs.iter().map(|name| name.short()).collect();
            format!("{} ours {}", one.place, refs.join(" "))
                .trim_end()
                .to_owned()
        }
    };
    report.repositories.iter().map(told).collect()
}

const SOUND: &str =
    "git fsck --full --strict 2>&1 | grep -v -e dangling -e notice || true; git status --short";

#[test]
fn when_both_commit_the_task_keeps_its_branch_and_can_merge_that_of_the_directory() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let mut task = made(&ground, &store);
    inside(
        &ground,
        &task,
        "echo task >of-task; git add -A; git commit -qm 'of the task'",
    );
    ground.in_host("echo user >of-user; git add -A; git commit -qm 'of the user'; git branch topic");
    let report = synced(&mut task);
    assert_eq!(outcomes(&report), ["/.git ours directory/main directory/topic"]);
    let changed = report.changes.iter().filter(|change| !change.path.is_root());
    assert_eq!(
        changed.map(|change| change.path.to_string()).collect::<Vec<_>>(),
        ["/of-user"]
    );
    assert_eq!(look(&ground, &task, SOUND), "?? of-user");
    let merged = "git add -A; git commit -qm synced; git merge -q directory/main -m merged
        git log --format=%s | sort | xargs -d, ; git status --short; cat of-user of-task";
    let log = look(&ground, &task, merged);
    assert_eq!(
        log,
        "first\nmerged\nof the task\nof the user\nsecond\nsynced\n\nuser\ntask"
    );
    // Once more, with a branch that was followed before.
    ground.in_host("echo more >>of-user; git commit -qam 'more of the user'");
    assert_eq!(outcomes(&synced(&mut task)), ["/.git ours directory/main"]);
    assert_eq!(
        look(&ground, &task, "git log -1 --format=%s directory/main"),
        "more of the user"
    );
    assert_eq!(outcomes(&synced(&mut task)), Vec::<String>::new());
}

#[test]
fn commits_of_the_directory_are_taken_whole_if_the_task_only_looked() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let mut task = made(&ground, &store);
    inside(&ground, &task, "touch file; git status --short; echo mine >mine");
    ground.in_host("echo user >>file; git commit -qam 'of the user'");
    assert_eq!(outcomes(&synced(&mut task)), ["/.git theirs"]);
    assert_eq!(
        look(&ground, &task, &format!("{SOUND}; git log -1 --format=%s")),
        "?? mine\nof the user"
    );
}

#[test]
fn staged_files_of_a_task_do_not_revert_a_commit_of_the_directory() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let mut task = made(&ground, &store);
    inside(&ground, &task, "echo mine >mine; git add mine");
    ground.in_host("echo user >>file; git commit -qam 'of the user'");
    assert_eq!(outcomes(&synced(&mut task)), ["/.git ours directory/main"]);
    let commit = "git commit -qm 'of the task'; git stash -q; git merge -q directory/main -m merged; git show HEAD:file";
    assert_eq!(look(&ground, &task, commit), "one\nmore\nuser");
}

#[test]
fn an_index_that_both_only_refreshed_is_nothing() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let mut task = made(&ground, &store);
    inside(
        &ground,
        &task,
        "touch file; git status --short; rm -f .git/ORIG_HEAD",
    );
    ground.in_host("touch -d 2001-01-01 file; git status --short; git update-index -q --refresh");
    let report = synced(&mut task);
    assert!(report.repositories.is_empty(), "{report:?}");
    assert_eq!(look(&ground, &task, SOUND), "");
}

#[test]
fn each_repository_of_a_project_is_settled_by_itself() {
    let ground = Ground::with(
        "git init -q -b main ../part; cd ../part; echo one >file; git add -A; git commit -qm first; cd ../host
         git init -q -b main; echo nested/ >.gitignore
         git -c protocol.file.allow=always submodule --quiet add --name lib/refs ../part sub/part
         git init -q -b main nested; echo n >nested/n; git -C nested add -A; git -C nested commit -qm nested
         git add -A; git commit -qm all",
    );
    let store = Store::in_memory();
    let mut task = made(&ground, &store);
    inside(
        &ground,
        &task,
        "cd sub/part; git switch -qc mine; echo task >t; git add t; git commit -qm task",
    );
    ground.in_host(
        "echo user >u; git add u; git commit -qm user; cd sub/part; echo s >s; git add s; git commit -qm sub
         cd ../../nested; git commit -q --allow-empty -m 'of the user'",
    );
    let expected = [
        "/.git theirs",
        "/.git/modules/lib/refs ours directory/main",
        "/nested/.git theirs",
    ];
    assert_eq!(outcomes(&synced(&mut task)), expected);
    let logs = "for at in . sub/part nested; do git -C $at log -1 --format=%s; done; git -C sub/part log -1 --format=%s directory/main";
    assert_eq!(look(&ground, &task, logs), "user\ntask\nof the user\nsub");
}

#[test]
fn packs_and_deletions_of_either_side_are_there_for_both() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    ground.in_host("git switch -qc old; echo old >old; git add old; git commit -qm old; git switch -q main");
    let mut task = made(&ground, &store);
    inside(
        &ground,
        &task,
        "git branch -qD old; git reflog expire --expire=now --all; git gc -q --prune=now
         git commit -q --allow-empty -m task",
    );
    ground.in_host("git switch -q old; git commit -q --allow-empty -m 'more of old'; git gc -q; git commit -q --allow-empty -m last");
    assert_eq!(outcomes(&synced(&mut task)), ["/.git ours directory/old"]);
    assert_eq!(look(&ground, &task, SOUND), "?? old");
    assert_eq!(
        look(
            &ground,
            &task,
            "git log --format=%s directory/old | head -3 | xargs"
        ),
        "last more of old old"
    );
}

#[test]
fn a_fork_of_a_task_is_merged_with_its_commits() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let task = made(&ground, &store);
    inside(&ground, &task, "git status --short");
    let fork = task
        .fork(&[agentvfs::TaskName::new("fork").unwrap()])
        .unwrap()
        .remove(0);
    inside(&ground, &task, "echo a >a; git add a; git commit -qm a");
    inside(
        &ground,
        &fork,
        "echo b >b; git add b; git commit -qm b; git remote add fork ../elsewhere",
    );
    let report = task
        .vault()
        .merge(&[fork.vault()], &MergeOptions::default())
        .unwrap();
    assert_eq!(report.conflicts, []);
    assert_eq!(outcomes(&report), ["/.git ours fork/main"]);
    assert_eq!(
        look(
            &ground,
            &task,
            "git log -1 --format=%s; git log -1 --format=%s fork/main"
        ),
        "a\nb"
    );
}

#[test]
fn a_task_is_merged_into_a_later_one_with_its_commits() {
    let (ground, store) = (Ground::new(), Store::in_memory());
    let one = made(&ground, &store);
    inside(&ground, &one, "echo a >a; git add a; git commit -qm a");
    ground.in_host("echo user >user; git add user; git commit -qm user");
    let two = made(&ground, &store);
    inside(&ground, &two, "git status --short");
    let report = two
        .vault()
        .merge(&[one.vault()], &MergeOptions::default())
        .unwrap();
    assert_eq!(report.conflicts, []);
    assert_eq!(outcomes(&report), ["/.git ours task-1/main"]);
    let merged =
        "git log -1 --format=%s; git add -A; git commit -qm sync; git merge -q task-1/main -m m; ls | xargs";
    assert_eq!(look(&ground, &two, merged), "user\na file sub user");
}

#[test]
fn commits_in_a_repository_whose_directory_was_removed_stay() {
    let ground = Ground::with(
        "git init -q -b main; echo nested/ >.gitignore; git add -A; git commit -qm first
         git init -q -b main nested; echo n >nested/n; git -C nested add -A; git -C nested commit -qm nested",
    );
    let store = Store::in_memory();
    let mut task = made(&ground, &store);
    inside(
        &ground,
        &task,
        "cd nested; git commit -q --allow-empty -m 'of the task'",
    );
    ground.in_host("rm -rf nested");
    synced(&mut task);
    assert_eq!(
        look(&ground, &task, "git -C nested log --format=%s | xargs"),
        "of the task nested"
    );
}
