//! `diff`

mod hunks;

use avfs_vfs::{Kind, Stat};

use super::calendar::Date;
use super::options::{Given, Known};
use super::{GnuCall, PIPES, Report, below, words};
use crate::command::CommandResult;
use hunks::{Compared, Sameness};

const KNOWN: Known = Known {
    short: "abBiNqrsuU:wtTx:dZE",
    long: &[
        ("brief", 'q'),
        ("color[=", '.'),
        ("exclude=", 'x'),
        ("ignore-all-space", 'w'),
        ("ignore-blank-lines", 'B'),
        ("ignore-case", 'i'),
        ("ignore-space-change", 'b'),
        ("label=", 'l'),
        ("minimal", 'd'),
        ("new-file", 'N'),
        ("no-dereference", 'P'),
        ("recursive", 'r'),
        ("report-identical-files", 's'),
        ("strip-trailing-cr", 'C'),
        ("text", 'a'),
        ("unified[=", 'u'),
    ],
};
/// The lines around a change that are shown with it.
const CONTEXT: usize = 3;

pub(super) fn diff(call: &GnuCall<'_>) -> CommandResult {
    let given = match KNOWN.read(call, 2) {
        Ok(given) => given,
        Err(wrong) => return wrong,
    };
    let [first, second] = given.arguments.as_slice() else {
        let text = match given.arguments.last() {
            Some(last) if given.arguments.len() < 2 => format!("missing operand after '{last}'"),
            Some(_) => format!("extra operand '{}'", given.arguments[2]),
            None => "missing operand after 'diff'".to_owned(),
        };
        return CommandResult::failure(2, format!("diff: {text}\n"));
    };
    let context = match given
        .value('U')
        .or_else(|| given.value('u').filter(|value| !value.is_empty()))
    {
        Some(lines) => match lines.parse() {
            Ok(lines) => Some(lines),
            Err(_) => return CommandResult::failure(2, format!("diff: invalid context length '{lines}'\n")),
        },
        None => given.has('u').then_some(CONTEXT),
    };
    let (first, second) = (first.clone(), second.clone());
    let sameness = Sameness {
        case: !given.has('i'),
        spaces: !given.has('w'),
        space_counts: !(given.has('b') || given.has('w')),
        blank_lines: !given.has('B'),
    };
    let mut comparison = Comparison {
        call,
        given,
        context,
        sameness,
        report: Report::default(),
    };
    comparison.arguments(&first, &second);
    comparison.report.end()
}

/// One side: what it is called, and what is there.
struct Side {
    shown: String,
    place: String,
    found: Found,
}

enum Found {
    Nothing,
    Directory(Stat),
    File(Vec<u8>, Option<Stat>),
}

struct Comparison<'a> {
    call: &'a GnuCall<'a>,
    given: Given,
    context: Option<usize>,
    sameness: Sameness,
    report: Report,
}

impl Comparison<'_> {
    fn side(&self, shown: &str) -> Result<Side, String> {
        let place = self.call.place(shown);
        let found = if shown == "-" {
            Found::File(self.call.call.stdin.clone(), None)
        } else if let Some(bytes) = shown.strip_prefix(PIPES).and_then(|_| self.call.pipes.get(shown)) {
            Found::File(bytes.clone(), None)
        } else {
            match self.call.vfs().stat(&place) {
                Ok(stat) if stat.kind == Kind::Directory => Found::Directory(stat),
                Ok(stat) => match self.call.vfs().read_file(&place) {
                    Ok(content) => Found::File(content.to_vec(), Some(stat)),
                    Err(error) => return Err(words(&error)),
                },
                Err(error) => return Err(words(&error)),
            }
        };
        Ok(Side {
            shown: shown.to_owned(),
            place,
            found,
        })
    }

    fn arguments(&mut self, first: &str, second: &str) {
        let mut sides = Vec::new();
        for shown in [first, second] {
            match self.side(shown) {
                Ok(side) => sides.push(side),
                Err(_) if self.given.has('N') => {
                    sides.push(Side {
                        shown: shown.to_owned(),
                        place: self.call.place(shown),
                        found: Found::Nothing,
                    });
                }
                Err(text) => self.report.fail(2, format!("diff: {shown}: {text}")),
            }
        }
        let Ok([one, other]) = <[Side; 2]>::try_from(sides) else {
            return;
        };
        match (&one.found, &other.found) {
            (Found::Directory(_), Found::Directory(_)) => self.directories(&one, &other),
            // A file is compared with the one of its name in the directory.
            (Found::Directory(_), Found::File(..)) => self.within(&one, &other, true),
            (Found::File(..), Found::Directory(_)) => self.within(&other, &one, false),
            _ => self.files(&one, &other, false),
        }
    }

    fn within(&mut self, directory: &Side, file: &Side, is_first: bool) {
        let shown = below(&directory.shown, super::base_name(&file.shown));
        match self.side(&shown) {
            Ok(found) if is_first => self.files(&found, file, false),
            Ok(found) => self.files(file, &found, false),
            Err(text) => self.report.fail(2, format!("diff: {shown}: {text}")),
        }
    }

    fn names(&mut self, side: &Side) -> Vec<String> {
        match self.call.vfs().ls(&side.place) {
            Ok(entries) => {
                let names = entries
                    .iter()
                    .map(|entry| String::from_utf8_lossy(entry.name.as_bytes()).into_owned());
                let is_left_out = |name: &String| {
                    self.given
                        .values('x')
                        .any(|pattern| matches_glob(pattern.as_bytes(), name.as_bytes()))
                };
                names.filter(|name| !is_left_out(name)).collect()
            }
            Err(error) => {
                self.report
                    .fail(2, format!("diff: {}: {}", side.shown, words(&error)));
                Vec::new()
            }
        }
    }

    fn directories(&mut self, one: &Side, other: &Side) {
        let (left, right) = (self.names(one), self.names(other));
        let mut names: Vec<&String> = left.iter().chain(&right).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let is_in = [left.contains(name), right.contains(name)];
            let shown = [below(&one.shown, name), below(&other.shown, name)];
            if is_in != [true, true] && !self.given.has('N') {
                let directory = if is_in[0] { &one.shown } else { &other.shown };
                self.report.say(format!("Only in {directory}: {name}"));
                self.report.status = self.report.status.max(1);
                continue;
            }
            let mut sides = Vec::new();
            for (shown, is_there) in shown.iter().zip(is_in) {
                let absent = || Side {
                    shown: shown.clone(),
                    place: self.call.place(shown),
                    found: Found::Nothing,
                };
                match if is_there { self.side(shown) } else { Ok(absent()) } {
                    Ok(side) => sides.push(side),
                    Err(text) => self.report.fail(2, format!("diff: {shown}: {text}")),
                }
            }
            let Ok([one, other]) = <[Side; 2]>::try_from(sides) else {
                continue;
            };
            match (&one.found, &other.found) {
                (Found::Directory(_), Found::Directory(_)) if self.given.has('r') => {
                    self.directories(&one, &other)
                }
                (Found::Directory(_), Found::Directory(_)) => {
                    self.report.say(format!(
                        "Common subdirectories: {} and {}",
                        one.shown, other.shown
                    ));
                }
                (Found::Directory(stat), Found::Nothing) | (Found::Nothing, Found::Directory(stat)) => {
                    if self.given.has('r') {
                        let empty = |side: &Side| Side {
                            shown: side.shown.clone(),
                            place: side.place.clone(),
                            found: Found::Directory(stat.clone()),
                        };
                        self.one_sided(&empty(&one), &empty(&other));
                    }
                }
                (Found::Directory(_), _) | (_, Found::Directory(_)) => {
                    let kind = |side: &Side| match side.found {
                        Found::Directory(_) => "directory",
                        _ => "regular file",
                    };
                    let (first, second) = (kind(&one), kind(&other));
                    let (one, other) = (one.shown, other.shown);
                    self.report.say(format!(
                        "File {one} is a {first} while file {other} is a {second}"
                    ));
                    self.report.status = self.report.status.max(1);
                }
                _ => self.files(&one, &other, true),
            }
        }
    }

    /// A directory that is on one side only, with `-N`.
    fn one_sided(&mut self, one: &Side, other: &Side) {
        for is_first in [true, false] {
            let side = if is_first { one } else { other };
            for entry in self.call.vfs().ls(&side.place).unwrap_or_default() {
                let name = String::from_utf8_lossy(entry.name.as_bytes()).into_owned();
                let absent = |side: &Side| Side {
                    shown: below(&side.shown, &name),
                    place: below(&side.place, &name),
                    found: Found::Nothing,
                };
                let Ok(found) = self.side(&below(&side.shown, &name)) else {
                    continue;
                };
                match (&found.found, is_first) {
                    (Found::Directory(_), true) => self.one_sided(&found, &absent(other)),
                    (Found::Directory(_), false) => self.one_sided(&absent(one), &found),
                    (_, true) => self.files(&found, &absent(other), true),
                    (_, false) => self.files(&absent(one), &found, true),
                }
            }
        }
    }

    fn files(&mut self, one: &Side, other: &Side, has_title: bool) {
        let content = |side: &Side| match &side.found {
            Found::File(bytes, _) => bytes.clone(),
            Found::Nothing | Found::Directory(_) => Vec::new(),
        };
        let (left, right) = (content(one), content(other));
        let same = |report: &mut Report, is_told: bool| {
            if is_told {
                report.say(format!("Files {} and {} are identical", one.shown, other.shown));
            }
        };
        if left == right {
            return same(&mut self.report, self.given.has('s'));
        }
        let is_binary = (left.contains(&0) || right.contains(&0)) && !self.given.has('a');
        let compared = Compared::new(&left, &right, self.sameness);
        if !is_binary && compared.is_same() {
            return same(&mut self.report, self.given.has('s'));
        }
        self.report.status = self.report.status.max(1);
        if self.given.has('q') || is_binary {
            let kind = if is_binary && !self.given.has('q') {
                "Binary files"
            } else {
                "Files"
            };
            return self
                .report
                .say(format!("{kind} {} and {} differ", one.shown, other.shown));
        }
        if has_title {
            let options: Vec<&str> = self
                .call
                .call
                .args
                .iter()
                .map(String::as_str)
                .filter(|word| word.starts_with('-') && *word != "-")
                .collect();
            self.report.say(format!(
                "diff {} {} {}",
                options.join(" "),
                one.shown,
                other.shown
            ));
        }
        match self.context {
            None => compared.normal(&mut self.report.stdout),
            Some(lines) => {
                let labels: Vec<&str> = self.given.values('l').collect();
                let title = |side: &Side, index: usize| match labels.get(index) {
                    Some(label) => (*label).to_owned(),
                    None => format!("{}\t{}", side.shown, date(side)),
                };
                let titles = format!("--- {}\n+++ {}\n", title(one, 0), title(other, 1));
                self.report.stdout.push_str(&titles);
                compared.unified(lines, &mut self.report.stdout);
            }
        }
    }
}

fn date(side: &Side) -> String {
    let time = match &side.found {
        Found::File(_, Some(stat)) | Found::Directory(stat) => stat.mtime,
        Found::File(_, None) | Found::Nothing => avfs_vfs::Timestamp::from_nanos(0),
    };
    Date::of(time).whole()
}

/// A pattern with `*` and `?`, as `-x` takes it.
fn matches_glob(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skipped| matches_glob(rest, &name[skipped..])),
        (Some((b'?', rest)), Some((_, name))) => matches_glob(rest, name),
        (Some((letter, rest)), Some((first, name))) if letter == first => matches_glob(rest, name),
        _ => false,
    }
}
