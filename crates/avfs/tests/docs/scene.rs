//! A new user of this machine: a home with a project in it, and replacements for the programs that pages
//! name.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server;

/// An agent, a compiler, an editor and others, by their paths below the home. They do just enough to show
/// that they ran.
const PROGRAMS: &[(&str, &str)] = &[
    ("bin/claude", include_str!("agent.sh")),
    (
        ".cargo/bin/cargo",
        "#!/bin/sh\nmkdir -p target && echo built >target/built && echo 'test result: ok'\n",
    ),
    (".local/bin/npm", "#!/bin/sh\necho npm \"$@\"\n"),
    (".local/bin/go", "#!/bin/sh\necho go \"$@\"\n"),
    ("bin/aider", "#!/bin/sh\necho aider \"$@\"\n"),
    ("src/web/.venv/bin/pytest", "#!/bin/sh\necho pytest \"$@\"\n"),
    ("bin/an-editor", "#!/bin/sh\necho '# edited' >>\"$1\"\n"),
];

/// A project as many are: tracked files, ignored ones, a secret.
const FILES: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        "[package]\nname = \"web\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
    ),
    (
        "package.json",
        "{ \"name\": \"web\", \"scripts\": { \"test\": \"true\" } }\n",
    ),
    ("Makefile", "all:\n\tmkdir -p out && echo made >out/made\n"),
    ("README.md", include_str!("a-readme.md")),
    (
        "src/main.rs",
        "fn main() {\n    // TODO: the login has a timeout\n}\n",
    ),
    ("src/main.py", "print('hello')\n"),
    ("src/web/index.js", "// the page\n"),
    ("src/web/Makefile", "all:\n\ttrue\n"),
    ("docs/guide.md", "Read this first.\n"),
    ("customers/list.csv", "Ada\n"),
    (".gitignore", ".env\n.venv/\ntarget/\n"),
];
const IGNORED: &[(&str, &str)] = &[(".env", "PASSWORD=hidden\n")];

/// Prints the id of the newest request for an approval.
const NEWEST_APPROVAL: &str =
    r#"$(avfs approvals list --json | grep -o '"id":"[^"]*' | cut -d '"' -f 4 | tail -n 1)"#;

/// The commands that create the project's history.
const HISTORY: &str = "git init -q -b main && git add -A && git commit -q -m First && git tag v1.2";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum User {
    Root,
    /// With a number that no system gives special rights.
    Ordinary,
}

const ORDINARY: u32 = 1001;

pub struct Scene {
    place: tempfile::TempDir,
    user: User,
    /// The port of the server that replaces all others.
    port: u16,
}

impl Scene {
    pub fn new(user: User) -> Scene {
        let scene = Scene {
            place: tempfile::tempdir().unwrap(),
            user,
            port: server::start(),
        };
        fs::set_permissions(scene.place.path(), Permissions::from_mode(0o755)).unwrap();
        for (name, text) in PROGRAMS {
            scene.write(&scene.home().join(name), text);
            fs::set_permissions(scene.home().join(name), Permissions::from_mode(0o755)).unwrap();
        }
        let ours: &Path = assert_cmd::cargo::cargo_bin!("avfs");
        match user {
            User::Root => symlink(ours, scene.home().join("bin/avfs")).unwrap(),
            User::Ordinary => fs::copy(ours, scene.home().join("bin/avfs")).map(drop).unwrap(),
        }
        scene.write(
            &scene.home().join(".gitconfig"),
            "[user]\n\tname = Ada\n\temail = ada@example.com\n",
        );
        FILES
            .iter()
            .chain(IGNORED)
            .for_each(|(name, text)| scene.write(&scene.project().join(name), text));
        let mut history = Command::new("sh");
        history
            .args(["-euc", HISTORY])
            .current_dir(scene.project())
            .env("HOME", scene.home());
        assert!(history.status().unwrap().success());
        if user == User::Ordinary {
            give(&scene.home(), ORDINARY);
        }
        scene
    }

    fn home(&self) -> PathBuf {
        self.place.path().canonicalize().unwrap().join("home")
    }

    pub fn project(&self) -> PathBuf {
        self.home().join("src/web")
    }

    /// Where the shell writes the status of each command.
    pub fn statuses(&self) -> PathBuf {
        self.home().join("statuses")
    }

    pub fn socket(&self) -> PathBuf {
        self.place.path().join("tmux")
    }

    /// A line of a page as it is typed here, with replacements for things that only its readers have.
    pub fn at_this_place(&self, line: &str) -> String {
        let server = format!("http://{}:{}/", server::HOST, self.port);
        [
            ("https://example.com/", &*server),
            ("example.com", server::HOST),
            ("a1-5f0c21d8", NEWEST_APPROVAL),
        ]
        .iter()
        .fold(line.to_owned(), |line, (written, here)| {
            line.replace(written, here)
        })
    }

    pub fn write(&self, file: &Path, text: &str) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        if self.user == User::Ordinary {
            chown(file, Some(ORDINARY), Some(ORDINARY)).unwrap();
        }
    }

    /// A shell in the project, in a namespace of mounts of its own.
    pub fn shell(&self) -> Vec<String> {
        let (home, place) = (
            self.home().display().to_string(),
            self.place.path().display().to_string(),
        );
        let become_user = match self.user {
            User::Root => String::new(),
            User::Ordinary => format!("setpriv --reuid {ORDINARY} --regid {ORDINARY} --clear-groups --"),
        };
        let inner = format!(
            "set -eu
            echo 'ada:x:{ORDINARY}:{ORDINARY}::{home}:/bin/bash' | cat /etc/passwd - >'{place}/passwd'
            mount --bind '{place}/passwd' /etc/passwd
            # As most systems have it, for everybody.
            mkdir '{place}/dev' && mount -t tmpfs dev '{place}/dev'
            mknod -m 666 '{place}/dev/fuse' c 10 229 && mount --bind '{place}/dev/fuse' /dev/fuse
            cd '{home}/src/web'
            exec {become_user} env -i HOME='{home}' USER=ada PATH='{home}/bin:{home}/.local/bin:/usr/bin:/bin:/usr/sbin:/sbin' \
                TERM=\"$TERM\" LC_ALL=C.UTF-8 EDITOR=an-editor SHELL=/bin/bash HISTFILE= PS1='$ ' \
                PROMPT_COMMAND='echo $? >>{}' bash --norc --noprofile -i",
            self.statuses().display()
        );
        ["unshare", "--mount", "sh", "-c", &inner]
            .map(str::to_owned)
            .to_vec()
    }
}

fn give(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path)
            .unwrap()
            .for_each(|entry| give(&entry.unwrap().path(), user));
    }
}
