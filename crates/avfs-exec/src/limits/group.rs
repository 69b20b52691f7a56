//! The control group of one run.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::Access;
use rustix::process::{Pid, Signal, kill_process};

use super::gauge::Gauge;
use super::place::{Place, places};
use super::{LimitError, LimitsBy, stale};
use crate::plan::Limits;

/// Processes that belong to the sandbox and not to the command: the stage.
const OWN_PROCESSES: u64 = 1;

/// How long an ended run may be in the way of removing its group.
const PATIENCE: Duration = Duration::from_secs(2);

/// A group, or one for each controller. Dropping it removes it; processes of the run are gone by then.
#[derive(Debug)]
pub(crate) struct Group {
    gauge: Gauge,
    made: Vec<PathBuf>,
}

impl Group {
    /// A group with these limits, if there are any and the system lets us have one.
    pub(crate) fn new(limits: &Limits) -> Result<Option<Self>, LimitError> {
        if limits.memory.or(limits.pids).or(limits.cpu_seconds).is_none() {
            return Ok(None);
        }
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let found = places(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"));
        let Some(group) = found.iter().find_map(|place| Self::at(place, &stale::name())) else {
            return Ok(None);
        };
        group.limit(limits)?;
        Ok(Some(group))
    }

    /// Whether the system would let us have one, as far as can be told without making it.
    pub(crate) fn is_available() -> bool {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let found = places(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"));
        let may_make = |directory: &Path| rustix::fs::access(directory, Access::WRITE_OK).is_ok();
        found.iter().any(|place| match place {
            Place::V2(directories) => directories.iter().any(|parent| may_make(parent) && gives_on(parent)),
            Place::V1 { memory, pids, .. } => may_make(memory) && may_make(pids),
        })
    }

    pub(crate) fn gauge(&self) -> &Gauge {
        &self.gauge
    }

    pub(crate) fn by(&self) -> LimitsBy {
        self.gauge.by
    }

    /// Puts a process into the group, and with it all that it will start. The kernel may take ten milliseconds for it.
    pub(crate) fn admit(&self, pid: Pid) -> Result<(), LimitError> {
        let enter = |made: &PathBuf| fs::write(made.join("cgroup.procs"), pid.as_raw_pid().to_string());
        self.made
            .iter()
            .try_for_each(enter)
            .map_err(|source| LimitError::Refused { what: "a process", source })
    }

    /// Whether the stage enters by itself, by the [`Group::entrances`].
    pub(crate) fn is_entered_from_inside(&self) -> bool {
        self.by() == LimitsBy::CgroupV1
    }

    /// Files by which a process of one thread puts itself in, which takes no time. Version 2 has none.
    pub(crate) fn entrances(&self) -> Result<Vec<OwnedFd>, LimitError> {
        let of_inside: &[PathBuf] = if self.is_entered_from_inside() { &self.made } else { &[] };
        let open = |made: &PathBuf| File::options().write(true).open(made.join("tasks")).map(OwnedFd::from);
        let opened: io::Result<_> = of_inside.iter().map(open).collect();
        opened.map_err(|source| LimitError::Refused { what: "an entrance", source })
    }

    /// Kills whatever is left in it.
    pub(crate) fn kill(&self) {
        if fs::write(self.gauge.pids.join("cgroup.kill"), "1").is_ok() {
            return;
        }
        let listed = fs::read_to_string(self.gauge.pids.join("cgroup.procs")).unwrap_or_default();
        for pid in listed.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
            // It may have ended since it was listed.
            kill_process(pid, Signal::KILL).ok();
        }
    }

    fn at(place: &Place, name: &str) -> Option<Self> {
        match place {
            Place::V2(directories) => directories.iter().find_map(|parent| Self::version_two(parent, name)),
            Place::V1 { memory, pids, cpu } => Self::version_one(memory, pids, cpu.as_deref(), name),
        }
    }

    fn version_two(parent: &Path, name: &str) -> Option<Self> {
        if !gives_on(parent) {
            return None;
        }
        let own = make(parent, name)?;
        let made = vec![own.clone()];
        let (memory, pids) = (own.clone(), own.clone());
        Some(Self { gauge: Gauge { by: LimitsBy::CgroupV2, memory, pids, cpu: Some(own) }, made })
    }

    fn version_one(memory: &Path, pids: &Path, cpu: Option<&Path>, name: &str) -> Option<Self> {
        let memory = make(memory, name)?;
        let Some(pids) = make(pids, name) else {
            fs::remove_dir(&memory).ok();
            return None;
        };
        let cpu = cpu.and_then(|cpu| make(cpu, name));
        let made = [Some(memory.clone()), Some(pids.clone()), cpu.clone()].into_iter().flatten().collect();
        Some(Self { gauge: Gauge { by: LimitsBy::CgroupV1, memory, pids, cpu }, made })
    }

    fn limit(&self, limits: &Limits) -> Result<(), LimitError> {
        let (memory, swap) = match self.by() {
            LimitsBy::CgroupV2 => ("memory.max", "memory.swap.max"),
            LimitsBy::CgroupV1 | LimitsBy::Rlimits => {
                ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
            }
        };
        if let Some(bytes) = limits.memory {
            write(&self.gauge.memory, memory, bytes, "a limit of memory")?;
            // Version 2 counts swap by itself, version 1 together with memory. Kernels without swap have no such file.
            let swapped = if self.by() == LimitsBy::CgroupV2 { 0 } else { bytes };
            if self.gauge.memory.join(swap).exists() {
                write(&self.gauge.memory, swap, swapped, "a limit of swap")?;
            }
        }
        match limits.pids {
            Some(count) => write(
                &self.gauge.pids,
                "pids.max",
                count.saturating_add(OWN_PROCESSES),
                "a limit of processes",
            ),
            None => Ok(()),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        for made in &self.made {
            // The kernel lets go of processes a moment after they have been waited for.
            while fs::remove_dir(made).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
                if Instant::now() > deadline {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Whether groups below one of version 2 have limits, and processes can be moved there.
fn gives_on(parent: &Path) -> bool {
    let controllers = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
    let has = |wanted: &str| controllers.split_whitespace().any(|one| one == wanted);
    // Moving a process also needs the right to move it away from where it is.
    let may_move = || rustix::fs::access(parent.join("cgroup.procs"), Access::WRITE_OK).is_ok();
    has("memory") && has("pids") && may_move()
}

fn make(parent: &Path, name: &str) -> Option<PathBuf> {
    stale::remove(parent);
    let own = parent.join(name);
    fs::create_dir(&own).ok().map(|()| own)
}

fn write(directory: &Path, file: &str, value: u64, what: &'static str) -> Result<(), LimitError> {
    fs::write(directory.join(file), value.to_string()).map_err(|source| LimitError::Refused { what, source })
}

#[cfg(test)]
mod tests {
    use super::super::{Limit, Usage};
    use super::*;

    fn limits() -> Limits {
        Limits { memory: Some(1 << 20), pids: Some(10), ..Limits::default() }
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
        let group = Group::at(&Place::V2(vec![own, top.path().to_owned()]), "run").unwrap();
        group.limit(&limits()).unwrap();
        let made = top.path().join("run");
        assert_eq!(group.made, std::slice::from_ref(&made));
        assert_eq!((text(&made, "memory.max"), text(&made, "pids.max")), ("1048576".into(), "11".into()));
        fs::write(made.join("memory.events"), "low 0\noom 2\noom_kill 1\n").unwrap();
        fs::write(made.join("pids.events"), "max 0\n").unwrap();
        fs::write(made.join("memory.peak"), "4096\n").unwrap();
        fs::write(made.join("cpu.stat"), "usage_usec 1500\nuser_usec 1\n").unwrap();
        assert_eq!(group.gauge().hit(), [Limit::Memory]);
        let usage = Usage { cpu: Some(Duration::from_micros(1500)), memory: Some(4096) };
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
        let place = Place::V1 { memory: memory.clone(), pids: pids.clone(), cpu: Some(cpu.clone()) };
        let group = Group::at(&place, "run").unwrap();
        group.limit(&limits()).unwrap();
        assert_eq!(text(&memory.join("run"), "memory.limit_in_bytes"), "1048576");
        assert_eq!(text(&pids.join("run"), "pids.max"), "11");
        fs::write(pids.join("run/pids.events"), "max 3\n").unwrap();
        assert_eq!(group.gauge().hit(), [Limit::Pids]);
    }

    #[test]
    fn there_is_no_group_where_controllers_are_missing() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("cgroup.subtree_control"), "cpu").unwrap();
        fs::write(top.path().join("cgroup.procs"), "").unwrap();
        assert!(Group::at(&Place::V2(vec![top.path().to_owned()]), "run").is_none());
        assert!(!top.path().join("run").exists());
    }
}
