//! Every block of commands in README.md and docs/, typed in order in a terminal, by a new user in a project.
//!
//! A block of a page (indented by four, or fenced) with a line that calls `avfs` is typed line by line, each
//! page in a home of its own. In a block in which some lines begin with `$ `, the other lines are output. A
//! command must end with status 0, or with the one that its comment names (`# status 1: …`). Instructions
//! that are not for readers are in comments before the block:
//!
//! ```text
//! <!-- typed first: avfs run --name fix -- claude -->    what has happened before; several lines are several commands
//! <!-- not typed: it changes the machine -->             a block that nobody should type for a test
//! <!-- file: avfs.toml -->                               a block that is a file of the project
//! ```
//!
//! Needs `/dev/fuse`, bubblewrap, git, tmux and root.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod page;
mod scene;
mod server;
mod typist;

use std::path::{Path, PathBuf};

use page::{Page, Step};
use scene::{Scene, User};
use typist::Typist;

macro_rules! pages {
    ($($name:ident: $file:literal,)*) => {
        /// The pages with commands.
        const TYPED: &[&str] = &[$($file),*];
        $(#[test]
        fn $name() {
            type_page($file, User::Root);
        })*
    };
}

pages! {
    readme: "README.md",
    apply: "docs/apply.md",
    cli: "docs/cli.md",
    exec: "docs/exec.md",
    git: "docs/git.md",
    images: "docs/images.md",
    mcp: "docs/mcp.md",
    merge: "docs/merge.md",
    network: "docs/network.md",
    policy: "docs/policy.md",
    review: "docs/review.md",
    rules: "docs/rules.md",
    run: "docs/run.md",
    server: "docs/server.md",
    tasks: "docs/tasks.md",
}

#[test]
fn readme_by_an_ordinary_user() {
    type_page("README.md", User::Ordinary);
}

#[test]
fn every_page_with_commands_is_typed() {
    let docs = std::fs::read_dir(repository().join("docs")).unwrap();
    let names = docs.map(|entry| format!("docs/{}", entry.unwrap().file_name().display()));
    let names = names
        .filter(|name| name.ends_with(".md"))
        .chain(["README.md".to_owned()]);
    let mut found: Vec<String> = names.filter(|name| read(name).has_commands()).collect();
    found.sort();
    let mut typed = TYPED.to_vec();
    typed.sort_unstable();
    assert_eq!(found, typed, "the list in tests/docs/main.rs");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> Page {
    Page::read(&std::fs::read_to_string(repository().join(name)).unwrap())
}

fn type_page(name: &str, user: User) {
    let page = read(name);
    let scene = Scene::new(user);
    let typist = Typist::start(&scene);
    let mut wrong = Vec::new();
    for step in page.steps() {
        match step {
            Step::Command { line, status, number } => {
                let typed = typist.type_line(&scene.at_this_place(line), *status);
                wrong.extend(typed.err().map(|what| format!("{name}:{number}: {what}")));
            }
            Step::File { name, text } => scene.write(&scene.project().join(name), text),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
