//! Entries that are computed when they are read.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use avfs_vfs::{
    ChangeKind, Children, Clock, EntryName, Limits, NodePolicy, ProvidedNode, Timestamp, Vfs, VfsError,
};

fn children(entries: &[(&str, ProvidedNode)]) -> Children {
    let entry =
        |(name, node): &(&str, ProvidedNode)| (EntryName::new(name.as_bytes()).unwrap(), node.clone());
    entries.iter().map(entry).collect()
}

fn text(vfs: &Vfs, path: &str) -> String {
    String::from_utf8(vfs.read_file(path).unwrap().to_vec()).unwrap()
}

fn names(vfs: &Vfs, path: &str) -> Vec<String> {
    let entries = vfs.ls(path).unwrap();
    entries.iter().map(|entry| entry.name.to_string()).collect()
}

/// A directory with a file, a computed file, and a directory with a file in it.
fn logs() -> ProvidedNode {
    ProvidedNode::computed_directory(|_| {
        let inner = ProvidedNode::directory(children(&[("x", ProvidedNode::file("deep"))]));
        Ok(children(&[
            ("plain", ProvidedNode::file("known")),
            (
                "path",
                ProvidedNode::computed_file(|context| Ok(context.path.to_string().into_bytes())),
            ),
            ("sub", inner),
        ]))
    })
}

fn with_logs() -> Vfs {
    let vfs = Vfs::new();
    vfs.mount("/var/logs", logs()).unwrap();
    vfs
}

#[derive(Default)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp {
            seconds: self.0.load(Ordering::Relaxed),
            nanos: 0,
        }
    }
}

fn counting(calls: &Arc<AtomicUsize>) -> ProvidedNode {
    let calls = Arc::clone(calls);
    ProvidedNode::computed_file(move |_| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        Ok(call.to_string().into_bytes())
    })
}

#[test]
fn provided_entries_are_read_and_listed_like_others() {
    let vfs = with_logs();
    vfs.write_file("/var/own", "x", None).unwrap();
    assert_eq!(names(&vfs, "/var/logs"), ["path", "plain", "sub"]);
    assert_eq!(text(&vfs, "/var/logs/path"), "/var/logs/path");
    assert_eq!(text(&vfs, "/var/logs/sub/x"), "deep");
    assert_eq!(vfs.stat("/var/logs/plain").unwrap().size, 5);
    assert!(vfs.stat("/var/logs/sub").unwrap().is_provided);
    assert_eq!(vfs.walk("/").unwrap().len(), 7);
    assert_eq!(vfs.read_file("/var/logs/none").unwrap_err().code(), "not-found");
}

#[test]
fn contents_are_computed_at_each_read_or_kept_for_a_while() {
    let clock = Arc::new(TestClock::default());
    let vfs = Vfs::with_options(Limits::default(), clock.clone());
    let (always, cached) = (Arc::default(), Arc::default());
    vfs.mount("/always", counting(&always)).unwrap();
    vfs.mount("/cached", counting(&cached).with_ttl(Duration::from_secs(10)))
        .unwrap();
    assert_eq!(
        (text(&vfs, "/always"), text(&vfs, "/always")),
        ("0".into(), "1".into())
    );
    assert_eq!(
        (text(&vfs, "/cached"), text(&vfs, "/cached")),
        ("0".into(), "0".into())
    );
    clock.0.store(9, Ordering::Relaxed);
    assert_eq!(text(&vfs, "/cached"), "0");
    clock.0.store(10, Ordering::Relaxed);
    assert_eq!(text(&vfs, "/cached"), "1");
    // A clock that goes back makes nothing last longer.
    clock.0.store(-100, Ordering::Relaxed);
    assert_eq!(text(&vfs, "/cached"), "2");
}

#[test]
fn a_failing_provider_is_an_error_of_the_read_and_of_nothing_else() {
    let vfs = with_logs();
    let is_broken = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&is_broken);
    let provider = ProvidedNode::computed_directory(move |_| {
        if switch.load(Ordering::Relaxed) {
            Err("out of order".into())
        } else {
            Ok(Children::new())
        }
    });
    vfs.mount("/broken", provider.with_ttl(Duration::from_secs(1000)))
        .unwrap();
    let before = vfs.snapshot().unwrap();
    for error in [
        vfs.ls("/broken").unwrap_err(),
        vfs.write_file("/broken/a", "", None).unwrap_err(),
        vfs.remove("/broken", true).unwrap_err(),
        vfs.copy("/broken", "/c", false).unwrap_err(),
    ] {
        assert!(matches!(error, VfsError::Provider { .. }), "{error}");
    }
    assert!(vfs.changes(&before).unwrap().is_empty());
    assert_eq!(names(&vfs, "/"), ["broken", "var"]);
    is_broken.store(false, Ordering::Relaxed);
    vfs.write_file("/broken/a", "", None).unwrap();
    assert_eq!(names(&vfs, "/broken"), ["a"]);
}

#[test]
fn written_entry_shadows_a_provided_one() {
    let vfs = with_logs();
    let before = vfs.snapshot().unwrap();
    assert_eq!(vfs.write_file("/var/logs/plain", "mine", None).unwrap(), 1);
    vfs.append_file("/var/logs/sub/x", "er", None).unwrap();
    vfs.write_file("/var/logs/sub/new", "n", None).unwrap();
    vfs.remove("/var/logs/path", false).unwrap();
    assert_eq!(text(&vfs, "/var/logs/plain"), "mine");
    assert_eq!(text(&vfs, "/var/logs/sub/x"), "deeper");
    assert_eq!(names(&vfs, "/var/logs"), ["plain", "sub"]);
    assert_eq!(names(&vfs, "/var/logs/sub"), ["new", "x"]);
    let changes = vfs.changes(&before).unwrap();
    let seen: Vec<_> = changes
        .iter()
        .map(|change| (change.path.to_string(), change.change))
        .collect();
    assert_eq!(
        seen,
        [
            ("/var/logs/path".into(), ChangeKind::Deleted),
            ("/var/logs/plain".into(), ChangeKind::Updated),
            ("/var/logs/sub".into(), ChangeKind::Updated),
            ("/var/logs/sub/new".into(), ChangeKind::Created),
            ("/var/logs/sub/x".into(), ChangeKind::Updated),
        ]
    );
    vfs.write_file("/var/logs/path", "again", None).unwrap();
    vfs.restore(&before).unwrap();
    assert_eq!(text(&vfs, "/var/logs/plain"), "known");
    assert_eq!(text(&vfs, "/var/logs/path"), "/var/logs/path");
    assert_eq!(vfs.write_file("/var/logs/plain", "", None).unwrap(), 2);
}

#[test]
fn forks_and_snapshots_keep_providers() {
    let vfs = with_logs();
    let fork = vfs.fork().unwrap();
    vfs.write_file("/var/logs/plain", "mine", None).unwrap();
    assert_eq!(text(&fork, "/var/logs/plain"), "known");
    assert_eq!(text(&fork, "/var/logs/path"), "/var/logs/path");
}

#[test]
fn provided_entries_move_and_copy_as_they_are_now() {
    let vfs = with_logs();
    vfs.rename("/var/logs/path", "/static").unwrap();
    assert_eq!(text(&vfs, "/static"), "/var/logs/path");
    assert_eq!(names(&vfs, "/var/logs"), ["plain", "sub"]);
    vfs.write_file("/var/logs/sub/own", "o", None).unwrap();
    vfs.rename("/var/logs/sub", "/sub").unwrap();
    assert_eq!(names(&vfs, "/sub"), ["own", "x"]);
    assert_eq!(names(&vfs, "/var/logs"), ["plain"]);
    vfs.copy("/var", "/copy", false).unwrap();
    assert_eq!(vfs.stat("/copy/logs/plain").unwrap().version, 1);
    // A mounted provider itself moves along.
    vfs.rename("/var/logs", "/logs").unwrap();
    assert_eq!(names(&vfs, "/logs"), ["plain"]);
    vfs.remove("/logs", true).unwrap();
    assert_eq!(names(&vfs, "/"), ["copy", "static", "sub", "var"]);
}

#[test]
fn a_provider_can_read_the_filesystem_and_only_so_deep() {
    let vfs = Vfs::new();
    vfs.write_file("/name", "world", None).unwrap();
    let hello = ProvidedNode::computed_file(|context| {
        let name = context.vfs.read_file("/name")?;
        Ok([b"hello ", &name[..]].concat())
    });
    vfs.mount("/hello", hello).unwrap();
    assert_eq!(text(&vfs, "/hello"), "hello world");
    let mirror = ProvidedNode::computed_file(|context| Ok(context.vfs.read_file("/mirror")?.to_vec()));
    vfs.mount("/mirror", mirror).unwrap();
    assert!(matches!(
        vfs.read_file("/mirror").unwrap_err(),
        VfsError::Provider { .. }
    ));
    let writer = ProvidedNode::computed_file(|context| {
        context.vfs.append_file("/reads", "x", None)?;
        Ok(Vec::new())
    });
    vfs.mount("/writer", writer).unwrap();
    vfs.read_file("/writer").unwrap();
    assert_eq!(text(&vfs, "/reads"), "x");
    // Within a change it can read and not write.
    assert_eq!(
        vfs.copy("/writer", "/copy", false).unwrap_err().code(),
        "provider-failed"
    );
    vfs.copy("/hello", "/copy", false).unwrap();
}

#[test]
fn mounts_need_room_and_keep_their_policy() {
    let vfs = Vfs::new();
    vfs.write_file("/a", "x", None).unwrap();
    assert_eq!(vfs.mount("/a", logs()).unwrap_err().code(), "exists");
    assert_eq!(vfs.mount("/", logs()).unwrap_err().code(), "root");
    let locked = NodePolicy {
        writable: false,
        ..NodePolicy::default()
    };
    vfs.mount("/locked", logs().with_policy(locked.clone())).unwrap();
    assert_eq!(
        vfs.write_file("/locked/plain", "", None).unwrap_err().code(),
        "denied"
    );
    let file = ProvidedNode::file("x").with_policy(locked);
    vfs.mount("/d", ProvidedNode::directory(children(&[("locked", file)])))
        .unwrap();
    assert_eq!(
        vfs.write_file("/d/locked", "", None).unwrap_err().code(),
        "denied"
    );
    assert_eq!(vfs.remove("/d", true).unwrap_err().code(), "denied");
    vfs.write_file("/d/open", "", None).unwrap();
    vfs.set_mode("/d/open", 0o600).unwrap();
}
