//! Runs: the cost of a command in the boundary, compared with bubblewrap alone and with no sandbox, and with
//! many concurrent ones.

mod containers;
mod crowd;
mod kept_open;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::fixture;

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = Options::parse(arguments)?;
    std::fs::create_dir_all(&options.dir)?;
    let avfs = super::core::build_avfs()?;
    let place = tempfile::Builder::new()
        .prefix("exec-")
        .tempdir_in(&options.dir)?;
    let site = Site {
        avfs,
        home: place.path().join("store"),
    };
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
                site.avfs(&[
                    "exec",
                    "--vault",
                    &vault,
                    "--checkpoint",
                    checkpoint,
                    "--",
                    "true",
                ])
            }));
        }
    }
    for size in &options.sizes {
        contestants.push(kept_open::contestant(&site, *size)?);
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
        let mut options = Options {
            rounds: 31,
            sizes: vec![1_000, 100_000],
            sandboxes: 120,
            dir: "target/bench".into(),
        };
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
        command
            .args(words)
            .env("AVFS_HOME", &self.home)
            .env("XDG_CONFIG_HOME", "/nonexistent");
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
        let (name, source) = (vault_name(size), place.join(format!("source-{size}")));
        fixture::source_tree(&source, size)?;
        self.avfs_done(&["vault", "create", &name, "--from", &source.display().to_string()])?;
        std::fs::remove_dir_all(&source)?;
        Ok(name)
    }
}

fn vault_name(size: usize) -> String {
    format!("of-{size}")
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
    command.args([
        "--unshare-net",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
        "--ro-bind",
        "/usr",
        "/usr",
    ]);
    command.args(["--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"]);
    command.args([
        "--symlink",
        "usr/lib64",
        "/lib64",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
    ]);
    command.args(["--", "/bin/true"]);
    command
}

struct Contestant {
    name: String,
    run: Box<dyn Fn() -> Result<()>>,
    times: Vec<Duration>,
}

impl Contestant {
    fn new(name: impl Into<String>, command: impl Fn() -> Command + 'static) -> Contestant {
        let run = move || {
            let mut command = command();
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let status = command.status()?;
            ensure!(status.success(), "{status}");
            Ok(())
        };
        Contestant::in_process(name, run)
    }

    fn in_process(name: impl Into<String>, run: impl Fn() -> Result<()> + 'static) -> Contestant {
        Contestant {
            name: name.into(),
            run: Box::new(run),
            times: Vec::new(),
        }
    }

    fn once(&self) -> Result<Duration> {
        let start = Instant::now();
        (self.run)().with_context(|| format!("{} failed", self.name))?;
        Ok(start.elapsed())
    }
}

/// All in each round, so that a busy moment of the machine affects all alike. The first round only warms up.
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
