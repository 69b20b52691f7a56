//! `ls`

use std::cmp::Ordering;

use avfs_vfs::{Clock, Kind, Stat, SystemClock};

use super::calendar::Date;
use super::options::{Given, Known};
use super::{GnuCall, Report, below, words};
use crate::command::CommandResult;

const KNOWN: Known = Known {
    short: "aAlgonG1CxRrtSUXvfdFphHLQmNkqbciIw:s",
    long: &[
        ("all", 'a'),
        ("almost-all", 'A'),
        ("classify[=", 'F'),
        ("color[=", '.'),
        ("directory", 'd'),
        ("file-type", 'T'),
        ("full-time", 'E'),
        ("group-directories-first", 'D'),
        ("human-readable", 'h'),
        ("no-group", 'G'),
        ("numeric-uid-gid", 'n'),
        ("quote-name", 'Q'),
        ("recursive", 'R'),
        ("reverse", 'r'),
        ("size", 's'),
        ("sort=", 'O'),
        ("time-style=", 'Y'),
    ],
};
/// Half a year, as listings count it.
const RECENT: i64 = 15_778_476;
const BLOCK: u64 = 4096;

/// One line of a listing.
struct Listed {
    name: String,
    /// Where it is; for `-l` of links.
    place: String,
    stat: Stat,
}

struct Listing<'a> {
    call: &'a GnuCall<'a>,
    given: Given,
    report: Report,
    /// Whether anything was listed, and the next directory comes after an empty line.
    has_begun: bool,
}

pub(super) fn ls(call: &GnuCall<'_>) -> CommandResult {
    let given = match KNOWN.read(call, 2) {
        Ok(given) => given,
        Err(wrong) => return wrong,
    };
    let mut listing = Listing {
        call,
        given,
        report: Report::default(),
        has_begun: false,
    };
    listing.run();
    listing.report.end()
}

impl Listing<'_> {
    fn has(&self, option: char) -> bool {
        self.given.has(option)
    }

    fn is_long(&self) -> bool {
        ['l', 'g', 'o', 'n', 'E']
            .into_iter()
            .any(|option| self.has(option))
    }

    fn run(&mut self) {
        let mut arguments = std::mem::take(&mut self.given.arguments);
        if arguments.is_empty() {
            arguments.push(".".to_owned());
        }
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        let follows = !(self.is_long() || self.has('d') || self.has('F'));
        for argument in &arguments {
            let place = self.call.place(argument);
            let vfs = self.call.vfs();
            let is_within = argument.ends_with('/') || follows || self.has('L') || self.has('H');
            let stat = match vfs.lstat(&place) {
                Ok(stat) if is_within => vfs.stat(&place).or(Ok(stat)),
                stat => stat,
            };
            match stat {
                Ok(stat) => {
                    let is_listed = stat.kind == Kind::Directory && !self.has('d');
                    let name = argument.clone();
                    let listed = Listed { name, place, stat };
                    if is_listed { &mut directories } else { &mut files }.push(listed);
                }
                Err(error) => {
                    let text = words(&error);
                    self.report
                        .fail(2, format!("ls: cannot access '{argument}': {text}"));
                }
            }
        }
        self.sort(&mut files);
        self.sort(&mut directories);
        self.has_begun = !files.is_empty();
        self.show(&files);
        let has_titles = arguments.len() > 1 || self.has('R');
        for directory in directories {
            self.directory(&directory.place, &directory.name, has_titles);
        }
    }

    fn directory(&mut self, place: &str, shown: &str, has_title: bool) {
        let entries = match self.call.vfs().ls(place) {
            Ok(entries) => entries,
            Err(error) => {
                let text = words(&error);
                return self
                    .report
                    .fail(2, format!("ls: cannot open directory '{shown}': {text}"));
            }
        };
        if has_title {
            let line = if self.has_begun { "\n" } else { "" };
            self.report.say(format!("{line}{shown}:"));
        }
        self.has_begun = true;
        let is_all = self.has('a') || self.has('f');
        let mut listed = Vec::new();
        for entry in entries {
            let name = String::from_utf8_lossy(entry.name.as_bytes()).into_owned();
            if name.starts_with('.') && !is_all && !self.has('A') {
                continue;
            }
            let place = below(place, &name);
            // One that cannot be seen any more is not listed.
            let stat = if self.has('L') {
                self.call.vfs().stat(&place)
            } else {
                self.call.vfs().lstat(&place)
            };
            listed.extend(stat.map(|stat| Listed { name, place, stat }));
        }
        self.sort(&mut listed);
        if is_all {
            let parent = self.call.place(&format!("{place}/.."));
            for (name, place) in [("..", parent.as_str()), (".", place)] {
                let (name, place) = (name.to_owned(), place.to_owned());
                let stat = self.call.vfs().stat(&place);
                let listed_first = stat.map(|stat| Listed { name, place, stat });
                listed.splice(0..0, listed_first);
            }
        }
        if self.is_long() || self.has('s') {
            let blocks: u64 = listed.iter().map(|entry| blocks(&entry.stat)).sum();
            let total = if self.has('h') {
                human(blocks * 1024)
            } else {
                blocks.to_string()
            };
            self.report.say(format!("total {total}"));
        }
        self.show(&listed);
        if self.has('R') {
            for entry in listed {
                if entry.stat.kind == Kind::Directory && !matches!(entry.name.as_str(), "." | "..") {
                    let shown = format!("{}/{}", shown.trim_end_matches('/'), entry.name);
                    self.directory(&entry.place, &shown, true);
                }
            }
        }
    }

    fn sort(&self, listed: &mut [Listed]) {
        let by = match self.given.value('O') {
            Some("size") => Some('S'),
            Some("time") => Some('t'),
            Some("extension") => Some('X'),
            Some("none") => Some('U'),
            Some("version") => Some('v'),
            _ => self.given.last_of("StXUfv"),
        };
        if matches!(by, Some('U' | 'f')) {
            return;
        }
        let extension = |listed: &Listed| listed.name.rsplit_once('.').map(|(_, last)| last.to_owned());
        listed.sort_by(|one, other| {
            let first = match by {
                Some('S') => size_shown(other).cmp(&size_shown(one)),
                Some('t') => other.stat.mtime.as_nanos().cmp(&one.stat.mtime.as_nanos()),
                Some('X') => extension(one).cmp(&extension(other)),
                Some('v') => by_version(&one.name, &other.name),
                _ => Ordering::Equal,
            };
            first.then_with(|| one.name.cmp(&other.name))
        });
        if self.has('r') {
            listed.reverse();
        }
        if self.has('D') {
            listed.sort_by_key(|entry| entry.stat.kind != Kind::Directory);
        }
    }

    fn show(&mut self, listed: &[Listed]) {
        if self.has('m') && !listed.is_empty() {
            let line = in_rows(listed.iter().map(|entry| self.name_of(entry)).collect());
            return self.report.say(line);
        }
        let width = listed
            .iter()
            .map(|entry| self.size_of(entry).len())
            .max()
            .unwrap_or(0);
        let links = listed
            .iter()
            .map(|entry| self.links_of(entry).to_string().len())
            .max()
            .unwrap_or(0);
        for entry in listed {
            let mut line = String::new();
            if self.has('s') {
                line = format!("{:>2} ", blocks(&entry.stat));
            }
            if self.is_long() {
                line.push_str(&self.attributes(entry, width, links));
            }
            line.push_str(&self.name_of(entry));
            self.report.say(line);
        }
    }

    fn attributes(&self, entry: &Listed, width: usize, links: usize) -> String {
        let user = if self.has('n') { "1000" } else { "agent" };
        let mut owners = String::new();
        if !self.has('g') {
            owners.push_str(&format!("{user} "));
        }
        if !self.has('o') && !self.has('G') {
            owners.push_str(&format!("{user} "));
        }
        format!(
            "{} {:>links$} {owners}{:>width$} {} ",
            mode_words(&entry.stat),
            self.links_of(entry),
            self.size_of(entry),
            self.time_of(entry),
        )
    }

    fn links_of(&self, entry: &Listed) -> usize {
        if entry.stat.kind != Kind::Directory {
            return 1;
        }
        let entries = self.call.vfs().ls(&entry.place).unwrap_or_default();
        2 + entries
            .iter()
            .filter(|entry| entry.kind == Kind::Directory)
            .count()
    }

    fn size_of(&self, entry: &Listed) -> String {
        let size = size_shown(entry);
        if self.has('h') {
            human(size)
        } else {
            size.to_string()
        }
    }

    fn time_of(&self, entry: &Listed) -> String {
        let date = Date::of(entry.stat.mtime);
        let style = self.given.value('Y').unwrap_or_default();
        if self.has('E') || style == "full-iso" {
            return date.whole();
        }
        if style == "long-iso" {
            return date.minutes();
        }
        let now = SystemClock.now();
        let age = now.seconds - entry.stat.mtime.seconds;
        date.short((-60..RECENT).contains(&age))
    }

    fn name_of(&self, entry: &Listed) -> String {
        let mut name = entry.name.clone();
        if self.has('Q') {
            name = format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
        }
        let is_link = entry.stat.kind == Kind::Symlink;
        if is_link && self.is_long() {
            let target = self.call.vfs().read_link(&entry.place).unwrap_or_default();
            return format!("{name} -> {}", String::from_utf8_lossy(&target));
        }
        let marks = self.has('F') || self.has('T');
        match entry.stat.kind {
            Kind::Directory if marks || self.has('p') => name.push('/'),
            Kind::Symlink if marks => name.push('@'),
            Kind::File if self.has('F') && entry.stat.mode & 0o111 != 0 => name.push('*'),
            _ => {}
        }
        name
    }
}

/// Directories have the size of a block.
fn size_shown(entry: &Listed) -> u64 {
    if entry.stat.kind == Kind::Directory {
        BLOCK
    } else {
        entry.stat.size
    }
}

/// In kilobytes.
fn blocks(stat: &Stat) -> u64 {
    match stat.kind {
        Kind::Directory => BLOCK / 1024,
        Kind::Symlink => 0,
        Kind::File => stat.size.div_ceil(BLOCK) * (BLOCK / 1024),
    }
}

/// `4.0K`: rounded up, as listings do.
fn human(size: u64) -> String {
    const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];
    if size < 1024 {
        return size.to_string();
    }
    let mut unit = 0;
    let mut whole = 1024_u64;
    while unit + 1 < UNITS.len() && size.div_ceil(whole) >= 1024 {
        whole *= 1024;
        unit += 1;
    }
    let tenths = (u128::from(size) * 10).div_ceil(u128::from(whole));
    if tenths < 100 {
        return format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[unit]);
    }
    format!("{}{}", size.div_ceil(whole), UNITS[unit])
}

/// `drwxr-xr-x`
pub(super) fn mode_words(stat: &Stat) -> String {
    let kind = match stat.kind {
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::File => '-',
    };
    let mode = if stat.kind == Kind::Symlink {
        0o777
    } else {
        stat.mode
    };
    let mut words = String::from(kind);
    for (shift, special, set, unset) in [
        (6, 0o4000, 's', 'S'),
        (3, 0o2000, 's', 'S'),
        (0, 0o1000, 't', 'T'),
    ] {
        let bits = mode >> shift;
        words.push(if bits & 4 == 0 { '-' } else { 'r' });
        words.push(if bits & 2 == 0 { '-' } else { 'w' });
        words.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => set,
            (true, false) => unset,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    words
}

/// Names with commas, in lines of at most 79 characters.
fn in_rows(names: Vec<String>) -> String {
    let (mut text, mut width) = (String::new(), 0);
    let last = names.len() - 1;
    for (index, name) in names.into_iter().enumerate() {
        let piece = if index == last { name } else { format!("{name},") };
        if width > 0 && width + 1 + piece.chars().count() > 79 {
            text.push('\n');
            width = 0;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        width += piece.chars().count();
        text.push_str(&piece);
    }
    text
}

/// Numbers in names by their value.
fn by_version(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one.as_bytes(), other.as_bytes());
    while let (Some(first), Some(second)) = (one.first(), other.first()) {
        if first.is_ascii_digit() && second.is_ascii_digit() {
            let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (left, right) = (one.split_at(digits(one)), other.split_at(digits(other)));
            let plain = |text: &[u8]| {
                let zeros = text.iter().take_while(|byte| **byte == b'0').count();
                (text.len() - zeros, text[zeros..].to_vec())
            };
            let order = plain(left.0).cmp(&plain(right.0));
            if order != Ordering::Equal {
                return order;
            }
            (one, other) = (left.1, right.1);
        } else if first == second {
            (one, other) = (&one[1..], &other[1..]);
        } else {
            return first.cmp(second);
        }
    }
    one.len().cmp(&other.len())
}
