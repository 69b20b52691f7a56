//! Reading directories, with cookies that survive concurrent changes.
//!
//! A cookie is the number of the name that was listed last; reading continues after that name, in the order
//! of names. So names that are added or removed meanwhile do not make another name appear twice or not at
//! all.

mod numbers;

use std::sync::PoisonError;

use avfs_core::EntryName;
use avfs_tree::{Attr, Ino, InodeKind};

pub(super) use self::numbers::DirectoryHandles;
use self::numbers::{AT_ONCE, NameNumbers};
use super::attributes::{format, no_entry};
use super::deferring::ServeResult;
use super::error::SkinError;
use super::{MountAccess, Skin};
use crate::abi::ReadIn;
use crate::reply::{FuseReply, ListingReply};
use crate::request::FuseRequest;

/// `.` and `..` have the first two cookies.
const DOTS: u64 = 2;
/// The kind of a directory entry that is a directory.
const DIRECTORY: u32 = 4;

/// Requests for the entries of directories.
pub(super) struct DirectoryRequests<'a> {
    pub(super) skin: &'a Skin,
}

impl DirectoryRequests<'_> {
    pub(super) fn read_directory<'a>(
        &self,
        request: &FuseRequest<'_>,
        read: &ReadIn,
        plus: bool,
        reply: FuseReply<'a>,
    ) -> ServeResult<'a> {
        let answered = reply.listed(read.size as usize, |listing| {
            match self.list(request, read, plus, listing) {
                // The kernel requests the rest later.
                Err(error) if error.wanted().is_some() && !listing.is_empty() => Ok(()),
                listed => listed,
            }
        });
        answered.or_else(|(reply, error)| self.skin.refuse(request, reply, error))
    }

    fn list(
        &self,
        request: &FuseRequest<'_>,
        read: &ReadIn,
        plus: bool,
        listing: &mut ListingReply<'_>,
    ) -> Result<(), SkinError> {
        let ino = self.skin.ino(request)?;
        // The check that opening a directory would make, if it was opened.
        if read.fh == 0 && read.offset == 0 {
            self.skin.names().before_listing(ino)?;
        }
        let numbers = self.skin.directories.get(read.fh, ino);
        // A list of names that a panic left is as good as any other.
        let mut numbers = numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if read.offset == 0 {
            if read.fh == 0 {
                numbers.begin()
            } else {
                numbers.clear()
            }
        }
        // If attributes may not be reported, the kernel looks each name up.
        let with_attributes =
            plus && !self.skin.keeps_early() && self.skin.modes().may_be_entered(request.caller, ino)?;
        let format = EntryFormat {
            plus,
            with_attributes,
        };
        let listed = self.list_from(ino, read.offset, format, &mut numbers, listing);
        self.note_listing(ino, read.offset, with_attributes, numbers.len());
        if read.fh == 0 {
            self.skin.directories.grown(ino, numbers.len());
        }
        if matches!(listed, Ok(ListedUpTo::ToTheEnd)) && self.skin.options.access == MountAccess::Past {
            // If nothing changes, names get the same numbers again.
            self.skin.directories.forget(ino);
        }
        listed.map(|_| ())
    }

    fn list_from(
        &self,
        ino: Ino,
        offset: u64,
        format: EntryFormat,
        numbers: &mut NameNumbers,
        listing: &mut ListingReply<'_>,
    ) -> Result<ListedUpTo, SkinError> {
        let EntryFormat {
            plus,
            with_attributes,
        } = format;
        let mut before = usize::try_from(offset.saturating_sub(DOTS)).unwrap_or(usize::MAX);
        numbers.fill(&self.skin.tree, ino, before)?;
        before = before.min(numbers.len());
        let mut as_of = self.skin.notices.news();
        // Before the dots: a listing that contains only the dots makes the kernel continue without
        // attributes, and look each name up.
        let mut entries = self.entries(ino, numbers.name(before), with_attributes)?;
        let dots = self.list_dots(ino, offset, plus, listing);
        if !matches!(dots, Ok(true)) {
            entries.iter().for_each(|entry| self.give_entry_back(entry));
            return dots.map(|_| ListedUpTo::InPart);
        }
        loop {
            let is_last = entries.len() < AT_ONCE;
            let mut piece = entries.into_iter();
            for entry in piece.by_ref() {
                let number = numbers.number(before, entry.name());
                let listed = self.list_entry(&entry, number as u64 + DOTS, as_of, plus, listing);
                if !matches!(listed, Ok(true)) {
                    piece.for_each(|entry| self.give_entry_back(&entry));
                    return listed.map(|_| ListedUpTo::InPart);
                }
                before = number;
            }
            if is_last {
                return Ok(ListedUpTo::ToTheEnd);
            }
            as_of = self.skin.notices.news();
            entries = self.entries(ino, numbers.name(before), with_attributes)?;
        }
    }

    fn entries(
        &self,
        ino: Ino,
        after: Option<&EntryName>,
        with_attributes: bool,
    ) -> Result<Vec<DirectoryEntry>, SkinError> {
        Ok(if with_attributes {
            let entries = self.skin.tree.read_directory(ino, after, AT_ONCE)?;
            entries
                .into_iter()
                .map(|(name, attr)| DirectoryEntry::Plus(name, attr))
                .collect()
        } else {
            let entries = self.skin.tree.read_names(ino, after, AT_ONCE)?;
            entries
                .into_iter()
                .map(|(name, ino, kind)| DirectoryEntry::Plain(name, ino, kind))
                .collect()
        })
    }

    /// The tree counts an entry that it returned as held: releases it.
    fn give_entry_back(&self, entry: &DirectoryEntry) {
        if let DirectoryEntry::Plus(_, attr) = entry {
            self.skin.attributes().give_back(attr.ino);
        }
    }

    /// Returns whether there was room.
    fn list_dots(
        &self,
        ino: Ino,
        offset: u64,
        plus: bool,
        listing: &mut ListingReply<'_>,
    ) -> Result<bool, SkinError> {
        for (cookie, name) in [(1, &b"."[..]), (2, b"..")] {
            if offset >= cookie {
                continue;
            }
            let node = if cookie == 1 {
                ino
            } else {
                self.skin.tree.parent(ino)?
            };
            let fits = if plus {
                listing.add_plus(node.0, cookie, DIRECTORY, name, &no_entry())
            } else {
                listing.add(node.0, cookie, DIRECTORY, name)
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether there was room. An entry with attributes counts as looked up, and is released if it
    /// was not listed.
    fn list_entry(
        &self,
        entry: &DirectoryEntry,
        cookie: u64,
        as_of: u64,
        plus: bool,
        listing: &mut ListingReply<'_>,
    ) -> Result<bool, SkinError> {
        match entry {
            DirectoryEntry::Plus(name, attr) if !listing.has_room_plus(name.as_bytes()) => {
                self.skin.attributes().give_back(attr.ino);
                Ok(false)
            }
            DirectoryEntry::Plus(name, attr) => {
                let shown = self
                    .skin
                    .kept_if_true(self.skin.attributes().remembered(attr)?, as_of);
                Ok(listing.add_plus(
                    attr.ino.0,
                    cookie,
                    format(attr.kind) >> 12,
                    name.as_bytes(),
                    &shown,
                ))
            }
            DirectoryEntry::Plain(name, ino, kind) => {
                let kind = format(*kind) >> 12;
                let name = name.as_bytes();
                Ok(if plus {
                    listing.add_plus(ino.0, cookie, kind, name, &no_entry())
                } else {
                    listing.add(ino.0, cookie, kind, name)
                })
            }
        }
    }
}

/// The format of entries: with space for attributes, and with the attributes.
#[derive(Clone, Copy)]
struct EntryFormat {
    plus: bool,
    with_attributes: bool,
}

/// How far a listing got.
enum ListedUpTo {
    InPart,
    ToTheEnd,
}

/// An entry of a directory, with or without attributes.
enum DirectoryEntry {
    Plus(EntryName, Attr),
    Plain(EntryName, Ino, InodeKind),
}

impl DirectoryEntry {
    fn name(&self) -> &EntryName {
        match self {
            DirectoryEntry::Plus(name, _) | DirectoryEntry::Plain(name, ..) => name,
        }
    }
}
