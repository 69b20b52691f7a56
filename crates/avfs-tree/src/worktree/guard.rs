//! The one place where rules are enforced: every request through a door that has rules is checked here first.
//!
//! A door without rules may do everything. `guard/tests.rs` lists every call of the tree and shows that it is
//! checked.

use avfs_core::rules::{Level, RuleState, Rules};
use avfs_core::{EntryKind, EntryName, Labels, NodeId, Slot, Totals};

use super::{Attr, StoredTree, WorkTree};
use crate::error::FsError;
use crate::inodes::Ino;
use crate::op::EntryPlace;
use crate::worktree::inode::InodeBody;
use crate::worktree::state::TreeState;
use crate::worktree::view::{RuleView, Visibility};
use crate::worktree::watch::Invalidation;

mod leading;
#[cfg(test)]
mod tests;

/// How many entries of a directory are examined together.
const AT_ONCE: usize = 1024;

/// A request to be checked. Names come with the inode that was found there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GuardedRequest<'a> {
    /// Read the attributes of an inode, or the entries of a directory.
    See(Ino),
    /// Perform an action that requires a level.
    Use(Ino, Level),
    /// Write bytes at an offset; writing at or after the end is appending.
    Write { ino: Ino, offset: u64 },
    /// Look up a name.
    Find { at: &'a EntryPlace, found: Option<Ino> },
    /// Create an entry other than a symbolic link.
    Make { at: &'a EntryPlace, found: Option<Ino> },
    /// Insert a whole tree.
    Graft {
        at: &'a EntryPlace,
        found: Option<Ino>,
        tree: &'a StoredTree,
    },
    /// Look up a name, and remove it.
    Remove { at: &'a EntryPlace, found: Option<Ino> },
    /// The same with everything below it.
    RemoveTree { at: &'a EntryPlace, found: Option<Ino> },
    /// Look up a name, and move its entry, possibly replacing another one.
    Move {
        from: &'a EntryPlace,
        moved: Option<Ino>,
        to: &'a EntryPlace,
        replaced: Option<Ino>,
    },
    /// To give a file another name.
    Link {
        ino: Ino,
        at: &'a EntryPlace,
        found: Option<Ino>,
    },
    /// Copy an entry with everything below it.
    Copy(Ino),
    /// Change labels, which rules match.
    Label(Ino),
}

impl WorkTree {
    /// From now on this door sees the tree through rules. When this returns, every request through it obeys
    /// them, and its watcher has been notified to forget everything that it may have cached before.
    pub fn set_rules(&self, rules: Rules) {
        let mut state = self.state();
        let view = match state.views.get(self.door) {
            Some(view) => view.with_rules(rules),
            None => RuleView::new(rules),
        };
        let changed = levels_changed(&mut state, self.door, &view);
        state.views.set(self.door, view);
        changed
            .into_iter()
            .for_each(|invalidation| state.watchers.tell_door(self.door, invalidation));
    }

    /// The rules through which this door sees the tree.
    pub fn rules(&self) -> Option<Rules> {
        self.state().views.get(self.door).map(|view| view.rules().clone())
    }

    /// Whether this door sees the tree through rules.
    pub fn has_rules(&self) -> bool {
        self.state().views.has(self.door)
    }

    /// Checks a level without performing anything.
    pub fn check(&self, ino: Ino, level: Level) -> Result<(), FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, GuardedRequest::Use(ino, level)).map(drop)
    }

    /// How many requests were checked, through all doors.
    pub fn asked(&self) -> u64 {
        self.state().asked
    }

    /// The totals of the vault, as far as this door may know them: if something may be hidden, they are zero.
    pub fn occupied_space(&self) -> Totals {
        let state = self.state();
        match state.views.get(self.door) {
            _ if !state.views.has(self.door) => state.totals(),
            Some(view) if view.shows_all() => state.totals(),
            Some(_) | None => Totals::default(),
        }
    }

    /// The only way to the rules. Returns the visibility of the inode if it was computed, so that the caller
    /// need not compute it again.
    pub(crate) fn ask(
        &self,
        state: &mut TreeState,
        question: GuardedRequest<'_>,
    ) -> Result<Option<Visibility>, FsError> {
        state.asked += 1;
        if !state.views.has(self.door) {
            return Ok(None);
        }
        let answer = state.with_view(self.door, |view, state| view.answer(state, question));
        answer.unwrap_or(Err(FsError::Closed))
    }

    /// The attributes of an inode as this door sees them; `known` is its visibility, if the caller has it.
    pub(crate) fn visible_attr(
        &self,
        state: &mut TreeState,
        attr: Attr,
        known: Option<Visibility>,
    ) -> Result<Attr, FsError> {
        if !state.views.has(self.door) {
            return Ok(attr);
        }
        let visible = state.with_view(self.door, |view, state| {
            let visibility = known
                .or_else(|| view.inode(state, attr.ino))
                .filter(Visibility::is_visible);
            visibility
                .map(|visibility| view.visible_attr(attr, &visibility))
                .ok_or(FsError::Hidden)
        });
        visible.unwrap_or(Err(FsError::Closed))
    }

    /// The entries of a directory after `after` that this door may see, in order, at most `limit`.
    pub(crate) fn visible_names(
        &self,
        state: &mut TreeState,
        ino: Ino,
        after: Option<&EntryName>,
        limit: usize,
    ) -> Result<Vec<VisibleName>, FsError> {
        if !state.views.has(self.door) {
            let names = state.names_after(ino, after, limit)?;
            return Ok(names
                .into_iter()
                .map(|(name, slot)| VisibleName {
                    name,
                    slot,
                    visibility: None,
                })
                .collect());
        }
        let mut found = Vec::new();
        let mut after = after.cloned();
        while found.len() < limit {
            let names = state.names_after(ino, after.as_ref(), limit)?;
            let is_last = names.len() < limit;
            after = names.last().map(|(name, _)| name.clone());
            for (name, slot) in names {
                match self.name_visibility(state, &EntryPlace::new(ino, name.clone()), slot.as_ref())? {
                    NameVisibility::Hidden => {}
                    NameVisibility::OfName => found.push(VisibleName {
                        name,
                        slot,
                        visibility: None,
                    }),
                    NameVisibility::Of(visibility) => found.push(VisibleName {
                        name,
                        slot,
                        visibility: Some(visibility),
                    }),
                }
            }
            if is_last {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    fn name_visibility(
        &self,
        state: &mut TreeState,
        at: &EntryPlace,
        slot: Option<&Slot>,
    ) -> Result<NameVisibility, FsError> {
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
            (None, _) => return Ok(NameVisibility::Hidden),
        };
        let visibility = state.with_view(self.door, |view, state| {
            let visibility = view
                .name(state, at, &labels, is_directory)
                .filter(Visibility::is_visible);
            match (visibility, loaded.or(linked)) {
                (None, _) => NameVisibility::Hidden,
                (Some(_), Some(child)) if view.note_if_linked(state, child, at) => NameVisibility::OfName,
                (Some(visibility), _) => NameVisibility::Of(visibility),
            }
        });
        Ok(visibility.unwrap_or(NameVisibility::Hidden))
    }

    /// The labels of an entry that is created through this door.
    pub(crate) fn labels_of_new(&self, state: &mut TreeState, at: &EntryPlace, kind: &EntryKind) -> Labels {
        let is_directory = matches!(kind, EntryKind::Directory { .. });
        let labels = state.with_view(self.door, |view, state| {
            view.labels_of_new(state, at, is_directory)
        });
        labels.unwrap_or_default()
    }
}

/// A visible name.
pub(crate) struct VisibleName {
    pub name: EntryName,
    pub slot: Option<Slot>,
    /// The visibility of the entry with this name, if it was computed.
    pub visibility: Option<Visibility>,
}

/// The visibility of a name in a listing.
enum NameVisibility {
    Hidden,
    /// The name alone: the file may have other names, and be less visible through those.
    OfName,
    Of(Visibility),
}

impl RuleView {
    fn answer(
        &mut self,
        state: &mut TreeState,
        question: GuardedRequest<'_>,
    ) -> Result<Option<Visibility>, FsError> {
        match question {
            GuardedRequest::See(ino) => {
                let visibility = self.inode(state, ino).filter(Visibility::is_visible);
                return visibility.map(Some).ok_or(FsError::Hidden);
            }
            GuardedRequest::Use(ino, level) => {
                let visibility = self.inode(state, ino);
                return needs(level, visibility.as_ref()).map(|()| visibility);
            }
            GuardedRequest::Find { at, found } => {
                let visibility = self.may_find(state, at, found)?;
                let is_linked = found.is_some_and(|ino| is_linked(state, ino));
                return Ok(Some(visibility).filter(|_| !is_linked));
            }
            GuardedRequest::Graft { at, found, tree } => return self.may_graft(state, at, found, tree),
            GuardedRequest::Write { ino, offset } => self.may_write(state, ino, offset)?,
            GuardedRequest::Make { at, found } => {
                drop(self.may_make(state, at, found, None, Level::Append)?)
            }
            GuardedRequest::Remove { at, found } => drop(self.may_remove(state, at, found)?),
            GuardedRequest::RemoveTree { at, found } => {
                let (top, _) = self.may_remove(state, at, found)?;
                self.all_below(state, top, Level::Write)?;
            }
            GuardedRequest::Move {
                from,
                moved,
                to,
                replaced,
            } => self.may_move(state, from, moved, to, replaced)?,
            GuardedRequest::Link { ino, at, found } => {
                needs(Level::Write, self.inode(state, ino).as_ref())?;
                let target = match &state.inode(ino)?.body {
                    InodeBody::Symlink(target) => Some(&target[..]),
                    _ => None,
                };
                self.may_make(state, at, found, target, Level::Write)?;
            }
            GuardedRequest::Copy(ino) => {
                needs(Level::Read, self.inode(state, ino).as_ref())?;
                self.all_below(state, ino, Level::Read)?;
            }
            // A program that could change labels could change what the rules allow it to do.
            GuardedRequest::Label(ino) => {
                let level = self
                    .inode(state, ino)
                    .map_or(Level::None, |visibility| visibility.level());
                return Err(FsError::Denied { level, needed: None });
            }
        }
        Ok(None)
    }

    fn may_write(&mut self, state: &TreeState, ino: Ino, offset: u64) -> Result<(), FsError> {
        let visibility = self.inode(state, ino);
        let at_end = offset == state.inode(ino)?.file_size()?;
        needs(
            if at_end { Level::Append } else { Level::Write },
            visibility.as_ref(),
        )
    }

    fn found(&mut self, state: &TreeState, at: &EntryPlace, found: Option<Ino>) -> Option<Visibility> {
        let Some(inode) = found.and_then(|ino| state.inodes.get(&ino)) else {
            return self.name(state, at, &Labels::default(), false);
        };
        self.name(state, at, &inode.meta.labels, inode.is_directory())
    }

    /// The visibility of a name in a directory that is not hidden itself.
    fn found_in_visible(
        &mut self,
        state: &TreeState,
        at: &EntryPlace,
        found: Option<Ino>,
    ) -> Option<Visibility> {
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

    /// The visibility of a name that is not hidden.
    fn may_find(
        &mut self,
        state: &TreeState,
        at: &EntryPlace,
        found: Option<Ino>,
    ) -> Result<Visibility, FsError> {
        let visibility = self
            .found_in_visible(state, at, found)
            .filter(Visibility::is_visible)
            .ok_or(FsError::Hidden)?;
        if let Some(ino) = found {
            self.note_if_linked(state, ino, at);
        }
        Ok(visibility)
    }

    /// Records the name if the file can have several.
    fn note_if_linked(&mut self, state: &TreeState, ino: Ino, at: &EntryPlace) -> bool {
        let is_linked = is_linked(state, ino);
        if is_linked {
            self.came_by(state, ino, at);
        }
        is_linked
    }

    /// Whether a name may be created, and with this link target; returns its visibility, unless it is a
    /// directory. The caller reports existing names, unless they are hidden.
    fn may_make(
        &mut self,
        state: &TreeState,
        at: &EntryPlace,
        found: Option<Ino>,
        target: Option<&[u8]>,
        level: Level,
    ) -> Result<Option<Visibility>, FsError> {
        let visibility = self.found_in_visible(state, at, found);
        match &visibility {
            Some(visibility) if found.is_some() && visibility.is_visible() => return Ok(None),
            visibility => needs(level, visibility.as_ref())?,
        }
        if let (Some(visibility), Some(target)) = (&visibility, target) {
            self.may_lead(state, at, &visibility.rule_state, target)?;
        }
        Ok(visibility)
    }

    fn may_graft(
        &mut self,
        state: &mut TreeState,
        at: &EntryPlace,
        found: Option<Ino>,
        tree: &StoredTree,
    ) -> Result<Option<Visibility>, FsError> {
        let visibility = self.may_make(state, at, found, target_of(&tree.entry.kind), Level::Append)?;
        if !RuleView::keeps_its_labels(state, &tree.entry.meta.labels, at) {
            return Err(FsError::OtherRulesThere);
        }
        let entries = match tree.entry.kind {
            EntryKind::Directory {
                entries: Some(entries),
                ..
            } => entries,
            // It may be given labels.
            EntryKind::Directory { entries: None, .. } => return Ok(None),
            _ => return Ok(visibility.filter(|_| tree.entry.meta.labels.is_empty())),
        };
        let Some(top) = self.name(state, at, &tree.entry.meta.labels, true) else {
            return Err(FsError::Hidden);
        };
        let Some(path) = leading::path_to(state, at) else {
            return Err(FsError::Hidden);
        };
        self.stored_below(state, entries, (top.rule_state, path), Level::Append)
            .map(|()| None)
    }

    /// Whether everything in a stored directory would be allowed at its new place.
    fn stored_below(
        &self,
        state: &TreeState,
        entries: NodeId,
        top: (RuleState, Vec<EntryName>),
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
                let rule_state = self.rules().child(&above, &name, &labels);
                if rule_state.level() < level {
                    return Err(FsError::Denied {
                        level: rule_state.level(),
                        needed: Some(level),
                    });
                }
                if let Some(target) = kind.and_then(target_of) {
                    self.may_lead_from(&above, &path, &rule_state, target)?;
                }
                if let Some(EntryKind::Directory {
                    entries: Some(entries),
                    ..
                }) = kind
                {
                    let name = EntryName::new(&name).expect("stored names are names");
                    let path = path.iter().cloned().chain([name]).collect();
                    open.push((*entries, rule_state, path));
                }
            }
        }
        Ok(())
    }

    /// Whether an entry may be removed, and its visibility. For a hidden name the result is the same as for a
    /// missing one.
    fn may_remove(
        &mut self,
        state: &TreeState,
        at: &EntryPlace,
        found: Option<Ino>,
    ) -> Result<(Ino, Visibility), FsError> {
        let visibility = self.may_find(state, at, found)?;
        let found = found.ok_or(FsError::NotFound)?;
        needs(Level::Write, Some(&visibility))?;
        Ok((found, visibility))
    }

    /// Whether everything in a directory has a level. Hidden entries make it non-empty.
    fn all_below(&mut self, state: &mut TreeState, top: Ino, level: Level) -> Result<(), FsError> {
        let mut open = vec![top];
        while let Some(directory) = open.pop().filter(|ino| state.directory(*ino).is_ok()) {
            let mut after: Option<EntryName> = None;
            loop {
                let names = state.names_after(directory, after.as_ref(), AT_ONCE)?;
                let is_last = names.len() < AT_ONCE;
                after = names.last().map(|(name, _)| name.clone());
                for (name, _) in names {
                    let at = EntryPlace::new(directory, name);
                    let Some(child) = state.lookup(&at)? else { continue };
                    match self.found(state, &at, Some(child)) {
                        Some(visibility) if visibility.level() >= level => {}
                        Some(visibility) if visibility.is_visible() => {
                            return Err(FsError::Denied {
                                level: visibility.level(),
                                needed: Some(level),
                            });
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
        state: &TreeState,
        from: &EntryPlace,
        moved: Option<Ino>,
        to: &EntryPlace,
        replaced: Option<Ino>,
    ) -> Result<(), FsError> {
        let (moved, before) = self.may_remove(state, from, moved)?;
        let above = self
            .directory(state, to.parent)
            .filter(|above| self.is_directory_visible(above));
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
            InodeBody::Symlink(target) => self.may_lead(state, to, &after.rule_state, target),
            InodeBody::Directory(_) => {
                let is_same = RuleView::keeps_its_labels(state, &inode.meta.labels, to)
                    && !self.would_free(state, &inode.meta.labels, from)
                    && self.rules().is_same_below(&before.rule_state, &after.rule_state);
                if is_same {
                    Ok(())
                } else {
                    Err(FsError::OtherRulesThere)
                }
            }
            _ => Ok(()),
        }
    }
}

fn is_linked(state: &TreeState, ino: Ino) -> bool {
    state.inodes.get(&ino).is_some_and(|inode| inode.linked)
}

fn target_of(kind: &EntryKind) -> Option<&[u8]> {
    match kind {
        EntryKind::Symlink { target } => Some(target),
        _ => None,
    }
}

fn needs(level: Level, visibility: Option<&Visibility>) -> Result<(), FsError> {
    match visibility.map_or(Level::None, Visibility::level) {
        has if has >= level => Ok(()),
        has => Err(FsError::Denied {
            level: has,
            needed: Some(level),
        }),
    }
}

/// The notifications that a door would get if it saw the tree through another view from now on.
fn levels_changed(state: &mut TreeState, door: crate::worktree::Door, new: &RuleView) -> Vec<Invalidation> {
    let mut new = new.with_rules(new.rules().clone());
    let held: Vec<(Ino, EntryPlace)> = state.known_places();
    let mut invalidations = Vec::new();
    for (ino, place) in held {
        let is_directory = state.inodes.get(&ino).is_some_and(|inode| inode.is_directory());
        let labels = state
            .inodes
            .get(&ino)
            .map(|inode| inode.meta.labels.clone())
            .unwrap_or_default();
        let level = |visibility: Option<Visibility>| {
            visibility.map(|visibility| (visibility.level(), visibility.passable))
        };
        let before = if state.views.has(door) {
            let old = state.with_view(door, |view, state| {
                view.name(state, &place, &labels, is_directory)
            });
            level(old.flatten())
        } else {
            Some((Level::Write, is_directory))
        };
        let after = level(new.name(state, &place, &labels, is_directory));
        if before != after || is_directory {
            invalidations.push(Invalidation::Contents {
                ino,
                offset: 0,
                len: 0,
            });
        }
        if before != after {
            invalidations.push(Invalidation::Name {
                parent: place.parent,
                name: place.name,
            });
        }
    }
    invalidations.push(Invalidation::Contents {
        ino: Ino::ROOT,
        offset: 0,
        len: 0,
    });
    invalidations
}
