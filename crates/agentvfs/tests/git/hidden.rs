//! Tracked files that rules hide: git in a task leaves them out, and no commit of a task changes them.

use agentvfs::git::{Bring, GitError, Secret};
use agentvfs::hidden::{Extent, hidden_in};
use agentvfs::rules::{Level, Preset, Rule};
use agentvfs::transfer::{DirectoryExport, export_directory};
use agentvfs::{Error, Hint, NewTask, Store, Task, TreePath};

use crate::ground::{Ground, branch, sh};

const KEY: &str = "-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----";
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\\nMIIB\\n-----END CERTIFICATE-----";

/// A repository that tracks keys, files that look like keys, and another branch with more of both.
fn ground() -> Ground {
    Ground::with(&format!(
        "git init -q --template= -b main
         mkdir -p certs src tests config/secrets; echo work >work
         printf -- '{KEY}' >certs/server.pem; printf -- '{CERTIFICATE}' >certs/ca.pem; echo about >certs/README
         echo 'PORT=3000' >.env.test; echo 'DB_PASSWORD=Zk38vnQ0pLw2' >.env.production
         echo 'pub struct Credentials;' >src/credentials.rs; echo 'fn main() {{}}' >src/main.rs
         printf -- '{KEY}' >tests/key.pem; echo 'kind: Secret' >config/secrets/one.yaml
         find . -path ./.git -prune -o -type f -exec touch -d '2020-01-01' {{}} +
         git add -Af; git commit -qm first
         git checkout -qb other; printf -- '{KEY}' >certs/other.pem; echo other >other; git add -A; git commit -qm other
         git checkout -q main; echo 'local' >.env
         find . -path ./.git -prune -o -type f -exec touch -d '2020-01-01' {{}} +
         git update-index -q --refresh"
    ))
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

fn made(ground: &Ground, store: &Store, more: &[&str]) -> Task {
    let mut rules = Preset::Development.rules();
    rules.extend(more.iter().map(|line| Rule::parse(line).unwrap()));
    let new = NewTask {
        rules: Some(rules),
        ..NewTask::default()
    };
    store
        .project(&ground.path("host"))
        .unwrap()
        .new_task(&new)
        .unwrap()
}

/// Exports the task's view into a directory, and runs a script there.
#[track_caller]
fn inside(ground: &Ground, task: &Task, script: &str) -> String {
    sh(&ground.path(""), "rm -rf task");
    let reader = task
        .vault()
        .through(task.rules().unwrap().unwrap())
        .reader()
        .unwrap();
    let to = ground.path("task");
    export_directory(&reader, &TreePath::root(), &to, &DirectoryExport::default(), &()).unwrap();
    ground.in_task(script)
}

/// Makes the repository of the directory the task's.
fn take_git(ground: &Ground, task: &Task) {
    let open = task.vault().begin().unwrap();
    open.remove(&path(".git"), true).unwrap();
    open.imports()
        .directory(&ground.path("task/.git"), &path(".git"), &())
        .unwrap();
    open.commit("work", "").unwrap();
}

fn bring(ground: &Ground, task: &Task) -> Result<(), Error> {
    let bring = Bring {
        branch: branch("brought"),
        of: None,
        update: false,
        allowed: Vec::new(),
    };
    task.git().bring(&ground.path("host"), &bring).map(drop)
}

#[test]
fn only_what_is_a_key_or_a_credential_is_hidden_and_the_reason_is_told() {
    let ground = ground();
    let rules = Preset::Development.rules();
    let hidden = hidden_in(&ground.path("host"), &rules, Extent::Everything).unwrap();
    assert!(hidden.is_complete);
    let found: Vec<(String, Secret, bool)> = hidden
        .files
        .iter()
        .map(|file| (file.path.to_string(), file.why, file.is_tracked))
        .collect();
    let expected = [
        ("/.env".to_owned(), Secret::Name, false),
        ("/.env.production".to_owned(), Secret::Password, true),
        ("/certs/server.pem".to_owned(), Secret::PrivateKey, true),
    ];
    assert_eq!(found, expected);
    let task = made(&ground, &Store::in_memory(), &[]);
    let seen = inside(
        &ground,
        &task,
        "find . -path ./.git -prune -o -type f -print | sort | xargs",
    );
    let expected = "./.env.test ./certs/README ./certs/ca.pem ./config/secrets/one.yaml ./src/credentials.rs \
         ./src/main.rs ./tests/key.pem ./work";
    assert_eq!(seen, expected);
    assert_eq!(task.changed_files().unwrap(), [], "the preparation is no work");
}

#[test]
fn files_that_git_does_not_track_are_hidden_if_they_hold_a_secret() {
    let ground = ground();
    ground.in_host(&format!(
        "printf 'node_modules\\n.npmrc\\n*.json\\n*.tfvars\\n' >.gitignore
         echo '//registry.example.org/:_authToken=Zk38vnQ0pLw2' >.npmrc; mkdir -p infra/prod node_modules/x web
         echo 'db_password = \"Zk38vnQ0pLw2\"' >infra/prod/terraform.tfvars; echo 'region = \"eu\"' >infra/other.tfvars
         echo '{{\"private_key\": \"{KEY}\"}}' >gcp.json; echo '{{\"port\": 1}}' >web/settings.json
         echo '//registry.example.org/:_authToken=${{NPM_TOKEN}}' >web/.npmrc
         cp gcp.json node_modules/x/key.json; cp gcp.json tracked.json; git add -f tracked.json; git commit -qm tracked"
    ));
    let found = |rules: &[Rule]| -> Vec<(String, Secret)> {
        let hidden = hidden_in(&ground.path("host"), rules, Extent::Everything).unwrap();
        let untracked = hidden.files.iter().filter(|file| !file.is_tracked);
        untracked.map(|file| (file.path.to_string(), file.why)).collect()
    };
    let expected = [
        ("/.env".to_owned(), Secret::Name),
        ("/.npmrc".to_owned(), Secret::Password),
        ("/gcp.json".to_owned(), Secret::PrivateKey),
        ("/infra/prod/terraform.tfvars".to_owned(), Secret::Password),
    ];
    assert_eq!(found(&Preset::Development.rules()), expected);
    let task = made(&ground, &Store::in_memory(), &[]);
    let of_task = task.rules().unwrap().unwrap();
    assert_eq!(
        found(of_task.list()),
        expected,
        "the reasons are the same in a later run"
    );
    let script = "find . -name '.npmrc' -o -name '*.tfvars' -o -name '*.json' | sort | xargs";
    let seen =
        "./infra/other.tfvars ./node_modules/x/key.json ./tracked.json ./web/.npmrc ./web/settings.json";
    assert_eq!(inside(&ground, &task, script), seen);
    let opened = made(&ground, &Store::in_memory(), &["/gcp.json=read"]);
    assert_eq!(
        inside(&ground, &opened, "ls gcp.json"),
        "gcp.json",
        "a rule of the user wins"
    );
    let new = NewTask {
        rules: Some(Preset::FullAccess.rules()),
        ..NewTask::default()
    };
    let all = Store::in_memory()
        .project(&ground.path("host"))
        .unwrap()
        .new_task(&new)
        .unwrap();
    assert_eq!(
        inside(&ground, &all, "ls gcp.json"),
        "gcp.json",
        "nothing is hidden where no preset hides secrets"
    );
}

#[test]
fn rules_of_the_user_always_win() {
    let ground = ground();
    let more = ["**/credentials*=none", "/tests/=read", "/certs/server.pem=read"];
    let task = made(&ground, &Store::in_memory(), &more);
    let rules = task.rules().unwrap().unwrap();
    let level = |text: &str| rules.explain(&path(text), |_| Default::default()).level;
    assert_eq!(level("src/credentials.rs"), Level::None);
    assert_eq!(level("tests/key.pem"), Level::Read);
    assert_eq!(level("certs/server.pem"), Level::Read);
    assert_eq!(level(".env.test"), Level::Write);
    assert_eq!(level("new/credentials.rs"), Level::None, "it is not tracked");
}

#[test]
fn a_key_of_tests_is_known_by_its_contents_where_the_index_leaves_it_open() {
    let ground = ground();
    // As in a fresh clone, in which files and index were written in one moment.
    ground.in_host("touch -r .git/index tests/key.pem; cp tests/key.pem x; mv x tests/key.pem");
    let hidden = hidden_in(
        &ground.path("host"),
        &Preset::Development.rules(),
        Extent::Everything,
    )
    .unwrap();
    assert!(
        !hidden.files.iter().any(|file| file.path == path("tests/key.pem")),
        "{hidden:?}"
    );
}

#[test]
fn key_that_differs_from_the_commit_is_not_a_test_key() {
    let ground = ground();
    ground.in_host(&format!(
        "(printf -- '{KEY}'; echo) >tests/key.pem; echo 'TOKEN=Zk38vnQ0pLw2' >.env.test"
    ));
    let hidden = hidden_in(
        &ground.path("host"),
        &Preset::Development.rules(),
        Extent::Everything,
    )
    .unwrap();
    let found: Vec<String> = hidden.files.iter().map(|file| file.path.to_string()).collect();
    assert_eq!(
        found,
        [
            "/.env",
            "/.env.production",
            "/.env.test",
            "/certs/server.pem",
            "/tests/key.pem"
        ]
    );
}

/// Typical git work of agents, with git's output about the directory after each step.
const DAILY: &str = "
    export GIT_EDITOR=true
    clean() { git status --porcelain; git diff-files; }
    clean; git add -A; clean
    echo 1 >>work; git stash -q; clean; git stash pop -q; git commit -qam one; clean
    git checkout -q other; clean; echo 2 >two; git add -A; git commit -qm two; git checkout -q main; clean
    git merge -q other -m merged; clean; git reset -q --hard HEAD~1; clean
    git checkout -qb topic HEAD~1; echo 3 >three; git add .; git commit -qm three; git rebase -q main; clean
    git cherry-pick other >/dev/null; clean; git clean -fdxq; clean
    git rm -rq certs; git commit -qm certs; clean; echo 4 >four; git add --all; git commit -qm four; clean
    git rebase -q -i --root --exec true 2>/dev/null || git rebase --abort; clean
    git rm -rq --cached . ; git add -A; git commit -qm again --allow-empty; clean
    git checkout -q main; clean; git branch -D topic -q; git merge -q other -m merged; clean";

const BRIEFLY: &str = "
    clean() { git status --porcelain; git diff-files; }
    clean; echo 1 >>work; git add -A; git commit -qm one; git checkout -q other; clean; git checkout -q main; clean
    git reset -q --hard HEAD~1; clean; git show --format= --name-only HEAD@{1} | grep -v work || true";

#[test]
fn git_is_clean_in_a_task_and_stays_so() {
    let (ground, store) = (ground(), Store::in_memory());
    let task = made(&ground, &store, &[]);
    assert_eq!(inside(&ground, &task, DAILY), "");
    let tracked = "git ls-tree -r --name-only HEAD | grep -e pem -e env -e secrets | xargs";
    let all = ".env.production .env.test certs/ca.pem certs/other.pem certs/server.pem config/secrets/one.yaml tests/key.pem";
    assert_eq!(ground.in_task(tracked), all);
    take_git(&ground, &task);
    bring(&ground, &task).unwrap();
    assert_eq!(
        ground.in_host("git diff --stat main brought -- certs/server.pem .env.production certs/ca.pem"),
        ""
    );
}

#[test]
fn a_sparse_checkout_of_the_users_own_stays_and_so_does_a_worktree() {
    let ground = ground();
    for (set_up, kept) in [
        (
            "git sparse-checkout set --no-cone '/*' '!/src'",
            "certs/ config/ tests/",
        ),
        ("git sparse-checkout set --cone certs", "certs/"),
        ("git sparse-checkout set --cone --sparse-index certs", "certs/"),
        (
            "git sparse-checkout disable; git update-index --split-index",
            "certs/ config/ src/ tests/",
        ),
        (
            "git update-index --no-split-index; git update-index --index-version 4",
            "certs/ config/ src/ tests/",
        ),
    ] {
        ground.in_host(&format!("{set_up}; find . -path ./.git -prune -o -type f -exec touch -d 2020-01-01 {{}} +; git update-index -q --refresh"));
        let task = made(&ground, &Store::in_memory(), &[]);
        let script = format!("{BRIEFLY}; ls -d */ | xargs");
        assert_eq!(inside(&ground, &task, &script), kept, "{set_up}");
        assert_eq!(ground.in_host("git status --porcelain"), "?? .env", "{set_up}");
    }
    ground.in_host("git worktree add -q ../side -b side");
    let rules = Some(Preset::Development.rules());
    let new = NewTask {
        rules,
        ..NewTask::default()
    };
    let task = Store::in_memory()
        .project(&ground.path("side"))
        .unwrap()
        .new_task(&new)
        .unwrap();
    assert_eq!(
        inside(
            &ground,
            &task,
            "git status --porcelain; git add -A; git commit -q --allow-empty -m x; git show --stat --format=%s"
        ),
        "x"
    );
}

#[test]
fn submodules_are_prepared_as_well() {
    let ground = ground();
    ground.in_host(
        "git -c protocol.file.allow=always submodule --quiet add ./ part; git commit -qm sub
         find part -type f -exec touch -d 2020-01-01 {} +; git -C part update-index -q --refresh",
    );
    let task = made(&ground, &Store::in_memory(), &[]);
    let script = "git status --porcelain; cd part; ls -A certs | xargs; git status --porcelain; git add -A
        echo x >x; git add -A; git commit -qm x; git show --stat --format= --name-only; git checkout -q HEAD~1; git status --porcelain";
    assert_eq!(inside(&ground, &task, script), "README ca.pem\nx");
}

#[test]
fn commits_that_change_what_is_hidden_are_refused_with_the_list() {
    let (ground, store) = (ground(), Store::in_memory());
    for (script, expected) in [
        ("git rm -q --sparse .env.production; git commit -qm d", "deletes /.env.production"),
        ("git update-index --cacheinfo 100644,$(git rev-parse HEAD:src/main.rs),certs/server.pem; git commit -qm c",
         "changes /certs/server.pem"),
        ("git rm -q --sparse certs/server.pem; git commit -qm d; git revert --no-edit HEAD >/dev/null || git reset -q --hard",
         "deletes /certs/server.pem"),
        ("git update-index --add --cacheinfo 100644,$(git rev-parse HEAD:src/main.rs),.envrc; git commit -qm c",
         "changes /.envrc"),
        ("git checkout -q --orphan alone; git rm -rqf --sparse .; echo x >x; git add x; git commit -qm alone
          git checkout -q main; git merge -q --no-commit --allow-unrelated-histories alone; git rm -q --sparse .env.production
          git commit -qm merged", "deletes /.env.production"),
    ] {
        let task = made(&ground, &store, &[]);
        inside(&ground, &task, script);
        take_git(&ground, &task);
        let before = ground.state();
        let error = bring(&ground, &task).unwrap_err();
        assert_eq!(error.code(), "hidden-changed", "{script}: {error}");
        assert!(error.to_string().contains(expected), "{error}");
        let name = task.name().to_string();
        let none = "no file differs that could be a commit";
        assert_eq!(error.hint(), Some(Hint::TakeOutOfCommits { task: name.clone() }), "{none}");
        let open = task.vault().begin().unwrap();
        open.write_bytes(&path("work"), b"changed").unwrap();
        open.commit("work", "").unwrap();
        let error = bring(&ground, &task).unwrap_err();
        assert_eq!(error.hint(), Some(Hint::ApplyFilesOfTask { task: name }));
        assert!(matches!(error, Error::Git(GitError::ChangesHidden { .. })));
        assert_eq!(ground.state(), before);
    }
}

#[test]
fn changes_that_the_user_made_may_be_made_again() {
    let (ground, store) = (ground(), Store::in_memory());
    ground.in_host(
        "git checkout -q other; echo 'DB_PASSWORD=Qx91mmB7tUe5' >.env.production; git rm -q certs/server.pem
         git commit -qam rotated; git checkout -q main; find . -path ./.git -prune -o -type f -exec touch -d 2020-01-01 {} +
         git update-index -q --refresh",
    );
    let task = made(&ground, &store, &[]);
    inside(
        &ground,
        &task,
        "git cherry-pick other >/dev/null; git status --porcelain",
    );
    take_git(&ground, &task);
    bring(&ground, &task).unwrap();
    assert_eq!(
        ground.in_host("git diff --stat other~1 other | tail -1"),
        ground.in_host("git show --stat --format= brought | tail -1")
    );
}

/// A repository whose key was added, and rotated later; every third commit is about something else.
fn with_rotated_key() -> Ground {
    Ground::with(
        "git init -q --template= -b main; key() { printf -- \"-----BEGIN PRIVATE KEY-----\\n$1\\n-----END PRIVATE KEY-----\"; }
         echo work >work; git add -A; git commit -qm zero
         mkdir certs; key MIIE1 >certs/server.key; git add -A; git commit -qm add
         key MIIE2 >certs/server.key; git add -A; git commit -qm rotate
         echo other >other; git add -A; git commit -qm other
         find . -path ./.git -prune -o -type f -exec touch -d 2020-01-01 {} +; git update-index -q --refresh",
    )
}

#[test]
fn a_merge_that_takes_the_older_side_of_a_hidden_file_is_refused() {
    let (ground, store) = (with_rotated_key(), Store::in_memory());
    let work = "echo w >w; git add w; git commit -qm w";
    for (script, expected) in [
        (
            format!("git switch -qc x HEAD~3; {work}; git merge -q -s ours main -m m"),
            "deletes /certs/server.key",
        ),
        (
            format!("git switch -qc x HEAD~2; {work}; git merge -q -s ours main -m m"),
            "changes /certs/server.key",
        ),
        (
            format!(
                "git switch -qc x HEAD~3; {work}; git switch -q main; git merge -q --no-ff --no-commit x
                  git rm -qf --sparse --cached certs/server.key; git commit -qm m"
            ),
            "deletes /certs/server.key",
        ),
        (
            format!(
                "git switch -qc x HEAD~3; {work}; git switch -qc y HEAD~1; git commit -q --allow-empty -m y
                  git merge -q -s ours x main -m m"
            ),
            "deletes /certs/server.key",
        ),
    ] {
        let task = made(&ground, &store, &[]);
        inside(&ground, &task, &script);
        take_git(&ground, &task);
        let error = bring(&ground, &task).unwrap_err();
        assert_eq!(error.code(), "hidden-changed", "{script}: {error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_merge_that_takes_the_newer_side_of_a_hidden_file_passes() {
    let (ground, store) = (with_rotated_key(), Store::in_memory());
    for script in [
        "git switch -qc x HEAD~3; echo w >w; git add w; git commit -qm w; git merge -q main -m m",
        "git switch -qc x HEAD~2; echo w >w; git add w; git commit -qm w; git switch -q main; git merge -q x -m m",
        "git switch -qc x; echo x >x; git add x; git commit -qm x; git switch -qc y main; echo y >y; git add y
         git commit -qm y; git switch -q main; git merge -q x y -m m",
    ] {
        let task = made(&ground, &store, &[]);
        inside(&ground, &task, script);
        take_git(&ground, &task);
        bring(&ground, &task).unwrap();
        ground.in_host("git branch -qD brought");
    }
}
