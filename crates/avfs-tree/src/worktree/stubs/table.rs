//! Stubs by number, in as little memory as they can be: there is one for each file that a kernel knows.

use avfs_core::EntryName;

use crate::inodes::{Ino, InoMap, give_room_back};
use crate::op::Place;

/// Where a file is and how often doors know it, in one allocation: the holds, the directory, the name.
#[derive(Debug)]
pub(super) struct Stub(Box<[u8]>);

const HOLDS: usize = size_of::<u32>();
const PARENT: usize = size_of::<u64>();
const HEAD: usize = HOLDS + PARENT;

impl Stub {
    pub fn new(place: &Place, holds: u32) -> Stub {
        let name = place.name.as_bytes();
        let mut bytes = Vec::with_capacity(HEAD + name.len());
        bytes.extend_from_slice(&holds.to_ne_bytes());
        bytes.extend_from_slice(&place.parent.0.to_ne_bytes());
        bytes.extend_from_slice(name);
        Stub(bytes.into())
    }

    pub fn holds(&self) -> u32 {
        let (holds, _) = self.0.split_first_chunk::<HOLDS>().expect("a stub begins with its holds");
        u32::from_ne_bytes(*holds)
    }

    pub fn set_holds(&mut self, holds: u32) {
        self.0[..HOLDS].copy_from_slice(&holds.to_ne_bytes());
    }

    pub fn parent(&self) -> Ino {
        let (parent, _) = self.0[HOLDS..].split_first_chunk::<PARENT>().expect("the directory follows");
        Ino(u64::from_ne_bytes(*parent))
    }

    pub fn place(&self) -> Place {
        Place::new(self.parent(), EntryName::new(&self.0[HEAD..]).expect("a stub is made with a name"))
    }

    pub fn is_at(&self, place: &Place) -> bool {
        self.parent() == place.parent && self.0[HEAD..] == *place.name.as_bytes()
    }
}

/// A table that grows moves all that is in it, and requests wait meanwhile; in parts it is never much.
const PARTS: usize = 64;

#[derive(Debug)]
pub(super) struct StubTable {
    parts: [InoMap<Stub>; PARTS],
}

impl Default for StubTable {
    fn default() -> StubTable {
        StubTable { parts: std::array::from_fn(|_| InoMap::default()) }
    }
}

impl StubTable {
    pub fn get(&self, ino: Ino) -> Option<&Stub> {
        self.parts[part(ino)].get(&ino)
    }

    pub fn get_mut(&mut self, ino: Ino) -> Option<&mut Stub> {
        self.parts[part(ino)].get_mut(&ino)
    }

    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(InoMap::is_empty)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Ino, &Stub)> {
        self.parts.iter().flatten().map(|(ino, stub)| (*ino, stub))
    }

    pub fn insert(&mut self, ino: Ino, stub: Stub) {
        self.parts[part(ino)].insert(ino, stub);
    }

    pub fn remove(&mut self, ino: Ino) -> Option<Stub> {
        let part = &mut self.parts[part(ino)];
        let removed = part.remove(&ino);
        give_room_back(part);
        removed
    }
}

/// Inode numbers are hashes: any of their bits will do.
fn part(ino: Ino) -> usize {
    ino.0 as usize % PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_gives_back_what_it_was_made_of() {
        let at = |parent: u64, name: &[u8]| Place::new(Ino(parent), EntryName::new(name).unwrap());
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
        let place = Place::new(Ino::ROOT, EntryName::new(b"file").unwrap());
        (1..=100_000).for_each(|ino| table.insert(Ino(ino), Stub::new(&place, 1)));
        (1..=100_000).for_each(|ino| drop(table.remove(Ino(ino)).unwrap()));
        let room: usize = table.parts.iter().map(InoMap::capacity).sum();
        assert!(room <= PARTS * 32, "room for {room}");
    }
}
