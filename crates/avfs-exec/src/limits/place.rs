//! Where control groups can be created, according to the kernel's files about this process.

use std::path::{Path, PathBuf};

/// The directories below which a group for a run may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CgroupPlace {
    /// Own group first, then the ones above it: only a group without processes of its own can have child
    /// groups with limits.
    V2(Vec<PathBuf>),
    V1 {
        memory: PathBuf,
        pids: PathBuf,
        /// Where CPU time is counted.
        cpu: Option<PathBuf>,
        /// Where it is shared out, which may be the same.
        shares: Option<PathBuf>,
    },
}

struct CgroupMount<'a> {
    /// The group at the mount point.
    root: &'a Path,
    point: &'a Path,
    kind: &'a str,
    options: &'a str,
}

/// All places, in order of preference. The texts are `/proc/self/mountinfo` and `/proc/self/cgroup`.
pub(crate) fn places(mountinfo: &str, own: &str) -> Vec<CgroupPlace> {
    let mounts: Vec<CgroupMount<'_>> = mountinfo.lines().filter_map(mount).collect();
    let mut places = Vec::new();
    for at in mounts.iter().filter(|mount| mount.kind == "cgroup2") {
        let directory = own_path(own, "").and_then(|path| below(at, path));
        places.extend(directory.map(|directory| CgroupPlace::V2(upwards(&directory, at.point))));
    }
    places.extend(version_one(&mounts, own));
    places
}

fn version_one(mounts: &[CgroupMount<'_>], own: &str) -> Option<CgroupPlace> {
    let directory = |controller: &str| {
        let has = |mount: &&CgroupMount<'_>| {
            mount.kind == "cgroup" && mount.options.split(',').any(|one| one == controller)
        };
        below(mounts.iter().find(has)?, own_path(own, controller)?)
    };
    Some(CgroupPlace::V1 {
        memory: directory("memory")?,
        pids: directory("pids")?,
        cpu: directory("cpuacct"),
        shares: directory("cpu"),
    })
}

/// `36 35 98:0 /root /point options - kind source super-options`, with optional fields before the dash.
fn mount(line: &str) -> Option<CgroupMount<'_>> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, point) = (Path::new(left.next()?), Path::new(left.next()?));
    let mut right = right.split(' ');
    let kind = right.next()?;
    Some(CgroupMount {
        root,
        point,
        kind,
        options: right.nth(1)?,
    })
}

/// The group of this process: `4:memory:/path`, or `0::/path` of version 2.
fn own_path<'a>(own: &'a str, controller: &str) -> Option<&'a Path> {
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers
            .split(',')
            .any(|one| one == controller)
            .then(|| Path::new(path))
    })
}

fn below(mount: &CgroupMount<'_>, path: &Path) -> Option<PathBuf> {
    // In a container the mount may begin further down than the reported group, or the other way round.
    let inside = path.strip_prefix(mount.root).ok()?;
    Some(mount.point.join(inside))
}

fn upwards(directory: &Path, top: &Path) -> Vec<PathBuf> {
    directory
        .ancestors()
        .take_while(|path| path.starts_with(top))
        .map(Path::to_path_buf)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_of_systemd_has_its_own_group_and_those_above() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = places(mounts, "0::/user.slice/user-1000.slice\n");
        let expected = ["user.slice/user-1000.slice", "user.slice", ""]
            .map(|path| Path::new("/sys/fs/cgroup").join(path));
        assert_eq!(found, [CgroupPlace::V2(expected.to_vec())]);
    }

    #[test]
    fn version_one_has_a_directory_for_each_controller() {
        let mounts = "31 30 0:27 / /c/memory rw - cgroup cgroup rw,memory\n\
                      32 30 0:28 / /c/pids rw - cgroup cgroup rw,pids\n\
                      33 30 0:29 / /c/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
        let found = places(mounts, "8:pids:/\n4:memory:/job/7\n2:cpu,cpuacct:/\n");
        let cpu = Some(PathBuf::from("/c/cpu"));
        assert_eq!(
            found,
            [CgroupPlace::V1 {
                memory: "/c/memory/job/7".into(),
                pids: "/c/pids".into(),
                cpu: cpu.clone(),
                shares: cpu,
            }]
        );
    }

    #[test]
    fn a_container_sees_its_group_at_the_mount_point() {
        let mounts = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(
            places(mounts, "0::/docker/abc\n"),
            [CgroupPlace::V2(vec!["/sys/fs/cgroup".into()])]
        );
        assert_eq!(places(mounts, "0::/elsewhere\n"), []);
        assert_eq!(places("", "nonsense\n"), []);
    }
}
