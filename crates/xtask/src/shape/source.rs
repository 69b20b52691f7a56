//! One file of a crate, and what is counted in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::Result;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, File, Ident, ImplItem, Item, ItemImpl, ItemMod, Type, UseTree, Visibility};

/// One file, without its tests.
pub struct Source {
    /// Beneath the root of the crate's sources.
    pub path: PathBuf,
    /// Names of the structs, enums, unions and traits that it defines.
    pub types: Vec<String>,
    /// Inherent methods, by the name of their type.
    pub methods: BTreeMap<String, usize>,
    /// Paths within the crate that it names, from the crate's root.
    pub paths: Vec<Vec<String>>,
    /// What it makes known under another path: the name, and the path that it stands for.
    pub exports: Vec<(String, Vec<String>)>,
    /// Lines of function bodies, and those of them that hold only a comment.
    pub lines: usize,
    pub comments: usize,
    /// Modules in files of their own that are built for tests only.
    test_modules: Vec<String>,
}

impl Source {
    pub fn read(path: &Path, text: &str) -> Result<Source> {
        let file = syn::parse_file(text)?;
        let mut reading = Reading::new(module_path(path));
        reading.visit_file(&file);
        let (lines, comments) = reading.count_comments(text);
        Ok(Source {
            path: path.to_owned(),
            types: reading.types,
            methods: reading.methods,
            paths: reading.paths,
            exports: exports(&file, &module_path(path)),
            lines,
            comments,
            test_modules: reading.test_modules,
        })
    }

    /// The module of the crate's root that the file belongs to; nothing for the root itself.
    pub fn module(&self) -> &str {
        let first = self
            .path
            .components()
            .next()
            .and_then(|first| first.as_os_str().to_str());
        let first = first.unwrap_or_default();
        match first.strip_suffix(".rs").unwrap_or(first) {
            "lib" | "main" => "",
            module => module,
        }
    }

    /// Where the modules are that are built for tests only, as the beginnings of paths.
    pub fn test_files(&self) -> Vec<PathBuf> {
        let directory = match self.module() {
            "" => PathBuf::new(),
            _ => self.path.with_extension(""),
        };
        let both = |name: &String| [directory.join(name), directory.join(format!("{name}.rs"))];
        self.test_modules.iter().flat_map(both).collect()
    }
}

/// What the roots of crates make known under names of their own.
pub struct Uses {
    exported: BTreeMap<String, Vec<String>>,
}

impl Uses {
    pub fn of(sources: &[Source]) -> Uses {
        let roots = sources.iter().filter(|source| source.module().is_empty());
        Uses {
            exported: roots.flat_map(|root| root.exports.iter().cloned()).collect(),
        }
    }

    /// The module of the root that a path leads into.
    pub fn module_of<'a>(&'a self, path: &'a [String], modules: &BTreeSet<&str>) -> Option<&'a str> {
        let first = path.first()?;
        if modules.contains(first.as_str()) {
            return Some(first);
        }
        let leads = self.exported.get(first)?.first()?;
        modules.contains(leads.as_str()).then_some(leads)
    }
}

struct Reading {
    module: Vec<String>,
    types: Vec<String>,
    methods: BTreeMap<String, usize>,
    paths: Vec<Vec<String>>,
    bodies: Vec<RangeInclusive<usize>>,
    test_modules: Vec<String>,
}

impl Reading {
    fn new(module: Vec<String>) -> Self {
        Self {
            module,
            types: Vec::new(),
            methods: BTreeMap::new(),
            paths: Vec::new(),
            bodies: Vec::new(),
            test_modules: Vec::new(),
        }
    }

    /// A path that begins with `crate`, or with enough `super` to leave the module.
    fn note(&mut self, segments: &[String]) {
        if let Some(path) = from_root(segments, &self.module) {
            self.paths.push(path);
        }
    }

    fn count_comments(&self, text: &str) -> (usize, usize) {
        // A function within a function counts once.
        let within: BTreeSet<usize> = self.bodies.iter().cloned().flatten().collect();
        let lines = text
            .lines()
            .enumerate()
            .filter(|(at, _)| within.contains(&(at + 1)));
        let is_comment = |line: &str| line.trim_start().starts_with("//");
        lines.fold((0, 0), |(all, comments), (_, line)| {
            (all + 1, comments + usize::from(is_comment(line)))
        })
    }
}

impl<'ast> Visit<'ast> for Reading {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) {
            if let Item::Mod(ItemMod {
                ident, content: None, ..
            }) = item
            {
                self.test_modules.push(ident.to_string());
            }
            return;
        }
        match item {
            Item::Struct(item) => self.types.push(item.ident.to_string()),
            Item::Enum(item) => self.types.push(item.ident.to_string()),
            Item::Union(item) => self.types.push(item.ident.to_string()),
            Item::Trait(item) => self.types.push(item.ident.to_string()),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if let (None, Some(name)) = (&item.trait_, type_name(&item.self_ty)) {
            let is_method =
                |item: &&ImplItem| matches!(item, ImplItem::Fn(function) if !is_for_tests(&function.attrs));
            *self.methods.entry(name).or_default() += item.items.iter().filter(is_method).count();
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        let (from, to) = (block.brace_token.span.open(), block.brace_token.span.close());
        self.bodies.push(from.start().line..=to.end().line);
        visit::visit_block(self, block);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        self.note(&segments);
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // A root that makes known what a module has does not depend on it as modules depend on each other.
        for (_, path) in leaves(&item.tree) {
            self.note(&path);
        }
    }
}

fn exports(file: &File, module: &[String]) -> Vec<(String, Vec<String>)> {
    let uses = file.items.iter().filter_map(|item| match item {
        Item::Use(item) if !matches!(item.vis, Visibility::Inherited) => Some(&item.tree),
        _ => None,
    });
    uses.flat_map(leaves)
        .filter_map(|(name, path)| {
            let is_ours = path
                .first()
                .is_some_and(|first| first == "crate" || first == "super");
            let path = if is_ours || !module.is_empty() {
                from_root(&path, module)?
            } else {
                path
            };
            Some((name, path))
        })
        .collect()
}

/// Each name that a `use` makes known, with its path.
fn leaves(tree: &UseTree) -> Vec<(String, Vec<String>)> {
    fn walk(tree: &UseTree, above: &[String], found: &mut Vec<(String, Vec<String>)>) {
        let with = |ident: &Ident| [above, &[ident.to_string()]].concat();
        match tree {
            UseTree::Path(path) => walk(&path.tree, &with(&path.ident), found),
            UseTree::Name(name) => found.push((name.ident.to_string(), with(&name.ident))),
            UseTree::Rename(name) => found.push((name.rename.to_string(), with(&name.ident))),
            UseTree::Glob(_) => found.push(("*".to_owned(), above.to_vec())),
            UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, above, found)),
        }
    }
    let mut found = Vec::new();
    walk(tree, &[], &mut found);
    found
}

/// The path from the crate's root, of one that begins with `crate` or `super`.
fn from_root(segments: &[String], module: &[String]) -> Option<Vec<String>> {
    let (first, rest) = segments.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "super" => {
            let more = rest.iter().take_while(|segment| *segment == "super").count();
            let above = module.len().checked_sub(more + 1)?;
            Some([&module[..above], &rest[more..]].concat())
        }
        _ => None,
    }
}

fn module_path(path: &Path) -> Vec<String> {
    let without = path.with_extension("");
    let parts = without.iter().filter_map(|part| part.to_str());
    parts
        .filter(|part| !matches!(*part, "lib" | "main" | "mod"))
        .map(str::to_owned)
        .collect()
}

fn type_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        _ => None,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// `#[cfg(test)]` and `#[test]`.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        let is_test = |path: &syn::Path| path.is_ident("test");
        is_test(attribute.path())
            || is_cfg
                && attribute
                    .parse_args::<syn::Path>()
                    .is_ok_and(|path| is_test(&path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
use crate::{alpha::One, beta};
use super::Two;

pub struct Three;

impl Three {
    fn first(&self) -> beta::Four {
        // Why.
        crate::gamma::five()
    }
}

#[cfg(test)]
mod tests;
";

    #[test]
    fn types_methods_paths_and_comments_are_counted() {
        let source = Source::read(Path::new("delta/inner.rs"), TEXT).unwrap();
        assert_eq!(source.module(), "delta");
        assert_eq!(source.types, ["Three"]);
        assert_eq!(source.methods["Three"], 1);
        let paths: Vec<String> = source.paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["alpha::One", "beta", "delta::Two", "gamma::five"]);
        assert_eq!((source.lines, source.comments), (4, 1));
        let tests = [
            PathBuf::from("delta/inner/tests"),
            PathBuf::from("delta/inner/tests.rs"),
        ];
        assert_eq!(source.test_files(), tests);
    }

    #[test]
    fn reexport_of_the_root_leads_to_its_module() {
        let root = Source::read(Path::new("lib.rs"), "mod alpha;\npub use alpha::One as Other;").unwrap();
        let uses = Uses::of(&[root]);
        let modules = BTreeSet::from(["alpha", "beta"]);
        let module = |path: &str| uses.module_of(&[path.to_owned()], &modules).map(str::to_owned);
        assert_eq!(module("Other").as_deref(), Some("alpha"));
        assert_eq!(module("beta").as_deref(), Some("beta"));
        assert_eq!(module("Nothing"), None);
    }
}
