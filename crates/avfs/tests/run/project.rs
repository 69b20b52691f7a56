//! A home with an agent, and a project in it.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::fs::FlockOperation;

/// The user `nobody`: `fusermount3` serves only users that have a name.
const NOBODY: u32 = 65_534;

/// The options with which `setpriv` becomes that user.
pub const AS_NOBODY: &str = "--reuid 65534 --regid 65534 --clear-groups --";

const AGENT: &str = include_str!("agent.sh");

/// The user's profile of the agent.
const PROFILE: &str = "
about = 'an agent of the tests'
commands = ['agent']
hosts = ['127.0.0.2']
environment = ['AGENT_*', 'SSL_CERT_FILE']
state = ['.agent.json*', '.agent/token', '.agent/sessions/**']
settings = ['.agent/settings.json', '.agent/hooks/**']
copied = ['.agent/trust']
";

pub struct Project {
    place: tempfile::TempDir,
}

impl Project {
    pub fn new() -> Project {
        let project = Project {
            place: tempfile::tempdir().unwrap(),
        };
        for (name, text) in [
            (".config/agentvfs/profiles/agent.toml", PROFILE),
            (".gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.com\n"),
            (".agent.json", "{\"runs\":1}\n"),
            (".agent/token", "stale\n"),
            (".agent/settings.json", "{}\n"),
            (".agent/hooks/stop", "#!/bin/sh\n"),
            (".ssh/id_ed25519", "key\n"),
            (".netrc", "password\n"),
            ("bin/agent", AGENT),
            ("web/work.txt", "as it was\n"),
        ] {
            let file = project.home().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        fs::set_permissions(project.home().join("bin/agent"), Permissions::from_mode(0o755)).unwrap();
        project
    }

    pub fn home(&self) -> PathBuf {
        self.place.path().canonicalize().unwrap().join("home")
    }

    pub fn root(&self) -> PathBuf {
        self.home().join("web")
    }

    /// The default directory of the store.
    pub fn store(&self) -> PathBuf {
        self.home().join(".local/share/agentvfs")
    }

    pub fn read(&self, below_home: &str) -> String {
        fs::read_to_string(self.home().join(below_home)).unwrap()
    }

    /// `avfs` in the project, without a terminal.
    pub fn avfs(&self, words: &[&str]) -> Command {
        let program: &Path = assert_cmd::cargo::cargo_bin!("avfs");
        self.in_project(Command::new(program), words)
    }

    /// The same for a user who is not root, in any directory and to its end.
    pub fn avfs_as_nobody(&self, directory: &Path, words: &[&str]) -> Output {
        let _fuse = FuseForAll::new();
        let mut setpriv = Command::new("setpriv");
        setpriv.args(AS_NOBODY.split(' ')).arg(self.give_away());
        self.in_project(setpriv, words)
            .current_dir(directory)
            .output()
            .unwrap()
    }

    /// The first time, root hands everything over, with the program.
    pub fn give_away(&self) -> PathBuf {
        self.program_for(NOBODY)
    }

    pub fn program_for(&self, user: u32) -> PathBuf {
        let program = self.home().join("avfs");
        if !program.exists() {
            fs::copy(assert_cmd::cargo::cargo_bin!("avfs"), &program).unwrap();
            fs::set_permissions(self.place.path(), Permissions::from_mode(0o755)).unwrap();
            give(&self.home(), user);
        }
        program
    }

    pub fn in_project(&self, mut command: Command, words: &[&str]) -> Command {
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin",
            self.home().join("bin").display()
        );
        command.args(words).current_dir(self.root());
        command
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", path)
            .env("MY_SECRET", "no");
        command
    }

    pub fn program(&self) -> PathBuf {
        assert_cmd::cargo::cargo_bin!("avfs").to_owned()
    }

    /// Whose it is, if it is not ours.
    pub fn owner(&self) -> Option<&'static str> {
        None
    }

    /// A line for the shell of a terminal that runs the agent.
    pub fn line(&self, act: &str) -> String {
        self.line_of(assert_cmd::cargo::cargo_bin!("avfs"), act)
    }

    pub fn line_of(&self, program: &Path, act: &str) -> String {
        let programs = self.home().join("bin");
        format!(
            "PATH={}:$PATH {} run -- agent {act}",
            programs.display(),
            program.display()
        )
    }
}

/// `/dev/fuse` as most systems have it, for everybody, until this is dropped.
pub struct FuseForAll {
    device: File,
    mode: u32,
}

impl FuseForAll {
    pub fn new() -> FuseForAll {
        let device = File::open("/dev/fuse").expect("/dev/fuse is needed, and root to open it");
        rustix::fs::flock(&device, FlockOperation::LockExclusive).unwrap();
        let mode = device.metadata().unwrap().mode() & 0o7777;
        device.set_permissions(Permissions::from_mode(0o666)).unwrap();
        FuseForAll { device, mode }
    }
}

impl Drop for FuseForAll {
    fn drop(&mut self) {
        let _ = self.device.set_permissions(Permissions::from_mode(self.mode));
    }
}

fn give(path: &Path, user: u32) {
    lchown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path)
            .unwrap()
            .for_each(|entry| give(&entry.unwrap().path(), user));
    }
}

#[track_caller]
pub fn good(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    assert!(
        status.success(),
        "{}{}",
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr)
    );
    String::from_utf8(stdout).unwrap()
}
