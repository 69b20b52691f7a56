//! The time that a container engine needs for the same, if one is installed and works here.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Result, ensure};

use super::Contestant;

/// A static program that can act as `true`.
const BUSYBOX: &str = "/usr/bin/busybox";
const IMAGE: &str = "avfs-bench";

/// The engines that can run an image of one program. For the others, the reason is printed.
pub fn contestants(place: &Path) -> Vec<Contestant> {
    let mut found = Vec::new();
    for engine in ["docker", "podman"] {
        match prepare(engine, place) {
            Ok(()) => found.push(Contestant::new(format!("{engine} run"), move || run(engine))),
            Err(reason) => println!("{engine} is not measured: {reason}"),
        }
    }
    found
}

/// Builds the image, and tries it.
fn prepare(engine: &'static str, place: &Path) -> Result<()> {
    let archive = place.join("image.tar");
    let mut tar = Command::new("tar");
    tar.arg("-cf")
        .arg(&archive)
        .args(["--transform", "s,.*,true,", BUSYBOX]);
    done(tar)?;
    let mut import = Command::new(engine);
    import.arg("import").arg(&archive).arg(IMAGE);
    done(import)?;
    done(run(engine))
}

fn run(engine: &str) -> Command {
    let mut command = Command::new(engine);
    command.args(["run", "--rm", "--network", "none", IMAGE, "/true"]);
    command
}

fn done(mut command: Command) -> Result<()> {
    let Output { status, stderr, .. } = command.output()?;
    let said = String::from_utf8_lossy(&stderr);
    ensure!(status.success(), "{}", said.lines().last().unwrap_or("it failed"));
    Ok(())
}
