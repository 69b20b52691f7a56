//! What commands work on in a directory, and that they change nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sandbox::Sandbox;

/// A directory, and the commands that are typed there.
struct At<'a> {
    sandbox: &'a Sandbox,
    directory: PathBuf,
}

impl At<'_> {
    /// The one object that a line prints.
    #[track_caller]
    fn object(&self, line: &str) -> Value {
        let mut avfs = self.sandbox.avfs();
        let output = avfs
            .current_dir(&self.directory)
            .arg("--json")
            .args(line.split_whitespace())
            .output()
            .unwrap();
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
        object["error"]["code"]
            .as_str()
            .unwrap_or_else(|| panic!("{object}"))
            .to_owned()
    }

    fn hint(&self, line: &str) -> String {
        self.object(line)["error"]["hint"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The talk of a line that must succeed.
    #[track_caller]
    fn talk(&self, line: &str) -> String {
        let output = self
            .sandbox
            .avfs()
            .current_dir(&self.directory)
            .args(line.split_whitespace())
            .output()
            .unwrap();
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
    let new = NewTask {
        name: Some(TaskName::new(name).unwrap()),
        ..NewTask::default()
    };
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
    let (web, api) = (
        project(&sandbox, "web", &["fix"]),
        project(&sandbox, "api", &["fix"]),
    );
    web.good("apply --yes");
    assert_eq!(
        api.code("undo --apply"),
        "nothing-to-undo",
        "an apply elsewhere is not undone here"
    );
    assert_eq!(
        api.hint("undo --apply"),
        format!(
            "the last one was to {}: `avfs undo --apply 1`",
            web.directory.display()
        )
    );
    assert_eq!(api.good("undo")["vault"], "api/fix", "the last thing done here");
    assert_eq!(api.good("redo")["vault"], "api/fix");
    assert_eq!(web.read("notes"), "web\nfix\n");
    let below = At {
        sandbox: &sandbox,
        directory: web.directory.join("src"),
    };
    let talk = below.talk("undo");
    assert!(
        talk.contains(&format!("undid apply 1 in {}", web.directory.display())),
        "{talk}"
    );
    assert_eq!(web.read("notes"), "web\n");
    assert!(web.talk("redo").contains("redid apply 1 in "));
    assert_eq!(web.read("notes"), "web\nfix\n");
    web.good("undo");
    assert_eq!(
        web.talk("undo"),
        "undid change 2 in vault 'web/fix': work (1 file)\n`avfs redo` does it again\n",
        "then the change in the task"
    );
    assert_eq!(web.code("undo"), "nothing-to-undo");
    web.good("discard --yes");
    assert_eq!(
        web.code("undo"),
        "nothing-to-undo",
        "the chosen vault is not this project's"
    );
    assert_eq!(
        web.hint("undo"),
        "for vault 'precious': `avfs undo --vault precious`"
    );
    assert_eq!(sandbox.good("cat thing"), "one\n");
    assert_eq!(web.good("undo --vault precious")["vault"], "precious");
}

#[test]
fn undo_in_a_project_without_tasks_leaves_the_chosen_vault_alone() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix"]);
    web.good("apply --yes");
    web.good("discard fix --yes");
    web.good("vault create notes --use");
    sandbox.good("write thing one");
    assert_eq!(web.good("status")["undo"]["apply"], 1);
    assert_eq!(web.good("undo")["kind"], "apply-undone");
    assert_eq!(web.good("status")["undo"], Value::Null);
    assert_eq!(web.code("undo"), "nothing-to-undo");
    assert_eq!(web.hint("undo"), "for vault 'notes': `avfs undo --vault notes`");
    assert_eq!(sandbox.good("cat thing"), "one\n");
    sandbox.good("undo");
    assert_eq!(web.good("redo")["kind"], "apply-redone");
    assert_eq!(web.code("redo"), "nothing-to-redo");
    assert_eq!(web.good("redo --vault notes")["vault"], "notes");
}

#[test]
fn undo_in_a_moved_project_names_the_command_that_moves_it() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix"]);
    web.good("apply --yes");
    web.good("discard fix --yes");
    sandbox.good("vault create notes --use");
    sandbox.good("write thing one");
    let moved = At {
        sandbox: &sandbox,
        directory: sandbox.path("site"),
    };
    fs::rename(&web.directory, &moved.directory).unwrap();
    for line in ["undo", "redo"] {
        assert_eq!(moved.code(line), "project-missing", "{line}");
        let hint = moved.hint(line);
        assert!(hint.contains("`avfs project move "), "{line}: {hint}");
    }
    assert_eq!(moved.good("status")["undo"], Value::Null);
    assert_eq!(sandbox.good("cat thing"), "one\n");
    moved.good("project move . --yes");
    assert_eq!(moved.good("undo")["kind"], "apply-undone");
}

#[test]
fn in_a_project_without_tasks_every_command_names_the_chosen_vault() {
    let sandbox = Sandbox::new();
    sandbox.good("vault create site --use");
    let (repository, plain) = (project(&sandbox, "web", &[]), project(&sandbox, "plain", &[]));
    fs::create_dir(repository.directory.join(".git")).unwrap();
    let told = "working on vault 'site' (chosen with `avfs vault use`), because this project has no task\n";
    for line in ["write thing one", "diff", "ls", "mkdir more"] {
        let talk = repository.talk(line);
        assert_eq!(talk.matches(told).count(), 1, "{line}: {talk}");
        let talk = plain.talk(line.replace("more", "other").as_str());
        assert!(!talk.contains("on vault"), "{line}: {talk}");
    }
    let talk = repository.talk("session start");
    assert_eq!(talk.matches(told).count(), 1, "by two processes: {talk}");
    repository.talk("session stop --all");
    assert!(
        repository.talk("undo").contains(" in vault 'site': "),
        "it names the undone change"
    );
    assert!(
        !repository.talk("ls --vault site").contains("on vault"),
        "named by a flag"
    );
    let elsewhere = project(&sandbox, "api", &["fix"]);
    assert!(
        !elsewhere.talk("ls").contains("on vault"),
        "a task of this project"
    );
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
    for line in [
        "log",
        "checkpoint save here",
        "checkpoint list",
        "conflicts",
        "vault info",
    ] {
        let object = web.good(line);
        let vault = if object["vault"].is_null() {
            &object["name"]
        } else {
            &object["vault"]
        };
        assert_eq!(vault, "web/fix", "{line}: {object}");
    }
    assert_eq!(web.good("diff")["changes"][0]["path"], "/notes");
    assert_eq!(
        web.good("apply notes --dry-run")["files"][0]["path"],
        "/notes",
        "a path, and the task left out"
    );
    assert_eq!(web.code("apply nothing"), "unknown-task");
    let output = sandbox
        .avfs()
        .current_dir(&web.directory)
        .args(["cat", "notes"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"web\nfix\n");
    assert_eq!(web.good("--vault other log")["vault"], "other");
    let named = sandbox
        .avfs()
        .current_dir(&web.directory)
        .env("AVFS_VAULT", "other")
        .args(["--json", "log"])
        .output();
    assert!(
        String::from_utf8(named.unwrap().stdout)
            .unwrap()
            .contains("\"vault\":\"other\"")
    );
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
    assert!(
        hint.starts_with("settle each with `avfs resolve PATH --vault web/fix`"),
        "{hint}"
    );
    assert!(
        hint.contains(
            "--ours (what the task has), --theirs (what came in: after a sync, what the directory has)"
        ),
        "{hint}"
    );
    for line in [
        "apply --dry-run",
        "apply --conflicts theirs --yes",
        "apply --commits",
        "apply --branch x",
    ] {
        assert_eq!(web.code(line), "open-conflicts", "{line}");
    }
    assert_eq!(web.read("notes"), "web\nmine\n");
    assert_eq!(
        web.good("tasks")["tasks"][0]["open_conflicts"][0]["path"],
        "/notes"
    );
    let shown = sandbox
        .avfs()
        .current_dir(&web.directory)
        .arg("tasks")
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("1 open conflict, to be settled first: `avfs conflicts --vault web/fix`"),
        "{shown}"
    );
    web.good("write other thing");
    web.good("apply other --yes");
    assert_eq!(
        web.read("other"),
        "thing\n",
        "files without conflicts can be applied"
    );
    web.good("resolve notes --directory");
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
    for line in [
        "log",
        "undo",
        "ls",
        "exec -- true",
        "apply",
        "discard --yes",
        "sync",
        "write a b",
    ] {
        assert_eq!(web.code(line), "several-tasks", "{line}");
    }
    assert_eq!(
        web.object("log")["error"]["message"],
        "this project has several tasks: fix, other"
    );
    assert_eq!(web.good("log --vault other")["vault"], "web/other");
    web.good("vault use other");
    assert_eq!(web.good("log")["vault"], "web/other");
    assert_eq!(web.good("undo")["vault"], "web/other");
    web.good("apply fix --yes");
    assert_eq!(
        web.good("undo")["kind"],
        "apply-undone",
        "that was the last thing done here"
    );
}

#[test]
fn undo_says_in_which_of_several_tasks_the_last_thing_was_done() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix", "other"]);
    web.good("apply other --yes");
    web.good("--vault fix write a b");
    let refused = web.object("undo");
    assert_eq!(refused["error"]["code"], "several-tasks");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("the last thing done here was 'write /a' in vault web/fix"),
        "{message}"
    );
    assert!(web.hint("undo").contains("`avfs undo --vault web/fix`"));
    web.good("undo --vault fix");
    assert_eq!(web.good("undo --apply")["kind"], "apply-undone");
}

#[test]
fn a_name_that_a_vault_and_a_task_have_is_not_enough_for_a_flag() {
    let sandbox = Sandbox::new();
    sandbox.good("vault create fix");
    sandbox.good("write --vault fix other there");
    let web = project(&sandbox, "web", &["fix"]);
    let refused = web.object("undo --vault fix");
    assert_eq!(refused["error"]["code"], "ambiguous-vault");
    assert_eq!(
        refused["error"]["message"],
        "'fix' is both a vault and a task of this project"
    );
    assert_eq!(
        refused["error"]["hint"],
        "`--vault web/fix` is the task, `--vault /fix` the vault"
    );
    assert_eq!(web.good("log --vault web/fix")["vault"], "web/fix");
    assert_eq!(web.good("log --vault /fix")["vault"], "fix");
    let told = web.talk("checkpoint restore --vault /fix @~1");
    assert!(told.contains("`avfs undo --vault /fix` undoes it"), "{told}");
    assert_eq!(web.good("undo --vault /fix")["vault"], "fix");
    assert_eq!(sandbox.good("cat --vault fix other"), "there\n");
    // Elsewhere there is no task that could be meant.
    let api = project(&sandbox, "api", &["other"]);
    assert_eq!(api.good("log --vault fix")["vault"], "fix");
    assert_eq!(web.code("log --vault /other"), "unknown-vault");
    work(&sandbox, &web.directory, "more");
    assert_eq!(
        web.hint("log"),
        "name one, as with --vault web/fix, or choose one with `avfs vault use web/fix`"
    );
}

#[test]
fn a_hint_names_the_vault_where_the_directory_does_not() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix", "other"]);
    assert!(
        web.talk("checkpoint restore --vault fix @~1")
            .contains("`avfs undo --vault web/fix` undoes it")
    );
    web.talk("undo --vault web/fix");
    web.good("discard other --yes");
    assert!(
        web.talk("checkpoint restore @~3")
            .contains("(`avfs undo` undoes it)")
    );
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
    assert_eq!(
        (&status["undo"]["vault"], &status["redo"]["apply"]),
        (&"web/fix".into(), &1.into())
    );
    web.good("redo");
    assert_eq!(
        web.good("undo --apply 1")["apply"],
        1,
        "a number stays, whatever was undone and redone"
    );
    assert_eq!(web.good("redo")["apply"], 1);
    assert_eq!(web.good("status")["undo"]["apply"], 1);
    work(&sandbox, &web.directory, "other");
    let shown = sandbox
        .avfs()
        .current_dir(&web.directory)
        .arg("status")
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("\ntask     fix: applied\ntask     other: unmerged\n"),
        "{shown}"
    );
    assert!(
        shown.contains("\nvault    none chosen: this project has several tasks: fix, other\n"),
        "{shown}"
    );
}

#[test]
fn a_project_is_forgotten_and_its_files_stay() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix"]);
    let listed = &web.good("project list")["projects"][0];
    assert_eq!((&listed["vault"], &listed["tasks"]), (&"web".into(), &1.into()));
    assert_eq!(web.code("project forget ."), "project-in-use");
    assert_eq!(web.code("project forget src"), "unknown-project");
    assert_eq!(
        web.good("project forget . --force")["tasks"],
        serde_json::json!(["fix"])
    );
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
fn the_vault_of_a_project_goes_with_the_project_only() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix"]);
    let refused = web.object("vault delete web --force web");
    assert_eq!(refused["error"]["code"], "vault-needed");
    assert_eq!(
        refused["error"]["hint"],
        format!(
            "`avfs project forget {}` removes the project with its vault and its tasks",
            web.directory.display()
        )
    );
    assert_eq!(web.good("tasks")["tasks"][0]["vault"], "web/fix");
}

#[test]
fn a_project_that_was_moved_takes_its_tasks_along() {
    let sandbox = Sandbox::new();
    let old = project(&sandbox, "web", &[]);
    fs::write(old.directory.join("unread"), "needle\n").unwrap();
    ["fix", "other"]
        .iter()
        .for_each(|name| work(&sandbox, &old.directory, name));
    old.good("apply fix --yes");
    let new = At {
        sandbox: &sandbox,
        directory: sandbox.path("site"),
    };
    fs::rename(&old.directory, &new.directory).unwrap();
    let outside = At {
        sandbox: &sandbox,
        directory: sandbox.path("outside"),
    };
    fs::create_dir(&outside.directory).unwrap();

    let [was, is] = [&old, &new].map(|at| at.directory.display().to_string());
    let command = format!("avfs project move {was}");
    let about_missing = [
        "apply web/other --yes",
        "sync web/other",
        "undo --apply 1",
        "cat unread --vault web/fix",
        "exec --vault web/fix -- true",
        "session start --vault web/fix",
        "search needle --vault web/fix",
        "grep needle --vault web/fix",
    ];
    for line in about_missing {
        assert_eq!(outside.code(line), "project-missing", "{line}");
        assert!(
            outside.hint(line).contains(&command),
            "{line}: {}",
            outside.hint(line)
        );
    }
    for line in ["undo", "diff", "apply --yes", "apply other --yes"] {
        assert!(
            new.hint(line).contains(&format!("{command} {is}")),
            "{line}: {}",
            new.hint(line)
        );
    }
    assert_eq!(outside.good("project list")["projects"][0]["exists"], false);
    assert!(
        outside.good("tasks --all")["tasks"][0]["trouble"]
            .as_str()
            .unwrap()
            .contains("is missing")
    );

    assert_eq!(
        new.code(&format!("project move {was} {}", outside.directory.display())),
        "project-unlike"
    );
    // As the user typed it, from where the user is.
    assert_eq!(new.code("project move ../web ../outside"), "project-unlike");
    assert_eq!(new.code("project move ."), "needs-confirmation");
    let moved = new.good("project move . --yes");
    assert_eq!(
        (&moved["project"], &moved["tasks"]),
        (&is.as_str().into(), &2.into())
    );
    assert_eq!(
        outside.good("project list")["projects"].as_array().unwrap().len(),
        1
    );
    assert_eq!(
        outside.code(&format!("project move {is} {}", outside.directory.display())),
        "project-not-moved"
    );

    assert_eq!(
        new.good("undo")["apply"],
        1,
        "an apply at the old path is undone at the new one"
    );
    assert_eq!(new.read("notes"), "web\n");
    assert_eq!(
        new.good("grep needle --vault fix")["files_matched"],
        1,
        "unread files are read there"
    );
    assert_eq!(new.good("diff other")["changes"].as_array().unwrap().len(), 1);
    new.good("apply other --yes");
    assert_eq!(new.read("notes"), "web\nother\n");
    new.good("sync fix");
    assert_eq!(new.good("fsck")["sound"], true);
}

#[test]
fn the_work_of_a_deleted_project_is_rescued_into_a_new_directory() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["fix"]);
    fs::remove_dir_all(&web.directory).unwrap();
    let outside = At {
        sandbox: &sandbox,
        directory: sandbox.path("outside"),
    };
    // It may well get the inode number of the one that is gone, and was no project before.
    fs::create_dir(&outside.directory).unwrap();
    assert_eq!(outside.code("apply web/fix --yes"), "project-missing");
    let hint = outside.hint("apply web/fix --yes");
    assert!(hint.contains("`avfs apply TASK --to NEWDIR`"), "{hint}");
    outside.good("apply web/fix --to new --dry-run");
    assert!(
        !outside.directory.join("new").exists(),
        "a dry run leaves nothing"
    );
    assert_eq!(outside.code("apply web/fix --to no/new --yes"), "host-not-found");
    assert_eq!(outside.code("undo"), "no-vault");
    outside.good("apply web/fix --to new --yes");
    assert_eq!(outside.read("new/notes"), "web\nfix\n");
    // An existing file is not silently replaced.
    fs::write(outside.directory.join("new/notes"), "mine\n").unwrap();
    assert_eq!(outside.code("apply web/fix --to new --yes"), "apply-conflicts");
    outside.talk("project forget --force ../web");
}

#[test]
fn a_project_does_not_move_onto_another_one() {
    use agentvfs::Store;
    let sandbox = Sandbox::new();
    let old = project(&sandbox, "web", &["fix"]);
    let new = project(&sandbox, "site", &["own"]);
    let moved = sandbox.path("moved");
    fs::rename(&old.directory, &moved).unwrap();
    let line = |to: &Path| format!("project move {} {}", old.directory.display(), to.display());
    assert_eq!(
        new.code(&format!("{} --force", line(&new.directory))),
        "project-exists"
    );
    // A project without tasks, as a first run at the new place leaves it, is not in the way.
    Store::open(&sandbox.store()).unwrap().project(&moved).unwrap();
    new.good(&line(&moved));
    assert_eq!(
        At {
            sandbox: &sandbox,
            directory: moved
        }
        .good("tasks")["tasks"][0]["vault"],
        "web/fix"
    );
}

#[test]
fn a_chosen_task_counts_in_its_own_project_and_outside_of_all_projects() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["one", "two"]);
    let api = project(&sandbox, "api", &["fix"]);
    web.good("vault use two");
    assert_eq!(web.good("vault info")["name"], "web/two");
    web.good("apply --yes");
    assert_eq!(
        web.read("notes"),
        "web\ntwo\n",
        "commands about tasks take it too"
    );
    api.good("discard --yes");
    assert_eq!(
        api.code("log"),
        "no-vault",
        "the chosen vault is a task of another project"
    );
    assert_eq!(
        api.hint("log"),
        "the chosen vault is a task of another project: `--vault web/two` names it"
    );
    api.good("log --vault web/two");
    let outside = At {
        sandbox: &sandbox,
        directory: sandbox.path(""),
    };
    assert_eq!(outside.good("vault info")["name"], "web/two");
    outside.good("vault use --none");
    assert_eq!(outside.code("log"), "no-vault");
}

#[test]
fn paths_are_meant_from_the_directory_that_a_command_is_typed_in() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &[]);
    fs::create_dir_all(web.directory.join("src/deep")).unwrap();
    fs::write(web.directory.join("src/a"), "1\n").unwrap();
    {
        use agentvfs::{NewTask, Store, TaskName, TreePath};
        let project = Store::open(&sandbox.store())
            .unwrap()
            .project(&web.directory)
            .unwrap();
        let new = NewTask {
            name: Some(TaskName::new("fix").unwrap()),
            ..NewTask::default()
        };
        let task = project.new_task(&new).unwrap();
        let open = task.vault().begin().unwrap();
        for (at, text) in [("src/a", "2\n"), ("src/deep/b", "b\n"), ("notes", "changed\n")] {
            let path = TreePath::parse(at.as_bytes()).unwrap();
            let _ = open.read(&path);
            open.write_bytes(&path, text.as_bytes()).unwrap();
        }
        open.commit("work", "").unwrap();
    }
    let src = At {
        sandbox: &sandbox,
        directory: web.directory.join("src"),
    };
    let deep = At {
        sandbox: &sandbox,
        directory: web.directory.join("src/deep"),
    };
    let changed = |at: &At<'_>, line: &str| {
        let diff = at.good(line);
        let paths = diff["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| change["path"].as_str().unwrap());
        paths.map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    for (at, line, expected) in [
        (&src, "diff fix a", "/src/a"),
        (&src, "diff fix .", "/src/a /src/deep/b"),
        (&src, "diff fix ../notes", "/notes"),
        (&src, "diff fix /notes", "/notes"),
        (&src, "diff fix :/notes", "/notes"),
        (&src, "diff a", "/src/a"),
        (&src, "diff -- deep", "/src/deep/b"),
        (&deep, "diff ./b ../a", "/src/a /src/deep/b"),
        (&web, "diff fix src/a", "/src/a"),
    ] {
        assert_eq!(changed(at, line), expected, "{line}");
    }
    assert_eq!(src.good("log a")["path"], "/src/a");
    assert_eq!(src.good("log fix")["kind"], "log");
    assert_eq!(src.good("stat a")["entries"][0]["path"], "/src/a");
    assert_eq!(
        src.good("review fix . --accept a --reject deep/b")["changes"][0]["path"],
        "/src/a"
    );
    assert!(
        src.object("exec --path nowhere -- true")
            .to_string()
            .contains("/src/nowhere")
    );
    assert_eq!(src.code("cat src/a"), "not-found");
    assert_eq!(
        (src.code("diff fix ../../x"), src.code("cat ../..")),
        ("bad-name".into(), "bad-name".into())
    );
    let applied = deep.good("apply fix ../a --dry-run");
    assert_eq!(applied["files"][0]["path"], "/src/a");
    src.good("apply fix --hunks a:1");
    assert_eq!((src.read("a"), web.read("notes")), ("2\n".into(), "web\n".into()));
    deep.good("rm ../a");
    assert_eq!(web.code("cat src/a"), "not-found");
    src.good("checkout @~1 a");
    assert_eq!(web.good("stat src/a")["entries"][0]["path"], "/src/a");
    // If the vault is not a copy of the directory, paths are relative to its root.
    sandbox.good("vault create other");
    src.good("--vault other mkdir a");
    assert_eq!(src.good("--vault other stat /a")["entries"][0]["path"], "/a");
}

/// The answer to a line, with a variable of the environment and without a terminal.
#[track_caller]
fn answer(at: &At<'_>, vault: Option<&str>, line: &str) -> Value {
    let mut avfs = at.sandbox.avfs();
    avfs.current_dir(&at.directory)
        .arg("--json")
        .args(line.split_whitespace());
    if let Some(vault) = vault {
        avfs.env("AVFS_VAULT", vault);
    }
    let output = avfs.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", at.sandbox.show(&output)))
}

/// Every command with an optional task name, and how its answer names the task.
const ABOUT_A_TASK: [(&str, &str); 12] = [
    ("apply --dry-run", "/task"),
    ("review", "/task"),
    ("sync --dry-run", "/vault"),
    ("workspace status", "/name"),
    ("workspace stop", "/name"),
    ("task output", "/error/message"),
    ("task wait", "/error/message"),
    ("task stop", "/error/message"),
    ("diff", "/to/vault"),
    ("log", "/vault"),
    ("fork 1", "/task"),
    ("discard --yes", "/tasks/0"),
];

#[test]
fn every_command_about_a_task_follows_the_rule_for_all_commands() {
    let argument = |command: &str, name: &str| match command {
        "fork 1" => format!("fork 1 --task {name}"),
        _ => format!("{command} {name}"),
    };
    for (command, field) in ABOUT_A_TASK {
        let sandbox = Sandbox::new();
        sandbox.good("vault create precious");
        let web = project(&sandbox, "web", &["one", "two", "three", "four"]);
        web.good("vault use one");
        let about = |vault: Option<&str>, line: &str| {
            let answer = answer(&web, vault, line);
            let found = answer.pointer(field).and_then(Value::as_str);
            let found = found.unwrap_or_else(|| panic!("{line}: {answer}")).to_owned();
            let is_about = |name: &&str| found.split(['\'', '/', ' ']).any(|word| word == *name);
            ["one", "two", "three", "four"]
                .into_iter()
                .find(is_about)
                .unwrap_or_else(|| panic!("{line}: {found}"))
        };
        let code = |vault: Option<&str>, line: &str| {
            let answer = answer(&web, vault, line);
            answer["error"]["code"]
                .as_str()
                .unwrap_or_else(|| panic!("{line}: {answer}"))
                .to_owned()
        };
        // Refusals first: some of the commands remove their subject.
        let flag = |name: &str| format!("{command} --vault {name}");
        assert_eq!(code(None, &flag("nosuch")), "unknown-vault", "{command}");
        assert_eq!(code(Some("nosuch"), command), "unknown-vault", "{command}");
        // These two apply to every vault, and accept other words too.
        if !["diff", "log"].contains(&command) {
            assert_eq!(code(None, &flag("precious")), "not-a-task", "{command}");
            assert_eq!(code(Some("precious"), command), "not-a-task", "{command}");
            let both = format!("{} --vault two", argument(command, "three"));
            assert_eq!(code(None, &both), "usage", "{both}");
        }
        assert_eq!(about(None, &flag("two")), "two");
        assert_eq!(about(Some("three"), command), "three");
        assert_eq!(
            about(Some("three"), &argument(command, "four")),
            "four",
            "{command}: an argument is stronger"
        );
        assert_eq!(about(None, command), "one", "{command}: the chosen one");
    }
}

#[test]
fn a_flag_beside_the_only_task_is_no_leave_to_take_that_one() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["only"]);
    assert_eq!(web.code("discard --vault nosuch --yes"), "unknown-vault");
    assert_eq!(web.code("apply --vault nosuch --yes"), "unknown-vault");
    assert_eq!(web.good("tasks")["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(
        web.good("apply --vault only notes --yes")["files"][0]["path"],
        "/notes"
    );
    assert_eq!(
        web.good("discard only --vault web/only --yes")["tasks"][0],
        "only"
    );
}

#[test]
fn the_diff_of_a_task_is_the_same_however_the_task_is_named() {
    let sandbox = Sandbox::new();
    let web = project(&sandbox, "web", &["one", "two"]);
    web.good("checkpoint save later --vault one");
    let shown = |line: &str| web.good(line)["changes"].clone();
    assert_eq!(shown("diff one").as_array().unwrap().len(), 1);
    assert_eq!(shown("diff --vault one"), shown("diff one"));
    assert_eq!(shown("diff --vault two notes"), shown("diff two notes"));
    assert_eq!(
        shown("diff --vault one later").as_array().unwrap().len(),
        0,
        "a revision is named"
    );
    assert_eq!(answer(&web, Some("one"), "diff")["changes"], shown("diff one"));
}

#[test]
fn redo_is_offered_only_if_there_is_something_to_redo() {
    let sandbox = Sandbox::new();
    sandbox.good("vault create precious --use");
    sandbox.good("write thing one");
    let web = project(&sandbox, "web", &["fix"]);
    web.good("apply --yes");
    web.good("discard --yes");
    assert_eq!(
        (web.code("redo").as_str(), web.hint("redo").as_str()),
        ("nothing-to-redo", "")
    );
}

#[test]
fn a_policy_is_about_the_vault_that_commands_work_on() {
    let sandbox = Sandbox::new();
    sandbox.good("vault create precious --use");
    let web = project(&sandbox, "web", &["fix"]);
    fs::write(
        web.directory.join("strict.toml"),
        "[classes]\nmutating = \"deny\"\n",
    )
    .unwrap();
    assert_eq!(
        web.good("policy set strict.toml")["vault"],
        "web",
        "for all tasks of the project"
    );
    let shown = web.good("policy show");
    assert_eq!(
        (&shown["vault"], &shown["stored_with"]),
        (&"web/fix".into(), &"web".into())
    );
    assert_eq!(web.good("policy check -- touch a")["action"], "deny");
    web.good("discard --yes");
    // Now `exec` runs in the vault that was chosen.
    assert_eq!(web.good("policy show")["vault"], "precious");
    assert_ne!(web.good("policy check -- touch a")["action"], "deny");
    assert!(
        web.talk("policy set strict.toml")
            .contains("working on vault 'precious'")
    );
    assert_eq!(web.good("policy show")["stored_with"], "precious");
    assert_eq!(web.good("policy check -- touch a")["action"], "deny");
    assert_eq!(web.good("policy unset")["vault"], "precious");
    assert_eq!(web.good("policy show --vault web")["stored_with"], "web");
}
