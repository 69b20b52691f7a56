//! The files of `/etc` that programs need, one by one: it also holds files that must not be visible inside.

use std::path::{Path, PathBuf};

use super::{LayoutStep, Network, SandboxPlan};

/// Files and directories without secrets that ordinary tools need. Each directory is a mount, which takes
/// time.
const SHOWN: &[&str] = &[
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "ca-certificates/extracted",
    "ld.so.cache",
    "localtime",
    "timezone",
    "os-release",
    "debian_version",
    "lsb-release",
    "mime.types",
    "protocols",
    "services",
    "fonts",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "java-25-openjdk",
    "maven",
    "postgresql-common",
];

/// A larger file is bound instead of copied.
const COPIED: u64 = 1 << 20;

/// The steps that build `/etc`.
pub(super) fn etc(plan: &SandboxPlan, host: &Path) -> Vec<LayoutStep> {
    let mut steps: Vec<LayoutStep> = SHOWN
        .iter()
        .filter_map(|name| shown(&host.join("etc"), name))
        .collect();
    steps.extend(made_up(plan));
    if plan.network == Network::Host {
        steps.extend(copied(&host.join("etc/resolv.conf"), "resolv.conf"));
    }
    steps
}

/// The same files at their paths on the host, for a run that sees the host's own tree.
pub(super) fn etc_paths(plan: &SandboxPlan) -> Vec<PathBuf> {
    let more = ["passwd", "group", "hosts", "hostname", "nsswitch.conf"];
    let resolver = plan.network.is_host().then_some(&"resolv.conf");
    SHOWN
        .iter()
        .chain(&more)
        .chain(resolver)
        .map(|name| at(name))
        .collect()
}

fn shown(etc: &Path, name: &str) -> Option<LayoutStep> {
    let from = etc.join(name);
    // Resolved here, because a link may lead to a file that is not inside.
    let found = std::fs::metadata(&from).ok()?;
    match std::fs::read_link(&from) {
        Ok(to) if leads_to_usr(&to) => Some(LayoutStep::Symlink { to, at: at(name) }),
        _ if found.is_dir() || found.len() > COPIED => Some(LayoutStep::System { from, at: at(name) }),
        _ => copied(&from, name),
    }
}

fn leads_to_usr(to: &Path) -> bool {
    to.starts_with("/usr") || to.starts_with("../usr")
}

fn copied(from: &Path, name: &str) -> Option<LayoutStep> {
    Some(file(name, std::fs::read(from).ok()?))
}

fn made_up(plan: &SandboxPlan) -> Vec<LayoutStep> {
    let user = &plan.user;
    let (name, uid, gid) = (&user.name, user.uid, user.gid);
    let home = plan.home.at.display();
    let passwd = format!(
        "root:x:0:0:root:/root:/usr/sbin/nologin\n{name}:x:{uid}:{gid}:{name}:{home}:/bin/bash\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    );
    let group = format!("root:x:0:\n{name}:x:{gid}:\nnogroup:x:65534:\n");
    vec![
        file("passwd", passwd.into()),
        file("group", group.into()),
        file("hosts", b"127.0.0.1 localhost sandbox\n::1 localhost\n".to_vec()),
        file("hostname", b"sandbox\n".to_vec()),
        file(
            "nsswitch.conf",
            b"passwd: files\ngroup: files\nhosts: files dns\n".to_vec(),
        ),
    ]
}

fn file(name: &str, contents: Vec<u8>) -> LayoutStep {
    LayoutStep::File {
        at: at(name),
        contents,
    }
}

fn at(name: &str) -> PathBuf {
    Path::new("/etc").join(name)
}
