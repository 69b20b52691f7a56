//! What commands work on in a directory, and that they change nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sandbox::Sandbox;

/// A directory, and what is typed there.
struct At<'a> {
    sandbox: &'a Sandbox,
    directory: PathBuf,
}

impl At<'_> {
    /// The one object that a line prints.
    #[track_caller]
    fn object(&self, line: &str) -> Value {
        let mut avfs = self.sandbox.avfs();
        let output =
            avfs.current_dir(&self.directory).arg("--json").args(line.split_whitespace()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", self.sandbox.show(&output)))
    }

    #[track_caller]
    fn good(&self, line: &str) -> Value {
        let object = self.object(line);
        assert_ne!(object["kind"], "error", "{object}");
        object
    }

    #[track_caller]
    fn code(&self, line: &str) -> String {
        let object = self.object(line);
        object["error"]["code"].as_str().unwrap_or_else(|| panic!("{object}")).to_owned()
    }

    fn hint(&self, line: &str) -> String {
        self.object(line)["error"]["hint"].as_str().unwrap_or_default().to_owned()
    }

    /// The talk of a line that must succeed.
    #[track_caller]
    fn talk(&self, line: &str) -> String {
        let output =
            self.sandbox.avfs().current_dir(&self.directory).args(line.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{}", self.sandbox.show(&output));
        String::from_utf8(output.stderr).unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.join(name)).unwrap_or_default()
    }
}

/// A project with a file, and with a task for each name that adds a line to it.
fn project<'a>(sandbox: &'a Sandbox, name: &str, tasks: &[&str]) -> At<'a> {
    let directory = sandbox.path(name);
    fs::create_dir_all(directory.join("src")).unwrap();
    fs::write(directory.join("notes"), format!("{name}\n")).unwrap();
    for task in tasks {
        work(sandbox, &directory, task);
    }
    At { sandbox, directory }
}

fn work(sandbox: &Sandbox, directory: &Path, name: &str) {
    use agentvfs::{NewTask, Store, TaskName, TreePath};
    let project = Store::open(&sandbox.store()).unwrap().project(directory).unwrap();
    let new = NewTask { name: Some(TaskName::new(name).unwrap()), ..NewTask::default() };
    let open = project.new_task(&new).unwrap().vault().begin().unwrap();
    let path = TreePath::parse(b"/notes").unwrap();
    let mut text = open.read(&path).unwrap().to_vec();
    text.extend_from_slice(format!("{name}\n").as_bytes());
    open.write_bytes(&path, &text).unwrap();
    open.commit("work", "").unwrap();
}

#[test]
fn undo_touches_neither_another_project_nor_the_chosen_vault() {
    let sandbox = Sandbox::new();
    sandbox.good("vault create precious --use");
    sandbox.good("write thing one");
    let (web, api) = (project(&sandbox, "web", &["fix"]), project(&sandbox, "api", &["fix"]));
    web.good("apply --yes");
    assert_eq!(api.code("undo --apply"), "nothing-to-undo", "what was applied elsewhere is not undone here");
    assert_eq!(
        api.hint("undo --apply"),
        format!("the last one was to {}: `avfs undo --apply 1`", web.directory.display())
    );
    assert_eq!(api.good("undo")["vault"], "api/fix", "the last thing done here");
    assert_eq!(api.good("redo")["vault"], "api/fix");
    assert_eq!(web.read("notes"), "web\nfix\n");
    let below = At { sandbox: &sandbox, directory: web.directory.join("src") };
    let talk = below.talk("undo");
    assert!(talk.contains(&format!("undid apply 1 in {}", web.directory.display())), "{talk}");
    assert_eq!(web.read("notes"), "web\n");
    assert!(web.talk("redo").contains("redid apply 1 in "));
    assert_eq!(web.read("notes"), "web\nfix\n");
    web.good("undo");
    assert_eq!(
        web.talk("undo"),
        "undid 2 in vault 'web/fix': work (1 path)\n`avfs redo` does it again\n",
        "then what was done in the task"
    );
    assert_eq!(web.code("undo"), "nothing-to-undo");
    web.good("discard --yes");
    assert_eq!(web.code("undo"), "nothing-to-undo", "the chosen vault is not this project's");
    assert_eq!(web.hint("undo"), "for vault 'precious': `avfs undo --vault precious`");
    assert_eq!(sandbox.good("cat thing"), "one\n");
    assert_eq!(web.good("undo --vault precious")["vault"], "precious");
}

#[test]
fn in_a_project_without_tasks_the_chosen_vault_counts_if_it_was_used_last() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix"]);
    web.good("apply --yes");
    web.good("discard fix --yes");
    web.good("vault create notes --use");
    web.good("write thing one");
    assert_eq!(web.good("undo")["vault"], "notes");
    assert_eq!(web.good("redo")["vault"], "notes");
    web.good("undo --apply");
    assert_eq!(web.code("undo"), "nothing-to-undo");
}

#[test]
fn in_a_project_without_tasks_every_command_names_the_chosen_vault() {
    let sandbox = Sandbox::new();
    sandbox.good("vault create site --use");
    let (repository, plain) = (project(&sandbox, "web", &[]), project(&sandbox, "plain", &[]));
    fs::create_dir(repository.directory.join(".git")).unwrap();
    let told = "on vault 'site', chosen with `avfs vault use`: this project has no task\n";
    for line in ["write thing one", "diff", "ls", "mkdir more"] {
        let talk = repository.talk(line);
        assert_eq!(talk.matches(told).count(), 1, "{line}: {talk}");
        let talk = plain.talk(line.replace("more", "other").as_str());
        assert!(!talk.contains("on vault"), "{line}: {talk}");
    }
    assert!(repository.talk("undo").contains(" in vault 'site': "), "it names what it undid");
    assert!(!repository.talk("ls --vault site").contains("on vault"), "named by a flag");
    let elsewhere = project(&sandbox, "api", &["fix"]);
    assert!(!elsewhere.talk("ls").contains("on vault"), "a task of this project");
}

#[test]
fn a_redo_ends_with_the_next_change() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix"]);
    assert_eq!(web.code("redo"), "nothing-to-redo");
    web.good("apply --yes");
    web.good("undo");
    web.good("write other thing");
    assert_eq!(web.code("redo"), "nothing-to-redo");
    web.good("undo");
    assert_eq!(web.good("redo")["vault"], "web/fix");
    assert_eq!(web.read("notes"), "web\n");
}

#[test]
fn all_commands_work_on_the_only_task_of_a_project() {
    let sandbox = Sandbox::new();
    sandbox.good("vault create other --use");
    let web = project(&sandbox, "web", &["fix"]);
    for line in ["log", "checkpoint save here", "checkpoint list", "conflicts", "vault info"] {
        let object = web.good(line);
        let vault = if object["vault"].is_null() { &object["name"] } else { &object["vault"] };
        assert_eq!(vault, "web/fix", "{line}: {object}");
    }
    assert_eq!(web.good("diff")["changes"][0]["path"], "/notes");
    assert_eq!(
        web.good("apply notes --dry-run")["files"][0]["path"],
        "/notes",
        "a path, and the task left out"
    );
    assert_eq!(web.code("apply nothing"), "unknown-task");
    let output = sandbox.avfs().current_dir(&web.directory).args(["cat", "notes"]).output().unwrap();
    assert_eq!(output.stdout, b"web\nfix\n");
    assert_eq!(web.good("--vault other log")["vault"], "other");
    let named = sandbox
        .avfs()
        .current_dir(&web.directory)
        .env("AVFS_VAULT", "other")
        .args(["--json", "log"])
        .output();
    assert!(String::from_utf8(named.unwrap().stdout).unwrap().contains("\"vault\":\"other\""));
    let talk = web.talk("vault use other");
    assert_eq!(
        talk,
        "warning: in this directory, commands work on vault 'web/fix', which beats this choice\n"
    );
    fs::write(web.directory.join("avfs.toml"), "vault = \"other\"\n").unwrap();
    assert_eq!(web.good("log")["vault"], "other");
}

#[test]
fn open_conflicts_are_shown_and_never_applied() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix"]);
    fs::write(web.directory.join("notes"), "web\nmine\n").unwrap();
    web.object("sync");
    let refused = web.object("apply --yes");
    assert_eq!(refused["error"]["code"], "open-conflicts");
    let message = "1 conflict is open in task 'web/fix', and nothing was applied: /notes";
    assert_eq!(refused["error"]["message"], message);
    let hint = refused["error"]["hint"].as_str().unwrap();
    assert!(hint.starts_with("settle each with `avfs resolve PATH --vault web/fix`"), "{hint}");
    for line in ["apply --dry-run", "apply --conflicts theirs --yes", "apply --commits", "apply --branch x"] {
        assert_eq!(web.code(line), "open-conflicts", "{line}");
    }
    assert_eq!(web.read("notes"), "web\nmine\n");
    assert_eq!(web.good("tasks")["tasks"][0]["open_conflicts"][0]["path"], "/notes");
    let shown = sandbox.avfs().current_dir(&web.directory).arg("tasks").output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("1 open conflict, to be settled first: `avfs conflicts --vault fix`"), "{shown}");
    web.good("write other thing");
    web.good("apply other --yes");
    assert_eq!(web.read("other"), "thing\n", "what is not in conflict can be applied");
    web.good("resolve notes --theirs");
    web.good("apply --yes");
    assert_eq!(web.read("notes"), "web\nmine\n");
}

#[test]
fn a_conflict_whose_markers_are_gone_is_no_longer_in_the_way() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix"]);
    fs::write(web.directory.join("notes"), "web\nmine\n").unwrap();
    web.object("sync");
    assert_eq!(web.code("apply --yes"), "open-conflicts");
    web.good("write notes both");
    web.good("apply --yes");
    assert_eq!(web.read("notes"), "both\n");
}

#[test]
fn of_several_tasks_one_is_named_or_chosen() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix", "other"]);
    for line in ["log", "undo", "ls", "exec -- true", "apply", "discard --yes", "sync", "write a b"] {
        assert_eq!(web.code(line), "several-tasks", "{line}");
    }
    assert_eq!(web.object("log")["error"]["message"], "this project has several tasks: fix, other");
    assert_eq!(web.good("log --vault other")["vault"], "web/other");
    web.good("vault use other");
    assert_eq!(web.good("log")["vault"], "web/other");
    assert_eq!(web.good("undo")["vault"], "web/other");
    web.good("apply fix --yes");
    assert_eq!(web.good("undo")["kind"], "apply-undone", "that was the last thing done here");
}

#[test]
fn a_hint_names_the_vault_where_the_directory_does_not() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix", "other"]);
    assert!(
        web.talk("checkpoint restore --vault fix @~1").contains("`avfs undo --vault web/fix` takes it back")
    );
    web.talk("undo --vault web/fix");
    web.good("discard other --yes");
    assert!(web.talk("checkpoint restore @~3").contains("(`avfs undo` takes it back)"));
    web.talk("undo");
}

#[test]
fn the_status_says_where_one_is_and_why() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &[]);
    let status = web.good("status");
    assert_eq!(
        (&status["known"], &status["vault"], &status["undo"]),
        (&false.into(), &Value::Null, &Value::Null)
    );
    work(&sandbox, &web.directory, "fix");
    let status = web.good("status");
    assert_eq!(status["project"], web.directory.to_str().unwrap());
    assert_eq!(
        status["tasks"][0],
        serde_json::json!({"name": "fix", "state": "unmerged", "open_conflicts": 0})
    );
    assert_eq!(
        (&status["vault"]["name"], &status["vault"]["reason"]),
        (&"web/fix".into(), &"only-task".into())
    );
    assert_eq!(status["undo"]["vault"], "web/fix");
    web.good("apply --yes");
    web.good("undo");
    let status = web.good("status");
    assert_eq!((&status["undo"]["vault"], &status["redo"]["apply"]), (&"web/fix".into(), &1.into()));
    web.good("redo");
    assert_eq!(web.good("undo --apply 1")["apply"], 1, "a number stays, whatever was undone and redone");
    assert_eq!(web.good("redo")["apply"], 1);
    assert_eq!(web.good("status")["undo"]["apply"], 1);
    work(&sandbox, &web.directory, "other");
    let shown = sandbox.avfs().current_dir(&web.directory).arg("status").output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("\ntask     fix: applied\ntask     other: unmerged\n"), "{shown}");
    assert!(shown.contains("\nvault    this project has several tasks: fix, other\n"), "{shown}");
}

#[test]
fn a_project_is_forgotten_and_its_files_stay() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix"]);
    let listed = &web.good("project list")["projects"][0];
    assert_eq!((&listed["vault"], &listed["tasks"]), (&"web".into(), &1.into()));
    assert_eq!(web.code("project forget ."), "project-in-use");
    assert_eq!(web.code("project forget src"), "unknown-project");
    assert_eq!(web.good("project forget . --force")["tasks"], serde_json::json!(["fix"]));
    assert_eq!(web.read("notes"), "web\n");
    assert_eq!(web.good("project list")["projects"], serde_json::json!([]));
    assert_eq!(web.good("vault list")["vaults"], serde_json::json!([]));
    // A directory that is gone can be forgotten by its name.
    let gone = project(&sandbox, "gone", &["fix"]);
    gone.good("apply --yes");
    fs::remove_dir_all(&gone.directory).unwrap();
    assert_eq!(web.good("project list")["projects"][0]["exists"], false);
    web.good(&format!("project forget {}", gone.directory.display()));
}

#[test]
fn a_chosen_task_counts_in_its_own_project_and_outside_of_all_projects() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["one", "two"]);
    let api = project(&sandbox, "api", &["fix"]);
    web.good("vault use two");
    assert_eq!(web.good("vault info")["name"], "web/two");
    web.good("apply --yes");
    assert_eq!(web.read("notes"), "web\ntwo\n", "commands about tasks take it too");
    api.good("discard --yes");
    assert_eq!(api.code("log"), "no-vault", "what was chosen is a task of another project");
    assert_eq!(api.hint("log"), "the chosen vault is a task of another project: `--vault web/two` names it");
    api.good("log --vault web/two");
    let outside = At { sandbox: &sandbox, directory: sandbox.path("") };
    assert_eq!(outside.good("vault info")["name"], "web/two");
    outside.good("vault use --none");
    assert_eq!(outside.code("log"), "no-vault");
}
