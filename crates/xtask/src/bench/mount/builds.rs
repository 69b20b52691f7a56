//! Programs that developers and their agents run all day: git and cargo.

use super::{Step, Work, shell};

const GIT: &str = "git -c user.name=bench -c user.email=bench@example.org -c gc.auto=0";

/// An ordinary user clones a repository of another user.
const SERVE: &str = "git -c safe.directory=* upload-pack";

const STATUS: Work = |dir, _| shell(dir, "cd tree; test -z \"$(git status --porcelain)\"");

pub fn steps() -> Vec<Step> {
    vec![
        Step::new("git clone", |dir, supplies| {
            let repository = supplies.repository.display();
            shell(
                dir,
                &format!("git clone -q --no-local -u '{SERVE}' '{repository}' clone"),
            )
        })
        .needed(),
        Step::new("git add, commit", |dir, _| {
            shell(
                dir,
                &format!("cd tree; git init -q; {GIT} add -A; {GIT} commit -qm all"),
            )
        })
        .needed(),
        Step::new("git status", STATUS).warm(),
        Step::new("cargo build", |dir, supplies| {
            let copy = format!("cp -r '{}' workspace", supplies.workspace.display());
            shell(dir, &format!("{copy}; cd workspace; cargo build -q --offline"))
        })
        .needed()
        .at_home(),
        Step::new("cargo build again", |dir, _| {
            shell(
                dir,
                "cd workspace; cargo build -q --offline; target/debug/app >/dev/null; cd ..; rm -r workspace",
            )
        })
        .needed()
        .at_home(),
    ]
}

pub fn cold_steps() -> Vec<Step> {
    vec![Step::new("git status, cold", STATUS).cold()]
}
