//! Runs: what a command costs behind the boundary, beside bubblewrap alone and beside nothing, and many at once.

mod containers;
mod crowd;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::fixture;

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = Options::parse(arguments)?;
    std::fs::create_dir_all(&options.dir)?;
    let avfs = super::core::build_avfs()?;
    let place = tempfile::Builder::new().prefix("exec-").tempdir_in(&options.dir)?;
    let site = Site { avfs, home: place.path().join("store") };
    let mut contestants = vec![
        Contestant::new("fork and exec", || Command::new("/bin/true")),
        Contestant::new("bubblewrap alone", bubblewrap),
    ];
    for size in &options.sizes {
        let vault = site.vault_of(*size, place.path())?;
        for (with, checkpoint) in [("", "auto"), (", with a checkpoint", "always")] {
            let (site, vault) = (site.clone(), vault.clone());
            let name = format!("avfs exec, {size} files{with}");
            contestants.push(Contestant::new(name, move || {
                site.avfs(&["exec", "--vault", &vault, "--checkpoint", checkpoint, "--", "true"])
            }));
        }
    }
    contestants.extend(containers::contestants(place.path()));
    take_turns(&mut contestants, options.rounds)?;
    print(&mut contestants);
    if options.sandboxes > 0 {
        site.avfs_done(&["vault", "create", "crowd"])?;
        crowd::measure(&site, options.sandboxes)?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Options {
    rounds: usize,
    sizes: Vec<usize>,
    sandboxes: usize,
    dir: PathBuf,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options =
            Options { rounds: 31, sizes: vec![1_000, 100_000], sandboxes: 120, dir: "target/bench".into() };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let value = words.next().with_context(|| format!("{word} needs a value"))?;
            match word.as_str() {
                "--rounds" => options.rounds = value.parse()?,
                "--sandboxes" => options.sandboxes = value.parse()?,
                "--dir" => options.dir = value.into(),
                "--sizes" => options.sizes = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
                _ => bail!("unknown argument '{word}'"),
            }
        }
        Ok(options)
    }
}

/// A store, and the program.
#[derive(Clone)]
struct Site {
    avfs: PathBuf,
    home: PathBuf,
}

impl Site {
    fn avfs(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.avfs);
        command.args(words).env("AVFS_HOME", &self.home).env("XDG_CONFIG_HOME", "/nonexistent");
        command.env_remove("AVFS_VAULT");
        command
    }

    fn avfs_done(&self, words: &[&str]) -> Result<()> {
        let output = self.avfs(words).output()?;
        ensure!(
            output.status.success(),
            "avfs {}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    fn vault_of(&self, size: usize, place: &Path) -> Result<String> {
        let (name, source) = (format!("of-{size}"), place.join(format!("source-{size}")));
        fixture::source_tree(&source, size)?;
        self.avfs_done(&["vault", "create", &name, "--from", &source.display().to_string()])?;
        std::fs::remove_dir_all(&source)?;
        Ok(name)
    }
}

/// The same namespaces and much the same tree, with nothing in it.
fn bubblewrap() -> Command {
    let mut command = Command::new("bwrap");
    command.args([
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]);
    command.args(["--unshare-net", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr"]);
    command.args(["--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"]);
    command.args(["--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    command.args(["--", "/bin/true"]);
    command
}

struct Contestant {
    name: String,
    command: Box<dyn Fn() -> Command>,
    times: Vec<Duration>,
}

impl Contestant {
    fn new(name: impl Into<String>, command: impl Fn() -> Command + 'static) -> Contestant {
        Contestant { name: name.into(), command: Box::new(command), times: Vec::new() }
    }

    fn once(&self) -> Result<Duration> {
        let mut command = (self.command)();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let status = command.status()?;
        let time = start.elapsed();
        ensure!(status.success(), "{} failed: {status}", self.name);
        Ok(time)
    }
}

/// All in each round, so that a busy moment of the machine is everybody's. The first round only warms up.
fn take_turns(contestants: &mut [Contestant], rounds: usize) -> Result<()> {
    for round in 0..=rounds {
        for contestant in contestants.iter_mut() {
            let time = contestant.once()?;
            if round > 0 {
                contestant.times.push(time);
            }
        }
    }
    Ok(())
}

fn print(contestants: &mut [Contestant]) {
    println!("| | median | 90th percentile |\n|---|---|---|");
    for contestant in contestants {
        let times = &mut contestant.times;
        times.sort();
        let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
        println!("| {} | {:.1} ms | {:.1} ms |", contestant.name, at(50), at(90));
    }
}
