//! A stored tree seen through rules. What may not be read is not in what is given out: a file without its contents,
//! a link without its target, a directory without its totals.

use avfs_core::rules::{Level, Rules, Standing};
use avfs_core::{Content, Entry, EntryKind, Labels, Totals, TreePath, Xattrs};

use super::{Found, Listing, ReadError, TreeReader};
use crate::objects::ObjectError;
use crate::shown;

#[derive(Clone)]
pub(super) struct Sight {
    rules: Rules,
    shows_all: bool,
}

impl Sight {
    pub(super) fn root(&self, labels: &Labels) -> Standing {
        self.rules.root(labels)
    }

    pub(super) fn child(&self, above: &Standing, name: &[u8], entry: &Entry) -> Standing {
        self.rules.child(above, name, &entry.meta.labels)
    }

    pub(super) fn is_visible(&self, standing: &Standing, entry: &Entry) -> bool {
        standing.level() > Level::None || entry.is_directory() && self.rules.is_passable(standing)
    }

    fn meta(&self, standing: &Standing, entry: &Entry) -> avfs_core::Meta {
        let (meta, level) = (&entry.meta, standing.level());
        let mut shown = match entry.is_directory() {
            true if level == Level::None => shown::passable_meta(meta),
            true => {
                let takes_names = level >= Level::Append || self.rules.is_any_below(standing, Level::Append);
                shown::directory_meta(meta, takes_names)
            }
            false => shown::file_meta(meta, level),
        };
        if level < Level::Read {
            shown.xattrs = Xattrs::default();
        }
        // Whoever puts the entry somewhere else must not lose them; nobody is shown them.
        shown.labels = meta.labels.clone();
        shown
    }
}

impl TreeReader {
    /// The same tree as it is seen through rules.
    pub fn through(&self, rules: Rules) -> TreeReader {
        let shows_all = shown::shows_all(&rules);
        TreeReader { sight: Some(Sight { rules, shows_all }), ..self.clone() }
    }

    /// The same tree without rules.
    pub fn unrestricted(&self) -> TreeReader {
        TreeReader { sight: None, ..self.clone() }
    }

    pub fn has_rules(&self) -> bool {
        self.sight.is_some()
    }

    /// The entry at `path`; if it is not a directory, it must be one that may be read.
    pub fn find_readable(&self, path: &TreePath) -> Result<Found, ReadError> {
        let found = self.find(path)?;
        match found.level < Level::Read && !found.entry.is_directory() {
            true => Err(denied(path, found.level)),
            false => Ok(found),
        }
    }

    /// What the tree holds in all; `None` where something may be hidden.
    pub fn totals(&self) -> Option<Totals> {
        match &self.sight {
            Some(sight) if !sight.shows_all => None,
            Some(_) | None => Some(self.root.totals),
        }
    }

    /// What is told of something that is visible.
    pub(super) fn shown(&self, found: Found, standing: Option<Standing>) -> Result<Found, ObjectError> {
        let (Some(sight), Some(standing)) = (&self.sight, standing) else { return Ok(found) };
        let level = standing.level();
        let meta = sight.meta(&standing, &found.entry);
        let kind = match found.entry.kind {
            EntryKind::File { size, .. } if level < Level::Read => {
                EntryKind::File { size, content: Content::Empty }
            }
            EntryKind::Symlink { .. } if level < Level::Read => EntryKind::Symlink { target: Box::default() },
            EntryKind::Directory { entries, .. } if !sight.shows_all => {
                let is_empty = self.listing(&TreePath::root(), entries, Some(standing))?.has_nothing()?;
                let entries = entries.filter(|_| !is_empty);
                EntryKind::Directory { entries, below: Totals::default() }
            }
            kind => kind,
        };
        let link = found.link.map(|(id, names)| (id, if sight.shows_all { names } else { 1 }));
        Ok(Found { entry: Entry { meta, kind }, link, level })
    }
}

impl Listing<'_> {
    /// Whether nothing in it is visible.
    fn has_nothing(&mut self) -> Result<bool, ObjectError> {
        Ok(self.next_visible()?.is_none())
    }
}

pub(super) fn denied(path: &TreePath, level: Level) -> ReadError {
    ReadError::Denied { path: path.clone(), level, needed: Level::Read }
}
