//! Tracked files that the host runs: git in a task writes them as any other, and no commit brings a change of one that the
//! user has not named.

use agentvfs::git::{Bring, GitError, HostRepository};
use agentvfs::rules::Preset;
use agentvfs::transfer::{DirectoryExport, export_directory};
use agentvfs::{Error, Hint, NewTask, Store, Task, TreePath};

use crate::ground::{Ground, branch, commit, sh};

/// A hook and settings of an editor, which another branch has in other versions, with one more hook.
fn ground() -> Ground {
    Ground::with(
        "git init -q --template= -b main; mkdir .husky .vscode
         echo a >a; echo main >.husky/pre-commit; echo '{}' >.vscode/settings.json; git add -A; git commit -qm first
         git checkout -qb other; echo other >.husky/pre-commit; echo more >.husky/pre-push; echo '[]' >.vscode/settings.json
         git add -A; git commit -qm other; git checkout -q main
         find . -path ./.git -prune -o -type f -exec touch -d 2020-01-01 {} +; git update-index -q --refresh",
    )
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

/// A task in which a script has worked, with its files and its repository.
fn worked(ground: &Ground, store: &Store, script: &str) -> Task {
    let new = NewTask {
        rules: Some(Preset::Development.rules()),
        ..NewTask::default()
    };
    let task = store
        .project(&ground.path("host"))
        .unwrap()
        .new_task(&new)
        .unwrap();
    sh(&ground.path(""), "rm -rf task");
    let reader = task.vault().reader().unwrap();
    let to = ground.path("task");
    export_directory(&reader, &TreePath::root(), &to, &DirectoryExport::default(), &()).unwrap();
    ground.in_task(script);
    let open = task.vault().begin().unwrap();
    for entry in [".git", ".husky", ".vscode", "a", "docs", "tools"].map(path) {
        let _ = open.remove(&entry, true);
        let from = to.join(std::str::from_utf8(entry.as_bytes()).unwrap());
        if from.is_dir() {
            open.imports().directory(&from, &entry, &()).unwrap();
        } else if from.exists() {
            open.write_bytes(&entry, &std::fs::read(from).unwrap()).unwrap();
        }
    }
    open.commit("work", "").unwrap();
    task
}

fn bring(ground: &Ground, task: &Task, allowed: &[&str]) -> Result<(), Error> {
    bring_as("brought", ground, task, allowed)
}

fn bring_as(name: &str, ground: &Ground, task: &Task, allowed: &[&str]) -> Result<(), Error> {
    let allowed = allowed.iter().map(|text| path(text)).collect();
    let bring = Bring {
        branch: branch(name),
        of: None,
        update: false,
        allowed,
    };
    task.git().bring(&ground.path("host"), &bring).map(drop)
}

#[test]
fn rules_of_a_task_let_git_write_what_it_tracks() {
    let (ground, store) = (ground(), Store::in_memory());
    let task = worked(&ground, &store, "true");
    let rules = task.rules().unwrap().unwrap();
    let level = |text: &str| {
        rules
            .explain(&path(text), |_| Default::default())
            .level
            .to_string()
    };
    assert_eq!(level(".husky/pre-commit"), "write");
    assert_eq!(level(".vscode/tasks.json"), "write");
    assert_eq!(level(".git/config"), "read");
    assert_eq!(level(".git/hooks/pre-commit"), "read");
    assert_eq!(level(".env"), "none");
}

#[test]
fn a_commit_on_another_branch_keeps_what_that_branch_has() {
    let (ground, store) = (ground(), Store::in_memory());
    let script =
        "git checkout -q other; echo fix >>a; git commit -qam fix; git merge -q main; git stash -q || true";
    let task = worked(&ground, &store, script);
    bring(&ground, &task, &[]).unwrap();
    assert_eq!(ground.in_host("git show --format= --name-only brought"), "a");
    assert_eq!(ground.in_host("git show brought:.husky/pre-commit"), "other");
}

#[test]
fn commits_that_change_what_the_host_runs_are_refused_with_the_list_until_named() {
    let store = Store::in_memory();
    for (script, expected, named) in [
        ("echo evil >>.husky/pre-commit; git commit -qam evil", "/.husky/pre-commit (git runs it as a hook)", ".husky"),
        ("git rm -q .vscode/settings.json; git commit -qm gone", "/.vscode/settings.json (", ".vscode/settings.json"),
        ("echo evil >.husky/new; git add -A; git commit -qm one; git rm -q .husky/new; git commit -qm two",
         "/.husky/new (git runs it as a hook)", ".husky/new"),
        ("git checkout -q other; git merge -q -s ours main -m x; git checkout -q main; git merge -q --no-ff --no-commit other
          echo evil >.husky/pre-commit; git add -A; git commit -qm merged", "/.husky/pre-commit (", ".husky/pre-commit"),
        ("git rm -rq .vscode; mkdir tools; echo evil >tools/tasks.json; ln -s tools .vscode; git add -A; git commit -qm link",
         "/.vscode (it leads to files", ".vscode"),
        ("mkdir .hg; echo evil >.hg/requires; git add -A; git commit -qm hg", "/.hg/requires (Mercurial runs", ".hg"),
        ("mkdir -p .jj/repo; echo evil >.jj/repo/config.toml; git add -A; git commit -qm jj", "/.jj/repo/config.toml (jj", ".jj"),
        ("mkdir -p docs/objects docs/refs; touch docs/objects/k docs/refs/k; echo ref: refs/heads/main >docs/HEAD
          printf '[core]\\n\\tfsmonitor = evil\\n' >docs/config; git add -A; git commit -qm repository",
         "/docs (git would take it for a repository", "docs"),
    ] {
        let ground = ground();
        let task = worked(&ground, &store, script);
        let before = ground.state();
        let error = bring(&ground, &task, &[]).unwrap_err();
        assert_eq!(error.code(), "guarded-changed", "{script}: {error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(matches!(error.hint(), Some(Hint::AllowGuarded { .. })), "{:?}", error.hint());
        assert!(matches!(error, Error::Git(GitError::ChangesGuarded { .. })));
        assert_eq!(ground.state(), before);
        bring(&ground, &task, &[named]).unwrap();
    }
}

#[test]
fn a_commit_made_of_files_leaves_out_what_the_host_runs() {
    let (ground, store) = (ground(), Store::in_memory());
    let script = "echo evil >.husky/pre-commit; echo more >>a; mkdir -p docs/refs docs/objects
        touch docs/refs/k docs/objects/k; echo ref: refs/heads/main >docs/HEAD; echo x >docs/config; echo x >docs/text";
    let task = worked(&ground, &store, script);
    let host = HostRepository::open(&ground.path("host")).unwrap();
    let made = commit(&task.git().work().unwrap(), &host).unwrap();
    assert_eq!(
        ground.in_host("git show --format= --name-only avfs/files"),
        "a\ndocs/text"
    );
    let left: Vec<String> = made.left_out.iter().map(|left| left.path.to_string()).collect();
    assert_eq!(
        left,
        [
            "/.husky/pre-commit",
            "/docs/HEAD",
            "/docs/config",
            "/docs/objects/k",
            "/docs/refs/k"
        ]
    );
}

/// Commits all parts of a repository but its `HEAD`.
const PARTS: &str = "mkdir -p docs/objects docs/refs; touch docs/objects/k docs/refs/k
    printf '[core]\n\tfsmonitor = evil\n' >docs/config; git add -A; git commit -qm parts";
const HEAD: &str = "echo ref: refs/heads/main >docs/HEAD; git add -A; git commit -qm head";

#[test]
fn a_repository_whose_head_is_only_in_some_commit_is_refused() {
    let store = Store::in_memory();
    for script in [
        format!("{PARTS}; {HEAD}; git rm -q docs/HEAD; git commit -qm gone"),
        format!("{PARTS}; {HEAD}; git mv docs/HEAD docs/h; git commit -qm moved"),
        format!("mkdir docs; {HEAD}; git rm -q docs/HEAD; git commit -qm gone; {PARTS}"),
        format!(
            "{PARTS}; git checkout -qb side; {HEAD}; git checkout -q main; git merge -q -s ours -m m side"
        ),
        format!(
            "mkdir docs; {HEAD}; git mv docs/HEAD docs/Head; git commit -qm spelled; git rm -q docs/Head
                 git commit -qm gone; {PARTS}"
        ),
    ] {
        let ground = ground();
        let task = worked(&ground, &store, &script);
        let before = ground.state();
        let error = bring(&ground, &task, &[]).expect_err(&script);
        assert_eq!(error.code(), "guarded-changed", "{script}: {error}");
        assert!(
            error
                .to_string()
                .contains("/docs (git would take it for a repository"),
            "{error}"
        );
        assert_eq!(ground.state(), before);
        bring(&ground, &task, &["docs"]).unwrap();
    }
}

#[test]
fn a_head_that_an_older_commit_of_the_user_has_does_not_come_with_other_parts() {
    let ground = ground();
    ground.in_host(&format!(
        "mkdir docs; {HEAD}; git rm -q docs/HEAD; git commit -qm gone"
    ));
    let script = format!(
        "git checkout -q HEAD~1; git checkout -qb old; {PARTS}; git rm -q docs/HEAD; git commit -qm gone"
    );
    let store = Store::in_memory();
    let error = bring(&ground, &worked(&ground, &store, &script), &[]).unwrap_err();
    assert_eq!(error.code(), "guarded-changed", "{error}");
    // The same `HEAD` as before makes a repository of later files.
    let error = bring(
        &ground,
        &worked(&ground, &store, "git revert --no-edit HEAD"),
        &[],
    )
    .unwrap_err();
    assert_eq!(error.code(), "guarded-changed", "{error}");
}

#[test]
fn what_was_brought_is_the_users_history_only_after_the_user_has_merged_it() {
    let (ground, store) = (ground(), Store::in_memory());
    let script =
        "echo new >.husky/new; git add -A; git commit -qm new; git rm -q .husky/new; git commit -qm gone";
    bring(&ground, &worked(&ground, &store, script), &[".husky/new"]).unwrap();
    let again = worked(
        &ground,
        &store,
        "echo new >.husky/new; git add -A; git commit -qm again",
    );
    let error = bring_as("again", &ground, &again, &[]).unwrap_err();
    assert_eq!(error.code(), "guarded-changed", "{error}");
    ground.in_host("git merge -q brought");
    bring_as("again", &ground, &again, &[]).unwrap();
}

#[test]
fn submodules_at_names_that_the_host_looks_into_are_refused() {
    let store = Store::in_memory();
    for name in [
        ".claude",
        ".cursor",
        ".config",
        ".codex",
        ".gemini",
        "sub/.vscode",
        ".husky2/.CLAUDE",
    ] {
        let ground = ground();
        let add = |at: &str| {
            format!("git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),{at}; git commit -qm c")
        };
        let task = worked(&ground, &store, &add(name));
        let error = bring(&ground, &task, &[]).expect_err(name);
        assert_eq!(error.code(), "guarded-changed", "{name}: {error}");
        bring(&ground, &task, &[name]).unwrap();
        bring_as("with-lib", &ground, &worked(&ground, &store, &add("lib")), &[]).unwrap();
    }
}

/// Files to which the user's own links and settings lead.
#[test]
fn commits_that_change_what_links_and_settings_lead_to_are_refused() {
    let store = Store::in_memory();
    let ground = Ground::with(
        "git init -q --template= -b main; mkdir -p tools/claude tools/hooks tools/deep packages/web; echo a >a
         echo '{}' >tools/claude/settings.json; echo notes >tools/claude/notes; echo x >tools/clean.sh
         echo x >tools/hooks/pre-commit; echo x >tools/deep/tasks.json; ln -s tools/claude .claude
         ln -s ../../tools/deep packages/web/.vscode; git add -A; git commit -qm first
         git config core.hooksPath tools/hooks; git config filter.x.clean 'sh tools/clean.sh %f'
         git checkout -qb linked; ln -s tools/deep .vscode; git add -A; git commit -qm link; git checkout -q main",
    );
    for (script, expected) in [
        (
            "echo evil >>tools/claude/settings.json; git commit -qam c",
            "/.claude/settings.json",
        ),
        (
            "echo evil >>tools/hooks/pre-push; git add -A; git commit -qm c",
            "core.hookspath",
        ),
        ("echo evil >>tools/clean.sh; git commit -qam c", "filter.x.clean"),
        (
            "echo evil >>tools/deep/tasks.json; git commit -qam c",
            "/packages/web/.vscode/tasks.json",
        ),
        (
            "git checkout -q linked; echo evil >>tools/deep/launch.json; git add -A; git commit -qm c",
            "vscode/launch.json",
        ),
    ] {
        let task = worked(&ground, &store, script);
        let error = bring(&ground, &task, &[]).expect_err(script);
        assert_eq!(error.code(), "guarded-changed", "{script}: {error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let script = "echo more >>tools/claude/notes; echo more >>a; git commit -qam c";
    bring(&ground, &worked(&ground, &store, script), &[]).unwrap();

    let script = "echo evil >>tools/claude/settings.json; echo evil >>tools/clean.sh; echo more >>a";
    let task = worked(&ground, &store, script);
    let host = HostRepository::open(&ground.path("host")).unwrap();
    let made = commit(&task.git().work().unwrap(), &host).unwrap();
    let left: Vec<String> = made.left_out.iter().map(|left| left.path.to_string()).collect();
    assert_eq!(left, ["/tools/claude/settings.json", "/tools/clean.sh"]);
}
