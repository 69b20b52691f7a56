//! What a sandbox of ours costs over a plain one: medians of `true` in both, in turns.
//!
//! `cargo run --release -p avfs-exec --example launch_cost -- STAGE [ROUNDS]`, where STAGE is a build of `avfs-inside`.
#![allow(clippy::print_stdout, reason = "an example talks")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use avfs_exec::launch::{Inside, Run};
use avfs_exec::plan::UNPRIVILEGED;
use avfs_exec::{Bubblewrap, Cancel, Launcher, Limits, Plan, Stdin};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let stage = arguments.next().ok_or("which program is the stage?")?;
    let rounds = arguments.next().map_or(Ok(100), |text| text.parse::<usize>())?;
    let workspace = tempfile::tempdir()?;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(workspace.path(), Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
    }
    let ours = Bubblewrap::new(Inside::new(stage));
    let unlimited = Limits { memory: None, pids: None, ..Limits::default() };
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        times[0].push(timed(|| plain(workspace.path()))?);
        times[1].push(timed(|| sandboxed(&ours, workspace.path(), unlimited.clone()))?);
        times[2].push(timed(|| sandboxed(&ours, workspace.path(), Limits::default()))?);
    }
    let [plain, unlimited, limited] = times.map(median);
    println!("plain bwrap {plain:?}, ours without a control group {unlimited:?}, ours {limited:?}");
    Ok(())
}

fn timed(act: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let since = Instant::now();
    act()?;
    Ok(since.elapsed())
}

fn plain(workspace: &Path) -> Result<(), Failure> {
    let mut command = Command::new("/usr/bin/bwrap");
    command.args([
        "--unshare-all",
        "--die-with-parent",
        "--ro-bind",
        "/usr",
        "/usr",
        "--symlink",
        "usr/bin",
        "/bin",
    ]);
    command.args(["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc"]);
    command.args(["--dev", "/dev", "--tmpfs", "/tmp", "--bind"]).arg(workspace).args(["/workspace", "true"]);
    let status = command.status()?;
    status.success().then_some(()).ok_or_else(|| "plain bwrap failed".into())
}

fn sandboxed(launcher: &Bubblewrap, workspace: &Path, limits: Limits) -> Result<(), Failure> {
    let plan = Plan { limits, ..Plan::new(workspace, ["true"]) };
    let outcome = launcher.launch(Run {
        plan: &plan,
        stdin: Stdin::Nothing,
        cancel: &Cancel::new()?,
        events: &mut |_| (),
    })?;
    (outcome.status() == 0).then_some(()).ok_or_else(|| "our sandbox failed".into())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
