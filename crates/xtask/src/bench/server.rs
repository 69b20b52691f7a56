//! `avfs serve` under load: what a sandbox costs over HTTP beside bubblewrap alone and Docker, how many live side by side, and
//! how much memory the server needs for them, for large files and for many listeners.

mod client;
mod cycles;
mod process;
mod weights;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use client::Site;

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = Options::parse(arguments)?;
    std::fs::create_dir_all(&options.dir)?;
    let avfs = match &options.avfs {
        Some(avfs) => avfs.clone(),
        None => super::core::build_avfs()?,
    };
    let place = tempfile::Builder::new()
        .prefix("server-")
        .tempdir_in(&options.dir)?;
    let site = Site::start(&avfs, &place.path().join("plain"), &[])?;
    let wants = |part: &str| options.parts.iter().any(|wanted| wanted == part);
    if wants("cycles") {
        let warm = options.warm.to_string();
        let pool = Site::start(&avfs, &place.path().join("warm"), &["--warm", &warm])?;
        cycles::measure([&site, &pool], &options)?;
    }
    if wants("fork") {
        weights::fork(&site, options.files)?;
    }
    if wants("large") {
        weights::large_file(&site, options.megabytes)?;
    }
    if wants("alive") {
        weights::alive(&site, options.sandboxes)?;
    }
    if wants("listeners") {
        weights::listeners(&site, options.listeners)?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Options {
    avfs: Option<PathBuf>,
    dir: PathBuf,
    parts: Vec<String>,
    /// How many clients at the same time.
    clients: Vec<usize>,
    /// How many sandboxes each number of clients makes altogether.
    cycles: usize,
    /// How many sandboxes the server with a pool keeps ready.
    warm: usize,
    sandboxes: usize,
    files: usize,
    megabytes: usize,
    listeners: usize,
    /// The socket of a Docker daemon, and an image that has `/bin/true`.
    docker: Option<(String, String)>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let parts = ["cycles", "fork", "large", "alive", "listeners"];
        let mut options = Options {
            avfs: std::env::var_os("AVFS_BENCH_BINARY").map(PathBuf::from),
            dir: "target/bench".into(),
            parts: parts.map(str::to_owned).to_vec(),
            clients: vec![1, 8, 64],
            cycles: 200,
            warm: 4,
            sandboxes: 200,
            files: 10_000,
            megabytes: 1024,
            listeners: 1000,
            docker: None,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let value = words.next().with_context(|| format!("{word} needs a value"))?;
            let list = || value.split(',').map(str::to_owned).collect::<Vec<_>>();
            match word.as_str() {
                "--avfs" => options.avfs = Some(value.into()),
                "--dir" => options.dir = value.into(),
                "--parts" => options.parts = list(),
                "--clients" => {
                    options.clients = list().iter().map(|n| n.parse()).collect::<Result<_, _>>()?
                }
                "--cycles" => options.cycles = value.parse()?,
                "--warm" => options.warm = value.parse()?,
                "--sandboxes" => options.sandboxes = value.parse()?,
                "--files" => options.files = value.parse()?,
                "--megabytes" => options.megabytes = value.parse()?,
                "--listeners" => options.listeners = value.parse()?,
                "--docker" => {
                    let (socket, image) = value.split_once('=').context("--docker takes SOCKET=IMAGE")?;
                    options.docker = Some((socket.to_owned(), image.to_owned()));
                }
                _ => bail!("unknown argument '{word}'"),
            }
        }
        if let Some(part) = options.parts.iter().find(|part| !parts.contains(&part.as_str())) {
            bail!("no part '{part}': there are {}", parts.join(", "));
        }
        Ok(options)
    }
}
