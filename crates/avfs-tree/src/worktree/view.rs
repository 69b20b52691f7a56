//! The tree as one of its doors sees it through rules: the rule state of each inode.
//!
//! Only directories are remembered; the state of a file follows from its directory and its name. A file with
//! several names has the strictest level of the names by which the view has reached it, one without a name
//! keeps the level of its last name. An unknown inode is hidden.

use avfs_core::rules::{Level, Rule, RuleState, Rules};
use avfs_core::{EntryName, Label, Labels, Timestamp};

use crate::inodes::{Ino, InoMap};
use crate::op::{EntryPlace, JournalOp};
use crate::visible_meta;
use crate::worktree::inode::Inode;
use crate::worktree::state::TreeState;
use crate::worktree::{Attr, Door, InodeKind};

/// How many directories are remembered before all are computed again.
const DIRECTORIES_MAX: usize = 1 << 16;
/// How many names of one file are remembered. Of further names, only the strictest level is.
const NAMES_MAX: usize = 16;
/// The minimum number of remembered files without a name before those that are gone are dropped.
const NAMELESS_MAX: usize = 1024;

/// A directory of this name is a repository.
const REPOSITORY: &[u8] = b".git";

/// The directory in a repository that contains its worktrees, and the one with the repositories of its
/// submodules.
const WORKTREES: &[u8] = b"worktrees";
const MODULES: &[u8] = b"modules";

/// What the rules let a door see of an inode.
#[derive(Clone, Debug)]
pub(crate) struct Visibility {
    pub rule_state: RuleState,
    /// Something below may be visible.
    pub passable: bool,
}

impl Visibility {
    pub(crate) fn level(&self) -> Level {
        self.rule_state.level()
    }

    pub(crate) fn is_visible(&self) -> bool {
        self.level() > Level::None || self.passable
    }
}

#[derive(Debug)]
pub(crate) struct RuleView {
    rules: Rules,
    /// These rules cannot hide anything, whatever its name.
    shows_all: bool,
    directories: InoMap<RuleState>,
    /// The value of [`TreeState::layout`] for which `directories` is valid.
    layout: u64,
    linked: InoMap<KnownNames>,
    nameless: InoMap<Trail>,
    /// How many of them are allowed before those that are gone are dropped.
    nameless_max: usize,
}

/// The names by which a view has reached a file that has several.
#[derive(Clone, Debug, Default)]
struct KnownNames {
    places: Vec<EntryPlace>,
    /// The strictest level of the names that are not remembered.
    others: Option<Level>,
}

/// The names on the way to something, with its labels and those above it.
pub(crate) type Trail = Vec<(EntryName, Labels)>;

impl RuleView {
    pub(crate) fn new(rules: Rules) -> RuleView {
        RuleView {
            shows_all: visible_meta::shows_all(&rules),
            rules,
            directories: InoMap::default(),
            layout: 0,
            linked: InoMap::default(),
            nameless: InoMap::default(),
            nameless_max: NAMELESS_MAX,
        }
    }

    /// The same view with other rules: what it has reached is remembered.
    pub(crate) fn with_rules(&self, rules: Rules) -> RuleView {
        let mut linked = self.linked.clone();
        for names in linked.values_mut() {
            // A level whose name is not remembered cannot be computed again.
            names.others = names.others.map(|_| Level::None);
        }
        RuleView {
            linked,
            nameless: self.nameless.clone(),
            ..RuleView::new(rules)
        }
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn shows_all(&self) -> bool {
        self.shows_all
    }

    fn visibility(&self, rule_state: RuleState, is_directory: bool) -> Visibility {
        let passable = is_directory && self.is_directory_visible(&rule_state);
        Visibility { rule_state, passable }
    }

    /// The visibility of an inode; `None` if the inode is unknown.
    pub(crate) fn inode(&mut self, state: &TreeState, ino: Ino) -> Option<Visibility> {
        let inode = state.inodes.get(&ino)?;
        if inode.is_directory() && inode.names > 0 {
            let rule_state = self.directory(state, ino)?;
            return Some(self.visibility(rule_state, true));
        }
        let rule_state = match &inode.place {
            // Judged by its last name, although another file may be at that name now.
            _ if inode.names == 0 => self.without_name(ino)?,
            Some(place) => {
                let above = self.directory(state, place.parent)?;
                self.rules
                    .child(&above, place.name.as_bytes(), &inode.meta.labels)
            }
            None => self.strictest_name(state, ino, inode)?,
        };
        Some(self.visibility(rule_state, inode.is_directory()))
    }

    fn without_name(&self, ino: Ino) -> Option<RuleState> {
        let trail = self.nameless.get(&ino)?;
        let root = self.rules.root(&Labels::default());
        let step = |at: RuleState, (name, labels): &(EntryName, Labels)| {
            self.rules.child(&at, name.as_bytes(), labels)
        };
        Some(trail.iter().fold(root, step))
    }

    fn strictest_name(&mut self, state: &TreeState, ino: Ino, inode: &Inode) -> Option<RuleState> {
        let names = self.linked.get(&ino)?;
        if names.others == Some(Level::None) {
            return None;
        }
        // Names that the file no longer has must not keep it hidden.
        let places: Vec<EntryPlace> = names
            .places
            .iter()
            .filter(|place| state.may_be_at(ino, place))
            .cloned()
            .collect();
        let rule_states = places.iter().filter_map(|place| {
            let above = self.directory(state, place.parent)?;
            Some(
                self.rules
                    .child(&above, place.name.as_bytes(), &inode.meta.labels),
            )
        });
        let strictest = rule_states.min_by_key(RuleState::level);
        let names = self.linked.get_mut(&ino)?;
        names.places = places;
        strictest.filter(|rule_state| names.others.is_none_or(|level| level >= rule_state.level()))
    }

    /// The rule state of a directory with a name, or of the root.
    pub(crate) fn directory(&mut self, state: &TreeState, ino: Ino) -> Option<RuleState> {
        if self.layout != state.layout || self.directories.len() >= DIRECTORIES_MAX {
            // A changed layout can move any directory, and following each change would cost more than
            // computing the few that are used again.
            self.directories.clear();
            self.layout = state.layout;
        }
        let mut below = Vec::new();
        let mut current = ino;
        let mut rule_state = loop {
            if let Some(rule_state) = self.directories.get(&current) {
                break rule_state.clone();
            }
            let inode = state.inodes.get(&current)?;
            if current == Ino::ROOT {
                break self.remember(current, self.rules.root(&inode.meta.labels));
            }
            let place = inode.place.as_ref()?;
            below.push((current, &place.name, &inode.meta.labels));
            current = place.parent;
        };
        // Downwards from the nearest known directory: the state of each follows from the one above it.
        while let Some((ino, name, labels)) = below.pop() {
            rule_state = self.remember(ino, self.rules.child(&rule_state, name.as_bytes(), labels));
        }
        Some(rule_state)
    }

    fn remember(&mut self, directory: Ino, rule_state: RuleState) -> RuleState {
        self.directories.insert(directory, rule_state.clone());
        rule_state
    }

    /// The visibility of a name, if the entry that has it has these labels.
    pub(crate) fn name(
        &mut self,
        state: &TreeState,
        place: &EntryPlace,
        labels: &Labels,
        is_directory: bool,
    ) -> Option<Visibility> {
        let above = self.directory(state, place.parent)?;
        Some(self.below(&above, &place.name, labels, is_directory))
    }

    /// The visibility of a name in a directory whose rule state is `above`.
    pub(crate) fn below(
        &self,
        above: &RuleState,
        name: &EntryName,
        labels: &Labels,
        is_directory: bool,
    ) -> Visibility {
        self.visibility(self.rules.child(above, name.as_bytes(), labels), is_directory)
    }

    /// Whether a directory in this rule state can be seen.
    pub(crate) fn is_directory_visible(&self, rule_state: &RuleState) -> bool {
        rule_state.level() > Level::None || self.rules.is_passable(rule_state)
    }

    /// The visibility of the directory of a name.
    pub(crate) fn above(&mut self, state: &TreeState, place: &EntryPlace) -> Option<Visibility> {
        let rule_state = self.directory(state, place.parent)?;
        Some(self.visibility(rule_state, true))
    }

    /// Records the name by which the view has reached a file that has several.
    pub(crate) fn came_by(&mut self, state: &TreeState, ino: Ino, place: &EntryPlace) {
        let Some(above) = self.directory(state, place.parent) else {
            return;
        };
        let labels = state
            .inodes
            .get(&ino)
            .map(|inode| inode.meta.labels.clone())
            .unwrap_or_default();
        let names = self.linked.entry(ino).or_default();
        if names.places.contains(place) {
            return;
        }
        names.places.push(place.clone());
        if names.places.len() > NAMES_MAX {
            // Names that are gone make room before one that exists is given up.
            names.places.retain(|known| state.may_be_at(ino, known));
        }
        if names.places.len() > NAMES_MAX {
            names.places.pop();
            let level = self.rules.child(&above, place.name.as_bytes(), &labels).level();
            names.others = Some(names.others.map_or(level, |other| other.min(level)));
        }
    }

    /// How many names of a file the view knows.
    fn known_names(&self, ino: Ino) -> u32 {
        self.linked
            .get(&ino)
            .map_or(1, |names| names.places.len().max(1) as u32)
    }

    /// The attributes that `stat` shows of an inode.
    pub(crate) fn visible_attr(&self, attr: Attr, visibility: &Visibility) -> Attr {
        let attr = match attr.kind {
            InodeKind::Directory if visibility.level() == Level::None => passable(attr),
            InodeKind::Directory => Attr {
                meta: self.directory_meta(&attr, visibility),
                ..attr
            },
            _ => Attr {
                meta: visible_meta::file_meta(&attr.meta, visibility.level()),
                ..attr
            },
        };
        // Then the view knows every name, so the counts give nothing away.
        if self.shows_all {
            return attr;
        }
        let names = match attr.kind {
            // A count of 1 tells programs that directories were not counted.
            InodeKind::Directory => attr.names.min(1),
            _ => attr.names.min(self.known_names(attr.ino)),
        };
        Attr { names, ..attr }
    }

    fn directory_meta(&self, attr: &Attr, visibility: &Visibility) -> avfs_core::Meta {
        let takes_names = visibility.level() >= Level::Append
            || self.rules.is_any_below(&visibility.rule_state, Level::Append);
        visible_meta::directory_meta(&attr.meta, takes_names)
    }

    /// The labels of a new entry.
    pub(crate) fn labels_of_new(
        &mut self,
        state: &TreeState,
        place: &EntryPlace,
        is_directory: bool,
    ) -> Labels {
        let may_be_fresh = is_directory && is_repository(state, place);
        let is_free = may_be_fresh
            && self
                .above(state, place)
                .is_some_and(|above| above.level() == Level::Write)
            && self
                .name(state, place, &Labels::default(), true)
                .is_some_and(|visibility| visibility.level() == Level::Write);
        if is_free {
            [Label::fresh_repository()].into_iter().collect()
        } else {
            Labels::default()
        }
    }

    /// Whether removing the entry would let a fresh repository take its place, which the rules may protect
    /// less: a repository that is created where one was before must not count as fresh.
    pub(crate) fn would_free(&self, state: &TreeState, labels: &Labels, place: &EntryPlace) -> bool {
        let fresh = Label::fresh_repository();
        // Without a rule about fresh repositories, nothing depends on the label.
        let frees = |rule: &Rule| rule.label() == Some(&fresh);
        is_repository(state, place) && !labels.contains(&fresh) && self.rules.list().iter().any(frees)
    }

    /// Whether an entry may be at a place: the label of a fresh repository must not spread to other names.
    pub(crate) fn keeps_its_labels(state: &TreeState, labels: &Labels, place: &EntryPlace) -> bool {
        !labels.contains(&Label::fresh_repository()) || is_repository(state, place)
    }
}

/// Whether a place is that of a repository, or of a worktree in one: `.git/worktrees/NAME`, and the same in
/// repositories of submodules. Git's files about a worktree determine where its settings are, as those of a
/// repository do.
fn is_repository(state: &TreeState, place: &EntryPlace) -> bool {
    let above = |place: &EntryPlace| {
        state
            .inodes
            .get(&place.parent)
            .and_then(|inode| inode.place.clone())
    };
    let is = |place: &Option<EntryPlace>, name: &[u8]| {
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
    // Submodules nest: `.git/modules/a/modules/b/worktrees/NAME`.
    while let Some(place) = way.filter(|_| !is_of_repository) {
        way = above(&place);
        is_of_repository = place.name.as_bytes() == MODULES && is(&way, REPOSITORY);
    }
    is_of_repository
}

fn passable(attr: Attr) -> Attr {
    let meta = visible_meta::passable_meta(&attr.meta);
    let start = Timestamp::default();
    Attr {
        meta,
        ctime: start,
        atime: start,
        names: 1,
        size: 0,
        ..attr
    }
}

/// The views of a tree, by their doors.
#[derive(Debug, Default)]
pub(crate) struct RuleViews(Vec<(Door, Option<Box<RuleView>>)>);

impl RuleViews {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The doors that see the tree through rules.
    pub(crate) fn doors(&self) -> impl Iterator<Item = Door> + '_ {
        self.0.iter().map(|(door, _)| *door)
    }

    pub(crate) fn set(&mut self, door: Door, view: RuleView) {
        // A door has one view at most.
        self.remove(door);
        self.0.push((door, Some(Box::new(view))));
    }

    pub(crate) fn remove(&mut self, door: Door) {
        self.0.retain(|(other, _)| *other != door);
    }

    pub(crate) fn get(&self, door: Door) -> Option<&RuleView> {
        self.0
            .iter()
            .find(|(other, _)| *other == door)
            .and_then(|(_, view)| view.as_deref())
    }

    /// Whether a door sees the tree through rules.
    pub(crate) fn has(&self, door: Door) -> bool {
        self.0.iter().any(|(other, _)| *other == door)
    }

    pub(crate) fn slot(&mut self, door: Door) -> Option<&mut Option<Box<RuleView>>> {
        self.0
            .iter_mut()
            .find(|(other, _)| *other == door)
            .map(|(_, view)| view)
    }
}

/// Updates views for an operation that is about to happen.
pub(crate) fn note_in_views(state: &mut TreeState, origin: Door, op: &JournalOp) {
    if state.views.is_empty() {
        return;
    }
    match op {
        JournalOp::Remove { at, .. } | JournalOp::Gone { at } => note_last_name(state, at),
        JournalOp::Rename {
            from, to, exchange, ..
        } => {
            if !exchange {
                note_last_name(state, to);
            }
            note_moved(state, from, to);
            if *exchange {
                note_moved(state, to, from);
            }
        }
        JournalOp::Link { ino, at, .. } => note_linked(state, origin, *ino, at),
        JournalOp::SetLabels { .. } => state.layout += 1,
        JournalOp::Found { .. }
        | JournalOp::FoundLink { .. }
        | JournalOp::Place { .. }
        | JournalOp::PlaceLink { .. }
        | JournalOp::SetMode { .. }
        | JournalOp::SetOwner { .. }
        | JournalOp::SetMtime { .. }
        | JournalOp::Resize { .. }
        | JournalOp::SetXattr { .. }
        | JournalOp::RemoveXattr { .. }
        | JournalOp::Write { .. }
        | JournalOp::SetContent { .. }
        | JournalOp::Unfold { .. }
        | JournalOp::Fulfil { .. }
        | JournalOp::Arrive { .. }
        | JournalOp::Punch { .. } => {}
    }
}

/// The name at a place is removed; if it is the last one, views remember where the file was.
fn note_last_name(state: &mut TreeState, at: &EntryPlace) {
    let Some(ino) = state.loaded_at(at) else { return };
    let Some(inode) = state.inodes.get(&ino) else {
        return;
    };
    let labels = inode.meta.labels.clone();
    let is_kept = inode.names == 1 && inode.holds > 0;
    if inode.is_directory() {
        state.layout += 1;
    }
    let Some(mut trail) = state.trail(at.parent).filter(|_| is_kept) else {
        return;
    };
    trail.push((at.name.clone(), labels));
    for (_, view) in &mut state.views.0 {
        let Some(view) = view else { continue };
        if view.nameless.len() >= view.nameless_max {
            view.nameless.retain(|ino, _| state.inodes.contains_key(ino));
            // The remaining ones are in use: examining all of them each time would become more and more
            // expensive.
            view.nameless_max = (2 * view.nameless.len()).max(NAMELESS_MAX);
        }
        view.nameless.insert(ino, trail.clone());
    }
}

fn note_moved(state: &mut TreeState, from: &EntryPlace, to: &EntryPlace) {
    let Some(ino) = state.loaded_at(from) else { return };
    let Some(inode) = state.inodes.get(&ino) else {
        return;
    };
    if inode.is_directory() {
        state.layout += 1;
    }
    if inode.linked {
        for (_, view) in &mut state.views.0 {
            let names = view.as_mut().and_then(|view| view.linked.get_mut(&ino));
            let known = names.and_then(|names| names.places.iter_mut().find(|place| *place == from));
            if let Some(place) = known {
                *place = to.clone();
            }
        }
    }
}

/// A file gets another name. All views know it by its previous name; the originating door knows the new one
/// too.
fn note_linked(state: &mut TreeState, origin: Door, ino: Ino, at: &EntryPlace) {
    let old = state.inodes.get(&ino).and_then(|inode| inode.place.clone());
    let doors: Vec<Door> = state.views.0.iter().map(|(door, _)| *door).collect();
    for door in doors {
        state.with_view(door, |view, state| {
            if let Some(old) = &old {
                view.came_by(state, ino, old);
            }
            if door == origin {
                view.came_by(state, ino, at);
            }
        });
    }
}
