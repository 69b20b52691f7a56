//! The one place where rules are enforced: whatever is done through a door that sees the tree through rules is
//! asked for here first.
//!
//! A door without rules may do everything. `guard/tests.rs` lists every call of the tree and shows that it asks.

use avfs_core::rules::{Level, Rules, Standing};
use avfs_core::{EntryKind, EntryName, Labels, NodeId, Slot, Totals};

use super::{Attr, StoredTree, WorkTree};
use crate::error::FsError;
use crate::inodes::Ino;
use crate::op::Place;
use crate::worktree::inode::Body;
use crate::worktree::state::State;
use crate::worktree::view::{Stand, View};
use crate::worktree::watch::Seen;

mod leading;
#[cfg(test)]
mod tests;

/// How many entries of a directory are looked at together.
const AT_ONCE: usize = 1024;

/// What somebody wants to do. Names come with what was found there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask<'a> {
    /// To learn what is told of something, or what is in a directory.
    See(Ino),
    /// To do what takes a level.
    Use(Ino, Level),
    /// To write bytes at an offset; behind the end is adding.
    Write { ino: Ino, offset: u64 },
    /// To learn what a name stands for.
    Find { at: &'a Place, found: Option<Ino> },
    /// To make something where there is nothing, but no symbolic link.
    Make { at: &'a Place, found: Option<Ino> },
    /// To put a whole tree where there is nothing.
    Graft { at: &'a Place, found: Option<Ino>, tree: &'a StoredTree },
    /// To learn what a name stands for, and take it away.
    Remove { at: &'a Place, found: Option<Ino> },
    /// The same with everything below it.
    RemoveTree { at: &'a Place, found: Option<Ino> },
    /// To learn what a name stands for, and move that, onto something else or not.
    Move { from: &'a Place, moved: Option<Ino>, to: &'a Place, replaced: Option<Ino> },
    /// To give a file another name.
    Link { ino: Ino, at: &'a Place, found: Option<Ino> },
    /// To copy something with everything below it.
    Copy(Ino),
    /// To say what rules go by.
    Label(Ino),
}

impl WorkTree {
    /// From now on this door sees the tree through rules. When this returns, everything that is asked through it
    /// obeys them; what its watcher was told before and may have kept, it is told to forget.
    pub fn set_rules(&self, rules: Rules) {
        let mut state = self.state();
        let view = match state.views.get(self.door) {
            Some(view) => view.through(rules),
            None => View::new(rules),
        };
        let changed = state.levels_changed(self.door, &view);
        state.views.set(self.door, view);
        changed.into_iter().for_each(|seen| state.tell_door(self.door, seen));
    }

    /// The rules through which this door sees the tree.
    pub fn rules(&self) -> Option<Rules> {
        self.state().views.get(self.door).map(|view| view.rules().clone())
    }

    /// Whether this door sees the tree through rules.
    pub fn has_rules(&self) -> bool {
        self.state().views.has(self.door)
    }

    /// Asks for what takes a level, without doing anything.
    pub fn check(&self, ino: Ino, level: Level) -> Result<(), FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, Ask::Use(ino, level)).map(drop)
    }

    /// How often something was asked of the rules, through whatever door.
    pub fn asked(&self) -> u64 {
        self.state().asked
    }

    /// How much the vault holds, as far as this door may know: where something may be hidden, nothing is said.
    pub fn occupied_space(&self) -> Totals {
        let state = self.state();
        match state.views.get(self.door) {
            _ if !state.views.has(self.door) => state.totals(),
            Some(view) if view.shows_all() => state.totals(),
            Some(_) | None => Totals::default(),
        }
    }

    /// The only way to the rules. Where it was found out where the inode in question stands, that is said, so that
    /// whoever shows it need not find out again.
    pub(crate) fn ask(&self, state: &mut State, question: Ask<'_>) -> Result<Option<Stand>, FsError> {
        state.asked += 1;
        if !state.views.has(self.door) {
            return Ok(None);
        }
        let answer = state.with_view(self.door, |view, state| view.answer(state, question));
        answer.unwrap_or(Err(FsError::Closed))
    }

    /// What this door is shown of an inode, of which it may be known where it stands.
    pub(crate) fn shown(&self, state: &mut State, attr: Attr, known: Option<Stand>) -> Result<Attr, FsError> {
        if !state.views.has(self.door) {
            return Ok(attr);
        }
        let shown = state.with_view(self.door, |view, state| {
            let stand = known.or_else(|| view.inode(state, attr.ino)).filter(Stand::is_visible);
            stand.map(|stand| view.shown(attr, &stand)).ok_or(FsError::Hidden)
        });
        shown.unwrap_or(Err(FsError::Closed))
    }

    /// The entries of a directory behind `after` that this door may see, in order, at most `limit`.
    pub(crate) fn visible_names(
        &self,
        state: &mut State,
        ino: Ino,
        after: Option<&EntryName>,
        limit: usize,
    ) -> Result<Vec<VisibleName>, FsError> {
        if !state.views.has(self.door) {
            let names = state.names_after(ino, after, limit)?;
            return Ok(names
                .into_iter()
                .map(|(name, slot)| VisibleName { name, slot, stand: None })
                .collect());
        }
        let mut found = Vec::new();
        let mut after = after.cloned();
        while found.len() < limit {
            let names = state.names_after(ino, after.as_ref(), limit)?;
            let is_last = names.len() < limit;
            after = names.last().map(|(name, _)| name.clone());
            for (name, slot) in names {
                match self.sight_of(state, &Place::new(ino, name.clone()), slot.as_ref())? {
                    Sight::Hidden => {}
                    Sight::OfName => found.push(VisibleName { name, slot, stand: None }),
                    Sight::Of(stand) => found.push(VisibleName { name, slot, stand: Some(stand) }),
                }
            }
            if is_last {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    fn sight_of(&self, state: &mut State, at: &Place, slot: Option<&Slot>) -> Result<Sight, FsError> {
        let loaded = state.directory(at.parent)?.children.get(&at.name).copied();
        let linked = match slot {
            Some(Slot::Link(link)) if loaded.is_none() => Some(state.load_link(*link)?),
            _ => None,
        };
        let (labels, is_directory) = match (loaded.or(linked), slot) {
            (Some(child), _) => {
                let inode = state.inode(child)?;
                (inode.meta.labels.clone(), inode.is_directory())
            }
            (None, Some(Slot::Own(entry))) => (entry.meta.labels.clone(), entry.is_directory()),
            (None, _) => return Ok(Sight::Hidden),
        };
        let seen = state.with_view(self.door, |view, state| {
            let stand = view.name(state, at, &labels, is_directory).filter(Stand::is_visible);
            match (stand, loaded.or(linked)) {
                (None, _) => Sight::Hidden,
                (Some(_), Some(child)) if view.note_if_linked(state, child, at) => Sight::OfName,
                (Some(stand), _) => Sight::Of(stand),
            }
        });
        Ok(seen.unwrap_or(Sight::Hidden))
    }

    /// The labels that something new gets when it is made through this door.
    pub(crate) fn labels_of_new(&self, state: &mut State, at: &Place, kind: &EntryKind) -> Labels {
        let is_directory = matches!(kind, EntryKind::Directory { .. });
        let labels = state.with_view(self.door, |view, state| view.labels_of_new(state, at, is_directory));
        labels.unwrap_or_default()
    }
}

/// A name that may be seen.
pub(crate) struct VisibleName {
    pub name: EntryName,
    pub slot: Option<Slot>,
    /// Where that stands which has the name, if that was found out.
    pub stand: Option<Stand>,
}

/// What a door sees of a name.
enum Sight {
    Hidden,
    /// The name; what has it may have others, and stand elsewhere.
    OfName,
    Of(Stand),
}

impl View {
    fn answer(&mut self, state: &mut State, question: Ask<'_>) -> Result<Option<Stand>, FsError> {
        match question {
            Ask::See(ino) => {
                let stand = self.inode(state, ino).filter(Stand::is_visible);
                return stand.map(Some).ok_or(FsError::Hidden);
            }
            Ask::Use(ino, level) => {
                let stand = self.inode(state, ino);
                return needs(level, stand.as_ref()).map(|()| stand);
            }
            Ask::Find { at, found } => {
                let stand = self.may_find(state, at, found)?;
                let is_linked = found.is_some_and(|ino| is_linked(state, ino));
                return Ok(Some(stand).filter(|_| !is_linked));
            }
            Ask::Graft { at, found, tree } => return self.may_graft(state, at, found, tree),
            Ask::Write { ino, offset } => self.may_write(state, ino, offset)?,
            Ask::Make { at, found } => drop(self.may_make(state, at, found, None, Level::Append)?),
            Ask::Remove { at, found } => drop(self.may_remove(state, at, found)?),
            Ask::RemoveTree { at, found } => {
                let (top, _) = self.may_remove(state, at, found)?;
                self.all_below(state, top, Level::Write)?;
            }
            Ask::Move { from, moved, to, replaced } => self.may_move(state, from, moved, to, replaced)?,
            Ask::Link { ino, at, found } => {
                needs(Level::Write, self.inode(state, ino).as_ref())?;
                let target = match &state.inode(ino)?.body {
                    Body::Symlink(target) => Some(&target[..]),
                    _ => None,
                };
                self.may_make(state, at, found, target, Level::Write)?;
            }
            Ask::Copy(ino) => {
                needs(Level::Read, self.inode(state, ino).as_ref())?;
                self.all_below(state, ino, Level::Read)?;
            }
            // Whoever could say what rules go by could change what they mean for him.
            Ask::Label(ino) => {
                let level = self.inode(state, ino).map_or(Level::None, |stand| stand.level());
                return Err(FsError::Denied { level, needed: None });
            }
        }
        Ok(None)
    }

    fn may_write(&mut self, state: &State, ino: Ino, offset: u64) -> Result<(), FsError> {
        let stand = self.inode(state, ino);
        let at_end = offset == state.inode(ino)?.file_size()?;
        needs(if at_end { Level::Append } else { Level::Write }, stand.as_ref())
    }

    fn found(&mut self, state: &State, at: &Place, found: Option<Ino>) -> Option<Stand> {
        let Some(inode) = found.and_then(|ino| state.inodes.get(&ino)) else {
            return self.name(state, at, &Labels::default(), false);
        };
        self.name(state, at, &inode.meta.labels, inode.is_directory())
    }

    /// Where a name stands that is in a directory which is not hidden.
    fn found_in_sight(&mut self, state: &State, at: &Place, found: Option<Ino>) -> Option<Stand> {
        let above = self.directory(state, at.parent)?;
        if !self.is_directory_visible(&above) {
            return None;
        }
        let inode = found.and_then(|ino| state.inodes.get(&ino));
        Some(match inode {
            Some(inode) => self.below(&above, &at.name, &inode.meta.labels, inode.is_directory()),
            None => self.below(&above, &at.name, &Labels::default(), false),
        })
    }

    /// Where a name stands that is not hidden.
    fn may_find(&mut self, state: &State, at: &Place, found: Option<Ino>) -> Result<Stand, FsError> {
        let stand = self.found_in_sight(state, at, found).filter(Stand::is_visible).ok_or(FsError::Hidden)?;
        if let Some(ino) = found {
            self.note_if_linked(state, ino, at);
        }
        Ok(stand)
    }

    /// Says whether the file can have several names.
    fn note_if_linked(&mut self, state: &State, ino: Ino, at: &Place) -> bool {
        let is_linked = is_linked(state, ino);
        if is_linked {
            self.came_by(state, ino, at);
        }
        is_linked
    }

    /// Whether a name may be made, and lead to a target; where it stands, if it is not a directory's. That it exists
    /// already is said by the caller, unless it is hidden.
    fn may_make(
        &mut self,
        state: &State,
        at: &Place,
        found: Option<Ino>,
        target: Option<&[u8]>,
        level: Level,
    ) -> Result<Option<Stand>, FsError> {
        let stand = self.found_in_sight(state, at, found);
        match &stand {
            Some(stand) if found.is_some() && stand.is_visible() => return Ok(None),
            stand => needs(level, stand.as_ref())?,
        }
        if let (Some(stand), Some(target)) = (&stand, target) {
            self.may_lead(state, at, &stand.standing, target)?;
        }
        Ok(stand)
    }

    fn may_graft(
        &mut self,
        state: &mut State,
        at: &Place,
        found: Option<Ino>,
        tree: &StoredTree,
    ) -> Result<Option<Stand>, FsError> {
        let stand = self.may_make(state, at, found, target_of(&tree.entry.kind), Level::Append)?;
        if !View::keeps_its_labels(state, &tree.entry.meta.labels, at) {
            return Err(FsError::OtherRulesThere);
        }
        let entries = match tree.entry.kind {
            EntryKind::Directory { entries: Some(entries), .. } => entries,
            // It may be given labels.
            EntryKind::Directory { entries: None, .. } => return Ok(None),
            _ => return Ok(stand.filter(|_| tree.entry.meta.labels.is_empty())),
        };
        let Some(top) = self.name(state, at, &tree.entry.meta.labels, true) else {
            return Err(FsError::Hidden);
        };
        let Some(path) = state.path_to(at) else { return Err(FsError::Hidden) };
        self.stored_below(state, entries, (top.standing, path), Level::Append).map(|()| None)
    }

    /// Whether everything in a stored directory may be where it would be.
    fn stored_below(
        &self,
        state: &State,
        entries: NodeId,
        top: (Standing, Vec<EntryName>),
        level: Level,
    ) -> Result<(), FsError> {
        let mut open = vec![(entries, top.0, top.1)];
        while let Some((node, above, path)) = open.pop() {
            let mut walk = avfs_core::map::walk_after(&state.objects, Some(node), None)?;
            while let Some((name, slot)) = walk.advance()? {
                let (labels, kind) = match &slot {
                    Slot::Own(entry) => (entry.meta.labels.clone(), Some(&entry.kind)),
                    Slot::Link(_) => (Labels::default(), None),
                };
                let standing = self.rules().child(&above, &name, &labels);
                if standing.level() < level {
                    return Err(FsError::Denied { level: standing.level(), needed: Some(level) });
                }
                if let Some(target) = kind.and_then(target_of) {
                    self.may_lead_from(&above, &path, &standing, target)?;
                }
                if let Some(EntryKind::Directory { entries: Some(entries), .. }) = kind {
                    let name = EntryName::new(&name).expect("stored names are names");
                    let path = path.iter().cloned().chain([name]).collect();
                    open.push((*entries, standing, path));
                }
            }
        }
        Ok(())
    }

    /// What may be taken away, and where it stands. A name that is hidden is said to be missing, as one that is
    /// missing.
    fn may_remove(&mut self, state: &State, at: &Place, found: Option<Ino>) -> Result<(Ino, Stand), FsError> {
        let stand = self.may_find(state, at, found)?;
        let found = found.ok_or(FsError::NotFound)?;
        needs(Level::Write, Some(&stand))?;
        Ok((found, stand))
    }

    /// Whether everything in a directory has a level. What is hidden makes it not empty.
    fn all_below(&mut self, state: &mut State, top: Ino, level: Level) -> Result<(), FsError> {
        let mut open = vec![top];
        while let Some(directory) = open.pop().filter(|ino| state.directory(*ino).is_ok()) {
            let mut after: Option<EntryName> = None;
            loop {
                let names = state.names_after(directory, after.as_ref(), AT_ONCE)?;
                let is_last = names.len() < AT_ONCE;
                after = names.last().map(|(name, _)| name.clone());
                for (name, _) in names {
                    let at = Place::new(directory, name);
                    let Some(child) = state.lookup(&at)? else { continue };
                    match self.found(state, &at, Some(child)) {
                        Some(stand) if stand.level() >= level => {}
                        Some(stand) if stand.is_visible() => {
                            return Err(FsError::Denied { level: stand.level(), needed: Some(level) });
                        }
                        Some(_) | None => return Err(FsError::NotEmpty),
                    }
                    if state.inode(child)?.is_directory() {
                        open.push(child);
                    }
                }
                if is_last {
                    break;
                }
            }
        }
        Ok(())
    }

    fn may_move(
        &mut self,
        state: &State,
        from: &Place,
        moved: Option<Ino>,
        to: &Place,
        replaced: Option<Ino>,
    ) -> Result<(), FsError> {
        let (moved, before) = self.may_remove(state, from, moved)?;
        let above = self.directory(state, to.parent).filter(|above| self.is_directory_visible(above));
        let above = above.ok_or(FsError::Hidden)?;
        if let Some(replaced) = replaced {
            let inode = state.inode(replaced)?;
            needs(
                Level::Write,
                Some(&self.below(&above, &to.name, &inode.meta.labels, inode.is_directory())),
            )?;
        }
        let inode = state.inode(moved)?;
        let after = self.below(&above, &to.name, &inode.meta.labels, inode.is_directory());
        needs(Level::Write, Some(&after))?;
        match &inode.body {
            Body::Symlink(target) => self.may_lead(state, to, &after.standing, target),
            Body::Directory(_) => {
                let is_same = View::keeps_its_labels(state, &inode.meta.labels, to)
                    && !self.would_free(state, &inode.meta.labels, from)
                    && self.rules().is_same_below(&before.standing, &after.standing);
                if is_same { Ok(()) } else { Err(FsError::OtherRulesThere) }
            }
            _ => Ok(()),
        }
    }
}

fn is_linked(state: &State, ino: Ino) -> bool {
    state.inodes.get(&ino).is_some_and(|inode| inode.linked)
}

fn target_of(kind: &EntryKind) -> Option<&[u8]> {
    match kind {
        EntryKind::Symlink { target } => Some(target),
        _ => None,
    }
}

fn needs(level: Level, stand: Option<&Stand>) -> Result<(), FsError> {
    match stand.map_or(Level::None, Stand::level) {
        has if has >= level => Ok(()),
        has => Err(FsError::Denied { level: has, needed: Some(level) }),
    }
}

impl State {
    /// What a door would hear if it saw the tree through another view from now on.
    fn levels_changed(&mut self, door: crate::worktree::Door, new: &View) -> Vec<Seen> {
        let mut new = new.through(new.rules().clone());
        let held: Vec<(Ino, Place)> = self.known_places();
        let mut seen = Vec::new();
        for (ino, place) in held {
            let is_directory = self.inodes.get(&ino).is_some_and(|inode| inode.is_directory());
            let labels = self.inodes.get(&ino).map(|inode| inode.meta.labels.clone()).unwrap_or_default();
            let level = |stand: Option<Stand>| stand.map(|stand| (stand.level(), stand.passable));
            let before = match self.views.has(door) {
                true => {
                    let old =
                        self.with_view(door, |view, state| view.name(state, &place, &labels, is_directory));
                    level(old.flatten())
                }
                false => Some((Level::Write, is_directory)),
            };
            let after = level(new.name(self, &place, &labels, is_directory));
            if before != after || is_directory {
                seen.push(Seen::Contents { ino, offset: 0, len: 0 });
            }
            if before != after {
                seen.push(Seen::Name { parent: place.parent, name: place.name });
            }
        }
        seen.push(Seen::Contents { ino: Ino::ROOT, offset: 0, len: 0 });
        seen
    }

    /// Every name in memory that stands for something that somebody knows, stubs included.
    pub(crate) fn known_places(&self) -> Vec<(Ino, Place)> {
        let mut known: Vec<(Ino, Place)> = self.stubs.places().collect();
        for (parent, inode) in &self.inodes {
            let Body::Directory(directory) = &inode.body else { continue };
            let children = directory.children.iter();
            known.extend(children.map(|(name, child)| (*child, Place::new(*parent, name.clone()))));
        }
        known
    }
}
