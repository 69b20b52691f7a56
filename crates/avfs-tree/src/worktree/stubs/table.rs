//! Stubs by number, as compact as possible: there is one for each file that a kernel knows.

use avfs_core::EntryName;

use crate::inodes::{Ino, InoMap, give_room_back};
use crate::op::EntryPlace;

/// The place of a file and the number of its holds, in one allocation: the holds, the directory, the name.
#[derive(Debug)]
pub(super) struct Stub(Box<[u8]>);

const HOLDS: usize = size_of::<u32>();
const PARENT: usize = size_of::<u64>();
const HEAD: usize = HOLDS + PARENT;

impl Stub {
    pub(super) fn new(place: &EntryPlace, holds: u32) -> Stub {
        let name = place.name.as_bytes();
        let mut bytes = Vec::with_capacity(HEAD + name.len());
        bytes.extend_from_slice(&holds.to_ne_bytes());
        bytes.extend_from_slice(&place.parent.0.to_ne_bytes());
        bytes.extend_from_slice(name);
        Stub(bytes.into())
    }

    pub(super) fn holds(&self) -> u32 {
        let (holds, _) = self
            .0
            .split_first_chunk::<HOLDS>()
            .expect("a stub begins with its holds");
        u32::from_ne_bytes(*holds)
    }

    pub(super) fn set_holds(&mut self, holds: u32) {
        self.0[..HOLDS].copy_from_slice(&holds.to_ne_bytes());
    }

    pub(super) fn parent(&self) -> Ino {
        let (parent, _) = self.0[HOLDS..]
            .split_first_chunk::<PARENT>()
            .expect("the directory follows");
        Ino(u64::from_ne_bytes(*parent))
    }

    pub(super) fn place(&self) -> EntryPlace {
        EntryPlace::new(
            self.parent(),
            EntryName::new(&self.0[HEAD..]).expect("a stub is made with a name"),
        )
    }

    pub(super) fn is_at(&self, place: &EntryPlace) -> bool {
        self.parent() == place.parent && self.0[HEAD..] == *place.name.as_bytes()
    }
}

/// A growing table moves all its items, and requests wait meanwhile; in parts, each move is small.
const PARTS: usize = 64;

#[derive(Debug)]
pub(super) struct StubTable {
    parts: [InoMap<Stub>; PARTS],
}

impl Default for StubTable {
    fn default() -> StubTable {
        StubTable {
            parts: std::array::from_fn(|_| InoMap::default()),
        }
    }
}

impl StubTable {
    pub(super) fn get(&self, ino: Ino) -> Option<&Stub> {
        self.parts[part(ino)].get(&ino)
    }

    pub(super) fn get_mut(&mut self, ino: Ino) -> Option<&mut Stub> {
        self.parts[part(ino)].get_mut(&ino)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.iter().all(InoMap::is_empty)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ino, &Stub)> {
        self.parts.iter().flatten().map(|(ino, stub)| (*ino, stub))
    }

    pub(super) fn insert(&mut self, ino: Ino, stub: Stub) {
        self.parts[part(ino)].insert(ino, stub);
    }

    pub(super) fn remove(&mut self, ino: Ino) -> Option<Stub> {
        let part = &mut self.parts[part(ino)];
        let removed = part.remove(&ino);
        give_room_back(part);
        removed
    }
}

/// Inode numbers are hashes: any of their bits work.
fn part(ino: Ino) -> usize {
    ino.0 as usize % PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_gives_back_what_it_was_made_of() {
        let at = |parent: u64, name: &[u8]| EntryPlace::new(Ino(parent), EntryName::new(name).unwrap());
        for place in [at(1, b"a"), at(u64::MAX, &[b'x'; 255]), at(7, b"\xff\xfe")] {
            let mut stub = Stub::new(&place, 3);
            assert_eq!((stub.holds(), stub.place()), (3, place.clone()));
            stub.set_holds(u32::MAX);
            assert_eq!((stub.holds(), stub.place()), (u32::MAX, place.clone()));
            assert!(stub.is_at(&place));
            assert!(!stub.is_at(&at(place.parent.0, b"another")));
            assert!(!stub.is_at(&at(2, place.name.as_bytes())));
        }
    }

    #[test]
    fn an_emptied_table_keeps_no_room() {
        let mut table = StubTable::default();
        let place = EntryPlace::new(Ino::ROOT, EntryName::new(b"file").unwrap());
        (1..=100_000).for_each(|ino| table.insert(Ino(ino), Stub::new(&place, 1)));
        (1..=100_000).for_each(|ino| drop(table.remove(Ino(ino)).unwrap()));
        let room: usize = table.parts.iter().map(InoMap::capacity).sum();
        assert!(room <= PARTS * 32, "room for {room}");
    }
}
