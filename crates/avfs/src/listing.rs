//! Changed files as people see them: one line for each, and one for a directory in which many changed.

use std::collections::{BTreeMap, HashSet};

use agentvfs::apply::{AppliedAction, AppliedFile};
use agentvfs::patch::{ChangeStatus, FileChange};
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
/// How many directories of ignored files are named.
const PLACES: usize = 3;

/// The kind of a change, in the same words everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListedChange {
    Added,
    Removed,
    Modified,
    Renamed,
    Merged,
    Marked,
    TypeChanged,
    Attributes,
    /// Any kind of change.
    Ignored,
}

impl ListedChange {
    pub fn word(self) -> &'static str {
        match self {
            ListedChange::Added => "added",
            ListedChange::Removed => "removed",
            ListedChange::Modified => "modified",
            ListedChange::Renamed => "renamed",
            ListedChange::Merged => "merged",
            ListedChange::Marked => "conflict",
            ListedChange::TypeChanged => "type-changed",
            ListedChange::Attributes => "attributes",
            ListedChange::Ignored => "ignored",
        }
    }

    fn style(self) -> Style {
        match self {
            ListedChange::Added => GREEN,
            ListedChange::Removed | ListedChange::Marked => RED,
            ListedChange::Modified
            | ListedChange::Merged
            | ListedChange::TypeChanged
            | ListedChange::Attributes => YELLOW,
            ListedChange::Renamed => CYAN,
            ListedChange::Ignored => FAINT,
        }
    }
}

impl From<ChangeStatus> for ListedChange {
    fn from(status: ChangeStatus) -> ListedChange {
        match status {
            ChangeStatus::Added => ListedChange::Added,
            ChangeStatus::Removed => ListedChange::Removed,
            ChangeStatus::Modified => ListedChange::Modified,
            ChangeStatus::Renamed => ListedChange::Renamed,
            ChangeStatus::TypeChanged => ListedChange::TypeChanged,
            ChangeStatus::Attributes => ListedChange::Attributes,
        }
    }
}

/// One changed file.
#[derive(Clone, Debug)]
pub struct Item {
    change: ListedChange,
    path: TreePath,
    from: Option<TreePath>,
    is_directory: bool,
}

impl From<&FileChange> for Item {
    fn from(file: &FileChange) -> Item {
        let from = file
            .old
            .as_ref()
            .filter(|_| file.status == ChangeStatus::Renamed)
            .map(|old| old.path.clone());
        let side = file.new.as_ref().or(file.old.as_ref());
        let is_directory = side.is_some_and(|side| side.entry.is_directory());
        Item {
            change: file.status.into(),
            path: file.path().clone(),
            from,
            is_directory,
        }
    }
}

impl From<&AppliedFile> for Item {
    fn from(file: &AppliedFile) -> Item {
        let change = match file.action {
            AppliedAction::Added | AppliedAction::DirectoryAdded => ListedChange::Added,
            AppliedAction::Removed | AppliedAction::DirectoryRemoved => ListedChange::Removed,
            AppliedAction::Replaced => ListedChange::Modified,
            AppliedAction::Merged => ListedChange::Merged,
            AppliedAction::Marked => ListedChange::Marked,
            AppliedAction::Mode => ListedChange::Attributes,
            AppliedAction::Renamed => ListedChange::Renamed,
        };
        let is_directory = matches!(
            file.action,
            AppliedAction::DirectoryAdded | AppliedAction::DirectoryRemoved
        );
        Item {
            change,
            path: file.path.clone(),
            from: file.from.clone(),
            is_directory,
        }
    }
}

impl Item {
    /// A file that is only reported as ignored.
    pub fn ignored(file: &FileChange) -> Item {
        Item {
            change: ListedChange::Ignored,
            from: None,
            ..Item::from(file)
        }
    }
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRow {
    pub change: ListedChange,
    pub text: String,
}

/// A list of changed files.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub rows: Vec<ListedRow>,
    /// The numbers of files, by kind of change.
    counts: BTreeMap<ListedChange, usize>,
    is_folded: bool,
}

/// Where a file is listed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ListedPlace {
    Itself(usize),
    /// A directory that came or went with everything in it.
    Below(ListedChange, TreePath),
    /// Many files of a directory.
    Among(ListedChange, TreePath),
    /// A directory that has another name.
    Moved(TreePath, TreePath),
}

impl Listing {
    /// Of files with one line each.
    pub fn every(items: &[Item]) -> Listing {
        let places = (0..items.len()).map(ListedPlace::Itself).collect();
        Listing::of_places(items, places)
    }

    /// Folded. `whole` are directories that came or went with everything in them.
    pub fn folded(items: &[Item], whole: &HashSet<TreePath>) -> Listing {
        let mut wholes: BTreeMap<(ListedChange, TreePath), usize> = BTreeMap::new();
        let mut parents: BTreeMap<(ListedChange, TreePath), usize> = BTreeMap::new();
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
        // The same order of cases as above: an item must be placed where it was counted.
        let place = |(at, item): (usize, &Item)| {
            let below = |directory: TreePath| ListedPlace::Below(item.change, directory);
            if let Some(top) = item.whole_above(whole) {
                let key = (item.change, top);
                if is_many(wholes.get(&key), WHOLE) {
                    below(key.1)
                } else {
                    ListedPlace::Itself(at)
                }
            } else if let Some(ends) = item.moved_directory() {
                if is_many(moves.get(&ends), WHOLE) {
                    ListedPlace::Moved(ends.0, ends.1)
                } else {
                    ListedPlace::Itself(at)
                }
            } else if let Some(parent) = item.parent() {
                let key = (item.change, parent);
                if is_many(parents.get(&key), MANY) {
                    ListedPlace::Among(key.0, key.1)
                } else {
                    ListedPlace::Itself(at)
                }
            } else {
                ListedPlace::Itself(at)
            }
        };
        Listing::of_places(items, items.iter().enumerate().map(place).collect())
    }

    fn of_places(items: &[Item], places: Vec<ListedPlace>) -> Listing {
        let mut files: BTreeMap<&ListedPlace, Vec<usize>> = BTreeMap::new();
        places
            .iter()
            .enumerate()
            .for_each(|(at, place)| files.entry(place).or_default().push(at));
        let mut listing = Listing::default();
        let mut told: HashSet<usize> = HashSet::new();
        let mut first: BTreeMap<&ListedPlace, usize> = BTreeMap::new();
        for (at, place) in places.iter().enumerate() {
            *listing.counts.entry(items[at].change).or_default() += 1;
            // A folded line stands where the first of its files would be, so the order of paths is kept.
            if *first.entry(place).or_insert(at) == at {
                told.insert(at);
            }
        }
        for (at, place) in places.iter().enumerate().filter(|(at, _)| told.contains(at)) {
            let item = &items[at];
            let many = || count(files[place].len() as u64, "file");
            let text = match place {
                ListedPlace::Itself(_) => item.text(),
                ListedPlace::Below(_, directory) => format!("{} ({})", shown(directory, true), many()),
                ListedPlace::Among(_, directory) => {
                    let some = files[place].iter().take(NAMED).filter_map(|at| items[*at].name());
                    let names = some.collect::<Vec<_>>().join(", ");
                    format!("{} ({}: {names}, …)", shown(directory, true), many())
                }
                ListedPlace::Moved(from, to) => {
                    format!("{} -> {} ({})", shown(from, true), shown(to, true), many())
                }
            };
            listing.is_folded |= !matches!(place, ListedPlace::Itself(_));
            listing.rows.push(ListedRow {
                change: item.change,
                text,
            });
        }
        listing
    }

    /// Whether some lines represent several files.
    pub fn is_folded(&self) -> bool {
        self.is_folded
    }

    /// `3 modified, 1 added`.
    pub fn counts(&self) -> String {
        let part = |(change, count): (&ListedChange, &usize)| match change {
            ListedChange::Marked => crate::versions::count(*count as u64, change.word()),
            ListedChange::Attributes => format!("{count} with other attributes"),
            _ => format!("{count} {}", change.word()),
        };
        self.counts.iter().map(part).collect::<Vec<_>>().join(", ")
    }

    /// The width of the column of words.
    fn width(&self) -> usize {
        self.rows
            .iter()
            .map(|row| row.change.word().len())
            .max()
            .unwrap_or(0)
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
        self.path
            .split_last()
            .map(|(_, name)| printable(name.as_bytes()).to_string())
    }

    fn parent(&self) -> Option<TreePath> {
        self.from
            .is_none()
            .then(|| self.path.split_last().map(|(parent, _)| parent))
            .flatten()
    }

    /// The highest directory above it that came or went.
    fn whole_above(&self, whole: &HashSet<TreePath>) -> Option<TreePath> {
        if !matches!(
            self.change,
            ListedChange::Added | ListedChange::Removed | ListedChange::Ignored
        ) {
            return None;
        }
        // From the top: in a deep tree that was added as a whole, the topmost directory is found immediately.
        let path = self.path.as_bytes();
        let slashes = path
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'/')
            .map(|(end, _)| end);
        let own = self.is_directory.then_some(path.len());
        let mut above = std::iter::once(0).chain(slashes).chain(own);
        above.find_map(|end| whole.get(&path[..end])).cloned()
    }

    /// The directories whose names differ, if the rest of both paths is equal.
    fn moved_directory(&self) -> Option<(TreePath, TreePath)> {
        let (mut from, mut to) = (self.from.clone()?, self.path.clone());
        let mut is_same = false;
        // From the end: the names that both paths share belong to what was moved along with the directory.
        while let (Some((old, old_name)), Some((new, new_name))) = (from.split_last(), to.split_last())
            && old_name == new_name
        {
            (from, to, is_same) = (old, new, true);
        }
        is_same.then_some((from, to))
    }
}

/// A path as in a listing of git: from the top, with a `/` after a directory.
pub fn shown(path: &TreePath, is_directory: bool) -> String {
    let slash = if is_directory { "/" } else { "" };
    if path.is_root() {
        "./".to_owned()
    } else {
        format!("{}{slash}", printable(path.as_bytes()))
    }
}

/// Omits directories that were added or removed with files of the list in them: the files imply it.
pub fn without_needless_directories(items: &mut Vec<Item>) {
    let mut in_use: HashSet<TreePath> = HashSet::new();
    for item in items.iter().filter(|item| !item.is_directory) {
        for end in [Some(&item.path), item.from.as_ref()].into_iter().flatten() {
            let mut above = end.split_last();
            while let Some((parent, _)) = above {
                above = parent.split_last();
                // Everything above it was inserted with an earlier file.
                if !in_use.insert(parent) {
                    break;
                }
            }
        }
    }
    items.retain(|item| !item.is_directory || !in_use.contains(&item.path));
}

/// One line about omitted files, if there are any.
pub fn ignored_line(ignored: &IgnoredSummary) -> Option<String> {
    if ignored.is_empty() {
        return None;
    }
    let mut places: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for place in ignored.places() {
        let name = place
            .path
            .name()
            .map(|name| printable(name.as_bytes()))
            .unwrap_or_default();
        let slash = if place.is_directory { "/" } else { "" };
        let (times, files) = places.entry(format!("{name}{slash}")).or_default();
        (*times, *files) = (*times + 1, *files + place.files);
    }
    let mut by_size: Vec<(String, usize, usize)> = places
        .into_iter()
        .map(|(name, (times, files))| (name, times, files))
        .collect();
    by_size.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
    // A name that is in one directory only is shown with its path.
    let whole_path = |name: &str| {
        let mut all = ignored.places();
        let of_name = |place: &agentvfs::IgnoredPlace| {
            shown(&place.path, place.is_directory)
                .rsplit_terminator('/')
                .next()
                == Some(name.trim_end_matches('/'))
        };
        all.find(of_name)
            .map(|place| shown(&place.path, place.is_directory))
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
    Some(format!(
        "{} ignored: {told}{more}",
        count(ignored.files() as u64, "file")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(line: &str) -> Item {
        let (word, rest) = line.split_once(' ').unwrap();
        let change = match word {
            "A" => ListedChange::Added,
            "D" => ListedChange::Removed,
            "M" => ListedChange::Modified,
            _ => ListedChange::Renamed,
        };
        let path = |text: &str| TreePath::parse(text.as_bytes()).unwrap();
        let (from, to) = match rest.split_once(" -> ") {
            Some((from, to)) => (Some(path(from)), to),
            None => (None, rest),
        };
        Item {
            change,
            path: path(to),
            from,
            is_directory: rest.ends_with('/'),
        }
    }

    #[track_caller]
    fn check(lines: &[String], whole: &[&str], expected: &[&str]) {
        let items: Vec<Item> = lines.iter().map(|line| item(line)).collect();
        let whole = whole
            .iter()
            .map(|path| TreePath::parse(path.as_bytes()).unwrap())
            .collect();
        let listing = Listing::folded(&items, &whole);
        let rows: Vec<String> = listing
            .rows
            .iter()
            .map(|row| format!("{} {}", row.change.word(), row.text))
            .collect();
        assert_eq!(rows, expected);
    }

    fn many(line: &str, count: usize) -> Vec<String> {
        (0..count)
            .map(|number| line.replace('#', &number.to_string()))
            .collect()
    }

    #[test]
    fn a_new_directory_with_many_files_is_one_line() {
        let lines = [many("A dist/sub/#.js", 240), many("M src/a", 1)].concat();
        check(
            &lines,
            &["dist", "dist/sub"],
            &["added dist/ (240 files)", "modified src/a"],
        );
        check(
            &many("A dist/#", 3),
            &["dist"],
            &["added dist/0", "added dist/1", "added dist/2"],
        );
        check(&many("D old/#", 4), &["old"], &["removed old/ (4 files)"]);
    }

    #[test]
    fn many_files_of_one_directory_are_one_line_for_each_word() {
        let lines = [many("A src/n#", 2), many("M src/#", 11), many("M #", 1)].concat();
        let folded = "modified src/ (11 files: 0, 1, 2, …)";
        check(
            &lines,
            &[],
            &["added src/n0", "added src/n1", folded, "modified 0"],
        );
        check(&many("M #", 11), &[], &["modified ./ (11 files: 0, 1, 2, …)"]);
        assert_eq!(Listing::folded(&[], &HashSet::new()).rows, []);
    }

    #[test]
    fn a_renamed_directory_is_one_line() {
        let lines = [many("R old/a/# -> new/a/#", 5), many("R x -> y", 1)].concat();
        check(
            &lines,
            &["new", "new/a"],
            &["renamed old/ -> new/ (5 files)", "renamed x -> y"],
        );
    }

    #[test]
    fn directories_are_told_by_what_is_in_them() {
        let lines = ["A new/", "A new/file", "A empty/"];
        let mut items: Vec<Item> = lines.iter().map(|line| item(line)).collect();
        without_needless_directories(&mut items);
        let listing = Listing::every(&items);
        let texts: Vec<&str> = listing.rows.iter().map(|row| row.text.as_str()).collect();
        assert_eq!(
            (texts, listing.counts().as_str()),
            (vec!["new/file", "empty/"], "2 added")
        );
    }
}
