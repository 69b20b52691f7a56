//! What a library crate asks of the machine is known: clocks, the environment, other processes and the standard
//! streams are used only by the crates and files that this test lists.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// Something of the machine that code can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MachineUse {
    /// The time of day.
    Clock,
    /// A clock that only measures how long something takes.
    Timer,
    Environment,
    WorkingDirectory,
    /// Starting or ending a process.
    Process,
    StandardStream,
}

use MachineUse::{Clock, Environment, Process, StandardStream, Timer, WorkingDirectory};

const CALLS: &[(&str, MachineUse)] = &[
    ("std::time::SystemTime::now", Clock),
    ("rustix::time::clock_gettime", Timer),
    ("std::time::Instant::now", Timer),
    ("std::env::var", Environment),
    ("std::env::var_os", Environment),
    ("std::env::vars", Environment),
    ("std::env::vars_os", Environment),
    ("std::env::set_var", Environment),
    ("std::env::remove_var", Environment),
    ("std::env::args", Environment),
    ("std::env::args_os", Environment),
    ("std::env::temp_dir", Environment),
    ("std::env::home_dir", Environment),
    ("std::env::current_exe", Environment),
    ("std::env::current_dir", WorkingDirectory),
    ("std::env::set_current_dir", WorkingDirectory),
    ("std::path::absolute", WorkingDirectory),
    ("std::process::Command::new", Process),
    ("std::process::exit", Process),
    ("std::process::abort", Process),
    ("libc::fork", Process),
    ("std::io::stdin", StandardStream),
    ("std::io::stdout", StandardStream),
    ("std::io::stderr", StandardStream),
];

const MACROS: [&str; 5] = ["print", "println", "eprint", "eprintln", "dbg"];

/// For each library crate: what any of its files may use, and what single files may use besides.
struct CrateRules {
    name: &'static str,
    everywhere: &'static [MachineUse],
    files: &'static [(&'static str, &'static [MachineUse])],
}

const fn rules(
    name: &'static str,
    everywhere: &'static [MachineUse],
    files: &'static [(&'static str, &'static [MachineUse])],
) -> CrateRules {
    CrateRules {
        name,
        everywhere,
        files,
    }
}

const RULES: &[CrateRules] = &[
    rules("avfs-core", &[], &[]),
    rules(
        "avfs-store",
        &[],
        &[
            // How long to wait for a lock.
            ("embedded/pins.rs", &[Timer]),
            ("embedded/ref_log.rs", &[Timer]),
            ("embedded/layout.rs", &[WorkingDirectory]),
        ],
    ),
    // The clock is a value of the tree; this is the one that it usually gets.
    rules("avfs-tree", &[], &[("worktree.rs", &[Clock])]),
    rules("avfs-fuse", &[Timer], &[("mounting/fusermount.rs", &[Process])]),
    rules(
        "avfs-inside",
        &[],
        &[("run.rs", &[Process]), ("spawner.rs", &[Process])],
    ),
    rules(
        "avfs-exec",
        &[Timer],
        &[
            ("launch.rs", &[WorkingDirectory]),
            ("launch/finding.rs", &[Environment]),
            ("launch/landlocked.rs", &[Environment]),
            ("launch/version.rs", &[Process]),
            ("profile/programs.rs", &[WorkingDirectory]),
            ("support.rs", &[Process]),
        ],
    ),
    rules("avfs-query", &[], &[]),
    rules("avfs-transfer", &[], &[]),
    rules("avfs-vfs", &[], &[("vfs.rs", &[Clock])]),
    rules("avfs-shell", &[], &[]),
    rules(
        "agentvfs",
        &[Timer],
        &[
            ("exec.rs", &[Clock]),
            ("git/bounds.rs", &[Process]),
            ("git/leading.rs", &[Environment]),
            ("git/program.rs", &[Environment, Process]),
            ("host_source.rs", &[Clock]),
            ("ignored.rs", &[Environment]),
            ("local_work.rs", &[Environment]),
            ("project.rs", &[Environment, WorkingDirectory]),
            ("run_leftovers.rs", &[Environment]),
            ("setup/file.rs", &[Environment]),
        ],
    ),
    rules("avfs-mcp", &[], &[("progress.rs", &[Timer])]),
    rules(
        "avfs-server",
        &[],
        &[("clock.rs", &[Clock, Timer]), ("entrance.rs", &[Timer])],
    ),
    rules(
        "avfs-python",
        &[],
        &[
            // Where the daemon of Docker is.
            ("options.rs", &[Environment]),
            ("process.rs", &[Timer]),
            ("store.rs", &[WorkingDirectory]),
        ],
    ),
];

#[test]
fn libraries_ask_of_the_machine_only_what_is_listed() {
    let mut wrong = Vec::new();
    for rules in RULES {
        let mut used: BTreeMap<PathBuf, BTreeSet<MachineUse>> = BTreeMap::new();
        let root = sources(rules.name);
        for file in rust_files(&root) {
            let found = uses(&fs::read_to_string(&file).unwrap());
            used.insert(file.strip_prefix(&root).unwrap().to_owned(), found);
        }
        for (file, found) in &used {
            let more = rules.files.iter().find(|(name, _)| file == Path::new(name));
            let more = more.map_or(&[][..], |(_, more)| more);
            let excess = found
                .iter()
                .filter(|one| !rules.everywhere.contains(one) && !more.contains(one));
            wrong.extend(excess.map(|one| format!("{}: {} uses {one:?}", rules.name, file.display())));
        }
        // A list that allows more than is used would let the next use in unseen.
        for (file, allowed) in rules.files {
            let found = used.get(Path::new(file));
            let idle = allowed
                .iter()
                .filter(|one| !found.is_some_and(|found| found.contains(one)));
            wrong.extend(idle.map(|one| format!("{}: {file} no longer uses {one:?}", rules.name)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_library_crate_is_listed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let libraries = fs::read_dir(crates)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !matches!(name.as_str(), "avfs" | "avfs-testkit" | "xtask"));
    let known: BTreeSet<String> = RULES.iter().map(|rules| rules.name.to_owned()).collect();
    assert_eq!(libraries.collect::<BTreeSet<String>>(), known);
}

#[test]
fn the_check_can_fail() {
    let found = |text: &str| uses(text).into_iter().collect::<Vec<_>>();
    assert_eq!(found("fn f() { std::env::var(\"A\"); }"), [Environment]);
    assert_eq!(found("use std::env;\nfn f() { g(env::var_os) }"), [Environment]);
    assert_eq!(
        found("use std::process::Command as Other;\nfn f() { Other::new(\"a\"); }"),
        [Process]
    );
    assert_eq!(
        found("fn f() { use std::time::{Duration, Instant}; Instant::now(); }"),
        [Timer]
    );
    assert_eq!(found("fn f() { println!(\"a\") }"), [StandardStream]);
    assert_eq!(
        found("fn f() { assert!(std::env::var(\"A\").is_ok()) }"),
        [Environment]
    );
    assert_eq!(found("mod env { pub fn var() {} }\nfn f() { env::var() }"), []);
    assert_eq!(found("#[cfg(test)]\nmod tests { fn f() { println!() } }"), []);
}

/// What the product code of a file uses.
fn uses(text: &str) -> BTreeSet<MachineUse> {
    let mut names = ImportedNames::default();
    let file = syn::parse_file(text).unwrap();
    names.visit_file(&file);
    let mut search = UseSearch {
        names: names.0,
        found: BTreeSet::new(),
    };
    search.visit_file(&file);
    search.found
}

/// The path for which each imported name stands.
#[derive(Default)]
struct ImportedNames(BTreeMap<String, String>);

impl<'ast> Visit<'ast> for ImportedNames {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&item.tree, "");
    }
}

impl ImportedNames {
    fn import(&mut self, tree: &syn::UseTree, above: &str) {
        let with = |name: &syn::Ident| match above {
            "" => name.to_string(),
            above => format!("{above}::{name}"),
        };
        match tree {
            syn::UseTree::Path(path) => self.import(&path.tree, &with(&path.ident)),
            syn::UseTree::Name(name) if name.ident == "self" => {
                let last = above.rsplit("::").next().unwrap_or_default();
                self.0.insert(last.to_owned(), above.to_owned());
            }
            syn::UseTree::Name(name) => drop(self.0.insert(name.ident.to_string(), with(&name.ident))),
            syn::UseTree::Rename(name) => drop(self.0.insert(name.rename.to_string(), with(&name.ident))),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, above)),
            syn::UseTree::Glob(_) => {}
        }
    }
}

struct UseSearch {
    names: BTreeMap<String, String>,
    found: BTreeSet<MachineUse>,
}

impl UseSearch {
    fn note(&mut self, path: &str) {
        let (first, rest) = path.split_once("::").unwrap_or((path, ""));
        let full = match self.names.get(first) {
            Some(known) if rest.is_empty() => known.clone(),
            Some(known) => format!("{known}::{rest}"),
            None => path.to_owned(),
        };
        let call = CALLS.iter().find(|(call, _)| *call == full);
        self.found.extend(call.map(|(_, of)| *of));
    }
}

impl<'ast> Visit<'ast> for UseSearch {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        self.note(&names.join("::"));
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        if MACROS.iter().any(|name| called.path.is_ident(name)) {
            self.found.insert(StandardStream);
        }
        // Most macros take expressions; what is none has no calls that this test could recognize.
        let parser = syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
        if let Ok(arguments) = called.parse_body_with(parser) {
            arguments.iter().for_each(|argument| self.visit_expr(argument));
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

fn sources(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(name)
        .join("src")
}

/// The files of a crate without those that are tests or programs of their own.
fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let is_left_out = ["tests", "tests.rs", "bin", "main.rs", "fixture.rs"]
            .iter()
            .any(|name| path.ends_with(name));
        if is_left_out {
            continue;
        }
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
    found
}
