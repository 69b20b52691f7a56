//! The known properties of each language.

/// How a string begins and ends.
pub struct Quote {
    pub open: &'static str,
    pub close: &'static str,
    pub spans_lines: bool,
    /// A backslash removes the meaning of the next character.
    pub escapes: bool,
}

pub struct Language {
    names: &'static [&'static str],
    pub line_comments: &'static [&'static str],
    pub block_comment: Option<(&'static str, &'static str)>,
    /// Longer ones first.
    pub quotes: &'static [Quote],
    /// With blanks between them.
    keywords: &'static str,
    ignores_case: bool,
    pub has_lifetimes: bool,
}

impl Language {
    pub fn is_keyword(&self, word: &[u8]) -> bool {
        self.keywords.split_ascii_whitespace().any(|keyword| {
            if self.ignores_case {
                keyword.as_bytes().eq_ignore_ascii_case(word)
            } else {
                keyword.as_bytes() == word
            }
        })
    }
}

/// The language of a file: by its extension, its name, or the program that its first line names.
pub fn language_of(name: &[u8], text: &[u8]) -> Option<&'static Language> {
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let is = |wanted: &str| LANGUAGES.iter().find(|language| language.names.contains(&wanted));
    extension
        .and_then(is)
        .or_else(|| is(&name))
        .or_else(|| is(&interpreter(text)?))
}

fn interpreter(text: &[u8]) -> Option<String> {
    let line = text.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let program = line.split_whitespace().rfind(|word| !word.starts_with('-'))?;
    let name = program
        .rsplit('/')
        .next()?
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    Some(format!("#!{name}"))
}

const fn quote(open: &'static str, close: &'static str, spans_lines: bool, escapes: bool) -> Quote {
    Quote {
        open,
        close,
        spans_lines,
        escapes,
    }
}

const DOUBLE: Quote = quote("\"", "\"", false, true);
const SINGLE: Quote = quote("'", "'", false, true);
const LONG_DOUBLE: Quote = quote("\"", "\"", true, true);
const BACKTICK: Quote = quote("`", "`", true, true);
const RAW_BACKTICK: Quote = quote("`", "`", true, false);
const TRIPLE_DOUBLE: Quote = quote("\"\"\"", "\"\"\"", true, true);
const TRIPLE_SINGLE: Quote = quote("'''", "'''", true, true);
const SLASHES: Option<(&str, &str)> = Some(("/*", "*/"));

const fn language(
    names: &'static [&'static str],
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    quotes: &'static [Quote],
    keywords: &'static str,
) -> Language {
    Language {
        names,
        line_comments,
        block_comment,
        quotes,
        keywords,
        ignores_case: false,
        has_lifetimes: false,
    }
}

static LANGUAGES: [Language; 20] = [
    Language {
        has_lifetimes: true,
        ..language(
            &["rs"],
            &["//"],
            SLASHES,
            &[LONG_DOUBLE, SINGLE],
            "as async await break const continue crate dyn else enum extern false fn for if impl in \
             let loop match mod move mut pub ref return self Self static struct super trait true type \
             unsafe use where while",
        )
    },
    language(
        &[
            "c", "h", "cc", "cpp", "cxx", "hpp", "hh", "m", "mm", "cu", "glsl", "ino",
        ],
        &["//"],
        SLASHES,
        &[DOUBLE, SINGLE],
        "auto bool break case catch char class const constexpr continue default define delete do \
             double else endif enum extern false float for goto if ifdef ifndef include inline int \
             long namespace new nullptr NULL operator override private protected public return short \
             signed sizeof static struct switch template this throw true try typedef typename union \
             unsigned using virtual void volatile while",
    ),
    language(
        &[
            "js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "#!node", "#!deno", "#!bun", "vue",
            "svelte",
        ],
        &["//"],
        SLASHES,
        &[DOUBLE, SINGLE, BACKTICK],
        "any as async await boolean break case catch class const continue default delete do else \
             enum export extends false finally for from function if implements import in instanceof \
             interface let new null number of private protected public readonly return static string \
             super switch this throw true try type typeof undefined var void while yield",
    ),
    language(
        &["py", "pyi", "#!python", "bzl", "star", "gyp"],
        &["#"],
        None,
        &[TRIPLE_DOUBLE, TRIPLE_SINGLE, DOUBLE, SINGLE],
        "and as assert async await break case class continue def del elif else except False \
             finally for from global if import in is lambda match None nonlocal not or pass raise \
             return self True try while with yield",
    ),
    language(
        &["go"],
        &["//"],
        SLASHES,
        &[DOUBLE, SINGLE, RAW_BACKTICK],
        "bool break byte case chan const continue default defer else error fallthrough false for \
             func go goto if import int interface map nil package range return rune select string \
             struct switch true type var",
    ),
    language(
        &[
            "java", "kt", "kts", "scala", "groovy", "gradle", "cs", "swift", "dart",
        ],
        &["//"],
        SLASHES,
        &[TRIPLE_DOUBLE, DOUBLE, SINGLE],
        "abstract as async await boolean break case catch class const continue def default do \
             double else enum extends false final finally float for fun func guard if implements \
             import in init instanceof int interface internal is let long namespace new nil null \
             object override package private protected protocol public return sealed self static \
             string struct super switch this throw throws trait true try using val var void when \
             while with",
    ),
    language(
        &["php"],
        &["//", "#"],
        SLASHES,
        &[LONG_DOUBLE, quote("'", "'", true, true)],
        "abstract array as break case catch class const continue default do echo else elseif \
             extends false final finally fn for foreach function global if implements interface match \
             namespace new null private protected public require return static switch throw trait \
             true try use var while",
    ),
    language(
        &[
            "rb", "rake", "gemspec", "gemfile", "rakefile", "#!ruby", "ex", "exs", "cr",
        ],
        &["#"],
        Some(("=begin", "=end")),
        &[LONG_DOUBLE, quote("'", "'", true, true)],
        "alias and begin break case class def defmodule do else elsif end ensure false fn for if \
             in include module next nil not or private raise redo require rescue retry return self \
             super then true unless until use when while yield",
    ),
    language(
        &[
            "sh", "bash", "zsh", "ksh", "fish", "envrc", "#!sh", "#!bash", "#!zsh", "#!dash", "#!fish",
        ],
        &["#"],
        None,
        &[LONG_DOUBLE, quote("'", "'", true, false)],
        "break case continue do done elif else end esac exit export fi for function if in local \
             readonly return set shift then trap unset until while",
    ),
    language(
        &["json", "jsonc", "json5"],
        &["//"],
        SLASHES,
        &[DOUBLE],
        "true false null",
    ),
    language(
        &["yaml", "yml"],
        &["#"],
        None,
        &[DOUBLE, SINGLE],
        "true false null yes no",
    ),
    language(
        &[
            "toml",
            "ini",
            "cfg",
            "conf",
            "properties",
            "editorconfig",
            "gitconfig",
        ],
        &["#", ";"],
        None,
        &[
            TRIPLE_DOUBLE,
            quote("'''", "'''", true, false),
            DOUBLE,
            quote("'", "'", false, false),
        ],
        "true false",
    ),
    Language {
        ignores_case: true,
        ..language(
            &["sql"],
            &["--"],
            SLASHES,
            &[quote("'", "'", true, false), quote("\"", "\"", false, false)],
            "add alter and as asc begin by case commit constraint create default delete desc distinct \
             drop else end exists foreign from group having if in index inner insert into is join key \
             left like limit not null on or order outer primary references right select set table \
             then union unique update values view when where with",
        )
    },
    language(
        &["lua", "#!lua"],
        &["--"],
        Some(("--[[", "]]")),
        &[quote("[[", "]]", true, false), DOUBLE, SINGLE],
        "and break do else elseif end false for function goto if in local nil not or repeat \
             return then true until while",
    ),
    language(
        &["html", "htm", "xml", "svg", "xhtml", "plist"],
        &[],
        Some(("<!--", "-->")),
        &[LONG_DOUBLE],
        "",
    ),
    language(
        &["css", "scss", "sass", "less"],
        &["//"],
        SLASHES,
        &[DOUBLE, SINGLE],
        "important",
    ),
    language(
        &["makefile", "mk", "gnumakefile", "cmakelists.txt", "cmake"],
        &["#"],
        None,
        &[DOUBLE],
        "define else elseif endef endif function if ifdef ifeq ifndef include",
    ),
    Language {
        ignores_case: true,
        ..language(
            &["dockerfile", "containerfile"],
            &["#"],
            None,
            &[DOUBLE, SINGLE],
            "add arg as cmd copy entrypoint env expose from healthcheck label run shell user volume \
             workdir",
        )
    },
    language(
        &["hs", "elm"],
        &["--"],
        Some(("{-", "-}")),
        &[DOUBLE],
        "case class data deriving do else if import in infix instance let module newtype of then \
             type where",
    ),
    language(
        &["zig", "proto", "tf", "hcl", "nix"],
        &["//", "#"],
        SLASHES,
        &[DOUBLE],
        "break const continue else enum false fn for if import in inherit let message null \
             package pub repeated resource return rpc service struct switch syntax then true try \
             union var variable while with",
    ),
];
