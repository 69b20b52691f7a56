//! Commits in the submodules of a project.

use agentvfs::git::{HostRepository, Submodule, Work};

use crate::ground::{Ground, bring};

/// A repository with a submodule whose name and path differ.
fn ground() -> Ground {
    Ground::with(
        "git init -q -b main ../part; cd ../part; echo one >file; git add -A; git commit -qm first; cd ../host
         git init -q -b main
         git -c protocol.file.allow=always submodule --quiet add --name lib/refs ../part sub/part
         git commit -qm all",
    )
}

fn found(work: &Work) -> Vec<String> {
    work.submodules()
        .unwrap()
        .iter()
        .map(|submodule| submodule.path.to_string())
        .collect()
}

#[test]
fn a_commit_in_a_submodule_is_found_and_brought_to_where_its_files_are() {
    let mut ground = ground();
    let work = ground.work("cd sub/part; echo two >file; git commit -qam second; git checkout -q --detach");
    assert_eq!(work.moved_refs().unwrap(), [], "the project itself has none");
    let submodules = work.submodules().unwrap();
    let [Submodule { path, work }] = &submodules[..] else {
        panic!("{:?}", found(&work))
    };
    assert_eq!(path.to_string(), "/sub/part");
    let host = HostRepository::open(&ground.path("host/sub/part")).unwrap();
    assert_eq!(work.unmerged_commits(Some(&host)).unwrap(), 1);
    bring(work, &host).unwrap();
    assert_eq!(
        ground.in_host("git -C sub/part log -1 --format=%s avfs/work"),
        "second"
    );
}

#[test]
fn a_submodule_that_was_only_looked_at_has_no_commits() {
    let mut ground = ground();
    let work = ground.work("cd sub/part; touch file; git status; git gc -q; git pack-refs --all");
    for submodule in work.submodules().unwrap() {
        assert_eq!(submodule.work.moved_refs().unwrap(), []);
    }
}

#[test]
fn settings_that_lie_about_the_place_of_files_lead_nowhere() {
    for lie in [
        "../../../..",
        "../../../../..",
        "/etc",
        "../../..",
        "../../../.git",
        "../../../.GIT/x",
    ] {
        let mut ground = ground();
        let work = ground.work(&format!(
            "cd sub/part; git commit -q --allow-empty -m x; git config core.worktree {lie}"
        ));
        assert_eq!(found(&work), Vec::<String>::new(), "{lie}");
    }
}
