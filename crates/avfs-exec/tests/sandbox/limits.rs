//! The resource limits of a run, and what happens when it exceeds them.

use std::time::Duration;

use avfs_exec::launch::{CommandEnd, StopReason};
use avfs_exec::limits::{LimitsBy, ReachedLimit};
use avfs_exec::{RunLimits, SandboxPlan};

use crate::kit::{Workspace, bubblewrap, launch, launch_and_cancel, stderr, stdout, wait_until_free};

fn limited(workspace: &Workspace, limits: RunLimits, program: &str) -> SandboxPlan {
    SandboxPlan {
        limits,
        ..workspace.plan(&["/usr/bin/python3", "-c", program])
    }
}

#[test]
fn a_run_that_takes_too_long_is_ended() {
    let limits = RunLimits {
        timeout: Some(Duration::from_millis(500)),
        ..RunLimits::default()
    };
    let outcome = launch(&SandboxPlan {
        limits,
        ..Workspace::new().plan(&["sleep", "999"])
    });
    assert!(outcome.timed_out());
    assert!(
        matches!(outcome.end, CommandEnd::Signaled(libc::SIGTERM | libc::SIGKILL)),
        "{:?}",
        outcome.end
    );
}

#[test]
fn a_run_is_asked_to_end_before_it_is_killed() {
    let script = "trap 'echo cleaned up; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let limits = RunLimits {
        grace: Duration::from_secs(50),
        ..RunLimits::default()
    };
    let outcome = launch_and_cancel(
        &bubblewrap(),
        &SandboxPlan {
            limits,
            ..Workspace::new().shell(script)
        },
    );
    assert_eq!(
        (outcome.end, outcome.stopped),
        (CommandEnd::Exited(3), Some(StopReason::Cancelled))
    );
    assert_eq!(stdout(&outcome), "ready\ncleaned up\n");
}

#[test]
fn a_run_that_does_not_listen_is_killed_with_all_its_processes() {
    let workspace = Workspace::new();
    let fifo = workspace.fifo("held");
    let script = "trap '' TERM; (trap '' TERM; setsid sleep 999) 3>held & exec 3>held; echo ready; \
                  while :; do sleep 999; done";
    let limits = RunLimits {
        grace: Duration::from_millis(100),
        ..RunLimits::default()
    };
    let outcome = launch_and_cancel(
        &bubblewrap(),
        &SandboxPlan {
            limits,
            ..workspace.shell(script)
        },
    );
    assert_eq!(
        (outcome.end, outcome.stopped),
        (CommandEnd::Signaled(9), Some(StopReason::Cancelled))
    );
    wait_until_free(&fifo);
}

#[test]
fn memory_is_limited_for_all_processes_together() {
    let workspace = Workspace::new();
    let limits = RunLimits {
        memory: Some(128 << 20),
        ..RunLimits::default()
    };
    let outcome = launch(&limited(
        &workspace,
        limits.clone(),
        "x = bytearray(16 << 20); print('enough')",
    ));
    assert_eq!(stdout(&outcome), "enough\n", "{}", stderr(&outcome));
    let outcome = launch(&limited(
        &workspace,
        limits,
        "x = b'x' * (1 << 30); print('more')",
    ));
    assert_eq!(outcome.stdout.total, 0);
    match outcome.limits_by {
        LimitsBy::CgroupV1 | LimitsBy::CgroupV2 => {
            assert_eq!(
                (outcome.end, outcome.limits_hit),
                (CommandEnd::Signaled(9), vec![ReachedLimit::Memory])
            );
            assert!(outcome.usage.memory.unwrap() <= 129 << 20);
        }
        LimitsBy::Rlimits => assert!(stderr(&outcome).contains("MemoryError")),
    }
}

#[test]
fn writes_to_private_places_are_limited() {
    let limits = RunLimits {
        private_bytes: 1 << 20,
        ..RunLimits::default()
    };
    let script =
        "for d in /tmp /home/agent /dev/shm; do head -c 2000000 /dev/zero > $d/big || echo full; done";
    let outcome = launch(&SandboxPlan {
        limits,
        ..Workspace::new().shell(script)
    });
    assert_eq!(stdout(&outcome), "full\nfull\nfull\n");
}

#[test]
fn processes_are_limited() {
    let program = "
import os, signal
count = 0
try:
    while count < 200:
        if os.fork() == 0:
            signal.pause()
        count += 1
except BlockingIOError:
    pass
print(count)
";
    let workspace = Workspace::new();
    let limits = RunLimits {
        pids: Some(20),
        ..RunLimits::default()
    };
    let outcome = launch(&limited(&workspace, limits, program));
    assert_eq!(stdout(&outcome), "19\n", "{}", stderr(&outcome));
    if outcome.limits_by != LimitsBy::Rlimits {
        assert_eq!(outcome.limits_hit, [ReachedLimit::Pids]);
    }
}

#[test]
fn a_fork_bomb_is_over_when_its_time_is() {
    let workspace = Workspace::new();
    let fifo = workspace.fifo("held");
    let limits = RunLimits {
        pids: Some(50),
        timeout: Some(Duration::from_secs(2)),
        grace: Duration::from_millis(100),
        ..RunLimits::default()
    };
    let script = "exec 3>held; bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 999";
    let outcome = launch(&SandboxPlan {
        limits,
        ..workspace.plan(&["bash", "-c", script])
    });
    assert!(outcome.timed_out());
    wait_until_free(&fifo);
}

#[test]
fn cpu_time_is_limited() {
    let limits = RunLimits {
        cpu_seconds: Some(1),
        ..RunLimits::default()
    };
    let outcome = launch(&SandboxPlan {
        limits,
        ..Workspace::new().shell("while :; do :; done")
    });
    match outcome.limits_by {
        LimitsBy::CgroupV1 | LimitsBy::CgroupV2 => {
            assert_eq!(outcome.limits_hit, [ReachedLimit::CpuTime]);
            assert!(outcome.usage.cpu.unwrap() >= Duration::from_secs(1));
        }
        LimitsBy::Rlimits => assert_eq!(outcome.end, CommandEnd::Signaled(libc::SIGXCPU)),
    }
}

#[test]
fn programs_that_reserve_much_memory_start() {
    let limits = RunLimits {
        memory: Some(512 << 20),
        ..RunLimits::default()
    };
    let program = "import mmap; mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | 0x4000, prot=mmap.PROT_READ); print('fine')";
    assert_eq!(
        stdout(&launch(&limited(&Workspace::new(), limits, program))),
        "fine\n"
    );
}

#[test]
fn limits_of_processes_hold_where_there_are_no_groups() {
    // The stage's behaviour without a control group is tested by a run that sets no limits on a group.
    let limits = RunLimits {
        memory: None,
        pids: None,
        cpu_seconds: None,
        ..RunLimits::default()
    };
    let outcome = launch(&SandboxPlan {
        limits,
        ..Workspace::new().shell("ulimit -c")
    });
    assert_eq!(
        (outcome.limits_by, stdout(&outcome).as_str()),
        (LimitsBy::Rlimits, "0\n")
    );
}
