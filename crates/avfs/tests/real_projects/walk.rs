//! The way of a user with a project: run, look, apply, undo, bring the commits, throw the rest away.

use serde_json::Value;

use crate::scene::Scene;

/// A project, and the work in it.
pub struct Project {
    pub directory: &'static str,
    /// Passes on the host and in a run.
    pub test: &'static str,
    /// The changes of an agent, before it tests again and commits everything.
    pub edit: &'static str,
    /// The files that this changes, sorted. Build results beside them are ignored by git.
    pub edited: &'static [&'static str],
    /// Files that do not exist for a program in a run.
    pub hidden: &'static [&'static str],
    /// Files that look like secrets and are not, or lie elsewhere: a program in a run can read them.
    pub shown: &'static [&'static str],
    /// The output of a test when it has to build something; empty if it builds nothing.
    pub rebuilt: &'static str,
}

pub fn walk(scene: &Scene, project: &Project) {
    let host = |line: &str| scene.good(project.directory, line);
    host(project.test);
    assert_eq!(host("git status --porcelain").0, "");
    let before = host(FINGERPRINT).0;

    unchanged_project_builds_nothing(scene, project);
    run_of_an_agent(scene, project);
    assert_eq!(host(FINGERPRINT).0, before, "the real directory is unchanged");
    what_is_told_of_it(scene, project);

    host("avfs apply --yes");
    assert_eq!(changed_on_the_host(scene, project), project.edited);
    host(project.test);
    host("avfs undo");
    assert_eq!(host("git status --porcelain").0, "", "undone");
    host("avfs redo");
    assert_eq!(changed_on_the_host(scene, project), project.edited);
    host("avfs undo");

    host("avfs apply --commits --yes");
    let brought = host("git diff --no-renames --name-only HEAD avfs/work").0;
    assert_eq!(brought.lines().collect::<Vec<_>>(), project.edited);
    assert_eq!(host("git rev-list --count HEAD..avfs/work").0, "1\n");
    host("avfs discard --yes work");
    assert_eq!(object(scene, project, "tasks")["tasks"], Value::Array(Vec::new()));
    assert_eq!(host("git status --porcelain").0, "");
}

/// Every file of the project with its mode and bytes, except files that tests write and git ignores. Git's
/// own refreshes of its index do not count.
const FINGERPRINT: &str = "git ls-files -s && git ls-files -co --exclude-standard -z | xargs -0 -r stat -c '%n %A %Y' && \
    git for-each-ref && git stash list && git rev-parse HEAD && cat .git/config 2>/dev/null; true";

fn unchanged_project_builds_nothing(scene: &Scene, project: &Project) {
    let line = format!("avfs run --name first -- bash -c '{}'", project.test);
    let (out, err) = scene.good(project.directory, &line);
    let said = format!("{out}{err}");
    assert!(
        project.rebuilt.is_empty() || !said.contains(project.rebuilt),
        "{said}"
    );
    let tasks = object(scene, project, "tasks");
    // Reports and caches that a test writes are ignored: the task is there only for them, or not at all.
    if tasks["tasks"].as_array().is_some_and(|tasks| !tasks.is_empty()) {
        scene.good(project.directory, "avfs discard --yes first");
    }
}

fn run_of_an_agent(scene: &Scene, project: &Project) {
    let Project { edit, test, .. } = project;
    let hidden: String = project
        .hidden
        .iter()
        .map(|file| format!("test ! -e {file}\n"))
        .collect();
    let shown: String = project
        .shown
        .iter()
        .map(|file| format!("test -s {file}\n"))
        .collect();
    // Everything that an agent may do with git, none of which may affect hidden files.
    let script = format!(
        "set -e\n{hidden}{shown}test -z \"$(git status --porcelain)\"\n{edit}\n{test}\n\
         git stash --quiet --include-untracked && git reset --quiet --hard && git stash pop --quiet\n\
         git add --all\ngit commit --quiet --all --message 'work of an agent'\n\
         git checkout --quiet -b other HEAD~1 && git checkout --quiet - && git branch --quiet -D other\n\
         test -z \"$(git status --porcelain)\"\n"
    );
    let script =
        format!("cat >~/agent <<'EOF'\n{script}EOF\navfs run --name work -- bash -c \"$(cat ~/agent)\"");
    let (_, told) = scene.good(project.directory, &script);
    for name in project.hidden {
        assert!(told.contains(name), "hidden files are reported: {told}");
    }
}

fn what_is_told_of_it(scene: &Scene, project: &Project) {
    let tasks = object(scene, project, "tasks");
    let task = &tasks["tasks"][0];
    assert_eq!(
        (&task["name"], &task["commits"]),
        (&"work".into(), &1.into()),
        "{tasks}"
    );
    let diff = object(scene, project, "diff work");
    let mut paths: Vec<&str> = Vec::new();
    for change in diff["changes"].as_array().unwrap_or_else(|| panic!("{diff}")) {
        paths.extend(change["old_path"].as_str());
        paths.extend(change["path"].as_str());
    }
    let mut paths: Vec<&str> = paths.iter().map(|path| path.trim_start_matches('/')).collect();
    paths.retain(|path| !path.starts_with(".git/") && *path != ".git");
    paths.sort_unstable();
    assert_eq!(paths, project.edited, "{diff}");
    let review = object(scene, project, "review work");
    assert_ne!(review["kind"], "error", "{review}");
}

fn changed_on_the_host(scene: &Scene, project: &Project) -> Vec<String> {
    let line = "git add --all && git diff --cached --no-renames --name-only && git reset --quiet";
    scene
        .good(project.directory, line)
        .0
        .lines()
        .map(str::to_owned)
        .collect()
}

fn object(scene: &Scene, project: &Project, words: &str) -> Value {
    let output = scene.bash(project.directory, &format!("avfs --json {words}"));
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{words}: {}", String::from_utf8_lossy(&output.stderr)))
}
