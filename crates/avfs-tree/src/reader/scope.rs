//! A stored tree filtered by rules. Results do not include anything that the rules do not allow to be read: a
//! file comes without its contents, a link without its target, a directory without its totals.

use avfs_core::rules::{Level, RuleState, Rules};
use avfs_core::{Content, Entry, EntryKind, Labels, Totals, TreePath, Xattrs};

use super::{FoundEntry, ReadError, TreeListing, TreeReader};
use crate::objects::ObjectError;
use crate::visible_meta;

/// The rules through which a tree is read.
#[derive(Clone)]
pub(super) struct RuleScope {
    rules: Rules,
    shows_all: bool,
}

impl RuleScope {
    pub(super) fn root(&self, labels: &Labels) -> RuleState {
        self.rules.root(labels)
    }

    pub(super) fn child(&self, above: &RuleState, name: &[u8], entry: &Entry) -> RuleState {
        self.rules.child(above, name, &entry.meta.labels)
    }

    pub(super) fn is_visible(&self, rule_state: &RuleState, entry: &Entry) -> bool {
        rule_state.level() > Level::None || entry.is_directory() && self.rules.is_passable(rule_state)
    }

    fn meta(&self, rule_state: &RuleState, entry: &Entry) -> avfs_core::Meta {
        let meta = &entry.meta;
        let level = rule_state.level();
        let mut visible = if !entry.is_directory() {
            visible_meta::file_meta(meta, level)
        } else if level == Level::None {
            visible_meta::passable_meta(meta)
        } else {
            let takes_names = level >= Level::Append || self.rules.is_any_below(rule_state, Level::Append);
            visible_meta::directory_meta(meta, takes_names)
        };
        if level < Level::Read {
            visible.xattrs = Xattrs::default();
        }
        // A caller that puts the entry elsewhere must preserve its labels; they are never displayed.
        visible.labels = meta.labels.clone();
        visible
    }
}

impl TreeReader {
    /// The same tree filtered by rules.
    pub fn through(&self, rules: Rules) -> TreeReader {
        let shows_all = visible_meta::shows_all(&rules);
        TreeReader {
            scope: Some(RuleScope { rules, shows_all }),
            ..self.clone()
        }
    }

    /// The same tree without rules.
    pub fn unrestricted(&self) -> TreeReader {
        TreeReader {
            scope: None,
            ..self.clone()
        }
    }

    /// Whether it reads through rules.
    pub fn has_rules(&self) -> bool {
        self.scope.is_some()
    }

    /// The entry at `path`; unless it is a directory, the rules must allow reading it.
    pub fn find_readable(&self, path: &TreePath) -> Result<FoundEntry, ReadError> {
        let found = self.find(path)?;
        if found.level < Level::Read && !found.entry.is_directory() {
            Err(denied(path, found.level))
        } else {
            Ok(found)
        }
    }

    /// The totals of the tree; `None` if something may be hidden.
    pub fn totals(&self) -> Option<Totals> {
        match &self.scope {
            Some(scope) if !scope.shows_all => None,
            Some(_) | None => Some(self.root.totals),
        }
    }

    /// The part of a visible entry that the rules show.
    pub(super) fn as_visible(
        &self,
        found: FoundEntry,
        rule_state: Option<RuleState>,
    ) -> Result<FoundEntry, ObjectError> {
        let (Some(scope), Some(rule_state)) = (&self.scope, rule_state) else {
            return Ok(found);
        };
        let level = rule_state.level();
        let meta = scope.meta(&rule_state, &found.entry);
        let kind = match found.entry.kind {
            EntryKind::File { size, .. } if level < Level::Read => EntryKind::File {
                size,
                content: Content::Empty,
            },
            EntryKind::Symlink { .. } if level < Level::Read => EntryKind::Symlink {
                target: Box::default(),
            },
            EntryKind::Directory { entries, .. } if !scope.shows_all => {
                let is_empty = self
                    .listing(&TreePath::root(), entries, Some(rule_state))?
                    .has_nothing()?;
                let entries = entries.filter(|_| !is_empty);
                EntryKind::Directory {
                    entries,
                    below: Totals::default(),
                }
            }
            kind => kind,
        };
        let link = found
            .link
            .map(|(id, names)| (id, if scope.shows_all { names } else { 1 }));
        Ok(FoundEntry {
            entry: Entry { meta, kind },
            link,
            level,
        })
    }
}

impl TreeListing<'_> {
    /// Whether nothing in it is visible.
    fn has_nothing(&mut self) -> Result<bool, ObjectError> {
        Ok(self.next_visible()?.is_none())
    }
}

pub(super) fn denied(path: &TreePath, level: Level) -> ReadError {
    ReadError::Denied {
        path: path.clone(),
        level,
        needed: Level::Read,
    }
}
