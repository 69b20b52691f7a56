use std::process::Command;

use super::*;

fn git(directory: &Path, words: &[&str]) {
    let mut command = Command::new("git");
    command
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(words);
    let output = command
        .current_dir(directory)
        .env("HOME", directory)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text.as_bytes()).unwrap()
}

/// A repository with a tracked file in two directories, and untracked files.
fn repository(format: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for name in ["one/a", "one/two/b", "one/new", "other/secret", "top"] {
        fs::create_dir_all(place.path().join(name).parent().unwrap()).unwrap();
        fs::write(place.path().join(name), name).unwrap();
    }
    git(place.path(), &["init", "-q", "--object-format", format]);
    git(place.path(), &["add", "one/a", "one/two/b", "top"]);
    git(place.path(), &["commit", "-qm", "first"]);
    place
}

fn prepared(project: &Path, rules: Option<&Rules>) -> Option<PreparedIndex> {
    let place = project.join(".git/index");
    let written = fs::metadata(&place).unwrap().modified().unwrap();
    let state = SnapshotId::of(b"state");
    let stop = GitStop::default();
    PreparedIndex::make(project, &fs::read(place).unwrap(), written, state, rules, &stop).unwrap()
}

#[test]
fn prepared_index_knows_tracked_and_untracked_files() {
    for format in ["sha1", "sha256"] {
        let project = repository(format);
        let made = prepared(project.path(), None).unwrap();
        assert!(asks(&made.bytes), "{format}");
        assert_eq!(made.doubtful, [path("one/new"), path("other")], "{format}");
        let names = GitIndex::of_bytes(made.bytes).unwrap().untracked_names().unwrap();
        let mut names: Vec<String> = names
            .into_iter()
            .map(|name| String::from_utf8(name).unwrap())
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(
            names,
            ["one", "one/new", "one/two", "other", "other/secret"],
            "{format}"
        );
        // The repository's own index is as it was.
        assert!(
            !asks(&fs::read(project.path().join(".git/index")).unwrap()),
            "{format}"
        );
    }
}

#[test]
fn prepared_index_names_nothing_hidden() {
    let project = repository("sha1");
    let rules =
        ["/other/secret=none", "/one/new=none"].map(|rule| avfs_core::rules::Rule::parse(rule).unwrap());
    for rule in rules {
        let made = prepared(project.path(), Some(&Rules::new(vec![rule]).unwrap())).unwrap();
        assert!(asks(&made.bytes));
        assert_eq!(
            GitIndex::of_bytes(made.bytes).unwrap().untracked_names(),
            Some(Vec::new())
        );
    }
}

#[test]
fn preparation_that_was_stopped_makes_nothing() {
    let project = repository("sha1");
    let index = fs::read(project.path().join(".git/index")).unwrap();
    let stop = GitStop::default();
    stop.stop();
    let made = PreparedIndex::make(
        project.path(),
        &index,
        SystemTime::now(),
        SnapshotId::of(b"s"),
        None,
        &stop,
    );
    assert!(made.is_err());
}

#[test]
fn filters_of_the_user_are_not_started() {
    let project = repository("sha1");
    let started = project.path().join("started");
    fs::write(project.path().join(".git/info/attributes"), "* filter=own\n").unwrap();
    for part in ["clean", "smudge", "process"] {
        let command = format!("touch {}; cat", started.display());
        git(
            project.path(),
            &["config", &format!("filter.own.{part}"), &command],
        );
    }
    git(project.path(), &["config", "filter.own.required", "true"]);
    fs::write(project.path().join("one/a"), "edited").unwrap();
    let made = prepared(project.path(), None).unwrap();
    assert!(made.doubtful.contains(&path("one/a")));
    assert!(!started.exists());
}

#[test]
fn tokens_name_states_and_answers_name_paths() {
    let state = SnapshotId::of(b"state");
    assert_eq!(state_of(token(state).as_bytes()), Some(state));
    for nonsense in [&b""[..], b"avfs:", b"1762345678901234567", b"avfs:zz", b"\xff"] {
        assert_eq!(state_of(nonsense), None);
    }
    let told = answer(state, Some(&[b"a b".to_vec(), b"c/".to_vec()]));
    assert_eq!(told, [token(state).as_bytes(), b"\0a b\0c/\0"].concat());
    assert_eq!(answer(state, None), [token(state).as_bytes(), b"\0/\0"].concat());
}

#[test]
fn only_large_repositories_are_worth_asking() {
    let header = |count: u32| [&b"DIRC\0\0\0\x02"[..], &count.to_be_bytes()].concat();
    assert!(is_large(&header(10_000)));
    assert!(!is_large(&header(9_999)));
    assert!(!is_large(b"DIRC"));
    assert!(!is_large(&[0xff; 12]));
    assert_eq!(
        [0, 639_999, 640_000, 1_600_000].map(is_large_by_size),
        [Some(false), Some(false), None, Some(true)]
    );
}
