//! Reading directories, with cookies that survive concurrent changes.
//!
//! A cookie is the number of the name that was handed out last; reading goes on behind that name, in the order of
//! names. So names that are added or removed meanwhile make no other name come twice or not at all.

mod numbers;

use std::sync::PoisonError;

use avfs_core::EntryName;
use avfs_tree::{Attr, Ino, Kind};

pub(super) use self::numbers::DirectoryHandles;
use self::numbers::{AT_ONCE, Numbers};
use super::attributes::{format, no_entry};
use super::deferring::Outcome;
use super::error::SkinError;
use super::{Access, Skin};
use crate::abi::ReadIn;
use crate::reply::{Listing, Reply};
use crate::request::Request;

/// `.` and `..` have the first two cookies.
const DOTS: u64 = 2;
/// The kind of a directory entry that is a directory.
const DIRECTORY: u32 = 4;

impl Skin {
    pub(super) fn read_directory<'a>(
        &self,
        request: &Request<'_>,
        read: &ReadIn,
        plus: bool,
        reply: Reply<'a>,
    ) -> Outcome<'a> {
        let answered = reply.listed(read.size as usize, |listing| {
            match self.list(request, read, plus, listing) {
                // The kernel comes back for the rest.
                Err(error) if error.wanted().is_some() && !listing.is_empty() => Ok(()),
                listed => listed,
            }
        });
        answered.or_else(|(reply, error)| self.refuse(request, reply, error))
    }

    fn list(
        &self,
        request: &Request<'_>,
        read: &ReadIn,
        plus: bool,
        listing: &mut Listing<'_>,
    ) -> Result<(), SkinError> {
        let ino = self.ino(request)?;
        // What is done where a directory is opened, if it is.
        if read.fh == 0 && read.offset == 0 {
            self.before_listing(ino)?;
        }
        let numbers = self.directories.get(read.fh, ino);
        // What a panic left is a list of names like any other.
        let mut numbers = numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if read.offset == 0 {
            if read.fh == 0 { numbers.begin() } else { numbers.clear() }
        }
        // If those may not be told, the kernel asks for each of them.
        let with_attributes = plus && !self.keeps_early() && self.may_be_entered(request.caller, ino)?;
        let format = Format { plus, with_attributes };
        let listed = self.list_from(ino, read.offset, format, &mut numbers, listing);
        self.note_listing(ino, read.offset, with_attributes, numbers.len());
        if read.fh == 0 {
            self.directories.grown(ino, numbers.len());
        }
        if matches!(listed, Ok(Listed::ToTheEnd)) && self.options.access == Access::Past {
            // Where nothing changes, names have the same numbers again.
            self.directories.forget(ino);
        }
        listed.map(|_| ())
    }

    fn list_from(
        &self,
        ino: Ino,
        offset: u64,
        format: Format,
        numbers: &mut Numbers,
        listing: &mut Listing<'_>,
    ) -> Result<Listed, SkinError> {
        let Format { plus, with_attributes } = format;
        let mut before = usize::try_from(offset.saturating_sub(DOTS)).unwrap_or(usize::MAX);
        numbers.fill(&self.tree, ino, before)?;
        before = before.min(numbers.len());
        let mut as_of = self.notices.news();
        // Before the dots: a listing of those alone makes the kernel go on without attributes, and ask for each of them.
        let mut entries = self.entries(ino, numbers.name(before), with_attributes)?;
        let dots = self.list_dots(ino, offset, plus, listing);
        if !matches!(dots, Ok(true)) {
            entries.iter().for_each(|entry| self.give_entry_back(entry));
            return dots.map(|_| Listed::InPart);
        }
        loop {
            let is_last = entries.len() < AT_ONCE;
            let mut piece = entries.into_iter();
            for entry in piece.by_ref() {
                let number = numbers.number(before, entry.name());
                let listed = self.list_entry(&entry, number as u64 + DOTS, as_of, plus, listing);
                if !matches!(listed, Ok(true)) {
                    piece.for_each(|entry| self.give_entry_back(&entry));
                    return listed.map(|_| Listed::InPart);
                }
                before = number;
            }
            if is_last {
                return Ok(Listed::ToTheEnd);
            }
            as_of = self.notices.news();
            entries = self.entries(ino, numbers.name(before), with_attributes)?;
        }
    }

    fn entries(
        &self,
        ino: Ino,
        after: Option<&EntryName>,
        with_attributes: bool,
    ) -> Result<Vec<Entry>, SkinError> {
        Ok(match with_attributes {
            true => {
                let entries = self.tree.read_directory(ino, after, AT_ONCE)?;
                entries.into_iter().map(|(name, attr)| Entry::Plus(name, attr)).collect()
            }
            false => {
                let entries = self.tree.read_names(ino, after, AT_ONCE)?;
                entries.into_iter().map(|(name, ino, kind)| Entry::Plain(name, ino, kind)).collect()
            }
        })
    }

    /// The tree counts as told what it has given us.
    fn give_entry_back(&self, entry: &Entry) {
        if let Entry::Plus(_, attr) = entry {
            self.give_back(attr.ino);
        }
    }

    /// Returns whether there was room.
    fn list_dots(
        &self,
        ino: Ino,
        offset: u64,
        plus: bool,
        listing: &mut Listing<'_>,
    ) -> Result<bool, SkinError> {
        for (cookie, name) in [(1, &b"."[..]), (2, b"..")] {
            if offset >= cookie {
                continue;
            }
            let node = if cookie == 1 { ino } else { self.tree.parent(ino)? };
            let fits = match plus {
                true => listing.add_plus(node.0, cookie, DIRECTORY, name, &no_entry()),
                false => listing.add(node.0, cookie, DIRECTORY, name),
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether there was room. An entry with attributes counts as looked up, and is given back if it
    /// was not listed.
    fn list_entry(
        &self,
        entry: &Entry,
        cookie: u64,
        as_of: u64,
        plus: bool,
        listing: &mut Listing<'_>,
    ) -> Result<bool, SkinError> {
        match entry {
            Entry::Plus(name, attr) if !listing.has_room_plus(name.as_bytes()) => {
                self.give_back(attr.ino);
                Ok(false)
            }
            Entry::Plus(name, attr) => {
                let shown = self.kept_if_true(self.remembered(attr)?, as_of);
                Ok(listing.add_plus(attr.ino.0, cookie, format(attr.kind) >> 12, name.as_bytes(), &shown))
            }
            Entry::Plain(name, ino, kind) => {
                let (kind, name) = (format(*kind) >> 12, name.as_bytes());
                Ok(match plus {
                    true => listing.add_plus(ino.0, cookie, kind, name, &no_entry()),
                    false => listing.add(ino.0, cookie, kind, name),
                })
            }
        }
    }
}

/// How entries are listed: with room for attributes, and with those.
#[derive(Clone, Copy)]
struct Format {
    plus: bool,
    with_attributes: bool,
}

/// How far a listing came.
enum Listed {
    InPart,
    ToTheEnd,
}

/// An entry of a directory, with or without attributes.
enum Entry {
    Plus(EntryName, Attr),
    Plain(EntryName, Ino, Kind),
}

impl Entry {
    fn name(&self) -> &EntryName {
        match self {
            Entry::Plus(name, _) | Entry::Plain(name, ..) => name,
        }
    }
}
