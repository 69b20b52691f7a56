//! Repositories that would start programs. Each program would leave a mark.

use agentvfs::git::{GitRevision, GitSource, hidden_in_history};
use agentvfs::rules::{Rule, Rules};
use agentvfs::{NewTask, Store};

use crate::ground::{Ground, bring, commit};

/// Every setting and hook that can name a program, in the repository of the working directory.
const TRAPS: &str = r#"
    mark=$(cd ..; pwd)/mark; trap=$(pwd)/.git/trap
    printf '#!/bin/sh\necho "$0 $*" >>%s\ncat\n' "$mark" >.git/trap; chmod +x .git/trap
    mkdir -p .git/hooks
    for hook in reference-transaction post-index-change pre-commit commit-msg prepare-commit-msg post-commit \
        post-checkout post-merge pre-receive update post-receive post-update pre-auto-gc fsmonitor-watchman \
        proc-receive post-rewrite pre-push sendemail-validate; do
        cp .git/trap .git/hooks/$hook
    done
    for setting in core.fsmonitor core.pager core.editor core.sshCommand core.gitProxy core.askPass \
        core.alternateRefsCommand gpg.program gpg.ssh.program gpg.ssh.defaultKeyCommand credential.helper \
        diff.external sequence.editor filter.trap.clean filter.trap.smudge filter.trap.process diff.trap.textconv \
        diff.trap.command merge.trap.driver uploadpack.packObjectsHook alias.index-pack alias.update-ref \
        alias.rev-list alias.rev-parse pager.log pager.rev-list interactive.diffFilter; do
        git config $setting "$trap"
    done
    git config commit.gpgSign true; git config tag.gpgSign true; git config log.showSignature true
    git config core.hooksPath .git/hooks; git config extensions.partialClone origin
    git config remote.origin.promisor true; git config remote.origin.url "ext::$trap"; git config protocol.allow always
    printf '[core]\n\tfsmonitor = %s\n' "$trap" >.git/more; git config include.path more
    echo '* filter=trap diff=trap merge=trap' >.git/info/attributes
"#;

#[test]
fn no_program_of_the_users_repository_runs() {
    let mut ground = Ground::new();
    let mark = ground.path("mark");
    let work = ground.work("echo x >>file; git commit -qam x; echo y >y");
    ground.in_host(TRAPS);
    let before = ground.in_host("cat .git/config; ls .git");
    assert_eq!(work.commits(Some(&ground.host())).unwrap().len(), 1);
    bring(&work, &ground.host()).unwrap();
    commit(&work, &ground.host()).unwrap();
    let hidden = Rules::new(vec![
        Rule::parse("/**=write").unwrap(),
        Rule::parse("file=none").unwrap(),
    ])
    .unwrap();
    let new = NewTask {
        rules: Some(hidden.list().to_vec()),
        ..NewTask::default()
    };
    Store::in_memory()
        .project(&ground.path("host"))
        .unwrap()
        .new_task(&new)
        .unwrap();
    assert_eq!(hidden_in_history(&ground.path("host"), &hidden).unwrap().len(), 1);
    let source = GitSource {
        repository: ground.path("host"),
        revision: "main".into(),
    };
    GitRevision::open(&source).unwrap();
    assert!(!mark.exists(), "{}", std::fs::read_to_string(mark).unwrap());
    assert_eq!(ground.in_host("cat .git/config; ls .git"), before);
    // The traps are good ones.
    ground.in_host("git update-ref refs/heads/other HEAD </dev/null || true");
    assert!(mark.exists());
}

#[test]
fn no_program_of_a_tree_runs() {
    let mut ground = Ground::new();
    let mark = ground.path("mark");
    let work = ground.work(&format!(
        "echo x >>file; git commit -qam x; echo y >y; echo '* filter=trap' >.gitattributes
{TRAPS}"
    ));
    let before = ground.in_host("cat .git/config; ls .git .git/hooks .git/info");
    bring(&work, &ground.host()).unwrap();
    commit(&work, &ground.host()).unwrap();
    assert!(!mark.exists(), "{}", std::fs::read_to_string(mark).unwrap());
    assert_eq!(
        ground.in_host("cat .git/config; ls .git .git/hooks .git/info"),
        before
    );
}
