use super::*;

/// A system below a directory, with these files.
fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, SystemProbe) {
    let place = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = place.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let system = SystemProbe {
        root: place.path().to_owned(),
        bubblewrap: Some("0.12.1".to_owned()),
        namespaces: Ok(()),
        runtime: Some("runc 1.1.5".to_owned()),
        landlock_abi: 7,
        is_root: false,
    };
    (place, system)
}

fn state(checks: &[SupportCheck], name: &str) -> SupportState {
    checks.iter().find(|check| check.name == name).unwrap().state
}

const GOOD: &[(&str, &str)] = &[
    (
        "proc/sys/kernel/seccomp/actions_avail",
        "kill_process trap errno allow\n",
    ),
    ("sys/fs/cgroup/cgroup.controllers", "memory pids"),
    ("sys/fs/cgroup/cgroup.procs", ""),
    ("sys/fs/cgroup/user/cgroup.procs", ""),
    ("sys/fs/cgroup/user/cgroup.subtree_control", "cpu memory pids\n"),
    ("proc/self/cgroup", "0::/user/session\n"),
    ("dev/fuse", ""),
    ("usr/bin/fusermount3", ""),
];

#[test]
fn a_system_with_everything_is_good() {
    let (_place, system) = system(GOOD);
    let bad: Vec<SupportCheck> = checks(&system)
        .into_iter()
        .filter(|check| check.state != SupportState::Good)
        .collect();
    assert_eq!(bad, []);
}

#[test]
fn a_system_with_nothing_says_what_to_do_about_each_thing() {
    let (_place, mut system) = system(&[]);
    system.bubblewrap = None;
    system.runtime = None;
    system.namespaces = Err("No such file".to_owned());
    system.landlock_abi = 0;
    for check in checks(&system) {
        assert_ne!(check.state, SupportState::Good, "{}", check.name);
        assert!(
            check.fix.is_some_and(|fix| !fix.is_empty()),
            "{} has no fix",
            check.name
        );
    }
}

#[test]
fn an_older_bubblewrap_is_good_and_says_why() {
    let (_place, mut system) = system(GOOD);
    system.bubblewrap = Some("0.8.0".to_owned());
    let check = software::bubblewrap(&system);
    assert_eq!(check.state, SupportState::Good);
    assert!(check.detail.contains("CVE-2026-87766"), "{}", check.detail);
    system.bubblewrap = Some("0.12.0".to_owned());
    assert_eq!(software::bubblewrap(&system).detail, "0.12.0");
}

#[test]
fn settings_that_forbid_namespaces_are_named() {
    let cases = [
        (
            "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1\n",
            "AppArmor",
            "profile bwrap /usr/bin/bwrap",
        ),
        (
            "proc/sys/kernel/unprivileged_userns_clone",
            "0\n",
            "unprivileged_userns_clone",
            "sysctl -w",
        ),
        (
            "proc/sys/user/max_user_namespaces",
            "0\n",
            "max_user_namespaces",
            "sysctl -w",
        ),
        (".dockerenv", "", "the container", "seccomp=unconfined"),
    ];
    for (path, text, by, fix) in cases {
        let (_place, mut system) = system(&[(path, text)]);
        system.namespaces = Err("bwrap: setting up uid map: Permission denied".to_owned());
        let check = namespaces::user_namespaces(&system);
        assert_eq!(check.state, SupportState::Missing);
        assert!(
            check.detail.contains(by) && check.detail.contains("uid map"),
            "{}",
            check.detail
        );
        assert!(check.fix.unwrap().contains(fix));
    }
}

#[test]
fn groups_that_are_not_delegated_are_weak() {
    let (place, system) = system(GOOD);
    std::fs::write(
        place.path().join("sys/fs/cgroup/user/cgroup.subtree_control"),
        "cpu",
    )
    .unwrap();
    assert_eq!(state(&checks(&system), "control groups"), SupportState::Weak);
}

#[test]
fn container_check_names_the_missing_options() {
    let (_place, system) = system(&[("proc/1/cgroup", "0::/docker/abc")]);
    let check = container::container(&system).unwrap();
    assert!(check.fix.unwrap().contains("--device /dev/fuse"));
}

#[test]
fn this_system_can_be_looked_at() {
    let system = SystemProbe::look();
    assert!(checks(&system).len() >= 7);
    assert_eq!(system.bubblewrap.is_some(), launch::find_bubblewrap().exists());
}
