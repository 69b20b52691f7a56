//! A tree as one of its doors sees it through rules: where each inode stands among them.
//!
//! Only directories are remembered; a file stands where its directory and its name put it. A file with several
//! names has the strictest level of those by which the view came by it, one without any name the level that it had
//! with its last. An inode of which nothing is known is hidden.

use avfs_core::rules::{Level, Rule, Rules, Standing};
use avfs_core::{EntryName, Label, Labels, Timestamp};

use crate::inodes::{Ino, InoMap};
use crate::op::{Op, Place};
use crate::shown;
use crate::worktree::inode::Inode;
use crate::worktree::state::State;
use crate::worktree::{Attr, Door, Kind};

/// How many directories are remembered before all are found out anew.
const DIRECTORIES_MAX: usize = 1 << 16;
/// How many names of one file are remembered. Of more, only the strictest level is.
const NAMES_MAX: usize = 16;
/// How many files without a name are remembered at least before those that are gone are forgotten.
const NAMELESS_MAX: usize = 1024;

/// A repository is a directory of this name.
const REPOSITORY: &[u8] = b".git";

/// Where a repository has its worktrees, and the repositories of its submodules.
const WORKTREES: &[u8] = b"worktrees";
const MODULES: &[u8] = b"modules";

/// Where something stands among the rules.
#[derive(Clone, Debug)]
pub(crate) struct Stand {
    pub standing: Standing,
    /// Something below may be visible.
    pub passable: bool,
}

impl Stand {
    pub fn level(&self) -> Level {
        self.standing.level()
    }

    pub fn is_visible(&self) -> bool {
        self.level() > Level::None || self.passable
    }
}

#[derive(Debug)]
pub(crate) struct View {
    rules: Rules,
    /// Nothing can be hidden by these rules, whatever it is called.
    shows_all: bool,
    directories: InoMap<Standing>,
    /// The state of [`State::layout`] that `directories` is about.
    layout: u64,
    linked: InoMap<KnownNames>,
    nameless: InoMap<Trail>,
    /// How many of them there may be before those that are gone are forgotten.
    nameless_max: usize,
}

/// The names by which a view came by a file that has several.
#[derive(Clone, Debug, Default)]
struct KnownNames {
    places: Vec<Place>,
    /// The strictest level of the names that are not remembered.
    others: Option<Level>,
}

/// The names on the way to something, with its labels and those above it.
type Trail = Vec<(EntryName, Labels)>;

impl View {
    pub fn new(rules: Rules) -> View {
        View {
            shows_all: shown::shows_all(&rules),
            rules,
            directories: InoMap::default(),
            layout: 0,
            linked: InoMap::default(),
            nameless: InoMap::default(),
            nameless_max: NAMELESS_MAX,
        }
    }

    /// The same view through other rules: what it came by is not forgotten.
    pub fn through(&self, rules: Rules) -> View {
        let mut linked = self.linked.clone();
        for names in linked.values_mut() {
            // What is not remembered cannot be decided anew.
            names.others = names.others.map(|_| Level::None);
        }
        View { linked, nameless: self.nameless.clone(), ..View::new(rules) }
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    pub fn shows_all(&self) -> bool {
        self.shows_all
    }

    fn stand(&self, standing: Standing, is_directory: bool) -> Stand {
        let passable = is_directory && self.is_directory_visible(&standing);
        Stand { standing, passable }
    }

    /// Where an inode stands; `None` if nothing is known of it.
    pub fn inode(&mut self, state: &State, ino: Ino) -> Option<Stand> {
        let inode = state.inodes.get(&ino)?;
        if inode.is_directory() && inode.names > 0 {
            let standing = self.directory(state, ino)?;
            return Some(self.stand(standing, true));
        }
        let standing = match &inode.place {
            _ if inode.names == 0 => self.without_name(ino)?,
            Some(place) => {
                let above = self.directory(state, place.parent)?;
                self.rules.child(&above, place.name.as_bytes(), &inode.meta.labels)
            }
            None => self.strictest_name(state, ino, inode)?,
        };
        Some(self.stand(standing, inode.is_directory()))
    }

    fn without_name(&self, ino: Ino) -> Option<Standing> {
        let trail = self.nameless.get(&ino)?;
        let root = self.rules.root(&Labels::default());
        let step = |at: Standing, (name, labels): &(EntryName, Labels)| {
            self.rules.child(&at, name.as_bytes(), labels)
        };
        Some(trail.iter().fold(root, step))
    }

    fn strictest_name(&mut self, state: &State, ino: Ino, inode: &Inode) -> Option<Standing> {
        let names = self.linked.get(&ino)?;
        if names.others == Some(Level::None) {
            return None;
        }
        let places: Vec<Place> =
            names.places.iter().filter(|place| state.may_be_at(ino, place)).cloned().collect();
        let standings = places.iter().filter_map(|place| {
            let above = self.directory(state, place.parent)?;
            Some(self.rules.child(&above, place.name.as_bytes(), &inode.meta.labels))
        });
        let strictest = standings.min_by_key(Standing::level);
        let names = self.linked.get_mut(&ino)?;
        names.places = places;
        strictest.filter(|standing| names.others.is_none_or(|level| level >= standing.level()))
    }

    /// Where a directory with a name, or the root, stands.
    pub fn directory(&mut self, state: &State, ino: Ino) -> Option<Standing> {
        if self.layout != state.layout || self.directories.len() >= DIRECTORIES_MAX {
            self.directories.clear();
            self.layout = state.layout;
        }
        let mut below = Vec::new();
        let mut current = ino;
        let mut standing = loop {
            if let Some(standing) = self.directories.get(&current) {
                break standing.clone();
            }
            let inode = state.inodes.get(&current)?;
            if current == Ino::ROOT {
                break self.remember(current, self.rules.root(&inode.meta.labels));
            }
            let place = inode.place.as_ref()?;
            below.push((current, &place.name, &inode.meta.labels));
            current = place.parent;
        };
        while let Some((ino, name, labels)) = below.pop() {
            standing = self.remember(ino, self.rules.child(&standing, name.as_bytes(), labels));
        }
        Some(standing)
    }

    fn remember(&mut self, directory: Ino, standing: Standing) -> Standing {
        self.directories.insert(directory, standing.clone());
        standing
    }

    /// Where a name stands, if what has it has these labels.
    pub fn name(
        &mut self,
        state: &State,
        place: &Place,
        labels: &Labels,
        is_directory: bool,
    ) -> Option<Stand> {
        let above = self.directory(state, place.parent)?;
        Some(self.below(&above, &place.name, labels, is_directory))
    }

    /// Where a name stands in a directory that stands there.
    pub fn below(&self, above: &Standing, name: &EntryName, labels: &Labels, is_directory: bool) -> Stand {
        self.stand(self.rules.child(above, name.as_bytes(), labels), is_directory)
    }

    /// Whether a directory that stands there can be seen.
    pub fn is_directory_visible(&self, standing: &Standing) -> bool {
        standing.level() > Level::None || self.rules.is_passable(standing)
    }

    /// Where the directory of a name stands.
    pub fn above(&mut self, state: &State, place: &Place) -> Option<Stand> {
        let standing = self.directory(state, place.parent)?;
        Some(self.stand(standing, true))
    }

    /// Notes by which name the view came by a file that has several.
    pub fn came_by(&mut self, state: &State, ino: Ino, place: &Place) {
        let Some(above) = self.directory(state, place.parent) else { return };
        let labels = state.inodes.get(&ino).map(|inode| inode.meta.labels.clone()).unwrap_or_default();
        let names = self.linked.entry(ino).or_default();
        if names.places.contains(place) {
            return;
        }
        names.places.push(place.clone());
        if names.places.len() > NAMES_MAX {
            names.places.retain(|known| state.may_be_at(ino, known));
        }
        if names.places.len() > NAMES_MAX {
            names.places.pop();
            let level = self.rules.child(&above, place.name.as_bytes(), &labels).level();
            names.others = Some(names.others.map_or(level, |other| other.min(level)));
        }
    }

    /// How many names of a file the view knows of.
    fn known_names(&self, ino: Ino) -> u32 {
        self.linked.get(&ino).map_or(1, |names| names.places.len().max(1) as u32)
    }

    /// What `stat` shows of an inode.
    pub fn shown(&self, attr: Attr, stand: &Stand) -> Attr {
        let attr = match attr.kind {
            Kind::Directory if stand.level() == Level::None => passable(attr),
            Kind::Directory => Attr { meta: self.directory_meta(&attr, stand), ..attr },
            _ => Attr { meta: shown::file_meta(&attr.meta, stand.level()), ..attr },
        };
        if self.shows_all {
            return attr;
        }
        let names = match attr.kind {
            // One tells programs that directories were not counted.
            Kind::Directory => attr.names.min(1),
            _ => attr.names.min(self.known_names(attr.ino)),
        };
        Attr { names, ..attr }
    }

    fn directory_meta(&self, attr: &Attr, stand: &Stand) -> avfs_core::Meta {
        let takes_names =
            stand.level() >= Level::Append || self.rules.is_any_below(&stand.standing, Level::Append);
        shown::directory_meta(&attr.meta, takes_names)
    }

    /// The labels of something new.
    pub fn labels_of_new(&mut self, state: &State, place: &Place, is_directory: bool) -> Labels {
        let may_be_fresh = is_directory && is_repository(state, place);
        let is_free = may_be_fresh
            && self.above(state, place).is_some_and(|above| above.level() == Level::Write)
            && self
                .name(state, place, &Labels::default(), true)
                .is_some_and(|stand| stand.level() == Level::Write);
        match is_free {
            true => [Label::fresh_repository()].into_iter().collect(),
            false => Labels::default(),
        }
    }

    /// Whether a name would become free if what has it went away: a repository that is made where one was before is
    /// not a new one.
    pub fn would_free(&self, state: &State, labels: &Labels, place: &Place) -> bool {
        let fresh = Label::fresh_repository();
        let frees = |rule: &Rule| rule.label() == Some(&fresh);
        is_repository(state, place) && !labels.contains(&fresh) && self.rules.list().iter().any(frees)
    }

    /// Whether something may be at a place: what makes a repository a free one must not make other names free.
    pub fn keeps_its_labels(state: &State, labels: &Labels, place: &Place) -> bool {
        !labels.contains(&Label::fresh_repository()) || is_repository(state, place)
    }
}

/// Whether a place is that of a repository, or of a worktree in one: `.git/worktrees/NAME`, and the same in repositories of
/// submodules. What git keeps of a worktree says where its settings are, as those of a repository do.
fn is_repository(state: &State, place: &Place) -> bool {
    let above = |place: &Place| state.inodes.get(&place.parent).and_then(|inode| inode.place.clone());
    let is = |place: &Option<Place>, name: &[u8]| {
        place.as_ref().is_some_and(|place| place.name.as_bytes() == name)
    };
    if place.name.as_bytes() == REPOSITORY {
        return true;
    }
    let worktrees = above(place);
    if !is(&worktrees, WORKTREES) {
        return false;
    }
    let mut way = worktrees.as_ref().and_then(above);
    let mut is_of_repository = is(&way, REPOSITORY);
    while let Some(place) = way.filter(|_| !is_of_repository) {
        way = above(&place);
        is_of_repository = place.name.as_bytes() == MODULES && is(&way, REPOSITORY);
    }
    is_of_repository
}

fn passable(attr: Attr) -> Attr {
    let (meta, start) = (shown::passable_meta(&attr.meta), Timestamp::default());
    Attr { meta, ctime: start, atime: start, names: 1, size: 0, ..attr }
}

/// The views of a tree, by their doors.
#[derive(Debug, Default)]
pub(crate) struct Views(Vec<(Door, Option<Box<View>>)>);

impl Views {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The doors that see the tree through rules.
    pub fn doors(&self) -> impl Iterator<Item = Door> + '_ {
        self.0.iter().map(|(door, _)| *door)
    }

    pub fn set(&mut self, door: Door, view: View) {
        self.remove(door);
        self.0.push((door, Some(Box::new(view))));
    }

    pub fn remove(&mut self, door: Door) {
        self.0.retain(|(other, _)| *other != door);
    }

    pub fn get(&self, door: Door) -> Option<&View> {
        self.0.iter().find(|(other, _)| *other == door).and_then(|(_, view)| view.as_deref())
    }

    /// Whether a door sees the tree through rules.
    pub fn has(&self, door: Door) -> bool {
        self.0.iter().any(|(other, _)| *other == door)
    }

    fn slot(&mut self, door: Door) -> Option<&mut Option<Box<View>>> {
        self.0.iter_mut().find(|(other, _)| *other == door).map(|(_, view)| view)
    }
}

impl State {
    /// Lends out the view of a door. One that a panic has kept does not come back: the door stays shut.
    pub fn with_view<T>(&mut self, door: Door, act: impl FnOnce(&mut View, &mut State) -> T) -> Option<T> {
        let mut view = self.views.slot(door)?.take()?;
        let result = act(&mut view, self);
        if let Some(slot) = self.views.slot(door) {
            *slot = Some(view);
        }
        Some(result)
    }

    /// Whether nothing in memory says that a name does not stand for this file.
    fn may_be_at(&self, ino: Ino, place: &Place) -> bool {
        let Ok(directory) = self.directory(place.parent) else { return false };
        match directory.children.get(&place.name) {
            Some(child) => *child == ino,
            None => !directory.is_overlaid(place.name.as_bytes()),
        }
    }

    /// Notes what an operation that is about to happen does to what views know.
    pub fn tell_views(&mut self, origin: Door, op: &Op) {
        if self.views.is_empty() {
            return;
        }
        match op {
            Op::Remove { at, .. } | Op::Gone { at } => self.note_last_name(at),
            Op::Rename { from, to, exchange, .. } => {
                if !exchange {
                    self.note_last_name(to);
                }
                self.note_moved(from, to);
                if *exchange {
                    self.note_moved(to, from);
                }
            }
            Op::Link { ino, at, .. } => self.note_linked(origin, *ino, at),
            Op::SetLabels { .. } => self.layout += 1,
            Op::Found { .. }
            | Op::FoundLink { .. }
            | Op::Place { .. }
            | Op::PlaceLink { .. }
            | Op::SetMode { .. }
            | Op::SetOwner { .. }
            | Op::SetMtime { .. }
            | Op::Resize { .. }
            | Op::SetXattr { .. }
            | Op::RemoveXattr { .. }
            | Op::Write { .. }
            | Op::SetContent { .. }
            | Op::Unfold { .. }
            | Op::Settle { .. }
            | Op::Arrive { .. }
            | Op::Punch { .. } => {}
        }
    }

    /// What is at a place, if it is in memory: nobody knows of anything else.
    fn loaded_at(&self, place: &Place) -> Option<Ino> {
        self.directory(place.parent).ok()?.children.get(&place.name).copied()
    }

    /// The name at a place goes; if it is the last one, views keep where the file was.
    fn note_last_name(&mut self, at: &Place) {
        let Some(ino) = self.loaded_at(at) else { return };
        let Some(inode) = self.inodes.get(&ino) else { return };
        let (labels, is_kept) = (inode.meta.labels.clone(), inode.names == 1 && inode.holds > 0);
        if inode.is_directory() {
            self.layout += 1;
        }
        let Some(mut trail) = self.trail(at.parent).filter(|_| is_kept) else { return };
        trail.push((at.name.clone(), labels));
        for (_, view) in &mut self.views.0 {
            let Some(view) = view else { continue };
            if view.nameless.len() >= view.nameless_max {
                view.nameless.retain(|ino, _| self.inodes.contains_key(ino));
                // Those that are left are in use: looking at all of them each time would cost more and more.
                view.nameless_max = (2 * view.nameless.len()).max(NAMELESS_MAX);
            }
            view.nameless.insert(ino, trail.clone());
        }
    }

    /// The names from the root to a directory.
    pub(super) fn trail(&self, directory: Ino) -> Option<Trail> {
        let mut trail = Trail::new();
        let mut current = directory;
        while current != Ino::ROOT {
            let inode = self.inodes.get(&current)?;
            let place = inode.place.as_ref()?;
            trail.push((place.name.clone(), inode.meta.labels.clone()));
            current = place.parent;
        }
        trail.reverse();
        Some(trail)
    }

    fn note_moved(&mut self, from: &Place, to: &Place) {
        let Some(ino) = self.loaded_at(from) else { return };
        let Some(inode) = self.inodes.get(&ino) else { return };
        if inode.is_directory() {
            self.layout += 1;
        }
        if inode.linked {
            for (_, view) in &mut self.views.0 {
                let names = view.as_mut().and_then(|view| view.linked.get_mut(&ino));
                let known = names.and_then(|names| names.places.iter_mut().find(|place| *place == from));
                if let Some(place) = known {
                    *place = to.clone();
                }
            }
        }
    }

    /// A file gets another name. All views know it by the one that it had; who gave it knows the new one too.
    fn note_linked(&mut self, origin: Door, ino: Ino, at: &Place) {
        let old = self.inodes.get(&ino).and_then(|inode| inode.place.clone());
        let doors: Vec<Door> = self.views.0.iter().map(|(door, _)| *door).collect();
        for door in doors {
            self.with_view(door, |view, state| {
                if let Some(old) = &old {
                    view.came_by(state, ino, old);
                }
                if door == origin {
                    view.came_by(state, ino, at);
                }
            });
        }
    }
}
