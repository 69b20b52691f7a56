//! A user's repository, and the same one with work in a tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentvfs::git::{Bring, Brought, CommitFiles, Committed, GitError, HostRepository, RefName, Work};
use agentvfs::{Store, Timestamp, TreeReader, VaultLimits, VaultName};

pub struct Ground {
    dir: tempfile::TempDir,
    store: Store,
    base: Option<TreeReader>,
}

/// Where the commands of tests start from: nothing of the machine's own settings.
const IDENTITY: [(&str, &str); 6] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_AUTHOR_NAME", "Someone"),
    ("GIT_AUTHOR_EMAIL", "someone@example.org"),
    ("GIT_COMMITTER_NAME", "Someone"),
    ("GIT_COMMITTER_EMAIL", "someone@example.org"),
];

/// Runs a script; returns its output.
#[track_caller]
pub fn sh(dir: &Path, script: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-euc", script]).current_dir(dir).envs(IDENTITY);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{errors}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

pub fn branch(name: &str) -> RefName {
    RefName::branch(name).unwrap()
}

impl Ground {
    /// The user's repository is made by a script, in a directory `host`.
    #[track_caller]
    pub fn with(script: &str) -> Ground {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("host")).unwrap();
        sh(&dir.path().join("host"), script);
        Ground {
            dir,
            store: Store::in_memory(),
            base: None,
        }
    }

    /// A repository with two commits and a few files.
    pub fn new() -> Ground {
        Ground::with(
            "git init -q -b main
             echo one >file; mkdir sub; echo two >sub/other; echo '*.log' >.gitignore
             git add -A; git commit -qm first
             echo more >>file; git commit -qam second",
        )
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn host(&self) -> HostRepository {
        HostRepository::open(&self.path("host")).unwrap()
    }

    /// The current directory is the start of the work, and a script is the work.
    #[track_caller]
    pub fn work(&mut self, script: &str) -> Work {
        sh(self.dir.path(), "rm -rf task; cp -a host task");
        self.base = Some(self.reader("host"));
        self.go_on(script)
    }

    /// Continues the work.
    #[track_caller]
    pub fn go_on(&self, script: &str) -> Work {
        sh(&self.path("task"), script);
        Work::new(self.base.clone().unwrap(), self.reader("task"))
    }

    /// A directory as a stored tree.
    pub fn reader(&self, directory: &str) -> TreeReader {
        let count = self.store.vaults().unwrap().vaults.len();
        let name = VaultName::new(&format!("{directory}-{count}")).unwrap();
        let made = self
            .store
            .create_vault_from(&name, &self.path(directory), VaultLimits::default(), &());
        made.unwrap().0.reader().unwrap()
    }

    #[track_caller]
    pub fn in_host(&self, script: &str) -> String {
        sh(&self.path("host"), script)
    }

    #[track_caller]
    pub fn in_task(&self, script: &str) -> String {
        sh(&self.path("task"), script)
    }

    /// Everything about the user's repository that must not change by a failure.
    pub fn state(&self) -> String {
        let files = "find . -type f -printf '%p %s %m %T@\\n' | sort";
        self.in_host(&format!("git for-each-ref; git symbolic-ref HEAD; {files}"))
    }
}

pub fn bring(work: &Work, host: &HostRepository) -> Result<Brought, GitError> {
    work.bring_commits(
        host,
        &Bring {
            branch: branch("avfs/work"),
            of: None,
            update: false,
            allowed: Vec::new(),
        },
    )
}

pub fn commit(work: &Work, host: &HostRepository) -> Result<Committed, GitError> {
    let commit = CommitFiles {
        branch: branch("avfs/files"),
        message: "What was done".into(),
        paths: Vec::new(),
        allowed: Vec::new(),
        time: Timestamp {
            seconds: 1_700_000_000,
            nanos: 0,
        },
        author: "tester".into(),
    };
    work.commit_files(host, &commit)
}
