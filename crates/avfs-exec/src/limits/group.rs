//! The control group of one run.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::Access;
use rustix::process::{Pid, Signal, kill_process};

use super::gauge::LimitGauge;
use super::place::{CgroupPlace, places};
use super::{LimitError, LimitsBy, stale};
use crate::plan::RunLimits;

/// Processes that belong to the sandbox and not to the command: the stage.
const OWN_PROCESSES: u64 = 1;

/// Microseconds, of which a quota of CPU time is a part.
const CPU_PERIOD: u64 = 100_000;

/// How long a run that has ended may prevent the removal of its group.
const PATIENCE: Duration = Duration::from_secs(2);

/// A group, or one for each controller. Dropping it removes it; the processes of the run are gone by then.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    gauge: LimitGauge,
    /// Where CPUs are limited, if they are to be.
    shares: Option<PathBuf>,
    made: Vec<PathBuf>,
}

impl ControlGroup {
    /// A group with these limits, if there are any and the system allows one.
    pub(crate) fn new(limits: &RunLimits) -> Result<Option<Self>, LimitError> {
        let of_cpus = limits.cpu_quota.or(limits.cpu_shares);
        if limits
            .memory
            .or(limits.pids)
            .or(limits.cpu_seconds)
            .or(of_cpus)
            .is_none()
        {
            return Ok(None);
        }
        let found = places(&group_mounts(), &own_groups());
        // The first place that works: in a container, some of them cannot be written.
        let Some(group) = found
            .iter()
            .find_map(|place| Self::at(place, &stale::name(), of_cpus.is_some()))
        else {
            // Nothing else could limit them.
            return match of_cpus {
                Some(_) => Err(no_cpus(io::ErrorKind::Unsupported.into())),
                None => Ok(None),
            };
        };
        // If this fails, the group is dropped and thereby removed.
        group.limit(limits)?;
        Ok(Some(group))
    }

    /// Whether the system would allow one, as far as can be determined without creating it.
    pub(crate) fn is_available() -> bool {
        let found = places(&group_mounts(), &own_groups());
        let may_make = |directory: &Path| rustix::fs::access(directory, Access::WRITE_OK).is_ok();
        found.iter().any(|place| match place {
            CgroupPlace::V2(directories) => directories
                .iter()
                .any(|parent| may_make(parent) && gives_on(parent)),
            CgroupPlace::V1 { memory, pids, .. } => may_make(memory) && may_make(pids),
        })
    }

    pub(crate) fn gauge(&self) -> &LimitGauge {
        &self.gauge
    }

    pub(crate) fn by(&self) -> LimitsBy {
        self.gauge.by
    }

    /// Puts a process into the group, with all processes that it will start. The kernel may take ten
    /// milliseconds for it.
    pub(crate) fn admit(&self, pid: Pid) -> Result<(), LimitError> {
        let enter = |made: &PathBuf| fs::write(made.join("cgroup.procs"), pid.as_raw_pid().to_string());
        self.made
            .iter()
            .try_for_each(enter)
            .map_err(|source| LimitError::Refused {
                what: "a process",
                source,
            })
    }

    /// Whether the stage enters by itself, through [`ControlGroup::entrances`].
    pub(crate) fn is_entered_from_inside(&self) -> bool {
        self.by() == LimitsBy::CgroupV1
    }

    /// Files through which a single-threaded process moves itself in, which takes no time. Version 2 has
    /// none.
    pub(crate) fn entrances(&self) -> Result<Vec<OwnedFd>, LimitError> {
        let of_inside: &[PathBuf] = if self.is_entered_from_inside() {
            &self.made
        } else {
            &[]
        };
        let open = |made: &PathBuf| {
            File::options()
                .write(true)
                .open(made.join("tasks"))
                .map(OwnedFd::from)
        };
        let opened: io::Result<_> = of_inside.iter().map(open).collect();
        opened.map_err(|source| LimitError::Refused {
            what: "an entrance",
            source,
        })
    }

    /// Kills all processes that are left in it.
    pub(crate) fn kill(&self) {
        // Linux 5.14 and later; it also catches processes that are being created.
        if fs::write(self.gauge.pids.join("cgroup.kill"), "1").is_ok() {
            return;
        }
        let listed = fs::read_to_string(self.gauge.pids.join("cgroup.procs")).unwrap_or_default();
        for pid in listed
            .lines()
            .filter_map(|line| Pid::from_raw(line.parse().ok()?))
        {
            // It may have ended since it was listed.
            kill_process(pid, Signal::KILL).ok();
        }
    }

    fn at(place: &CgroupPlace, name: &str, limits_cpus: bool) -> Option<Self> {
        match place {
            CgroupPlace::V2(directories) => directories
                .iter()
                .find_map(|parent| Self::version_two(parent, name)),
            CgroupPlace::V1 {
                memory,
                pids,
                cpu,
                shares,
            } => {
                let shares = shares.as_deref().filter(|_| limits_cpus);
                Self::version_one((memory, pids), cpu.as_deref(), shares, name)
            }
        }
    }

    fn version_two(parent: &Path, name: &str) -> Option<Self> {
        if !gives_on(parent) {
            return None;
        }
        let own = make(parent, name)?;
        let made = vec![own.clone()];
        let (memory, pids) = (own.clone(), own.clone());
        Some(Self {
            gauge: LimitGauge {
                by: LimitsBy::CgroupV2,
                memory,
                pids,
                cpu: Some(own.clone()),
            },
            shares: Some(own),
            made,
        })
    }

    fn version_one(
        (memory, pids): (&Path, &Path),
        cpu: Option<&Path>,
        shares: Option<&Path>,
        name: &str,
    ) -> Option<Self> {
        let memory = make(memory, name)?;
        let Some(pids) = make(pids, name) else {
            // No value of this type exists yet whose drop would remove it.
            fs::remove_dir(&memory).ok();
            return None;
        };
        let counted = cpu.and_then(|cpu| make(cpu, name));
        // Most systems have both in one place.
        let shares = match shares {
            Some(shares) if Some(shares) == cpu => counted.clone(),
            shares => shares.and_then(|shares| make(shares, name)),
        };
        let own = shares.clone().filter(|shares| Some(shares) != counted.as_ref());
        let made = [Some(memory.clone()), Some(pids.clone()), counted.clone(), own];
        let made = made.into_iter().flatten().collect();
        Some(Self {
            gauge: LimitGauge {
                by: LimitsBy::CgroupV1,
                memory,
                pids,
                cpu: counted,
            },
            shares,
            made,
        })
    }

    fn limit(&self, limits: &RunLimits) -> Result<(), LimitError> {
        let (memory, swap) = match self.by() {
            LimitsBy::CgroupV2 => ("memory.max", "memory.swap.max"),
            LimitsBy::CgroupV1 | LimitsBy::Rlimits => {
                ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
            }
        };
        if let Some(bytes) = limits.memory {
            write(&self.gauge.memory, memory, bytes, "a limit of memory")?;
            // Version 2 counts swap separately, version 1 together with memory. Kernels without swap have no
            // such file.
            let swapped = if self.by() == LimitsBy::CgroupV2 { 0 } else { bytes };
            if self.gauge.memory.join(swap).exists() {
                write(&self.gauge.memory, swap, swapped, "a limit of swap")?;
            }
        }
        if let Some(count) = limits.pids {
            let count = count.saturating_add(OWN_PROCESSES);
            write(&self.gauge.pids, "pids.max", count, "a limit of processes")?;
        }
        self.limit_cpus(limits)
    }

    fn limit_cpus(&self, limits: &RunLimits) -> Result<(), LimitError> {
        let is_newer = self.by() == LimitsBy::CgroupV2;
        let files = [
            limits.cpu_quota.map(|quota| {
                if is_newer {
                    ("cpu.max", format!("{quota} {CPU_PERIOD}"))
                } else {
                    ("cpu.cfs_quota_us", quota.to_string())
                }
            }),
            limits.cpu_shares.map(|shares| {
                if is_newer {
                    ("cpu.weight", weight(shares).to_string())
                } else {
                    ("cpu.shares", shares.to_string())
                }
            }),
        ];
        for (file, value) in files.into_iter().flatten() {
            let directory = self.shares.as_deref();
            let directory = directory.ok_or_else(|| no_cpus(io::ErrorKind::Unsupported.into()))?;
            // Not made if it is not there: the kernel has it where CPUs can be limited.
            let mut options = File::options();
            let written = options
                .write(true)
                .open(directory.join(file))
                .and_then(|mut open| io::Write::write_all(&mut open, value.as_bytes()));
            written.map_err(no_cpus)?;
        }
        Ok(())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        for made in &self.made {
            // The kernel releases processes a moment after they have been reaped.
            while fs::remove_dir(made).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
                if Instant::now() > deadline {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

fn no_cpus(source: io::Error) -> LimitError {
    LimitError::Refused {
        what: "a limit of CPUs",
        source,
    }
}

/// Version 2 counts shares from 1 to 10,000, version 1 from 2 to 262,144.
fn weight(shares: u64) -> u64 {
    1 + shares.clamp(2, 262_144).saturating_sub(2) * 9_999 / 262_142
}

/// Which groups this process is in.
fn own_groups() -> String {
    fs::read_to_string("/proc/self/cgroup").unwrap_or_default()
}

/// The lines of this process's mounts that are about control groups. They are there before the first run and stay, and
/// the list of all mounts becomes long when many sandboxes are open.
fn group_mounts() -> Arc<str> {
    static FOUND: Mutex<Option<Arc<str>>> = Mutex::new(None);
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = &*found {
        return Arc::clone(found);
    }
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let lines = all.lines().filter(|line| line.contains(" - cgroup"));
    let lines: Arc<str> = lines.flat_map(|line| [line, "\n"]).collect::<String>().into();
    if !lines.is_empty() {
        *found = Some(Arc::clone(&lines));
    }
    lines
}

/// Whether groups below this one of version 2 can have limits, and processes can be moved there.
fn gives_on(parent: &Path) -> bool {
    // A group has the controllers that its parent passes on, not those that the parent has itself.
    let controllers = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
    let has = |wanted: &str| controllers.split_whitespace().any(|one| one == wanted);
    // Moving a process also requires the right to move it out of its current group.
    let may_move = || rustix::fs::access(parent.join("cgroup.procs"), Access::WRITE_OK).is_ok();
    has("memory") && has("pids") && may_move()
}

fn make(parent: &Path, name: &str) -> Option<PathBuf> {
    // Groups of runs whose launcher was killed are still there.
    stale::remove(parent);
    let own = parent.join(name);
    fs::create_dir(&own).ok().map(|()| own)
}

fn write(directory: &Path, file: &str, value: u64, what: &'static str) -> Result<(), LimitError> {
    fs::write(directory.join(file), value.to_string()).map_err(|source| LimitError::Refused { what, source })
}

#[cfg(test)]
mod tests {
    use super::super::{ReachedLimit, RunUsage};
    use super::*;

    fn limits() -> RunLimits {
        RunLimits {
            memory: Some(1 << 20),
            pids: Some(10),
            ..RunLimits::default()
        }
    }

    fn text(directory: &Path, file: &str) -> String {
        fs::read_to_string(directory.join(file)).unwrap()
    }

    #[test]
    fn version_two_has_one_directory_where_controllers_are_given_on() {
        let top = tempfile::tempdir().unwrap();
        let own = top.path().join("session");
        fs::create_dir(&own).unwrap();
        for (directory, controllers) in [(top.path(), "cpu memory pids"), (own.as_path(), "")] {
            fs::write(directory.join("cgroup.subtree_control"), controllers).unwrap();
            fs::write(directory.join("cgroup.procs"), "").unwrap();
        }
        let group =
            ControlGroup::at(&CgroupPlace::V2(vec![own, top.path().to_owned()]), "run", true).unwrap();
        group.limit(&limits()).unwrap();
        let made = top.path().join("run");
        assert_eq!(group.made, std::slice::from_ref(&made));
        assert_eq!(
            (text(&made, "memory.max"), text(&made, "pids.max")),
            ("1048576".into(), "11".into())
        );
        for file in ["cpu.max", "cpu.weight"] {
            fs::write(made.join(file), "").unwrap();
        }
        let of_cpus = RunLimits {
            cpu_quota: Some(50_000),
            cpu_shares: Some(1024),
            ..limits()
        };
        group.limit(&of_cpus).unwrap();
        assert_eq!(
            (text(&made, "cpu.max"), text(&made, "cpu.weight")),
            ("50000 100000".into(), "39".into())
        );
        fs::write(made.join("memory.events"), "low 0\noom 2\noom_kill 1\n").unwrap();
        fs::write(made.join("pids.events"), "max 0\n").unwrap();
        fs::write(made.join("memory.peak"), "4096\n").unwrap();
        fs::write(made.join("cpu.stat"), "usage_usec 1500\nuser_usec 1\n").unwrap();
        assert_eq!(group.gauge().hit(), [ReachedLimit::Memory]);
        let usage = RunUsage {
            cpu: Some(Duration::from_micros(1500)),
            memory: Some(4096),
        };
        assert_eq!((group.by(), group.gauge().usage()), (LimitsBy::CgroupV2, usage));
        group.admit(Pid::from_raw(77).unwrap()).unwrap();
        assert_eq!(text(&made, "cgroup.procs"), "77");
    }

    #[test]
    fn version_one_has_a_directory_for_each_controller() {
        let top = tempfile::tempdir().unwrap();
        let [memory, pids, cpu] = ["memory", "pids", "cpu"].map(|name| top.path().join(name));
        for directory in [&memory, &pids, &cpu] {
            fs::create_dir(directory).unwrap();
        }
        let place = CgroupPlace::V1 {
            memory: memory.clone(),
            pids: pids.clone(),
            cpu: Some(cpu.clone()),
            shares: Some(cpu.clone()),
        };
        let group = ControlGroup::at(&place, "run", true).unwrap();
        group.limit(&limits()).unwrap();
        assert_eq!(text(&memory.join("run"), "memory.limit_in_bytes"), "1048576");
        assert_eq!(text(&pids.join("run"), "pids.max"), "11");
        let of_cpus = RunLimits {
            cpu_quota: Some(50_000),
            ..limits()
        };
        // A kernel without quotas has no such file: the limit is refused, not forgotten.
        assert!(group.limit(&of_cpus).is_err());
        fs::write(cpu.join("run/cpu.cfs_quota_us"), "").unwrap();
        group.limit(&of_cpus).unwrap();
        assert_eq!(text(&cpu.join("run"), "cpu.cfs_quota_us"), "50000");
        fs::write(pids.join("run/pids.events"), "max 3\n").unwrap();
        assert_eq!(group.gauge().hit(), [ReachedLimit::Pids]);
    }

    #[test]
    fn there_is_no_group_where_controllers_are_missing() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("cgroup.subtree_control"), "cpu").unwrap();
        fs::write(top.path().join("cgroup.procs"), "").unwrap();
        assert!(ControlGroup::at(&CgroupPlace::V2(vec![top.path().to_owned()]), "run", true).is_none());
        assert!(!top.path().join("run").exists());
    }
}
