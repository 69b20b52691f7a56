//! A vault from a commit.

use std::path::PathBuf;

use agentvfs::git::{GitError, GitRevision, GitSource};
use agentvfs::transfer::{TransferError, TransferReport};
use agentvfs::{EntryKind, Error, Store, TreePath, TreeReader, VaultLimits, VaultName};

use crate::ground::{Ground, sh};

fn made(ground: &Ground, revision: &str) -> Result<(TreeReader, TransferReport), Error> {
    let source = GitSource {
        repository: ground.path("host"),
        revision: revision.into(),
    };
    let store = Store::in_memory();
    let name = VaultName::new("made").unwrap();
    let made = store.create_vault_from_git(&name, &GitRevision::open(&source)?, VaultLimits::default(), &());
    if made.is_err() {
        assert!(
            !store.has_vault("made").unwrap(),
            "it appears whole or not at all"
        );
    }
    made.map(|(vault, report)| (vault.reader().unwrap(), report))
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

#[test]
fn a_vault_has_the_files_of_a_commit_and_its_time() {
    let ground = Ground::with(
        "git init -q -b main
         echo text >plain; printf '\\0\\r\\n' >binary; printf '' >empty; mkdir -p a/b; echo deep >a/b/deep
         echo '#!/bin/sh' >run; chmod +x run; ln -s a/b/deep link; head -c 3000000 /dev/zero | tr '\\0' x >large
         echo '* export-ignore ident text eol=crlf filter=x' >.gitattributes
         echo '$Id$' >ident
         git -c core.autocrlf=false add -A; GIT_COMMITTER_DATE='@1600000000 +0200' git commit -qm all
         git tag v1; echo later >plain; git commit -qam later",
    );
    let (reader, report) = made(&ground, "v1").unwrap();
    assert_eq!(report.files, 9);
    assert_eq!(&reader.read(&path("plain")).unwrap()[..], b"text\n");
    assert_eq!(&reader.read(&path("ident")).unwrap()[..], b"$Id$\n");
    assert_eq!(reader.read(&path("large")).unwrap().len(), 3_000_000);
    assert_eq!(&reader.read(&path("a/b/deep")).unwrap()[..], b"deep\n");
    let entry = |name: &str| reader.find(&path(name)).unwrap().entry;
    assert_eq!(
        (
            entry("run").meta.mode,
            entry("plain").meta.mode,
            entry("a").meta.mode
        ),
        (0o755, 0o644, 0o755)
    );
    assert!(matches!(entry("link").kind, EntryKind::Symlink { target } if *target == *b"a/b/deep"));
    assert_eq!(entry("empty").meta.mtime.seconds, 1_600_000_000);
    let (reader, _) = made(&ground, "HEAD").unwrap();
    assert_eq!(&reader.read(&path("plain")).unwrap()[..], b"later\n");
}

#[test]
fn submodules_are_empty_directories() {
    let ground = Ground::with(
        "git init -q -b main; git commit -q --allow-empty -m first
         git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),vendor/part; echo x >x; git add x; git commit -qm with",
    );
    let (reader, _) = made(&ground, "HEAD").unwrap();
    assert_eq!(reader.list(&path("vendor/part")).unwrap().count(), 0);
    assert!(reader.find(&path("x")).is_ok());
}

#[test]
fn missing_commit_is_reported() {
    let ground = Ground::new();
    for revision in ["nowhere", "--all", "", "main:file", "-1"] {
        assert!(
            matches!(
                made(&ground, revision),
                Err(Error::Git(GitError::UnknownRevision { .. }))
            ),
            "{revision}"
        );
    }
}

#[test]
fn a_tree_with_names_that_lead_out_is_refused() {
    let ground = Ground::new();
    ground.in_host(
        "blob=$(echo x | git hash-object -w --stdin); tree=$(printf '100644 blob %s\\t..\\n' $blob | git mktree)
         git update-ref refs/heads/bad $(git commit-tree -m bad $tree)",
    );
    assert!(matches!(
        made(&ground, "bad"),
        Err(Error::Transfer(TransferError::Refused { .. }))
    ));
}

#[test]
fn a_missing_object_makes_no_vault() {
    let ground = Ground::new();
    ground.in_host("rm -f $(git rev-parse HEAD:sub/other | sed 's,^..,.git/objects/&/,')");
    assert!(matches!(made(&ground, "HEAD"), Err(Error::Git(_))));
}

#[test]
fn a_repository_and_a_revision_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    sh(dir.path(), "mkdir -p repo a@b");
    let check = |text: &str, repository: &str, revision: &str| {
        let written = format!("{}/{text}", dir.path().display());
        for written in [written.clone(), format!("file://{written}")] {
            let expected: PathBuf = dir.path().join(repository);
            let source = GitSource::parse(written.as_ref());
            assert_eq!(
                (source.repository, source.revision.as_str()),
                (expected, revision),
                "{written}"
            );
        }
    };
    check("repo", "repo", "HEAD");
    check("repo@v1", "repo", "v1");
    check("repo@main@{1}", "repo", "main@{1}");
    check("a@b", "a@b", "HEAD");
    check("a@b@v1", "a@b", "v1");
    check("missing@v1", "missing@v1", "HEAD");
}
