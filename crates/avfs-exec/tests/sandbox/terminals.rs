//! A terminal of the sandbox's own, driven from its outer side.

use std::fs::File;
use std::io::{Read, Write};
use std::thread::JoinHandle;

use avfs_exec::launch::{CommandEnd, LaunchRequest};
use avfs_exec::terminal::{Console, ConsoleMessage};
use avfs_exec::{Cancel, LaunchOutcome, Launcher, SandboxPlan, Stdin};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::kit::{PATIENCE, Workspace, bubblewrap};

const CTRL_C: &[u8] = &[3];
const CTRL_Z: &[u8] = &[26];

/// A run with a terminal, and its output so far.
struct Seat {
    console: Option<Console>,
    outer: File,
    shown: String,
    run: JoinHandle<LaunchOutcome>,
}

impl Seat {
    fn start(plan: SandboxPlan) -> Seat {
        let (console, socket) = Console::pair().unwrap();
        let run = std::thread::spawn(move || {
            let cancel = Cancel::new().unwrap();
            bubblewrap()
                .launch(LaunchRequest::new(
                    &plan,
                    Stdin::Terminal(socket),
                    &cancel,
                    &mut |_| (),
                ))
                .unwrap()
        });
        let ConsoleMessage::Opened(outer) = console.hear().unwrap() else {
            panic!("no terminal came")
        };
        set_size(&outer, 24, 80);
        console.go_on().unwrap();
        Seat {
            console: Some(console),
            outer: outer.into(),
            shown: String::new(),
            run,
        }
    }

    fn shell(script: &str) -> (Workspace, Seat) {
        let workspace = Workspace::new();
        let seat = Seat::start(workspace.shell(script));
        (workspace, seat)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.outer.write_all(bytes).unwrap();
    }

    /// Waits until this is printed, and drops everything before it.
    #[track_caller]
    fn expect(&mut self, text: &str) {
        while !self.shown.contains(text) {
            let mut buffer = [0; 4096];
            let mut fds = [PollFd::new(&self.outer, PollFlags::IN)];
            assert!(
                poll(&mut fds, Some(&PATIENCE)).unwrap() > 0,
                "{text:?} is not in {:?}",
                self.shown
            );
            match self.outer.read(&mut buffer) {
                Ok(count) if count > 0 => self.shown += &String::from_utf8_lossy(&buffer[..count]),
                _ => panic!("{text:?} is not in {:?}", self.shown),
            }
        }
        let end = self.shown.find(text).unwrap() + text.len();
        self.shown.drain(..end);
    }

    fn console(&self) -> &Console {
        self.console.as_ref().unwrap()
    }

    /// Reads to the end: a program that waits until its output is read must not wait forever.
    fn end(mut self) -> CommandEnd {
        let mut buffer = [0; 4096];
        while self.outer.read(&mut buffer).is_ok_and(|count| count > 0) {}
        self.run.join().unwrap().end
    }
}

fn set_size(outer: impl std::os::fd::AsFd, rows: u16, columns: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(outer, size).unwrap();
}

#[test]
fn the_terminal_has_a_name_and_a_size_and_is_the_only_one() {
    let (_workspace, mut seat) =
        Seat::shell("tty; stty size; echo /dev/pts/*; echo to-tty >/dev/tty; exit 7");
    for line in [
        "/dev/pts/0\r\n",
        "24 80\r\n",
        "/dev/pts/0 /dev/pts/ptmx\r\n",
        "to-tty\r\n",
    ] {
        seat.expect(line);
    }
    assert_eq!(seat.end(), CommandEnd::Exited(7));
}

#[test]
fn resize_of_the_terminal_reaches_the_command() {
    let (_workspace, mut seat) =
        Seat::shell("trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done");
    seat.expect("ready");
    set_size(&seat.outer, 50, 132);
    seat.expect("50 132");
    assert_eq!(seat.end(), CommandEnd::Exited(0));
}

#[test]
fn ctrl_c_interrupts_and_the_end_of_input_is_one() {
    let (_workspace, mut seat) = Seat::shell("echo ready; exec sleep 1000");
    seat.expect("ready");
    seat.send(CTRL_C);
    assert_eq!(seat.end(), CommandEnd::Signaled(libc::SIGINT));

    let (_workspace, mut seat) = Seat::shell("echo ready; cat; echo over");
    seat.expect("ready");
    seat.send(&[4]);
    seat.expect("over");
    assert_eq!(seat.end(), CommandEnd::Exited(0));
}

#[test]
fn stopped_command_is_reported_and_continues_on_request() {
    let workspace = Workspace::new();
    let mut seat = Seat::start(workspace.plan(&["cat"]));
    seat.send(b"one\r");
    seat.expect("one\r\none\r\n");
    seat.send(CTRL_Z);
    assert!(matches!(seat.console().hear().unwrap(), ConsoleMessage::Stopped));
    seat.console().go_on().unwrap();
    seat.send(b"two\r");
    seat.expect("two\r\ntwo\r\n");
    seat.send(&[4]);
    assert_eq!(seat.end(), CommandEnd::Exited(0));
}

#[test]
fn a_shell_inside_has_jobs() {
    let workspace = Workspace::new();
    let mut seat = Seat::start(workspace.plan(&["bash", "--norc", "--noprofile"]));
    seat.send(b"sh -c 'echo job-$((1 + 1)); exec sleep 1000'\r");
    seat.expect("job-2");
    seat.send(CTRL_Z);
    seat.expect("Stopped");
    seat.send(b"kill -9 %1; wait %1; echo still-here; exit 3; exit 3\r");
    seat.expect("still-here\r\n");
    assert_eq!(seat.end(), CommandEnd::Exited(3));
}

#[test]
fn run_ends_when_its_console_is_gone() {
    let (_workspace, mut seat) = Seat::shell("trap '' HUP; echo ready; while :; do sleep 1000; done");
    seat.expect("ready");
    seat.console = None;
    assert_eq!(seat.end(), CommandEnd::Signaled(libc::SIGKILL));
}

#[test]
fn nothing_can_be_typed_from_inside() {
    let script = "python3 -c \"
import fcntl, termios
try:
    fcntl.ioctl(0, termios.TIOCSTI, b'x')
    print('typed')
except OSError as error:
    print('refused', error.errno)
\"";
    let (_workspace, mut seat) = Seat::shell(script);
    seat.expect("refused");
    assert_eq!(seat.end(), CommandEnd::Exited(0));
}
