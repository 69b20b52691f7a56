//! The program `avfs-inside`, started as a launcher starts it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use avfs_inside::{
    ARGUMENT, PathAccess, ProcessLimits, SocketKinds, StageChannel, StageOrder, StageReport, StageRole,
    StageSpec, StageWork,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

const PROGRAM: &str = env!("CARGO_BIN_EXE_avfs-inside");

fn inherited(fd: impl AsFd) -> i32 {
    fcntl_setfd(&fd, FdFlags::empty()).unwrap();
    fd.as_fd().as_raw_fd()
}

fn next_report(channel: &mut StageChannel, socket: &OwnedFd) -> StageReport {
    loop {
        if let Some(report) = channel.next_report().unwrap() {
            return report;
        }
        let mut waiting = [PollFd::new(socket, PollFlags::IN)];
        poll(&mut waiting, None).unwrap();
        assert!(channel.receive().unwrap(), "the program is gone");
    }
}

#[test]
fn a_command_is_confined_started_and_reported() {
    let (outer, inner) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let place = tempfile::tempdir().unwrap();
    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    let output = File::create(place.path().join("output")).unwrap();
    let numbers = [
        inherited(&inner),
        inherited(&null),
        inherited(&output),
        inherited(&null),
    ];
    let mut program = Command::new(PROGRAM)
        .args([ARGUMENT, &numbers.map(|number| number.to_string()).join(",")])
        .env_clear()
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    drop(inner);
    let spec = StageSpec {
        standing: StageRole::Keeper,
        work: StageWork::Command(
            ["/bin/sh", "-c", "echo here; echo no > denied; exit 7"]
                .map(OsString::from)
                .into(),
        ),
        env: vec![],
        cwd: place.path().to_owned(),
        access: vec![(PathBuf::from("/"), PathAccess::Read)],
        sockets: SocketKinds::Pairs,
        listens: vec![],
        rlimits: ProcessLimits::default(),
    };
    let socket = outer.try_clone().unwrap();
    let mut channel = StageChannel::new(outer);
    channel.order(&StageOrder::Start(spec)).unwrap();
    assert_eq!(next_report(&mut channel, &socket), StageReport::Started);
    assert_eq!(
        next_report(&mut channel, &socket),
        StageReport::Exited { code: 7 }
    );
    program.wait().unwrap();
    assert_eq!(
        std::fs::read_to_string(place.path().join("output")).unwrap(),
        "here\n"
    );
    assert!(!place.path().join("denied").exists());
}

#[test]
fn started_by_hand_it_says_what_it_is_for() {
    let output = Command::new(PROGRAM).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("inside a sandbox")
    );
}
