//! The picture of a whole store.

use agentvfs::VaultName;
use insta::assert_snapshot;

use crate::sandbox::Sandbox;
use crate::seed::write;

fn names(names: &[&str]) -> Vec<VaultName> {
    names.iter().map(|name| VaultName::new(name).unwrap()).collect()
}

#[test]
fn forks_restores_and_merges_are_drawn() {
    let sandbox = Sandbox::new();
    let web = sandbox.seed("web", &[("a", "1")]);
    sandbox.run("checkpoint save v1");
    let fix = web.fork(&names(&["fix"])).unwrap().remove(0);
    web.fork(&names(&["idle-1", "idle-2"])).unwrap();
    write(&fix, "b", b"fixed");
    write(&web, "a", b"2");
    sandbox.run("checkpoint restore v1 --vault web");
    sandbox.run("checkpoint restore fix: --vault web");
    write(&fix, "b", b"more");
    assert_snapshot!(sandbox.scrubbed("log --graph"), @"
    status 0
    --- data
      ●  fix    3  ID  just now        write /b
    ● │  web    5  ID  just now        restore fix:
    ├─┤
    ◇ │  web    4  ID  just now        restore v1  (as in 2)
    ● │  web    3  ID  just now        write /a
    │ ●  fix    2  ID  just now        write /b
    │ ●  fix    1  ID  just now        fork web
    ├─╯
    ◆    web    2  ID  just now        write /a  [v1]  (forked as idle-1, idle-2)
    ●    web    1  ID  just now        create
    --- talk
    ");
    assert_snapshot!(sandbox.scrubbed("log --graph -n 2"), @"
    status 0
    --- data
      ●  fix    3  ID  just now        write /b
    ●    web    5  ID  just now        restore fix:
    --- talk
    ");
    let graph = sandbox.object("log --graph --json");
    assert_eq!(graph["vaults"].as_array().unwrap().len(), 4);
    assert_eq!(graph["vaults"][1]["parent"], "web");
    let merge = &graph["entries"][1];
    assert_eq!(
        (
            merge["vault"].as_str(),
            merge["parents"].as_array().unwrap().len()
        ),
        (Some("web"), 2)
    );
}

#[test]
fn a_store_without_vaults_is_an_empty_picture() {
    assert_snapshot!(Sandbox::new().run("log --graph"), @"
    status 0
    --- data
    --- talk
    ");
}
