//! Repositories so large that git queries changes from us instead of examining every file.

use std::fs;

use super::*;

/// Enough for git to be configured to query changes.
const FILES: usize = 10_000;

/// The output of git when it queries changes, and when it examines everything; it must be the same. The copy
/// preserves the index.
const BOTH: &str = r#"both() {
    git status --short >/tmp/asked
    cp -p .git/index /tmp/index
    GIT_INDEX_FILE=/tmp/index git -c core.fsmonitor=false -c core.untrackedCache=false status --short >/tmp/looked
    cmp /tmp/asked /tmp/looked
    cat /tmp/asked
}
"#;

fn with_large_repository() -> Project {
    let project = Project::new();
    for number in 0..FILES {
        let directory = project.home().join(format!("web/src/d{:03}", number / 100));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("f{number:05}")), format!("{number}\n")).unwrap();
    }
    let ignored = "echo '*.log' >.gitignore; echo '/.env' >>.gitignore; echo secret >.env; echo x >a.log";
    sh(
        &project,
        "web",
        &format!("{ignored}; git init -q -b main; git config gc.auto 0; git add -A; git commit -qm first"),
    );
    // A file that is older than the index is recognised by its times alone.
    sh(
        &project,
        "web",
        "touch -d '1 hour ago' $(git ls-files | head -100); git update-index -q --refresh",
    );
    project
}

#[test]
fn large_repository_is_ready_when_a_run_begins_and_git_sees_every_change() {
    for is_root in [true, false] {
        let project = with_large_repository();
        let user = User {
            is_root,
            ..root(&project, "web")
        };
        user.good(&["tasks"]);
        if !is_root {
            sh(&project, "web", "git update-index -q --refresh");
        }
        let script = format!(
            r#"{BOTH}
            git ls-files -f | grep -c '^h'
            both
            echo more >>src/d003/f00300; rm src/d004/f00400; echo new >src/d005/new; mv src/d006 src/moved
            chmod +x src/d007/f00700; echo log >src/d008/x.log; mkdir fresh; echo new >fresh/file
            both | wc -l
            git add -A; git commit -qm work
            both
            git ls-files -f | grep -c '^h'
            echo again >>src/d009/f00900; git stash -q; both; git stash pop -q; both
            git reset -q --hard HEAD~1; both; git checkout -q -b other; echo o >>src/d010/f01000; git commit -qam other
            git checkout -q main; both; git rebase -q other; both; git log --format=%s"#
        );
        let tracked = tracked_in(&project);
        let (printed, _) = user.run("one", &script);
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines[0], tracked.to_string(), "root: {is_root}\n{printed}");
        // 100 moved away, one modified, one removed, one of another mode, and three that are new.
        assert_eq!(lines[1], "106", "root: {is_root}\n{printed}");
        let rest = [
            (tracked + 1).to_string(),
            " M src/d009/f00900".to_owned(),
            "other".into(),
            "first".into(),
        ];
        assert_eq!(lines[2..], rest, "root: {is_root}\n{printed}");
        // Another run of the task finds it unchanged.
        let again = user.good(&[
            "run",
            "--task",
            "one",
            "--",
            "sh",
            "-euc",
            &format!("{BOTH}both; echo x >y; both"),
        ]);
        assert_eq!(again.0, "?? y\n", "root: {is_root}");
    }
}

fn tracked_in(project: &Project) -> usize {
    sh(project, "web", "git ls-files | wc -l").parse().unwrap()
}

/// One repository for all of these: it takes long to create.
#[test]
fn large_repository_reports_its_true_changes_inside() {
    let project = with_large_repository();
    let user = root(&project, "web");
    nothing_was_done(&user);
    states_of_other_vaults_are_not_told_about(&user);
    the_user_changes_files_during_a_run(&user);
    sync_brings_unread_files(&user);
    nothing_hidden_is_named(&user);
}

fn nothing_was_done(user: &User<'_>) {
    let (printed, said) = user.good(&[
        "run",
        "--",
        "sh",
        "-c",
        "git status --short; git ls-files -f | grep -c '^h'",
    ]);
    assert_eq!(printed, format!("{}\n", tracked_in(user.project)));
    assert!(said.contains("nothing changed, so it is gone"), "{said}");
}

fn states_of_other_vaults_are_not_told_about(user: &User<'_>) {
    let strange = user.project.home().join("other");
    fs::create_dir(&strange).unwrap();
    fs::write(strange.join("name-of-a-stranger"), "x").unwrap();
    user.good(&["vault", "create", "stranger", "--from", strange.to_str().unwrap()]);
    let saved = user.object(&["--json", "checkpoint", "save", "here", "--vault", "stranger"]);
    let snapshot = saved["snapshot"].as_str().unwrap();
    let asked = [&format!("avfs:{snapshot}"), "nonsense"]
        .map(|token| format!("avfs fsmonitor 2 {token} | tr '\\0' '\\n' | tail -n +2"));
    assert_eq!(user.run("strange", &asked.join("; ")).0, "/\n/\n");
}

fn the_user_changes_files_during_a_run(user: &User<'_>) {
    // git learns of the user's changes when a lookup has noticed them.
    let script = format!(
        r#"{BOTH}echo ready; read go; git status --short; ls -R . >/dev/null; both
        token=$(avfs fsmonitor 2 unknown | head -z -n 1 | tr -d '\0')
        avfs fsmonitor 2 "$token" | tr '\0' '\n' | tail -n +2 | grep d030; echo done"#
    );
    let mut command = user
        .project
        .avfs(&["run", "--name", "meanwhile", "--", "bash", "-euc", &script]);
    command
        .current_dir(&user.place)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut output = BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let change = "echo late >>src/d010/f01000; rm src/d020/f02000; echo late >src/d030/late; \
                  echo late >src/d030/.env; mv src/d040/f04000 src/d041";
    sh(user.project, "web", change);
    running.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(running.wait().unwrap().success(), "{rest}");
    assert!(
        rest.ends_with("\nsrc/d030/\nsrc/d030/late\ndone\n"),
        "hidden files are not named: {rest}"
    );
    sh(user.project, "web", "git checkout -q .; git clean -qfd");
}

fn sync_brings_unread_files(user: &User<'_>) {
    user.run(
        "synced",
        "echo agent >agent; git add agent; git commit -qm agent; git status --short",
    );
    sh(
        user.project,
        "web",
        "echo mine >>src/d050/f05000; git commit -qam mine",
    );
    user.good(&["sync", "synced"]);
    let script = format!("{BOTH}both");
    let (printed, _) = user.good(&["run", "--task", "synced", "--", "sh", "-euc", &script]);
    assert_eq!(printed, " M src/d050/f05000\n");
}

fn nothing_hidden_is_named(user: &User<'_>) {
    let hide = "mkdir -p secrets/none deep/secrets; echo x >deep/secrets/plan-for-monday; \
                echo x >untracked-key.pem; echo x >seen; echo '*.tmp' >>.git/info/exclude; echo x >secrets/q.tmp";
    sh(user.project, "web", hide);
    let script = r#"git status --short; for name in secrets monday untracked-key; do
        if grep -q $name .git/index; then echo "$name is told"; fi; done; git ls-files -f | grep -c '^h'"#;
    let rules = [
        "--rule",
        "/**=write",
        "--rule",
        "**/secrets/=none",
        "--rule",
        "**/*.pem=none",
    ];
    let words = [
        &["run", "--name", "hiding"][..],
        &rules,
        &["--", "sh", "-euc", script],
    ]
    .concat();
    assert_eq!(
        user.good(&words).0,
        format!("?? seen\n{}\n", tracked_in(user.project))
    );
}
