//! The library is independent of the command line: its texts name no command, flag or variable of `avfs`.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

const LIBRARIES: [&str; 9] = [
    "avfs-core",
    "avfs-store",
    "avfs-tree",
    "avfs-fuse",
    "avfs-exec",
    "avfs-inside",
    "avfs-query",
    "avfs-transfer",
    "agentvfs",
];

/// Variables that are set for runs are an interface of the library.
const NAMES_VARIABLES: [&str; 2] = ["exec/inner_environment.rs", "exec/prompt.rs"];

#[test]
fn texts_of_the_library_name_no_command_flag_or_variable() {
    let flags = flags();
    let mut found = Vec::new();
    for library in LIBRARIES {
        for file in rust_files(&sources(library)) {
            let text = fs::read_to_string(&file).unwrap();
            let names_variables = NAMES_VARIABLES.iter().any(|name| file.ends_with(name));
            let told = literals(product(&text)).into_iter();
            let wrong = told.filter(|literal| is_for_command_line(literal, &flags, names_variables));
            found.extend(wrong.map(|literal| format!("{}: {literal}", file.display())));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_check_can_fail() {
    let flags = flags();
    assert!(flags.len() > 100, "only {flags:?} were found");
    let is_wrong = |source: &str| {
        literals(product(source))
            .iter()
            .any(|text| is_for_command_line(text, &flags, false))
    };
    assert!(is_wrong(r#"let hint = "`avfs doctor` tells";"#));
    assert!(is_wrong(r#"let hint = "run avfs doctor";"#));
    assert!(is_wrong(r##"let hint = r#"try --force"#;"##));
    assert!(is_wrong(r#"env("AVFS_HOME")"#));
    assert!(!is_wrong(r#"git.arg("--force")"#));
    assert!(!is_wrong(r#"let hint = "start it with `other --force`";"#));
    assert!(!is_wrong("// \"run avfs doctor\"\nlet quote = '\"';"));
    assert!(!is_wrong(
        "fn f() {}\n#[cfg(test)]\nmod tests { const HINT: &str = \"run avfs doctor\"; }"
    ));
}

fn is_for_command_line(literal: &str, flags: &BTreeSet<String>, names_variables: bool) -> bool {
    let names_command = literal
        .split("avfs ")
        .skip(1)
        .any(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
    // What is quoted as the command of another program has that program's flags.
    let quoted = literal.split('`').enumerate();
    let own = quoted.filter(|(at, part)| at % 2 == 0 || part.starts_with("avfs"));
    let own = own.map(|(_, part)| part).collect::<Vec<_>>().join(" ");
    let words = || own.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    // A word alone may be an argument for another program; in a sentence it is advice.
    let advises_flag = literal.contains(' ') && words().any(|word| flags.contains(word));
    names_command || advises_flag || (literal.contains("AVFS_") && !names_variables)
}

fn sources(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(name)
        .join("src")
}

/// The long flags of `avfs`, as its arguments declare them.
fn flags() -> BTreeSet<String> {
    let mut found = Flags::default();
    for file in rust_files(&sources("avfs")) {
        found.visit_file(&syn::parse_file(&fs::read_to_string(file).unwrap()).unwrap());
    }
    found.0
}

#[derive(Default)]
struct Flags(BTreeSet<String>);

impl<'ast> Visit<'ast> for Flags {
    fn visit_field(&mut self, field: &'ast syn::Field) {
        let of_clap = field
            .attrs
            .iter()
            .filter(|attribute| attribute.path().is_ident("arg"));
        for attribute in of_clap {
            attribute
                .parse_nested_meta(|meta| {
                    let given = meta.input.peek(syn::Token![=]);
                    let value = given.then(|| meta.value()?.parse::<syn::Expr>()).transpose()?;
                    let own = || field.ident.as_ref().unwrap().to_string().replace('_', "-");
                    match value {
                        None if meta.path.is_ident("long") => drop(self.0.insert(format!("--{}", own()))),
                        Some(syn::Expr::Lit(syn::ExprLit {
                            lit: syn::Lit::Str(name),
                            ..
                        })) if meta.path.is_ident("long") || meta.path.is_ident("alias") => {
                            self.0.insert(format!("--{}", name.value()));
                        }
                        _ => {}
                    }
                    Ok(())
                })
                .unwrap();
        }
    }
}

/// A file without its tests.
fn product(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod ")
        .map_or(text, |(product, _)| product)
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
    found
}

/// The string literals of a source, without those in comments.
fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let end = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some((text, length)) = string(rest) {
            found.push(text);
            length
        } else {
            character(rest).unwrap_or(first.len_utf8())
        };
        rest = &rest[end..];
    }
    found
}

/// A string that begins here, and its length in the source.
fn string(source: &str) -> Option<(String, usize)> {
    if let Some(raw) = source.strip_prefix('r') {
        let hashes = raw.bytes().take_while(|byte| *byte == b'#').count();
        let inside = raw[hashes..].strip_prefix('"')?;
        let close = format!("\"{}", "#".repeat(hashes));
        let length = inside.find(&close)?;
        return Some((inside[..length].to_owned(), 1 + hashes + 1 + length + close.len()));
    }
    let inside = source.strip_prefix('"')?;
    let mut is_escaped = false;
    let is_end = |byte: u8| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    };
    let length = inside.bytes().position(is_end)?;
    Some((inside[..length].to_owned(), length + 2))
}

/// The length of a character literal that begins here; `None` for a lifetime.
fn character(source: &str) -> Option<usize> {
    let inside = source.strip_prefix('\'')?;
    let content = if inside.starts_with('\\') {
        2
    } else {
        inside.chars().next()?.len_utf8()
    };
    inside
        .get(content..)?
        .find('\'')
        .filter(|gap| *gap == 0 || inside.starts_with('\\'))
        .map(|gap| content + gap + 2)
}
