//! The command line of `bench mount`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use super::Step;
use super::target::{self, Target};
use super::user::User;
use crate::bench::core::build_avfs;

pub const USAGE: &str = "\
Does the same work in a host directory and in mounts of a new vault, step by step in turns, and prints for each
step the median time, how many times that of the host directory it is, and what the kernel asked for. Beside it
stand the floor (what as many requests cost over the same transport where a file system does nothing) and the
time that serving a request took. Must be run by root, because steps on cold caches make the kernel forget.

usage: cargo xtask bench mount [OPTIONS]
(for numbers to keep, `cargo run --release -p xtask -- bench mount`: the floor is measured by this program)

  --rounds N           how often everything is done; each number is a median over them [5]
  --steps WORD,…       only steps with one of these words in their names, and those that make what others need
  --transport NAME,…   two mounts for each of `device`, `uring`, `auto`, the second of them alone; `none` for no
                       mounts [device,uring]
  --user UID           one more mount for each transport, made and used by this user, who must be able to reach the
                       program and DIR; `none` for none. It does not build with cargo, which is at home elsewhere
                       [65534]
  --target NAME=DIR    measure in this directory as well, under this name; may be given again. It may be a mount
                       of anything: requests and floors of others are not known
  --json FILE          write the results as JSON too
  --dir DIR            where the host directory, stores and mounts are made [target/bench]
  --help               this text";

/// The unprivileged user of every system.
const NOBODY: u32 = 65_534;

pub struct Options {
    pub help: bool,
    pub rounds: usize,
    /// Only the steps that have one of these words in their names, and those on which they depend.
    words: Vec<String>,
    /// Two mounts for each; `none` for no mounts at all.
    transports: Vec<String>,
    /// An ordinary user who has one more.
    user: Option<User>,
    /// Existing directories, with names for the table.
    others: Vec<(String, PathBuf)>,
    pub json: Option<PathBuf>,
    pub dir: PathBuf,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options {
            help: false,
            rounds: 5,
            words: Vec::new(),
            transports: target::TRANSPORTS.map(str::to_owned).to_vec(),
            user: Some(User(NOBODY)),
            others: Vec::new(),
            json: None,
            dir: PathBuf::from("target/bench"),
        };
        let mut rest = arguments.iter();
        while let Some(flag) = rest.next() {
            if matches!(flag.as_str(), "--help" | "-h") {
                return Ok(Options {
                    help: true,
                    ..options
                });
            }
            options.set(flag, rest.next().map(String::as_str))?;
        }
        ensure!(options.rounds > 0, "--rounds must be at least 1");
        Ok(options)
    }

    fn set(&mut self, flag: &str, value: Option<&str>) -> Result<()> {
        let value = || value.with_context(|| format!("{flag} needs a value"));
        let words = || Ok::<Vec<String>, anyhow::Error>(value()?.split(',').map(str::to_owned).collect());
        match flag {
            "--rounds" => self.rounds = value()?.parse().context("--rounds takes a number")?,
            "--steps" => self.words = words()?,
            "--transport" => self.transports = words()?,
            "--user" => {
                let number = value()?;
                let parsed = || number.parse().context("--user takes the number of a user");
                self.user = if number == "none" {
                    None
                } else {
                    Some(User(parsed()?))
                };
            }
            "--target" => {
                let (name, dir) = value()?.split_once('=').context("--target takes NAME=DIR")?;
                self.others.push((name.to_owned(), dir.into()));
            }
            "--json" => self.json = Some(value()?.into()),
            "--dir" => self.dir = value()?.into(),
            other => bail!("unknown option {other}: `cargo xtask bench mount --help` lists them"),
        }
        Ok(())
    }

    pub fn wants(&self, step: &Step) -> bool {
        let named = |word: &String| step.name.contains(word.as_str());
        self.words.is_empty() || step.makes_what_others_need || self.words.iter().any(named)
    }

    /// The host directory comes first: the others are compared with it.
    pub fn targets(&self) -> Result<Vec<Target>> {
        let mut targets = vec![Target::directory("host", &self.dir.join("host"))?];
        if self.transports != ["none"] {
            self.add_mounts(&mut targets)?;
        }
        for (name, dir) in &self.others {
            targets.push(Target::directory(name, dir)?);
        }
        Ok(targets)
    }

    /// Two mounts over each transport, without rules and through these. The first is what others are compared with.
    pub fn ruled_targets(&self, rules: &[String]) -> Result<Vec<Target>> {
        let avfs = build_avfs()?;
        let flags: Vec<String> = rules
            .iter()
            .flat_map(|rule| ["--rule".to_owned(), rule.clone()])
            .collect();
        let mut targets = Vec::new();
        for transport in &self.transports {
            targets.push(Target::mount(&avfs, transport, &self.dir)?);
            let label = format!("avfs {transport}, {} rules", rules.len());
            targets.push(Target::mount_with(
                &avfs,
                transport,
                &self.dir,
                &label,
                flags.clone(),
            )?);
        }
        Ok(targets)
    }

    fn add_mounts(&self, targets: &mut Vec<Target>) -> Result<()> {
        let avfs = build_avfs()?;
        if !target::can_mount(&avfs)? {
            eprintln!("this avfs cannot mount: only directories are measured");
            return Ok(());
        }
        for transport in &self.transports {
            targets.push(Target::mount(&avfs, transport, &self.dir)?);
            targets.push(Target::mount_alone(&avfs, transport, &self.dir)?);
            if let Some(user) = self.user {
                targets.push(Target::mount_as(&avfs, transport, &self.dir, user)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(
            &line
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<String>>(),
        )
    }

    #[test]
    fn options_are_read_and_mistakes_named() {
        let options = parse("--rounds 7 --target one=/a --target two=/b=c --transport uring").unwrap();
        assert_eq!(options.rounds, 7);
        assert_eq!(options.transports, ["uring"]);
        assert_eq!(
            options.others,
            [("one".into(), "/a".into()), ("two".into(), "/b=c".into())]
        );
        assert!(parse("--rounds 3 --help").unwrap().help);
        assert_eq!(options.user, Some(User(NOBODY)));
        assert_eq!(parse("--user 1001").unwrap().user, Some(User(1001)));
        assert_eq!(parse("--user none").unwrap().user, None);
        let mistake = |line| parse(line).err().unwrap().to_string();
        assert_eq!(mistake("--rounds"), "--rounds needs a value");
        assert_eq!(mistake("--user ann"), "--user takes the number of a user");
        assert_eq!(mistake("--rounds 0"), "--rounds must be at least 1");
        assert_eq!(mistake("--target /a"), "--target takes NAME=DIR");
        assert!(mistake("--round 3").starts_with("unknown option --round"));
    }
}
