//! Looking at files: `ls`, `cat`, `stat` and `tree`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn ls_lists_as_users_know_it() {
    let sandbox = Sandbox::with_files();
    assert_eq!(sandbox.good("ls"), "link\nnotes.txt\nsrc\n");
    assert_eq!(sandbox.good("ls src"), "main.rs\n");
    assert_eq!(sandbox.good("ls -a /src/"), ".hidden\nmain.rs\n");
    assert_eq!(
        sandbox.good("ls -R"),
        "/:\nlink\nnotes.txt\nsrc\n\n/src:\nmain.rs\n"
    );
    assert_eq!(sandbox.good("ls src notes.txt"), "/notes.txt\n\n/src:\nmain.rs\n");
}

#[test]
fn ls_long_sets_columns() {
    let sandbox = Sandbox::with_files();
    sandbox.good("ln notes.txt src/again");
    sandbox.good("chmod 7755 notes.txt");
    let long = sandbox.good("ls -l");
    // Owners and times depend on the user and the day of the test.
    let known = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        format!("{} {} {} {}", words[0], words[1], words[4], words[7..].join(" "))
    };
    assert_snapshot!(long.lines().map(known).collect::<Vec<_>>().join("\n"), @r"
    lrwxrwxrwx 1 9 link -> notes.txt
    -rwsr-sr-t 2 6 notes.txt
    drwxr-xr-x 1 0 src
    ");
}

#[test]
fn ls_in_json_has_all_attributes() {
    let sandbox = Sandbox::with_files();
    let object = sandbox.object("ls -aR --json");
    assert_eq!(object["kind"], "ls");
    let paths: Vec<&str> = object["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        paths,
        ["/link", "/notes.txt", "/src", "/src/.hidden", "/src/main.rs"]
    );
    let (link, notes) = (&object["entries"][0], &object["entries"][1]);
    assert_eq!(
        (&link["type"], &link["target"]),
        (&"symlink".into(), &"notes.txt".into())
    );
    assert_eq!(
        (&notes["type"], &notes["mode"], &notes["size"]),
        (&"file".into(), &"0644".into(), &6.into())
    );
    assert_eq!(notes["names"], 1);
}

#[test]
fn a_past_state_can_be_looked_at() {
    let sandbox = Sandbox::with_files();
    let before = sandbox.object("write notes.txt second --json")["snapshot"]
        .as_str()
        .unwrap()
        .to_owned();
    sandbox.good("write notes.txt third");
    sandbox.good("rm -r src");
    assert_eq!(sandbox.good(&format!("cat notes.txt --at {before}")), "second\n");
    assert_eq!(
        sandbox.good(&format!("cat notes.txt --at {}", &before[..8])),
        "second\n"
    );
    assert_eq!(sandbox.good("cat notes.txt --at @~1"), "third\n");
    assert_eq!(sandbox.good(&format!("ls src --at {before}")), "main.rs\n");
    assert!(sandbox.good(&format!("tree --at {before}")).contains("main.rs"));
    assert_eq!(sandbox.bad("ls --at nothing"), (3, "unknown-revision".into()));
}

#[test]
fn cat_prints_exact_bytes_and_ranges_of_a_large_file() {
    let sandbox = Sandbox::with_files();
    let lines: Vec<u8> = (1..=400_000)
        .flat_map(|line| format!("line {line}\u{ff}\n").into_bytes())
        .collect();
    assert!(lines.len() > 4 << 20, "several pieces, and stored in chunks");
    sandbox
        .avfs()
        .args(["write", "big"])
        .write_stdin(lines.clone())
        .assert()
        .success();
    let cat = |line: &str| sandbox.avfs().args(line.split(' ')).output().unwrap().stdout;
    assert!(cat("cat big") == lines);
    assert_eq!(
        cat("cat big --bytes 3000000:3000011"),
        lines[3_000_000..3_000_011]
    );
    assert_eq!(cat("cat big --bytes 99999999:"), b"");
    assert_eq!(
        cat("cat big --lines 399999:"),
        "line 399999\u{ff}\nline 400000\u{ff}\n".as_bytes()
    );
    assert_eq!(
        cat("cat big --lines 2:3"),
        "line 2\u{ff}\nline 3\u{ff}\n".as_bytes()
    );
    let stat = sandbox.object("stat big --json");
    assert_eq!(
        stat["entries"][0]["version"],
        agentvfs::Version::of_bytes(&lines).as_str()
    );
}

#[test]
fn cat_in_json_and_on_a_terminal_is_safe() {
    let sandbox = Sandbox::with_files();
    sandbox
        .avfs()
        .args(["write", "raw"])
        .write_stdin(&b"\x1b[31mred\xff\n"[..])
        .assert()
        .success();
    let object = sandbox.object("cat raw notes.txt --json");
    assert_eq!(object["files"][0]["content_bytes_hex"], "1b5b33316d726564ff0a");
    assert_eq!(object["files"][1]["content"], "first\n");
    assert_eq!(sandbox.on_terminal("cat raw", ""), "\\u{1b}[31mred\\xff\n");
}

#[test]
fn cat_prints_nothing_if_a_file_is_missing_and_says_what_a_link_points_to() {
    let sandbox = Sandbox::with_files();
    assert_snapshot!(sandbox.run("cat notes.txt missing"), @r"
    status 3
    --- data
    --- talk
    error: vault 'web': /missing does not exist
    ");
    assert_snapshot!(sandbox.run("cat link"), @r"
    status 2
    --- data
    --- talk
    error: /link is a symbolic link
    hint: it points to notes.txt
    ");
    assert_eq!(sandbox.bad("cat src"), (2, "is-a-directory".into()));
    assert_eq!(sandbox.bad("cat notes.txt/x"), (2, "not-a-directory".into()));
}

#[test]
fn stat_shows_everything() {
    let sandbox = Sandbox::with_files();
    sandbox.good_with(["touch", "-d", "2026-05-01T12:00:00.5Z", "notes.txt"]);
    let object = sandbox.object("stat notes.txt src --json");
    let (notes, src) = (&object["entries"][0], &object["entries"][1]);
    assert_eq!(notes["version"], agentvfs::Version::of_bytes(b"first\n").as_str());
    assert_eq!(
        (&notes["mtime"], &notes["xattrs"]),
        (&"2026-05-01T12:00:00.5Z".into(), &serde_json::json!([]))
    );
    assert_eq!(src["below"], serde_json::json!({"files": 2, "bytes": 12}));
    assert_eq!(src["version"], serde_json::Value::Null);
    let text = sandbox.good("stat notes.txt");
    let labels: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        labels,
        [
            "path", "type", "size", "mode", "owner", "names", "mtime", "version"
        ]
    );
}

#[test]
fn tree_draws_what_is_asked_for() {
    let sandbox = Sandbox::with_files();
    sandbox.good("mkdir -p src/deep/deeper");
    assert_snapshot!(sandbox.good("tree -a"), @r"
    /
    ├── link -> notes.txt
    ├── notes.txt
    └── src
        ├── .hidden
        ├── deep
        │   └── deeper
        └── main.rs

    3 directories, 4 files
    ");
    assert_eq!(
        sandbox.good("tree -d -L 2"),
        "/\n└── src\n    └── deep\n\n2 directories\n"
    );
    let object = sandbox.object("tree src --json");
    assert_eq!(
        (&object["path"], &object["directories"], &object["files"]),
        (&"/src".into(), &2.into(), &1.into())
    );
    assert_eq!(object["entries"][1]["path"], "/src/deep/deeper");
    assert_eq!(sandbox.bad("tree notes.txt"), (2, "not-a-directory".into()));
}

#[test]
fn names_of_any_bytes_work_and_are_shown_escaped() {
    let sandbox = Sandbox::with_files();
    let name = OsStr::from_bytes(b"caf\xe9\x1b[31m\n");
    let run = |arguments: &[&OsStr]| sandbox.good_with(arguments);
    run(&["mkdir".as_ref(), name]);
    let inner = OsStr::from_bytes(b"caf\xe9\x1b[31m\n/\xfe");
    run(&["write".as_ref(), inner, "text".as_ref()]);
    assert_eq!(run(&["cat".as_ref(), inner]), "text\n");
    assert_eq!(run(&["ls".as_ref(), name]), "\\xfe\n");
    let shown = "caf\\xe9\\u{1b}[31m\\n";
    for line in ["ls", "ls -l", "ls -R", "tree"] {
        let text = sandbox.good(line);
        assert!(text.contains(shown) && !text.contains('\u{1b}'), "{text}");
    }
    let object = sandbox.object("ls --json");
    let entry = &object["entries"][0];
    assert_eq!(
        (&entry["path"], &entry["path_bytes_hex"]),
        (&format!("/{shown}").into(), &"2f636166e91b5b33316d0a".into())
    );
    run(&["mv".as_ref(), inner, OsStr::from_bytes(b"\xfd")]);
    run(&[
        "ln".as_ref(),
        "-s".as_ref(),
        OsStr::from_bytes(b"to \xff"),
        "l".as_ref(),
    ]);
    assert_eq!(
        sandbox.object("stat l --json")["entries"][0]["target_bytes_hex"],
        "746f20ff"
    );
    let missing = sandbox
        .avfs()
        .args(["cat".as_ref(), OsStr::from_bytes(b"\x1b[2J")])
        .output()
        .unwrap();
    assert!(!sandbox.show(&missing).contains('\u{1b}'));
}
