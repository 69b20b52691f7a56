//! The guarantees of the presets: secrets are hidden, and files that tools of the host run cannot be written,
//! in any way; git continues to work, and repositories that are created inside are unprotected.
//!
//! Parsing a preset takes a while in a test build, so each is mounted once for all attempts.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;

use crate::program::{end_of, good};
use crate::scene::{Scene, exchange, names_in, put, refused, soon, text_of};

/// A vault with a repository that was there before, seen through a preset, and a directory of it in which files can be
/// made.
struct Case {
    scene: Scene,
    place: &'static str,
}

impl Case {
    fn new(place: &'static str, flags: &[&str]) -> Case {
        let names = [
            "made/.mcp.json",
            "made/.vscode/tasks.json",
            "put/",
            "swapped/.vscode/tasks.json",
        ];
        let secrets = SECRETS.map(|name| format!("secret/{name}"));
        let names = names.into_iter().chain(secrets.iter().map(String::as_str));
        let names: Vec<String> = names.map(|name| format!("{place}/{name}")).collect();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.extend(["repository/", "log/", "shut/"]);
        let scene = Scene::with(&names, flags, |host| {
            let made = "git init -q .; echo a >a; git add a; git commit -qm first; mkdir -p .git/hooks
                        echo exit >.git/hooks/pre-push; rm -f .git/hooks/*.sample";
            git(&host.join("repository"), made);
        });
        Case { scene, place }
    }

    fn agent(&self, name: &str) -> PathBuf {
        self.scene.agent(self.place).join(name)
    }

    fn host(&self, name: &str) -> PathBuf {
        self.scene.host(self.place).join(name)
    }
}

/// Runs a script with git in it, which must succeed.
#[track_caller]
fn git(dir: &Path, script: &str) -> String {
    let mut bash = Command::new("bash");
    bash.args(["-euc", script]).current_dir(dir);
    bash.env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("HOME", "/nonexistent");
    for who in ["AUTHOR", "COMMITTER"] {
        bash.env(format!("GIT_{who}_NAME"), "Someone")
            .env(format!("GIT_{who}_EMAIL"), "someone@example.org");
    }
    String::from_utf8(good(bash, b"")).unwrap()
}

#[test]
fn agent_safe_keeps_its_promises() {
    let case = Case::new("output", &["--preset", "agent-safe"]);
    holds(&case);
    refused(File::create(case.scene.agent("new")), Errno::ACCESS);
    File::create(case.scene.host("new")).unwrap();
    refused(
        fs::write(case.scene.agent("repository/a"), "changed"),
        Errno::ACCESS,
    );
    fs::create_dir(case.agent("sub")).unwrap();
    a_fresh_repository_is_free(&case, "output/sub");
}

#[test]
fn development_keeps_its_promises() {
    let flags = [
        "--preset",
        "development",
        "--rule",
        "/log/**=append",
        "--rule",
        "/shut/**=read",
    ];
    let case = Case::new("project", &flags);
    holds(&case);
    git(
        &case.scene.agent("repository"),
        "echo b >b; git add b; git commit -qm second",
    );
    fs::create_dir(case.agent("sub")).unwrap();
    a_fresh_repository_is_free(&case, "project/sub");
    no_repository_is_free_where_not_all_can_be_written(&case.scene);
}

fn holds(case: &Case) {
    what_tools_run_is_not_written(case);
    nothing_prepared_is_put_where_tools_look(case);
    nothing_prepared_is_exchanged_for_what_is_there(case);
    secrets_are_hidden(case);
    a_repository_from_before_runs_nothing_new(&case.scene);
}

fn what_tools_run_is_not_written(case: &Case) {
    fs::create_dir(case.agent("made/sub")).unwrap();
    soon("the host sees it", || case.host("made/sub").exists());
    for directory in ["made", "made/sub"] {
        let directory = format!("{}/{directory}", case.place);
        for name in [
            ".mcp.json",
            ".bashrc",
            ".gdbinit",
            ".gitconfig",
            "x.code-workspace",
            ".envrc",
        ] {
            case.scene
                .only_host(Errno::ACCESS, |top| File::create(top.join(&directory).join(name)));
        }
        fs::create_dir_all(case.scene.agent(&directory).join(".vscode")).unwrap();
        soon("the host sees it", || {
            case.scene.host(&directory).join(".vscode").exists()
        });
        case.scene.only_host(Errno::ACCESS, |top| {
            File::create(top.join(&directory).join(".vscode/tasks.json"))
        });
        File::create(case.scene.agent(&directory).join(".vscode/other.json")).unwrap();
    }
    let existing = case.agent("made/.mcp.json");
    refused(fs::remove_file(&existing), Errno::ACCESS);
    refused(fs::rename(&existing, case.agent("made/free")), Errno::ACCESS);
    refused(fs::hard_link(&existing, case.agent("made/free")), Errno::ACCESS);
}

/// A directory, a file in it that tools run, and whether all in it is: then it cannot be made at all.
const RUN: [(&str, &str, bool); 5] = [
    (".vscode", "tasks.json", false),
    (".claude", "settings.json", false),
    (".cursor", "mcp.json", false),
    (".idea", "workspace.xml", true),
    (".husky", "pre-commit", true),
];

fn nothing_prepared_is_put_where_tools_look(case: &Case) {
    let at = |name: &str| case.agent("put").join(name);
    symlink("x", at("link")).unwrap();
    for (directory, file, is_whole) in RUN {
        put(&at("x").join(file), "run this");
        let other_rules = if is_whole { Errno::ACCESS } else { Errno::XDEV };
        refused(fs::rename(at("x"), at(directory)), other_rules);
        for target in ["x", "../put/x", "/tmp/x"] {
            refused(symlink(target, at(directory)), Errno::ACCESS);
        }
        refused(fs::rename(at("link"), at(directory)), Errno::ACCESS);
        refused(fs::hard_link(at("link"), at(directory)), Errno::ACCESS);
        let mut mv = Command::new("mv");
        mv.args(["x", directory]).current_dir(case.agent("put"));
        assert!(!end_of(mv, b"").status.success(), "{directory}");
        assert!(!at(directory).join(file).exists(), "{directory}");
        let missing = if is_whole { Errno::NOENT } else { Errno::ACCESS };
        refused(
            fs::hard_link(at("x").join(file), at(directory).join(file)),
            missing,
        );
        refused(fs::rename(at("x").join(file), at(directory).join(file)), missing);
        fs::remove_dir_all(at("x")).unwrap();
    }
    let host = case.host("put");
    put(&host.join("y/tasks.json"), "run this");
    _ = fs::remove_dir(host.join(".vscode"));
    fs::rename(host.join("y"), host.join(".vscode")).unwrap();
}

fn nothing_prepared_is_exchanged_for_what_is_there(case: &Case) {
    put(&case.agent("swapped/x/tasks.json"), "run this");
    soon("the host sees it", || case.host("swapped/x/tasks.json").exists());
    case.scene.only_host(Errno::XDEV, |top| {
        let top = top.join(case.place).join("swapped");
        exchange(&top.join("x"), &top.join(".vscode"))
    });
}

const SECRETS: [&str; 6] = [
    ".env",
    ".ssh/id_rsa",
    "server.key",
    ".envrc",
    "secrets/a",
    ".netrc",
];

fn secrets_are_hidden(case: &Case) {
    for name in SECRETS {
        let path = format!("secret/{name}");
        refused(File::open(case.agent(&path)), Errno::NOENT);
        // Where the directory is hidden, it is not there to make anything in.
        let errno = if name.contains('/') {
            Errno::NOENT
        } else {
            Errno::ACCESS
        };
        refused(File::create(case.agent(&path)), errno);
        let text = text_of(&format!("{}/{path}", case.place));
        assert_eq!(fs::read_to_string(case.host(&path)).unwrap(), text);
    }
    assert_eq!(names_in(&case.agent("secret")), Vec::<String>::new());
    assert_eq!(names_in(&case.host("secret")).len(), 6);
}

fn a_repository_from_before_runs_nothing_new(scene: &Scene) {
    let hook = "#!/bin/sh\ntouch ran\n";
    for name in [
        "hooks/post-commit",
        "hooks/pre-push",
        "config",
        "config.worktree",
        "info/attributes",
    ] {
        let path = scene.agent("repository/.git").join(name);
        refused(fs::write(&path, hook), Errno::ACCESS);
        refused(
            OpenOptions::new().append(true).create(true).open(&path),
            Errno::ACCESS,
        );
        put(&scene.agent("repository/.git/prepared"), hook);
        refused(
            fs::rename(scene.agent("repository/.git/prepared"), &path),
            Errno::ACCESS,
        );
    }
    for name in ["config", "hooks/pre-push"] {
        let path = scene.agent("repository/.git").join(name);
        refused(fs::remove_file(&path), Errno::ACCESS);
        refused(
            fs::rename(&path, scene.agent("repository/.git/free")),
            Errno::ACCESS,
        );
    }
    refused(
        fs::create_dir(scene.agent("repository/.git/hooks/more")),
        Errno::ACCESS,
    );
    refused(
        fs::rename(scene.agent("repository/.git"), repository_elsewhere(scene)),
        Errno::XDEV,
    );
    put(&scene.agent("repository/.git/own/post-commit"), hook);
    refused(
        fs::rename(
            scene.agent("repository/.git/own"),
            scene.agent("repository/.git/hooks"),
        ),
        Errno::ACCESS,
    );
    refused(
        fs::rename(
            scene.agent("repository/.git/hooks"),
            scene.agent("repository/.git/old"),
        ),
        Errno::ACCESS,
    );
    refused(
        fs::rename(
            scene.agent("repository/.git"),
            scene.agent("repository/.git/../away"),
        ),
        whole(scene),
    );
    git(
        &scene.agent("repository"),
        "git commit -q --allow-empty -m more; git tag one; git update-index --refresh",
    );
    assert!(!scene.agent("repository/ran").exists());
    worktrees_from_before_stay_as_they_are(scene);
    fs::write(scene.host("repository/.git/hooks/post-commit"), hook).unwrap();
}

/// Git's files about a worktree determine where its settings and hooks are. New worktrees are the agent's
/// own.
fn worktrees_from_before_stay_as_they_are(scene: &Scene) {
    git(
        &scene.host("repository"),
        "git worktree add -q --detach ../linked",
    );
    let at = |name: &str| scene.agent("repository/.git/worktrees").join(name);
    soon("the agent sees it", || at("linked/commondir").exists());
    for name in ["commondir", "gitdir", "config.worktree"] {
        let path = at("linked").join(name);
        refused(fs::write(&path, "../../evil\n"), Errno::ACCESS);
        put(&at("linked/prepared"), "../../evil\n");
        refused(fs::rename(at("linked/prepared"), &path), Errno::ACCESS);
    }
    refused(fs::remove_file(at("linked/commondir")), Errno::ACCESS);
    refused(fs::rename(at("linked"), at("other")), Errno::XDEV);
    refused(
        fs::rename(at(""), scene.agent("repository/.git/old")),
        Errno::XDEV,
    );
    let tree = repository_elsewhere(scene).with_file_name("tree-of-agent");
    git(
        &scene.agent("repository"),
        &format!(
            "git worktree add -q --detach {0}; git -C {0} status --short; git worktree remove {0}",
            tree.display()
        ),
    );
    git(&scene.host("repository"), "git worktree remove --force ../linked");
}

/// A place where a repository might be: the name that it has now would be free for a new one.
fn repository_elsewhere(scene: &Scene) -> PathBuf {
    let place = ["output", "project"]
        .into_iter()
        .find(|place| scene.agent(place).exists())
        .unwrap();
    scene.agent(place).join("made/sub/.git")
}

/// The error for moving a repository away: its name is free only where all names are.
fn whole(scene: &Scene) -> Errno {
    let probe = scene.agent("probe");
    let is_free = File::create(&probe).is_ok();
    if is_free { Errno::XDEV } else { Errno::ACCESS }
}

/// A repository that was made inside is configured at will; other names do not become free by it.
fn a_fresh_repository_is_free(case: &Case, at: &str) {
    let scene = &case.scene;
    let sub = scene.agent(at);
    git(
        &sub,
        "git init -q .; git config user.name Agent; echo 'touch ran' >.git/hooks/post-commit
               chmod +x .git/hooks/post-commit; sed -i '1i #!/bin/sh' .git/hooks/post-commit
               echo 1 >f; git add f; git commit -qm one; test -e ran",
    );
    git(
        &sub,
        "git clone -q . ../copy; git -C ../copy config user.name Agent",
    );
    put(&sub.join(".git/x/tasks.json"), "run this");
    refused(fs::rename(sub.join(".git"), sub.join("other")), Errno::XDEV);
    refused(fs::rename(sub.join(".git/x"), sub.join(".vscode")), Errno::XDEV);
    refused(symlink(".git/x", sub.join(".vscode")), Errno::ACCESS);
    fs::create_dir(sub.join(".vscode")).unwrap();
    refused(
        fs::rename(sub.join(".git/x/tasks.json"), sub.join(".vscode/tasks.json")),
        Errno::ACCESS,
    );
    refused(fs::rename(sub.join(".vscode"), sub.join(".git/v")), Errno::XDEV);
    let kept = scene.agent("repository/.git");
    refused(fs::rename(kept.join("config"), sub.join(".git/c")), Errno::ACCESS);
    refused(
        fs::hard_link(kept.join("config"), sub.join(".git/c")),
        Errno::ACCESS,
    );
    refused(
        fs::rename(sub.join(".git/hooks"), kept.join("hooks")),
        Errno::ACCESS,
    );
    refused(exchange(&sub.join(".git"), &kept), Errno::XDEV);
    refused(
        fs::rename(case.agent("secret/.env"), sub.join(".git/env")),
        Errno::NOENT,
    );
}

fn no_repository_is_free_where_not_all_can_be_written(scene: &Scene) {
    fs::create_dir(scene.agent("log/.git")).unwrap();
    refused(File::create(scene.agent("log/.git/config")), Errno::ACCESS);
    File::create(scene.agent("log/.git/HEAD")).unwrap();
    refused(fs::create_dir(scene.agent("shut/.git")), Errno::ACCESS);
    File::create(scene.host("log/.git/config")).unwrap();
}
