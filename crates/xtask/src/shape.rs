//! `cargo xtask shape`: the counts by which the structure of the code is judged, from its syntax.
//!
//! Test code does not count: `#[cfg(test)]` items, and files that only tests include. A module is one that the root of
//! a crate declares, with everything beneath it.

mod cycles;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use cycles::Graph;
use source::{Source, Uses};

/// Crates whose code the product is made of.
fn is_product(name: &str) -> bool {
    !matches!(name, "avfs-testkit" | "xtask")
}

/// What was counted in one crate.
struct CrateShape {
    name: String,
    modules: usize,
    /// Import cycles, the largest first.
    cycles: Vec<Cycle>,
    sources: Vec<Source>,
}

struct Cycle {
    modules: Vec<String>,
    /// Imports within it, with the number of places that make each.
    edges: Vec<(String, String, usize)>,
}

pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let mut details = false;
    let mut only = None;
    for argument in arguments {
        match argument.as_str() {
            "--details" => details = true,
            name if !name.starts_with('-') => only = Some(name),
            other => bail!("no option '{other}': the options are `--details` and the name of a crate"),
        }
    }
    let crates = crates();
    let mut names: Vec<String> = fs::read_dir(&crates)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| is_product(name) && only.is_none_or(|only| only == name))
        .collect();
    names.sort();
    let shapes: Vec<CrateShape> = names
        .iter()
        .map(|name| measure(name, &crates.join(name).join("src")))
        .collect::<Result<_>>()?;
    report_cycles(&shapes, details);
    report_names(&shapes, details);
    report_types(&shapes);
    report_comments(&shapes);
    Ok(ExitCode::SUCCESS)
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn measure(name: &str, root: &Path) -> Result<CrateShape> {
    let mut sources = Vec::new();
    for path in rust_files(root)? {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let within = path.strip_prefix(root)?;
        sources.push(Source::read(within, &text).with_context(|| path.display().to_string())?);
    }
    let tests: BTreeSet<PathBuf> = sources.iter().flat_map(Source::test_files).collect();
    sources.retain(|source| !tests.iter().any(|test| source.path.starts_with(test)));
    let uses = Uses::of(&sources);
    let graph = Graph::new(&sources, &uses);
    let cycle = |modules: Vec<String>| Cycle {
        edges: graph.edges_within(&modules),
        modules,
    };
    Ok(CrateShape {
        name: name.to_owned(),
        modules: graph.modules(),
        cycles: graph.cycles().into_iter().map(cycle).collect(),
        sources,
    })
}

fn report_cycles(shapes: &[CrateShape], details: bool) {
    println!("modules in the largest import cycle");
    for shape in shapes {
        let largest = shape.cycles.first().map_or(1, |cycle| cycle.modules.len());
        println!("  {:<14} {largest} of {}", shape.name, shape.modules);
        for cycle in shape.cycles.iter().filter(|_| details) {
            println!("    {}", cycle.modules.join(" "));
            for (from, to, times) in &cycle.edges {
                println!("      {from} -> {to} ({times})");
            }
        }
    }
}

fn report_names(shapes: &[CrateShape], details: bool) {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for name in shapes
        .iter()
        .flat_map(|shape| &shape.sources)
        .flat_map(|source| &source.types)
    {
        *names.entry(name).or_default() += 1;
    }
    let mut repeated: Vec<(&str, usize)> = names.iter().map(|(name, times)| (*name, *times)).collect();
    repeated.retain(|(_, times)| *times > 1);
    repeated.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let bare: Vec<&str> = names.keys().copied().filter(|name| is_one_word(name)).collect();
    println!("type names: {}", names.len());
    println!(
        "  of several types   {:>5.1} %",
        percent(repeated.len(), names.len())
    );
    println!("  of one bare word   {:>5.1} %", percent(bare.len(), names.len()));
    if details {
        let listed = repeated.iter().map(|(name, times)| format!("{name} {times}"));
        println!("      {}", listed.collect::<Vec<_>>().join(", "));
        println!("      {}", bare.join(" "));
    }
}

/// A type, and where its inherent methods are.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CountedType<'a> {
    methods: usize,
    files: usize,
    of: &'a str,
    name: &'a str,
}

impl CountedType<'_> {
    /// One type is to be understood from this many files.
    const MOST_FILES: usize = 4;
}

fn counted_types(shapes: &[CrateShape]) -> Vec<CountedType<'_>> {
    let mut found = Vec::new();
    for shape in shapes {
        let mut types: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
        for source in &shape.sources {
            for (name, methods) in &source.methods {
                // Private types of the same name in two modules are two types.
                let module = if is_defined_once(shape, name) {
                    ""
                } else {
                    source.module()
                };
                let (total, files) = types.entry((module, name)).or_default();
                *total += methods;
                *files += 1;
            }
        }
        found.extend(
            types
                .into_iter()
                .map(|((_, name), (methods, files))| CountedType {
                    methods,
                    files,
                    of: &shape.name,
                    name,
                }),
        );
    }
    found.sort_by(|a, b| b.cmp(a));
    found
}

/// The types with methods in too many files, as `CRATE::TYPE FILES`.
fn wide_types(types: &[CountedType<'_>]) -> Vec<String> {
    let wide = types.iter().filter(|of| of.files > CountedType::MOST_FILES);
    wide.map(|of| format!("{}::{} {}", of.of, of.name, of.files))
        .collect()
}

fn report_types(shapes: &[CrateShape]) {
    println!("types with most inherent methods, and the files that they are in");
    let types = counted_types(shapes);
    for CountedType {
        methods,
        files,
        of,
        name,
    } in types.iter().take(12)
    {
        println!("  {name:<16} {of:<14} {methods:>4} methods in {files} files");
    }
    let wide = wide_types(&types);
    println!(
        "  in more than four files: {}",
        if wide.is_empty() {
            "none".to_owned()
        } else {
            wide.join(", ")
        }
    );
}

fn is_defined_once(shape: &CrateShape, name: &str) -> bool {
    let all = shape.sources.iter().flat_map(|source| &source.types);
    all.filter(|defined| *defined == name).count() <= 1
}

fn report_comments(shapes: &[CrateShape]) {
    println!("comments inside functions, of the lines of functions");
    let (mut all_comments, mut all_lines) = (0, 0);
    for shape in shapes {
        let comments: usize = shape.sources.iter().map(|source| source.comments).sum();
        let lines: usize = shape.sources.iter().map(|source| source.lines).sum();
        println!("  {:<14} {:>5.1} %", shape.name, percent(comments, lines));
        all_comments += comments;
        all_lines += lines;
    }
    println!("  {:<14} {:>5.1} %", "all", percent(all_comments, all_lines));
}

fn is_one_word(name: &str) -> bool {
    name.chars().filter(|letter| letter.is_uppercase()).count() == 1
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn rust_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(name: &str) -> CrateShape {
        measure(name, &crates().join(name).join("src")).unwrap()
    }

    /// Which circles there are, and why, is in docs/decisions/0036-one-crate-above-the-tree.md.
    #[test]
    fn no_import_cycle_of_the_library_grows_past_eight_modules() {
        for name in [
            "agentvfs",
            "avfs-tree",
            "avfs-exec",
            "avfs-fuse",
            "avfs-store",
            "avfs-core",
        ] {
            for cycle in shape(name).cycles {
                assert!(cycle.modules.len() <= 8, "{name}: {}", cycle.modules.join(" "));
            }
        }
    }

    #[test]
    fn each_type_of_the_library_has_its_methods_in_at_most_four_files() {
        for name in [
            "agentvfs",
            "avfs-tree",
            "avfs-exec",
            "avfs-fuse",
            "avfs-store",
            "avfs-core",
        ] {
            let shapes = [shape(name)];
            let wide = wide_types(&counted_types(&shapes));
            assert!(wide.is_empty(), "{}", wide.join(", "));
        }
    }
}
