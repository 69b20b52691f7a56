//! A project of a user, with a task that changed it in every way.

use avfs_testkit::TestEnv;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agentvfs::{NewTask, OpenVault, Store, StoreOptions, TaskName, TreePath};
use assert_cmd::Command;

use crate::pane::give_to;

pub struct Project {
    place: tempfile::TempDir,
    /// Whose it is, if it is not ours.
    owner: Option<&'static str>,
}

/// The user of a project. Without root, we are an ordinary user ourselves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Ours,
    AnOrdinaryUsers,
}

/// Three places to change that are far enough from each other.
pub fn numbered() -> String {
    (1..=60).map(|n| format!("line {n}\n")).collect()
}

impl Project {
    /// Files of the directory, and the changes that the task `work` makes to them.
    pub fn new(files: &[(&str, &[u8])], edit: impl Fn(&OpenVault)) -> Project {
        Project::of(Whose::Ours, files, edit)
    }

    pub fn of(whose: Whose, files: &[(&str, &[u8])], edit: impl Fn(&OpenVault)) -> Project {
        let is_ours = whose == Whose::Ours || !rustix::process::geteuid().is_root();
        let owner = (!is_ours).then_some("nobody");
        let project = Project {
            place: tempfile::tempdir().unwrap(),
            owner,
        };
        fs::create_dir(project.home()).unwrap();
        fs::create_dir(project.root()).unwrap();
        for (name, bytes) in files {
            let file = project.root().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, bytes).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        }
        // Their state from now on is the reference.
        if let Some(user) = owner {
            give_to(user, project.place.path());
        }
        let store = Store::open_with(
            &project.home().join(".local/share/agentvfs"),
            StoreOptions::default(),
        )
        .unwrap();
        let name = Some(TaskName::new("work").unwrap());
        let task = store.project(&project.root()).unwrap();
        task.new_task(&NewTask {
            name,
            ..NewTask::default()
        })
        .unwrap();
        project.edit(edit);
        if let Some(user) = owner {
            fs::copy(assert_cmd::cargo::cargo_bin!("avfs"), project.program()).unwrap();
            give_to(user, &project.home());
        }
        project
    }

    /// A text with changes in three places, a new file and one that is gone.
    pub fn usual() -> Project {
        Project::usual_of(Whose::Ours)
    }

    pub fn usual_of(whose: Whose) -> Project {
        let before = numbered();
        let files: &[(&str, &[u8])] = &[("src/main.txt", before.as_bytes()), ("gone.txt", b"bye\n")];
        Project::of(whose, files, |task| {
            let text = String::from_utf8(task.read(&path("src/main.txt")).unwrap().to_vec()).unwrap();
            let text = text.replace("line 5\n", "line five\n").replace("line 30\n", "");
            let text = text.replace("line 55\n", "line 55 and more\n");
            task.write_bytes(&path("src/main.txt"), text.as_bytes()).unwrap();
            task.write_bytes(&path("src/new.txt"), b"hello\n").unwrap();
            task.remove(&path("gone.txt"), false).unwrap();
        })
    }

    /// Does something to the files of the task.
    pub fn edit(&self, edit: impl FnOnce(&OpenVault)) {
        let home = self.home().join(".local/share/agentvfs");
        let store = Store::open_with(&home, StoreOptions::default()).unwrap();
        let vault = store
            .projects()
            .find(&self.root())
            .unwrap()
            .unwrap()
            .tasks()
            .unwrap()
            .remove(0);
        let open = vault.vault().begin().unwrap();
        edit(&open);
        open.commit("edit", "").unwrap();
    }

    pub fn owner(&self) -> Option<&'static str> {
        self.owner
    }

    pub fn program(&self) -> PathBuf {
        match self.owner {
            Some(_) => self.place.path().join("avfs"),
            None => assert_cmd::cargo::cargo_bin!("avfs").to_owned(),
        }
    }

    pub fn home(&self) -> PathBuf {
        self.place.path().join("home")
    }

    pub fn root(&self) -> PathBuf {
        self.place.path().join("web")
    }

    pub fn read(&self, name: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.root().join(name)).ok()
    }

    pub fn avfs(&self, line: &str) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("avfs"));
        command
            .env_clear()
            .envs(&TestEnv::of_home(self.home()))
            .current_dir(self.root());
        command.args(line.split_whitespace());
        command
    }
}

pub fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}
