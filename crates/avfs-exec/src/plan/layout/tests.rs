use super::*;
use crate::plan::{AlsoAt, Network, PlanError, SandboxHome, SandboxLink, Toolchain};

fn host() -> tempfile::TempDir {
    let host = tempfile::tempdir().unwrap();
    for directory in [
        "usr/bin",
        "usr/lib",
        "etc/ssl/certs",
        "etc/ssl/private",
        "lib32",
        "home/me",
        "root",
    ] {
        std::fs::create_dir_all(host.path().join(directory)).unwrap();
    }
    std::os::unix::fs::symlink("usr/bin", host.path().join("bin")).unwrap();
    for (file, text) in [
        ("etc/shadow", "secret"),
        ("etc/passwd", "root:x:0"),
        ("etc/ld.so.cache", "cache"),
    ] {
        std::fs::write(host.path().join(file), text).unwrap();
    }
    std::fs::write(host.path().join("etc/resolv.conf"), "nameserver 192.0.2.1\n").unwrap();
    host
}

fn steps_of(plan: &SandboxPlan) -> Vec<LayoutStep> {
    layout(plan, host().path(), Path::new("/x/avfs")).steps
}

fn plan() -> SandboxPlan {
    SandboxPlan::new("/srv/mount", ["true"])
}

fn targets(steps: &[LayoutStep]) -> Vec<&str> {
    steps.iter().filter_map(|step| step.at().to_str()).collect()
}

#[test]
fn only_usr_and_a_list_of_etc_come_from_the_host() {
    let host = host();
    let steps = layout(&plan(), host.path(), Path::new("/x/avfs")).steps;
    let from = |step: &LayoutStep| match step {
        LayoutStep::System { from, .. }
        | LayoutStep::ReadOnly { from, .. }
        | LayoutStep::Writable { from, .. } => Some(from.clone()),
        _ => None,
    };
    let sources: Vec<PathBuf> = steps.iter().filter_map(from).collect();
    let expected = ["usr", "lib32", "etc/ssl/certs"].map(|name| host.path().join(name));
    assert_eq!(sources[..3], expected);
    assert_eq!(
        sources[3..],
        [PathBuf::from("/x/avfs"), PathBuf::from("/srv/mount")]
    );
}

#[test]
fn a_home_below_var_tmp_has_a_directory_to_be_in() {
    let at = |home: &str| {
        let plan = SandboxPlan {
            home: SandboxHome {
                at: home.into(),
                ..SandboxHome::default()
            },
            ..plan()
        };
        let steps = steps_of(&plan);
        let place = |path: &str| {
            steps
                .iter()
                .position(|step| step.at() == Path::new(path))
                .unwrap()
        };
        assert!(place("/var/tmp") < place(home));
        matches!(steps[place("/var/tmp")], LayoutStep::Private { .. })
    };
    assert!(at("/var/tmp/me"));
    assert!(!at("/home/me"));
}

#[test]
fn links_of_a_merged_usr_stay_links() {
    let link = LayoutStep::Symlink {
        to: "usr/bin".into(),
        at: "/bin".into(),
    };
    assert!(steps_of(&plan()).contains(&link));
}

#[test]
fn the_user_is_made_up_and_the_resolver_comes_with_the_network() {
    let text = |steps: &[LayoutStep], name: &str| {
        steps.iter().find_map(|step| match step {
            LayoutStep::File { at, contents } if at == Path::new(name) => {
                String::from_utf8(contents.clone()).ok()
            }
            _ => None,
        })
    };
    let alone = steps_of(&plan());
    assert!(text(&alone, "/etc/passwd").unwrap().contains("agent:x:1000:1000"));
    assert_eq!(text(&alone, "/etc/resolv.conf"), None);
    let networked = steps_of(&SandboxPlan {
        network: Network::Host,
        ..plan()
    });
    assert_eq!(
        text(&networked, "/etc/resolv.conf").as_deref(),
        Some("nameserver 192.0.2.1\n")
    );
}

#[test]
fn the_workspace_is_bound_twice_and_its_names_do_not_hide_the_system() {
    let names = ["src", "etc", "tmp", "run", "home", "..", "a/b", "src"]
        .map(OsString::from)
        .to_vec();
    let steps = steps_of(&SandboxPlan {
        also_at: Some("/home/me/app".into()),
        top_level: names,
        ..plan()
    });
    for at in [WORKSPACE, "/home/me/app"] {
        assert!(steps.contains(&LayoutStep::Writable {
            from: "/srv/mount".into(),
            at: at.into()
        }));
    }
    let links: Vec<&LayoutStep> = steps
        .iter()
        .filter(|step| matches!(step, LayoutStep::Symlink { to, .. } if to.starts_with("workspace")))
        .collect();
    assert_eq!(
        links,
        [&LayoutStep::Symlink {
            to: "workspace/src".into(),
            at: "/src".into()
        }]
    );
}

#[test]
fn a_read_only_plan_has_no_writable_workspace() {
    let plan = SandboxPlan {
        read_only: true,
        also_at: Some("/home/me/app".into()),
        ..plan()
    };
    let layout = layout(&plan, host().path(), Path::new("/x/avfs"));
    assert!(
        !layout
            .steps
            .iter()
            .any(|step| matches!(step, LayoutStep::Writable { .. }))
    );
    let writable: Vec<&Path> = layout
        .access
        .iter()
        .filter(|rule| rule.1 == PathAccess::Write)
        .map(|rule| rule.0.as_path())
        .collect();
    assert_eq!(
        writable,
        [Path::new("/tmp"), Path::new(HOME), Path::new("/dev/shm")]
    );
}

#[test]
fn a_toolchain_that_two_entries_share_is_shown_once() {
    let one = |bin: &str| Toolchain {
        from: "/root/.nvm".into(),
        at: "/root/.nvm".into(),
        path: vec![bin.into()],
        env: Vec::new(),
    };
    let steps = steps_of(&SandboxPlan {
        toolchains: vec![one("/a"), one("/b")],
        ..plan()
    });
    assert_eq!(
        targets(&steps).iter().filter(|at| **at == "/root/.nvm").count(),
        1
    );
}

#[test]
fn a_cache_at_a_second_path_can_be_written_there_and_toolchains_come_over_it() {
    let also = vec![AlsoAt {
        below: ".cargo/registry".into(),
        at: "/usr/local/cargo/registry".into(),
    }];
    let home = SandboxHome {
        at: "/home/me".into(),
        shows: Some("/srv/home".into()),
        also,
    };
    let plan = SandboxPlan { home, ..plan() };
    let layout = layout(&plan, Path::new("/"), Path::new("/inside"));
    let at = PathBuf::from("/usr/local/cargo/registry");
    let step = LayoutStep::Writable {
        from: "/srv/home/.cargo/registry".into(),
        at: at.clone(),
    };
    assert!(layout.steps.contains(&step));
    assert!(layout.access.contains(&(at, PathAccess::Write)));
    for taken in ["/", "/usr", "/etc/cargo", "/run/x", "/tmp"] {
        assert!(!can_have_cache(Path::new(taken)), "{taken}");
    }
}

#[test]
fn the_root_is_sealed_last() {
    let steps = steps_of(&plan());
    assert_eq!(steps.last(), Some(&LayoutStep::Seal { at: "/".into() }));
}

#[test]
fn links_are_the_sandbox_s_own_and_never_in_what_is_shown_of_the_host() {
    let home = SandboxHome {
        at: "/home/me".into(),
        shows: Some("/srv/home".into()),
        ..SandboxHome::default()
    };
    let with = |at: &str| SandboxPlan {
        also_at: Some("/srv/repository/tree".into()),
        links: vec![SandboxLink {
            at: at.into(),
            to: "/srv/repository/tree/.git".into(),
        }],
        home: home.clone(),
        ..plan()
    };
    let link = LayoutStep::Symlink {
        to: "/srv/repository/tree/.git".into(),
        at: "/srv/main/.git".into(),
    };
    assert!(steps_of(&with("/srv/main/.git")).contains(&link));
    assert_eq!(with("/srv/main/.git").check(), Ok(()));
    for at in [
        "/srv/repository",
        "/srv/repository/tree/x",
        "/home/me/main/.git",
        "/home",
        "/usr/x",
        "/tmp",
        "a",
    ] {
        assert_eq!(
            with(at).check(),
            Err(PlanError::Taken { path: at.into() }),
            "{at}"
        );
    }
}

#[test]
fn projects_cannot_take_the_place_of_the_system() {
    let check = |path: &str| {
        SandboxPlan {
            also_at: Some(path.into()),
            ..plan()
        }
        .check()
    };
    for path in [
        "/",
        "/usr",
        "/usr/src/app",
        "/etc",
        "/home",
        "/home/agent",
        "/tmp",
        "/workspace/x",
        "/var",
        "/run/x",
    ] {
        assert_eq!(check(path), Err(PlanError::Taken { path: path.into() }), "{path}");
    }
    for path in [
        "/home/me/app",
        "/tmp/app",
        "/root/app",
        "/srv/app",
        "/home/agent/app",
        "/var/www",
    ] {
        assert_eq!(check(path), Ok(()), "{path}");
    }
    for path in ["relative", "/a/../b", "/a/./b"] {
        assert!(matches!(check(path), Err(PlanError::BadPath { .. })), "{path}");
    }
}
