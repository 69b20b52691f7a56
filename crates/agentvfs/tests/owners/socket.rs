//! Input through the socket: strangers, silence, nonsense and other versions.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use agentvfs::{ErrorCode, LiveOwner, Store, Vault};
use avfs_testkit::Dice;
use rustix::event::{PollFd, PollFlags, poll};

use super::owner::{Scene, hasty_vault, open_store, start_owner};
use super::support::{name, path, read, write};

fn connect(scene: &Scene) -> UnixStream {
    let stream = UnixStream::connect(scene.work_directory().join("control")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn answer(stream: &UnixStream) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn only_the_user_may_use_the_socket() {
    let scene = Scene::new();
    let mode = |name: &str| {
        std::fs::metadata(scene.work_directory().join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode("control"), 0o600);
    assert_eq!(mode(""), 0o700);
}

#[test]
fn a_path_longer_than_an_address_is_no_obstacle() {
    let long = ["a-directory-with-a-rather-long-name"; 5].join("/");
    let mut scene = Scene::below(&long);
    assert!(scene.home.as_os_str().len() > 108);
    scene.owner_writes("/a", "one");
    assert_eq!(read(&scene.vault, "/a").unwrap(), "one");
    write(&scene.vault, "/a", "two");
    assert_eq!(scene.owner_reads("/a"), "two");
}

#[test]
fn another_version_is_answered_with_ours_and_no_more() {
    let scene = Scene::new();
    let mut stream = connect(&scene);
    stream
        .write_all(b"{\"request\":\"hello\",\"version\":99,\"new\":true}\n{\"request\":\"settle\"}\n")
        .unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert!(
        all.starts_with("{\"reply\":\"hello\",\"version\":1,\"pid\":"),
        "{all}"
    );
    assert_eq!(all.lines().count(), 1, "{all}");
}

#[test]
fn an_owner_of_another_version_is_named() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let vault = store.create_vault(&name("main")).unwrap();
    let _open = vault.open().unwrap();
    let work = home.path().join("work").join(vault.id().to_string());
    let listener = UnixListener::bind(work.join("control")).unwrap();
    let future = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        answer(&stream);
        let reply = "{\"reply\":\"hello\",\"version\":7,\"pid\":42,\"vault\":1,\"mood\":\"good\"}\n";
        (&stream).write_all(reply.as_bytes()).unwrap();
    });
    let refused = vault.reader().err().unwrap();
    assert_eq!(refused.code(), "owner-version");
    assert_eq!(
        refused.to_string(),
        "process 42 has vault 'main' open and speaks version 7, not 1"
    );
    future.join().unwrap();
}

/// How an ending owner treats a request.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// It accepts no request from a client that it has greeted.
    Untaken,
    /// It leaves the request where it is.
    Unread,
    /// It accepts the request, and is killed before it answers.
    Unanswered,
}

impl Ending {
    /// An owner that greets one client, ends and leaves no socket. The vault then has no owner.
    fn owner(self, vault: &Vault) -> std::thread::JoinHandle<()> {
        let work = vault.store().home().unwrap().join("work");
        let socket = work.join(vault.id().to_string()).join("control");
        let listener = UnixListener::bind(&socket).unwrap();
        let hello = format!(
            r#"{{"reply":"hello","version":1,"pid":42,"vault":{}}}"#,
            vault.id().0
        );
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            answer(&stream);
            std::fs::remove_file(&socket).unwrap();
            if let Ending::Untaken = self {
                stream.shutdown(Shutdown::Read).unwrap();
            }
            writeln!(&stream, "{hello}").unwrap();
            match self {
                Ending::Untaken => wait_for(&stream, PollFlags::HUP),
                Ending::Unread => wait_for(&stream, PollFlags::IN),
                Ending::Unanswered => assert!(answer(&stream).ends_with('\n')),
            }
        })
    }
}

fn wait_for(stream: &UnixStream, what: PollFlags) {
    let mut watched = [PollFd::new(stream, what)];
    while !watched[0].revents().contains(what) {
        poll(&mut watched, None).unwrap();
    }
}

/// Changes a vault whose owner ends during the request; returns how often that was tried, and the result.
fn change_beside(ending: Ending, home: &Path) -> (u32, Vault, Result<(), agentvfs::Error>) {
    let vault = open_store(home).create_vault(&name("main")).unwrap();
    let mut owner = Some(start_owner(home));
    let (mut attempts, mut ends) = (0, None);
    let changed = vault.change("write", "/b", |open| {
        attempts += 1;
        if let Some(owner) = owner.take() {
            owner.finish();
            ends = Some(ending.owner(&vault));
        }
        open.write_bytes(&path("/b"), b"kept")
    });
    ends.unwrap().join().unwrap();
    (attempts, vault, changed.map(drop))
}

#[test]
fn change_that_an_ending_owner_did_not_take_is_made_again() {
    for ending in [Ending::Untaken, Ending::Unread] {
        let home = tempfile::tempdir().unwrap();
        let (attempts, vault, changed) = change_beside(ending, home.path());
        changed.unwrap_or_else(|error| panic!("{ending:?}: {error}"));
        assert_eq!(attempts, 2, "{ending:?}");
        assert_eq!(read(&vault, "/b").unwrap(), "kept", "{ending:?}");
        assert_eq!(vault.history().entries(None, 10).unwrap().len(), 2, "{ending:?}");
    }
}

#[test]
fn change_that_an_owner_took_and_did_not_answer_is_not_made_again() {
    let home = tempfile::tempdir().unwrap();
    let (attempts, _, changed) = change_beside(Ending::Unanswered, home.path());
    assert_eq!(changed.unwrap_err().code(), "owner-gone");
    assert_eq!(attempts, 1);
}

#[test]
fn clients_that_only_look_look_again_when_an_owner_ends() {
    for ending in [Ending::Untaken, Ending::Unread, Ending::Unanswered] {
        let home = tempfile::tempdir().unwrap();
        let vault = open_store(home.path()).create_vault(&name("main")).unwrap();
        start_owner(home.path()).finish();
        let owner = ending.owner(&vault);
        let mounts = vault.look_at_owner(LiveOwner::mounts);
        let mounts = mounts.unwrap_or_else(|error| panic!("{ending:?}: {error}"));
        assert_eq!(mounts, None, "{ending:?}");
        owner.join().unwrap();
    }
}

#[test]
fn nonsense_is_refused_and_affects_no_client() {
    let mut scene = Scene::new();
    scene.owner_writes("/a", "one");
    let hello = "{\"request\":\"hello\",\"version\":1}\n";
    let zero = "0".repeat(64);
    let adopt = |base: &str| {
        format!(
            "{hello}{{\"request\":\"adopt\",\"base\":\"{base}\",\"snapshot\":\"{zero}\",\"action\":\"x\",\
             \"detail\":\"\",\"exact\":true,\"renew\":true}}\n"
        )
    };
    let lines = [
        "\n".to_owned(),
        "null\n".into(),
        "{\"request\":\"settle\"}\n".into(),
        format!("{hello}{{\"request\":\"explode\"}}\n"),
        format!("{hello}{{\"request\":\"adopt\"}}\n"),
        format!("{hello}{{\"request\":\"mount\",\"dir\":{{\"hex\":\"zz\"}},\"options\":[]}}\n"),
        format!("{hello}{{\"request\":\"mount\",\"dir\":\"relative\",\"options\":[]}}\n"),
        format!("{hello}{}\n", "[".repeat(10_000)),
        adopt(&zero),
        adopt(&scene.vault.head().unwrap().to_string()),
    ];
    for line in lines {
        let mut stream = connect(&scene);
        stream.write_all(line.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        assert!(
            all.lines().last().unwrap().starts_with("{\"reply\":\"failed\""),
            "{line}: {all}"
        );
    }
    let mut dice = Dice::new(1);
    for _ in 0..100 {
        let mut bytes = hello.as_bytes().to_vec();
        let mut tail = b"{\"request\":\"settle\"}\n".to_vec();
        for _ in 0..1 + dice.below(4) {
            let at = dice.below(tail.len());
            tail[at] = dice.below(256) as u8;
        }
        bytes.extend(tail);
        // It may hang up on us while we talk.
        let mut stream = connect(&scene);
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(scene.owner_reads("/a"), "one");
    write(&scene.vault, "/a", "two");
    assert_eq!(scene.owner_reads("/a"), "two");
}

#[test]
fn a_request_without_an_end_is_cut_off() {
    let scene = Scene::new();
    let mut stream = connect(&scene);
    let endless = std::iter::repeat_n(b"x".repeat(1 << 16), 64);
    let cut_off = endless.into_iter().any(|part| stream.write_all(&part).is_err());
    assert!(cut_off, "four megabytes of one line were taken");
}

#[test]
fn hanging_or_dying_clients_affect_no_other_client() {
    let mut scene = Scene::new();
    let mut hanging: Vec<UnixStream> = (0..20).map(|_| connect(&scene)).collect();
    for stream in hanging.iter_mut().take(10) {
        stream.write_all(b"{\"request\":\"hello\",\"ver").unwrap();
    }
    for stream in hanging.drain(5..15) {
        drop(stream);
    }
    write(&scene.vault, "/a", "one");
    assert_eq!(scene.owner_reads("/a"), "one");
    // A client sends a request and does not wait for the answer.
    for _ in 0..20 {
        let mut stream = connect(&scene);
        stream
            .write_all(b"{\"request\":\"hello\",\"version\":1}\n{\"request\":\"settle\"}\n")
            .unwrap();
    }
    write(&scene.vault, "/a", "two");
    assert_eq!(scene.owner_reads("/a"), "two");
}

#[test]
fn too_many_at_once_are_turned_away_and_may_come_again() {
    let mut scene = Scene::new();
    let mut hanging = Vec::new();
    let refusal = loop {
        let mut stream = connect(&scene);
        // May fail: an owner without room for the client answers and closes without reading.
        let _ = stream.write_all(b"{\"request\":\"hello\",\"version\":1}\n");
        let reply = answer(&stream);
        if !reply.starts_with("{\"reply\":\"hello\"") {
            break reply;
        }
        hanging.push(stream);
        assert!(hanging.len() < 200, "there is no bound");
    };
    assert!(
        refusal.starts_with("{\"reply\":\"failed\",\"code\":\"owner-silent\""),
        "{refusal}"
    );
    assert_eq!(
        hasty_vault(&scene.home).reader().err().unwrap().code(),
        "owner-silent"
    );
    scene.owner_writes("/a", "one");
    drop(hanging);
    // A client with a long timeout waits until the others have left.
    assert_eq!(read(&scene.vault, "/a").unwrap(), "one");
}

#[test]
fn an_owner_that_is_stopped_is_said_to_be_silent() {
    let scene = Scene::new();
    write(&scene.vault, "/a", "one");
    let signal = |signal| {
        let pid = rustix::process::Pid::from_raw(scene.owner.pid() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    };
    signal(rustix::process::Signal::STOP);
    let hasty = hasty_vault(&scene.home);
    assert_eq!(hasty.reader().err().unwrap().code(), "owner-silent");
    assert_eq!(hasty.begin().err().unwrap().code(), "owner-silent");
    signal(rustix::process::Signal::CONT);
    assert_eq!(read(&scene.vault, "/a").unwrap(), "one");
}

#[test]
fn leftover_socket_of_a_dead_owner_counts_as_no_owner() {
    let scene = Scene::new();
    write(&scene.vault, "/a", "one");
    let socket = scene.work_directory().join("control");
    scene.owner.kill();
    assert!(socket.exists());
    let vault = open_store(&scene.home).vault("main").unwrap();
    assert!(vault.live_owner().unwrap().is_none());
    write(&vault, "/a", "two");
    assert_eq!(read(&vault, "/a").unwrap(), "two");
}

#[test]
fn a_vault_that_is_served_is_not_deleted_or_opened_twice() {
    let scene = Scene::new();
    let owner = format!("vault 'main' is in use by process {}", scene.owner.pid());
    let refused = scene.vault.open().err().unwrap();
    assert_eq!(
        (refused.code(), refused.to_string()),
        (ErrorCode::VaultBusy, owner.clone())
    );
    let refused = scene.vault.clone().delete(false).err().unwrap();
    assert_eq!(
        (refused.code(), refused.to_string()),
        (ErrorCode::VaultBusy, owner)
    );
    assert!(
        scene
            .vault
            .reader()
            .unwrap()
            .list(&path("/"))
            .unwrap()
            .next()
            .is_none()
    );
}
