//! A sandbox for one command: made, used and deleted, by so many clients at the same time; beside it, the same command by
//! bubblewrap alone and by `docker run`. They take turns, so that a busy moment of the machine affects all alike.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use super::Options;
use super::client::{Connection, Site};

/// So many parts of the work are done by one contestant before it is another one's turn.
const TURNS: usize = 4;

/// The times of one kind of work.
struct Times {
    name: String,
    all: Vec<Duration>,
}

impl Times {
    fn new(name: &str) -> Times {
        Times {
            name: name.to_owned(),
            all: Vec::new(),
        }
    }

    fn at(&mut self, part: usize) -> f64 {
        self.all.sort();
        self.all[(self.all.len() - 1) * part / 100].as_secs_f64() * 1e3
    }

    /// Prints them, beside those of bubblewrap alone in the same rounds: the machine may be busy with other things.
    fn print(&mut self, clients: usize, alone: f64) {
        let (median, most) = (self.at(50), self.at(99));
        println!(
            "| {} | {clients} | {median:.1} ms | {most:.1} ms | {:.2} |",
            self.name,
            median / alone
        );
    }
}

const STEPS: [&str; 4] = ["create", "exec `true`", "delete", "create + exec"];

/// Measures a server, and one that has sandboxes ready.
pub fn measure(sites: [&Site; 2], options: &Options) -> Result<()> {
    println!("| | clients | median | 99th percentile | median / bubblewrap alone |\n|---|---|---|---|---|");
    // The first ones warm up.
    for site in sites {
        in_parallel(2, 4, || site.connect(), |connection| cycle(connection).map(drop))?;
    }
    for clients in &options.clients {
        let mut steps = [
            STEPS.map(Times::new),
            STEPS.map(|step| Times::new(&format!("{step}, {} ready", options.warm))),
        ];
        let mut alone = Times::new("bubblewrap alone");
        let mut docker = Times::new("docker run");
        let most = options.cycles.div_ceil(TURNS).max(*clients);
        for _ in 0..TURNS {
            for (site, steps) in sites.into_iter().zip(&mut steps) {
                let done = in_parallel(*clients, most, || site.connect(), cycle)?;
                for taken in done {
                    let all = [taken[0], taken[1], taken[2], taken[0] + taken[1]];
                    steps
                        .iter_mut()
                        .zip(all)
                        .for_each(|(step, time)| step.all.push(time));
                }
            }
            alone
                .all
                .extend(in_parallel(*clients, most, || Ok(()), |()| timed(bubblewrap()))?);
            if let Some((socket, image)) = &options.docker {
                let few = (most / 10).max(*clients);
                let run = |_: &mut ()| timed(docker_run(socket, image));
                docker.all.extend(in_parallel(*clients, few, || Ok(()), run)?);
            }
        }
        let median = alone.at(50);
        for times in steps.iter_mut().flatten().chain([&mut alone, &mut docker]) {
            if !times.all.is_empty() {
                times.print(*clients, median);
            }
        }
    }
    Ok(())
}

/// Does work so many times on so many threads, each with something of its own.
fn in_parallel<C, T: Send>(
    threads: usize,
    count: usize,
    begin: impl Fn() -> Result<C> + Sync,
    work: impl Fn(&mut C) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let left = AtomicUsize::new(count);
    let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    let on_one = || {
        let mut own = begin()?;
        let mut done = Vec::new();
        while take().is_ok() {
            done.push(work(&mut own)?);
        }
        Ok(done)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(on_one)).collect();
        let ended = running.into_iter().map(|thread| {
            let ended = thread.join().map_err(|_| anyhow!("a client has panicked"));
            ended.and_then(|done: Result<Vec<T>>| done)
        });
        let all: Vec<Vec<T>> = ended.collect::<Result<_>>()?;
        Ok(all.into_iter().flatten().collect())
    })
}

/// How long it took to make a sandbox, to use and to delete it.
fn cycle(connection: &mut Connection) -> Result<[Duration; 3]> {
    let start = Instant::now();
    let sandbox = connection.sandbox()?;
    let created = start.elapsed();
    connection.line(&sandbox, "true")?;
    let used = start.elapsed();
    connection.good("DELETE", &sandbox, "")?;
    Ok([created, used - created, start.elapsed() - used])
}

fn timed(mut command: Command) -> Result<Duration> {
    let start = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    let time = start.elapsed();
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(time)
}

fn bubblewrap() -> Command {
    let mut command = Command::new("bwrap");
    command.args("--unshare-all --die-with-parent --cap-drop ALL --ro-bind /usr /usr".split(' '));
    command.args("--symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64".split(' '));
    command.args("--proc /proc --dev /dev --tmpfs /tmp -- /bin/bash -c true".split(' '));
    command
}

fn docker_run(socket: &str, image: &str) -> Command {
    let mut command = Command::new("docker");
    command.args(["-H", &format!("unix://{socket}")]);
    command.args(["run", "--rm", "--network", "none", image, "/bin/true"]);
    command
}
