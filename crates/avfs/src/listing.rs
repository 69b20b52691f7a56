//! Changed files as people see them: one line for each, and one for a directory in which many changed.

use std::collections::{BTreeMap, HashSet};

use agentvfs::apply::{AppliedFile, Deed};
use agentvfs::patch::{FileChange, Status};
use agentvfs::{IgnoredSummary, TreePath};
use anstyle::Style;

use crate::escape::printable;
use crate::printer::{CYAN, FAINT, GREEN, PrintError, Printer, RED, YELLOW};
use crate::versions::count;

/// More files than these in a directory that came or went as a whole are one line.
const WHOLE: usize = 3;
/// More files than these that had the same done to them in one directory are one line.
const MANY: usize = 10;
/// How many of them are named in it.
const NAMED: usize = 3;
/// How many places of ignored files are named.
const PLACES: usize = 3;

/// What was done to a file, in the same words wherever it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    Added,
    Removed,
    Modified,
    Renamed,
    Merged,
    Marked,
    TypeChanged,
    Attributes,
    /// Whatever was done to it.
    Ignored,
}

impl Change {
    pub fn word(self) -> &'static str {
        match self {
            Change::Added => "added",
            Change::Removed => "removed",
            Change::Modified => "modified",
            Change::Renamed => "renamed",
            Change::Merged => "merged",
            Change::Marked => "conflict",
            Change::TypeChanged => "type-changed",
            Change::Attributes => "attributes",
            Change::Ignored => "ignored",
        }
    }

    fn style(self) -> Style {
        match self {
            Change::Added => GREEN,
            Change::Removed | Change::Marked => RED,
            Change::Modified | Change::Merged | Change::TypeChanged | Change::Attributes => YELLOW,
            Change::Renamed => CYAN,
            Change::Ignored => FAINT,
        }
    }
}

impl From<Status> for Change {
    fn from(status: Status) -> Change {
        match status {
            Status::Added => Change::Added,
            Status::Removed => Change::Removed,
            Status::Modified => Change::Modified,
            Status::Renamed => Change::Renamed,
            Status::TypeChanged => Change::TypeChanged,
            Status::Attributes => Change::Attributes,
        }
    }
}

/// One changed file.
#[derive(Clone, Debug)]
pub struct Item {
    change: Change,
    path: TreePath,
    from: Option<TreePath>,
    is_directory: bool,
}

impl From<&FileChange> for Item {
    fn from(file: &FileChange) -> Item {
        let from = file.old.as_ref().filter(|_| file.status == Status::Renamed).map(|old| old.path.clone());
        let side = file.new.as_ref().or(file.old.as_ref());
        let is_directory = side.is_some_and(|side| side.entry.is_directory());
        Item { change: file.status.into(), path: file.path().clone(), from, is_directory }
    }
}

impl From<&AppliedFile> for Item {
    fn from(file: &AppliedFile) -> Item {
        let change = match file.deed {
            Deed::Added | Deed::DirectoryAdded => Change::Added,
            Deed::Removed | Deed::DirectoryRemoved => Change::Removed,
            Deed::Replaced => Change::Modified,
            Deed::Merged => Change::Merged,
            Deed::Marked => Change::Marked,
            Deed::Mode => Change::Attributes,
            Deed::Renamed => Change::Renamed,
        };
        let is_directory = matches!(file.deed, Deed::DirectoryAdded | Deed::DirectoryRemoved);
        Item { change, path: file.path.clone(), from: file.from.clone(), is_directory }
    }
}

impl Item {
    /// A file of which only that it is ignored is told.
    pub fn ignored(file: &FileChange) -> Item {
        Item { change: Change::Ignored, from: None, ..Item::from(file) }
    }
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub change: Change,
    pub text: String,
}

/// A list of changed files.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub rows: Vec<Row>,
    /// How many files there are, by what was done to them.
    counts: BTreeMap<Change, usize>,
    is_folded: bool,
}

/// Where a file is told of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Itself(usize),
    /// A directory that came or went with everything in it.
    Below(Change, TreePath),
    /// Many files of a directory.
    Among(Change, TreePath),
    /// A directory that has another name.
    Moved(TreePath, TreePath),
}

impl Listing {
    /// Of files with one line each.
    pub fn every(items: &[Item]) -> Listing {
        let places = (0..items.len()).map(Place::Itself).collect();
        Listing::of_places(items, places)
    }

    /// Folded. `whole` are directories that came or went with everything in them.
    pub fn folded(items: &[Item], whole: &HashSet<TreePath>) -> Listing {
        let mut wholes: BTreeMap<(Change, TreePath), usize> = BTreeMap::new();
        let mut parents: BTreeMap<(Change, TreePath), usize> = BTreeMap::new();
        let mut moves: BTreeMap<(TreePath, TreePath), usize> = BTreeMap::new();
        for item in items {
            if let Some(top) = item.whole_above(whole) {
                *wholes.entry((item.change, top)).or_default() += 1;
            } else if let Some(ends) = item.moved_directory() {
                *moves.entry(ends).or_default() += 1;
            } else if let Some(parent) = item.parent() {
                *parents.entry((item.change, parent)).or_default() += 1;
            }
        }
        let is_many = |found: Option<&usize>, many: usize| found.is_some_and(|count| *count > many);
        let place = |(at, item): (usize, &Item)| {
            let below = |directory: TreePath| Place::Below(item.change, directory);
            if let Some(top) = item.whole_above(whole) {
                let key = (item.change, top);
                if is_many(wholes.get(&key), WHOLE) { below(key.1) } else { Place::Itself(at) }
            } else if let Some(ends) = item.moved_directory() {
                if is_many(moves.get(&ends), WHOLE) {
                    Place::Moved(ends.0, ends.1)
                } else {
                    Place::Itself(at)
                }
            } else if let Some(parent) = item.parent() {
                let key = (item.change, parent);
                if is_many(parents.get(&key), MANY) { Place::Among(key.0, key.1) } else { Place::Itself(at) }
            } else {
                Place::Itself(at)
            }
        };
        Listing::of_places(items, items.iter().enumerate().map(place).collect())
    }

    fn of_places(items: &[Item], places: Vec<Place>) -> Listing {
        let mut files: BTreeMap<&Place, Vec<usize>> = BTreeMap::new();
        places.iter().enumerate().for_each(|(at, place)| files.entry(place).or_default().push(at));
        let mut listing = Listing::default();
        let mut told: HashSet<usize> = HashSet::new();
        let mut first: BTreeMap<&Place, usize> = BTreeMap::new();
        for (at, place) in places.iter().enumerate() {
            *listing.counts.entry(items[at].change).or_default() += 1;
            if *first.entry(place).or_insert(at) == at {
                told.insert(at);
            }
        }
        for (at, place) in places.iter().enumerate().filter(|(at, _)| told.contains(at)) {
            let item = &items[at];
            let many = || count(files[place].len() as u64, "file");
            let text = match place {
                Place::Itself(_) => item.text(),
                Place::Below(_, directory) => format!("{} ({})", shown(directory, true), many()),
                Place::Among(_, directory) => {
                    let some = files[place].iter().take(NAMED).filter_map(|at| items[*at].name());
                    let names = some.collect::<Vec<_>>().join(", ");
                    format!("{} ({}: {names}, …)", shown(directory, true), many())
                }
                Place::Moved(from, to) => {
                    format!("{} -> {} ({})", shown(from, true), shown(to, true), many())
                }
            };
            listing.is_folded |= !matches!(place, Place::Itself(_));
            listing.rows.push(Row { change: item.change, text });
        }
        listing
    }

    /// Whether some lines stand for several files.
    pub fn is_folded(&self) -> bool {
        self.is_folded
    }

    /// `3 modified, 1 added`.
    pub fn counts(&self) -> String {
        let part = |(change, count): (&Change, &usize)| format!("{count} {}", change.word());
        self.counts.iter().map(part).collect::<Vec<_>>().join(", ")
    }

    /// How wide the column of words is.
    fn width(&self) -> usize {
        self.rows.iter().map(|row| row.change.word().len()).max().unwrap_or(0)
    }

    pub fn print(&self, out: &mut Printer) -> Result<(), PrintError> {
        self.print_some(out, self.rows.len()).map(drop)
    }

    /// Prints the first rows; returns how many are left.
    pub fn print_some(&self, out: &mut Printer, some: usize) -> Result<usize, PrintError> {
        let width = self.width();
        for row in self.rows.iter().take(some) {
            let word = out.paint(row.change.style(), format!("{:<width$}", row.change.word()));
            out.line(format_args!("{word}  {}", row.text))?;
        }
        Ok(self.rows.len().saturating_sub(some))
    }

    /// The first rows as lines of talk.
    pub fn talk_some(&self, out: &mut Printer, some: usize) {
        let width = self.width();
        for row in self.rows.iter().take(some) {
            let word = out.paint_talk(row.change.style(), format!("{:<width$}", row.change.word()));
            out.talk(format_args!("  {word}  {}", row.text));
        }
        match self.rows.len().saturating_sub(some) {
            0 => {}
            1 => out.talk("  and 1 more line"),
            more => out.talk(format_args!("  and {more} more lines")),
        }
    }
}

impl Item {
    fn text(&self) -> String {
        let path = shown(&self.path, self.is_directory);
        match &self.from {
            Some(from) => format!("{} -> {path}", shown(from, self.is_directory)),
            None => path,
        }
    }

    fn name(&self) -> Option<String> {
        self.path.split_last().map(|(_, name)| printable(name.as_bytes()).to_string())
    }

    fn parent(&self) -> Option<TreePath> {
        self.from.is_none().then(|| self.path.split_last().map(|(parent, _)| parent)).flatten()
    }

    /// The highest directory above it that came or went.
    fn whole_above(&self, whole: &HashSet<TreePath>) -> Option<TreePath> {
        if !matches!(self.change, Change::Added | Change::Removed | Change::Ignored) {
            return None;
        }
        let mut highest = self.is_directory.then(|| self.path.clone()).filter(|path| whole.contains(path));
        let mut above = self.path.split_last();
        while let Some((parent, _)) = above {
            above = parent.split_last();
            if whole.contains(&parent) {
                highest = Some(parent);
            }
        }
        highest
    }

    /// The directories whose names differ, if the rest of both paths is the same.
    fn moved_directory(&self) -> Option<(TreePath, TreePath)> {
        let (mut from, mut to) = (self.from.clone()?, self.path.clone());
        let mut is_same = false;
        while let (Some((old, old_name)), Some((new, new_name))) = (from.split_last(), to.split_last())
            && old_name == new_name
        {
            (from, to, is_same) = (old, new, true);
        }
        is_same.then_some((from, to))
    }
}

/// A path as in a listing of git: from the top, with a `/` behind a directory.
pub fn shown(path: &TreePath, is_directory: bool) -> String {
    let slash = if is_directory { "/" } else { "" };
    match path.is_root() {
        true => "./".to_owned(),
        false => format!("{}{slash}", printable(path.as_bytes())),
    }
}

/// Leaves out directories that came or went with files of the list in them: those tell of it.
pub fn without_needless_directories(items: &mut Vec<Item>) {
    let mut in_use: HashSet<TreePath> = HashSet::new();
    for item in items.iter().filter(|item| !item.is_directory) {
        for end in [Some(&item.path), item.from.as_ref()].into_iter().flatten() {
            let mut above = end.split_last();
            while let Some((parent, _)) = above {
                above = parent.split_last();
                if !in_use.insert(parent) {
                    break;
                }
            }
        }
    }
    items.retain(|item| !item.is_directory || !in_use.contains(&item.path));
}

/// One line about what was left out, if anything was.
pub fn ignored_line(ignored: &IgnoredSummary) -> Option<String> {
    if ignored.is_empty() {
        return None;
    }
    let mut places: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for place in ignored.places() {
        let name = place.path.name().map(|name| printable(name.as_bytes())).unwrap_or_default();
        let slash = if place.is_directory { "/" } else { "" };
        let (times, files) = places.entry(format!("{name}{slash}")).or_default();
        (*times, *files) = (*times + 1, *files + place.files);
    }
    let mut by_size: Vec<(String, usize, usize)> =
        places.into_iter().map(|(name, (times, files))| (name, times, files)).collect();
    by_size.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
    // A name that is in one place only is told with the way there.
    let whole_path = |name: &str| {
        let mut all = ignored.places();
        let of_name = |place: &agentvfs::IgnoredPlace| {
            shown(&place.path, place.is_directory).rsplit_terminator('/').next()
                == Some(name.trim_end_matches('/'))
        };
        all.find(of_name).map(|place| shown(&place.path, place.is_directory))
    };
    let told = by_size.iter().take(PLACES).map(|(name, times, _)| match times {
        1 => whole_path(name).unwrap_or_else(|| name.clone()),
        times => format!("{name} ({times} times)"),
    });
    let told = told.collect::<Vec<_>>().join(", ");
    let more = match by_size.len().saturating_sub(PLACES) {
        0 => String::new(),
        more => format!(" and {}", count(more as u64, "more place")),
    };
    Some(format!("{} ignored: {told}{more}", count(ignored.files() as u64, "file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(line: &str) -> Item {
        let (word, rest) = line.split_once(' ').unwrap();
        let change = match word {
            "A" => Change::Added,
            "D" => Change::Removed,
            "M" => Change::Modified,
            _ => Change::Renamed,
        };
        let path = |text: &str| TreePath::parse(text.as_bytes()).unwrap();
        let (from, to) = match rest.split_once(" -> ") {
            Some((from, to)) => (Some(path(from)), to),
            None => (None, rest),
        };
        Item { change, path: path(to), from, is_directory: rest.ends_with('/') }
    }

    #[track_caller]
    fn check(lines: &[String], whole: &[&str], expected: &[&str]) {
        let items: Vec<Item> = lines.iter().map(|line| item(line)).collect();
        let whole = whole.iter().map(|path| TreePath::parse(path.as_bytes()).unwrap()).collect();
        let listing = Listing::folded(&items, &whole);
        let rows: Vec<String> =
            listing.rows.iter().map(|row| format!("{} {}", row.change.word(), row.text)).collect();
        assert_eq!(rows, expected);
    }

    fn many(line: &str, count: usize) -> Vec<String> {
        (0..count).map(|number| line.replace('#', &number.to_string())).collect()
    }

    #[test]
    fn a_new_directory_with_many_files_is_one_line() {
        let lines = [many("A dist/sub/#.js", 240), many("M src/a", 1)].concat();
        check(&lines, &["dist", "dist/sub"], &["added dist/ (240 files)", "modified src/a"]);
        check(&many("A dist/#", 3), &["dist"], &["added dist/0", "added dist/1", "added dist/2"]);
        check(&many("D old/#", 4), &["old"], &["removed old/ (4 files)"]);
    }

    #[test]
    fn many_files_of_one_directory_are_one_line_for_each_word() {
        let lines = [many("A src/n#", 2), many("M src/#", 11), many("M #", 1)].concat();
        let folded = "modified src/ (11 files: 0, 1, 2, …)";
        check(&lines, &[], &["added src/n0", "added src/n1", folded, "modified 0"]);
        check(&many("M #", 11), &[], &["modified ./ (11 files: 0, 1, 2, …)"]);
        assert_eq!(Listing::folded(&[], &HashSet::new()).rows, []);
    }

    #[test]
    fn a_renamed_directory_is_one_line() {
        let lines = [many("R old/a/# -> new/a/#", 5), many("R x -> y", 1)].concat();
        check(&lines, &["new", "new/a"], &["renamed old/ -> new/ (5 files)", "renamed x -> y"]);
    }

    #[test]
    fn directories_are_told_by_what_is_in_them() {
        let lines = ["A new/", "A new/file", "A empty/"];
        let mut items: Vec<Item> = lines.iter().map(|line| item(line)).collect();
        without_needless_directories(&mut items);
        let listing = Listing::every(&items);
        let texts: Vec<&str> = listing.rows.iter().map(|row| row.text.as_str()).collect();
        assert_eq!((texts, listing.counts().as_str()), (vec!["new/file", "empty/"], "2 added"));
    }
}
