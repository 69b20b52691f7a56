//! Mounts of great size: many files, large directories and files, many mounts. Each number is printed with
//! its goal.

mod archive;
mod large_directory;
mod large_files;
mod many_files;
mod many_mounts;
mod served;
mod site;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde_json::json;

use site::Site;

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = Options::parse(arguments)?;
    std::fs::create_dir_all(&options.dir)?;
    let avfs = super::core::build_avfs()?;
    let site = Site::new(&avfs, &options)?;
    let mut report = Report::default();
    for (name, part) in PARTS {
        if options.parts.is_empty() || options.parts.iter().any(|wanted| wanted == name) {
            eprintln!("{name}");
            part(&site, &options, &mut report).with_context(|| name.to_owned())?;
        }
    }
    report.print();
    if let Some(file) = &options.json {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let result = json!({ "files": options.files, "load": load.trim(), "rows": report.rows });
        std::fs::write(file, serde_json::to_string_pretty(&result)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

type Part = fn(&Site, &Options, &mut Report) -> Result<()>;

const PARTS: [(&str, Part); 4] = [
    ("files", many_files::measure),
    ("directory", large_directory::measure),
    ("large", large_files::measure),
    ("mounts", many_mounts::measure),
];

/// The sizes.
pub struct Options {
    pub files: usize,
    /// How many files are in the one large directory.
    pub directory: usize,
    /// How much is written in one go.
    pub write_gib: u64,
    pub mounts: usize,
    /// Only these parts; all if empty.
    parts: Vec<String>,
    transport: String,
    json: Option<PathBuf>,
    dir: PathBuf,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options {
            files: 100_000,
            directory: 50_000,
            write_gib: 2,
            mounts: 20,
            parts: Vec::new(),
            transport: "auto".into(),
            json: None,
            dir: PathBuf::from("target/bench"),
        };
        let mut rest = arguments.iter();
        while let Some(flag) = rest.next() {
            if flag == "--full" {
                (options.files, options.directory) = (1_000_000, 200_000);
                (options.write_gib, options.mounts) = (10, 100);
                continue;
            }
            let value = rest.next().with_context(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--files" => options.files = value.parse()?,
                "--directory" => options.directory = value.parse()?,
                "--write-gib" => options.write_gib = value.parse()?,
                "--mounts" => options.mounts = value.parse()?,
                "--parts" => options.parts = value.split(',').map(str::to_owned).collect(),
                "--transport" => options.transport = value.clone(),
                "--json" => options.json = Some(value.into()),
                "--dir" => options.dir = value.into(),
                other => bail!("unknown option {other}"),
            }
        }
        let known = |part: &String| PARTS.iter().any(|(name, _)| name == part);
        ensure!(
            options.parts.iter().all(known),
            "--parts are files, directory, large and mounts"
        );
        ensure!(options.directory >= 10_000, "--directory must be at least 10000");
        Ok(options)
    }
}

/// Everything that was measured.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    what: String,
    value: f64,
    unit: &'static str,
    /// Its upper bound.
    goal: Option<f64>,
}

impl Report {
    pub fn add(&mut self, what: impl Into<String>, value: f64, unit: &'static str) {
        self.rows.push(Row {
            what: what.into(),
            value,
            unit,
            goal: None,
        });
    }

    pub fn add_with_goal(&mut self, what: impl Into<String>, value: f64, unit: &'static str, goal: f64) {
        self.rows.push(Row {
            what: what.into(),
            value,
            unit,
            goal: Some(goal),
        });
    }

    fn print(&self) {
        println!("{:<58} {:>12} {:<6} {:>10}", "", "measured", "", "at most");
        for row in &self.rows {
            let goal = row.goal.map_or(String::new(), |goal| format!("{goal:.0}"));
            let missed = row.goal.is_some_and(|goal| row.value > goal);
            let mark = if missed { "  missed" } else { "" };
            println!(
                "{:<58} {:>12.2} {:<6} {goal:>10}{mark}",
                row.what, row.value, row.unit
            );
        }
    }
}
