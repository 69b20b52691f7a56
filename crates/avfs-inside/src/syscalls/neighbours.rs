//! Additional refusals where the processes beside a run are those of the host: under Landlock alone.
//!
//! In its own namespaces, a run can name no other process, and its queues and shared memory are its own.
//! Without them, every call that takes the number of a process or of a System V object would reach everything
//! of the same user. Landlock separates signals, tracing and files, and none of this.

use libc::c_long;
use seccompiler::SeccompCmpOp::Ne;
use seccompiler::SeccompRule;

use super::{FilterError, Rules, rule, when};

/// Calls that are refused whatever their arguments.
const REFUSED: &[c_long] = &[
    // Memory, semaphores and queues that all processes of a user share. Their numbers can be guessed, so
    // refusing the lookup is not enough.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmdt,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_notify,
    libc::SYS_mq_getsetattr,
    // Landlock does not restrict watches: names of files that come and go would be reported for every
    // directory.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    // Landlock does not restrict changes of owners by path, not even on files outside. Programs expect a
    // refusal. Without permissions and times (`chmod`, `utimensat`) nothing works.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchownat,
];

/// Calls that appear not to exist. The same holds for changing extended attributes by path, including access
/// lists; programs like `cp` continue without these if they are unsupported, and give up if they are
/// forbidden.
const ABSENT: &[c_long] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
];

/// Calls that read extended attributes by path. Landlock covers none of them, and the values are contents: of
/// every file of the machine that the user may read. Programs interpret this error as a file system without
/// attributes; with a different error, some that copy files give up. A run can query files that it can open
/// by descriptor.
const UNSUPPORTED: &[c_long] = &[
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
];

pub(super) fn unsupported() -> Rules {
    UNSUPPORTED.iter().map(|call| (*call, Vec::new())).collect()
}

/// A list of calls without the absent ones.
pub(super) fn without_absent(calls: &[c_long]) -> Vec<c_long> {
    calls
        .iter()
        .copied()
        .filter(|call| !ABSENT.contains(call))
        .collect()
}

/// Calls that take the number of a process, with the index of that argument. Zero is the caller itself; other
/// processes are refused. Threads of the caller have numbers, too, which no filter can distinguish from those
/// of other processes.
const ONLY_ON_ONESELF: &[(c_long, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_get_robust_list, 0),
];

/// Calls whose first argument is the kind of number: the kind that means one process, or thread. Zero of any
/// other kind is a group of processes, or everything of a user.
const ONLY_ON_ONESELF_BY_KIND: &[(c_long, u32)] = &[
    (libc::SYS_setpriority, PRIO_PROCESS),
    (libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS),
];

/// The C libraries disagree about its type.
const PRIO_PROCESS: u32 = 0;
const IOPRIO_WHO_PROCESS: u32 = 1;

/// Core scheduling cookies are exchanged with other processes.
const PR_SCHED_CORE: u32 = 62;

pub(super) fn refuse(rules: &mut Rules) -> Result<(), FilterError> {
    rules.extend(REFUSED.iter().map(|call| (*call, Vec::new())));
    for (call, argument) in ONLY_ON_ONESELF {
        rules.insert(*call, vec![rule(vec![when(*argument, Ne, 0)?])?]);
    }
    for (call, kind) in ONLY_ON_ONESELF_BY_KIND {
        rules.insert(
            *call,
            vec![rule(vec![when(0, Ne, *kind)?])?, rule(vec![when(1, Ne, 0)?])?],
        );
    }
    rules.insert(libc::SYS_prctl, core_scheduling()?);
    Ok(())
}

fn core_scheduling() -> Result<Vec<SeccompRule>, FilterError> {
    super::any(0, u64::from(u32::MAX), &[PR_SCHED_CORE])
}
