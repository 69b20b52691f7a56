//! Workspaces of a project with absolute paths to itself: a Python environment.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::project::{FuseForAll, Project, good};

/// A user without special rights, with a name in this test alone.
pub const ORDINARY: u32 = 1001;

/// A program of the environment. It writes where the environment is, by its absolute path.
const TOOL: &str =
    "import os, sys; open(os.path.join(sys.prefix, 'installed'), 'w').write('by ' + sys.executable)\n";

/// The test's project with a real environment in it.
fn with_environment() -> Project {
    let project = Project::new();
    let root = project.root();
    good(
        Command::new("/usr/bin/python3")
            .args(["-m", "venv", "--without-pip", ".venv"])
            .current_dir(&root),
    );
    let shebang = format!("#!{}\n", root.join(".venv/bin/python").display());
    fs::write(root.join(".venv/bin/tool"), shebang + TOOL).unwrap();
    good(Command::new("chmod").arg("755").arg(root.join(".venv/bin/tool")));
    project
}

/// Every path below a directory, with its bytes or where it leads.
fn contents(directory: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let bytes = match () {
            () if kind.is_symlink() => fs::read_link(&path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes(),
            () if kind.is_dir() => Vec::new(),
            () => fs::read(&path).unwrap(),
        };
        if kind.is_dir() {
            contents(&path, found);
        }
        found.insert(path, bytes);
    }
}

fn all_of(project: &Project) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    contents(&project.root(), &mut found);
    found
}

/// A namespace of mounts in which an ordinary user has a name: `fusermount3` wants one.
pub struct Elsewhere {
    process: Child,
    _fuse: FuseForAll,
}

impl Elsewhere {
    pub fn new(project: &Project) -> Elsewhere {
        let script = format!(
            "echo 'ada:x:{ORDINARY}:{ORDINARY}::/:/bin/sh' | cat /etc/passwd - >\"$1/passwd\" &&
            mount --bind \"$1/passwd\" /etc/passwd && echo ready && read -r _"
        );
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", &script, "sh"])
            .arg(project.home());
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        Elsewhere {
            process,
            _fuse: FuseForAll::new(),
        }
    }

    pub fn avfs(&self, project: &Project, words: &[&str]) -> Output {
        let user = ORDINARY.to_string();
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.process.id()));
        // `nsenter` changes the directory to the root.
        command.args(["env", "-C"]).arg(project.root()).arg("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"]);
        command.arg(project.program_for(ORDINARY));
        project.in_project(command, words).output().unwrap()
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[track_caller]
fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

const WORK: &str = "pwd; id -u; .venv/bin/tool; cat .venv/installed; echo new >work.txt";

#[test]
fn absolute_paths_in_a_workspace_that_is_entered_lead_to_the_workspace() {
    for user in [0, ORDINARY] {
        let project = with_environment();
        let before = all_of(&project);
        let elsewhere = (user != 0).then(|| Elsewhere::new(&project));
        let avfs = |words: &[&str]| match &elsewhere {
            Some(elsewhere) => elsewhere.avfs(&project, words),
            None => project.avfs(words).output().unwrap(),
        };
        let root = project.root().display().to_string();
        let inside = said(&avfs(&[
            "workspace",
            "enter",
            "try",
            "--from",
            ".",
            "--",
            "sh",
            "-ec",
            WORK,
        ]));
        assert_eq!(inside, format!("{root}\n{user}\nby {root}/.venv/bin/python"));
        assert!(all_of(&project) == before, "the directory has changed");
        let again = avfs(&[
            "workspace",
            "enter",
            "try",
            "--",
            "sh",
            "-c",
            "cat work.txt .venv/installed; exit 3",
        ]);
        assert_eq!(again.status.code(), Some(3), "{again:?}");
        assert_eq!(
            again.stdout,
            format!("new\nby {root}/.venv/bin/python").into_bytes()
        );
        said(&avfs(&["workspace", "stop", "try"]));
        assert!(said(&avfs(&["diff", "try"])).contains("modified  work.txt\n"));
        assert!(all_of(&project) == before, "the directory has changed");
    }
}

#[test]
fn a_workspace_elsewhere_that_would_lead_back_is_refused_with_the_command_that_enters_it() {
    let project = with_environment();
    let refused = project
        .avfs(&["workspace", "start", "try", "--from", "."])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(4));
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains(".venv is a Python environment"), "{told}");
    assert!(told.contains("`avfs workspace enter try --from .`"), "{told}");
    assert!(
        good(&mut project.avfs(&["tasks", "--json"])).contains("\"tasks\":[]"),
        "nothing was made"
    );
    good(&mut project.avfs(&["workspace", "start", "try", "--from", ".", "--anyway"]));
    good(&mut project.avfs(&["workspace", "stop", "try"]));
}

#[test]
fn the_directory_is_out_of_reach_in_a_workspace() {
    let project = with_environment();
    let before = all_of(&project);
    let avfs = project.program().display().to_string();
    let script = format!(
        "echo changed >work.txt; for words in 'apply try --yes' 'sync try' 'run -- true' 'workspace start two --from .'; do
            {avfs} $words >/dev/null 2>&1; echo $?; done; {avfs} checkpoint save inside"
    );
    let inside = project.avfs(&[
        "workspace",
        "enter",
        "try",
        "--from",
        ".",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    assert_eq!(good(&mut { inside }), "4\n4\n4\n4\ninside\n");
    assert!(all_of(&project) == before, "the directory has changed");
    good(&mut project.avfs(&["workspace", "stop", "try"]));
    assert!(good(&mut project.avfs(&["tasks"])).contains("unmerged"));
    assert!(good(&mut project.avfs(&["checkpoint", "list", "--vault", "web/try"])).contains("inside"));
}

#[test]
fn commands_in_a_fresh_workspace_read_the_project_that_it_covers() {
    for user in [0, ORDINARY] {
        let project = Project::new();
        let root = project.root();
        // More than is copied before the commands begin.
        for directory in 0..40 {
            let directory = root.join(format!("part-{directory}"));
            fs::create_dir(&directory).unwrap();
            for file in 0..40 {
                fs::write(directory.join(format!("file-{file}")), "text\n").unwrap();
            }
        }
        let elsewhere = (user != 0).then(|| Elsewhere::new(&project));
        let avfs = |words: &[&str]| match &elsewhere {
            Some(elsewhere) => elsewhere.avfs(&project, words),
            None => project.avfs(words).output().unwrap(),
        };
        let program = project.program_for(user).display().to_string();
        let script = format!(
            "{program} diff && {program} tasks && {program} status &&
             {program} cat part-39/file-39 && for place in {store}/aside/*; do ! touch $place/new 2>/dev/null || exit 9; done",
            store = project.store().display()
        );
        for name in ["one", "two", "three"] {
            let inside = said(&avfs(&[
                "workspace",
                "enter",
                name,
                "--from",
                ".",
                "--",
                "sh",
                "-c",
                &script,
            ]));
            assert!(inside.ends_with("text\n"), "{inside}");
            // Another namespace shows nothing there.
            let aside = project.store().join("aside");
            for place in fs::read_dir(aside).unwrap().map(Result::unwrap) {
                assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
            }
            said(&avfs(&["workspace", "stop", name]));
        }
    }
}

#[test]
fn a_relative_program_is_looked_up_where_it_starts() {
    let project = Project::new();
    fs::create_dir(project.root().join("tools")).unwrap();
    fs::write(project.root().join("tools/here"), "#!/bin/sh\npwd\n").unwrap();
    good(
        Command::new("chmod")
            .arg("755")
            .arg(project.root().join("tools/here")),
    );
    let enter = |words: &[&str]| {
        let mut all = vec!["workspace", "enter", "w"];
        all.extend(words);
        project.avfs(&all).current_dir(project.home()).output().unwrap()
    };
    let root = project.root().display().to_string();
    for missing in ["tools/none", "./none", &format!("{root}/none")] {
        let refused = enter(&["--from", &root, "--", missing]);
        let told = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(127), "{told}");
        assert!(
            told.contains(&format!("{missing} cannot be run: it does not exist")),
            "{told}"
        );
    }
    assert!(
        good(&mut project.avfs(&["tasks", "--json"])).contains("\"tasks\":[]"),
        "nothing was made"
    );
    let inside = said(&enter(&["--from", &root, "--", "tools/here"]));
    assert_eq!(inside, format!("{root}\n"));
    // A program that only the workspace has.
    said(&enter(&["--", "cp", "tools/here", "tools/new"]));
    assert_eq!(said(&enter(&["--", "./tools/new"])), format!("{root}\n"));
    let again = enter(&["--from", &root, "--", "tools/here"]);
    let told = String::from_utf8(again.stderr).unwrap();
    assert_eq!(again.status.code(), Some(4), "{told}");
    assert!(
        told.contains("`avfs workspace enter w` goes on with it"),
        "{told}"
    );
    good(&mut project.avfs(&["workspace", "stop", "w"]));
}

#[test]
fn a_workspace_that_is_mounted_in_another_namespace_only_is_not_entered() {
    let project = Project::new();
    let mut started = Command::new("unshare");
    started.args(["--mount"]).arg(project.program());
    good(&mut project.in_project(started, &["workspace", "start", "try", "--from", "."]));
    let entered = project
        .avfs(&["workspace", "enter", "try", "--", "ls"])
        .output()
        .unwrap();
    let told = String::from_utf8(entered.stderr).unwrap();
    assert_eq!(entered.status.code(), Some(8), "{told}");
    assert!(told.contains("another namespace of mounts"), "{told}");
    assert_eq!(entered.stdout, b"");
    good(&mut project.avfs(&["workspace", "stop", "try", "--force"]));
}
