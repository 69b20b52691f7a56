//! The calls that a program makes, on few names and few descriptors, so that they interact.
//!
//! Left out, because a mount differs there from the disks of hosts, or they from each other: `O_TMPFILE` and
//! zeroing ranges (not all support them), `O_DIRECT` (each has its own alignment), positions in directories
//! (each has its own cookies), special files (opening them waits), and names outside of the directory.

use proptest::prelude::*;
use proptest::sample::select;
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, RenameFlags, SeekFrom, XattrFlags};

/// The maximum number of descriptors.
pub const SLOTS: usize = 4;

/// The slot in which a descriptor is opened; other calls use the nearest open one.
pub type Slot = usize;

/// A name in the directory, which may by now be a file, a directory, a symbolic link or missing.
pub type Name = &'static str;

const NAMES: &[Name] = &[
    "a", "b", "c", "d", "d/a", "d/b", "d/d", "d/d/a", "e", "e/a", "e/d", "e/d/a",
];
const TARGETS: &[&str] = &["a", "b", "d", "d/a", "e/d", ".", "nowhere"];
const ATTRIBUTES: &[&str] = &["user.one", "user.two"];
const MODES: &[u32] = &[0o644, 0o755, 0o600, 0o444, 0o777, 0o2775, 0o4755, 0o1777];

/// The same byte many times.
#[derive(Debug, Clone, Copy)]
pub struct Filling {
    pub byte: u8,
    pub length: usize,
}

#[derive(Debug, Clone)]
pub enum Call {
    Open(Slot, Name, OFlags, u32),
    Close(Slot),
    Dup(Slot, Slot),
    Read(Slot, usize),
    ReadAt(Slot, u64, usize),
    Write(Slot, Filling),
    WriteAt(Slot, u64, Filling),
    Map(Slot, u64, Filling),
    Seek(Slot, SeekFrom),
    FindData(Slot, u64),
    FindHole(Slot, u64),
    SetLength(Slot, u64),
    Allocate(Slot, FallocateFlags, u64, u64),
    Copy(Slot, u64, Slot, u64, usize),
    Sync(Slot),
    SyncData(Slot),
    Lock(Slot, FlockOperation),
    StatOpen(Slot),
    Truncate(Name, u64),
    MakeDirectory(Name, u32),
    RemoveDirectory(Name),
    Unlink(Name),
    Rename(Name, Name, RenameFlags),
    Link(Name, Name),
    Symlink(&'static str, Name),
    ReadLink(Name),
    List(Name),
    Stat(Name),
    StatLink(Name),
    SetMode(Name, u32),
    SetOwner(Name, u32, u32),
    SetTime(Name, u32),
    SetAttribute(Name, &'static str, Vec<u8>, XattrFlags),
    Attribute(Name, &'static str),
    RemoveAttribute(Name, &'static str),
    /// Only for the vault: the host has no equivalent.
    Snapshot,
    /// Everything is closed, and reloaded from the tree or the store.
    MountAgain,
}

/// The initial contents: an entry of each kind, so that most calls find an object.
pub fn first_calls() -> Vec<Call> {
    let read_and_write = OFlags::CREATE | OFlags::RDWR;
    let some = Filling {
        byte: b'.',
        length: 3000,
    };
    let more = Filling {
        byte: b'-',
        length: 50_000,
    };
    vec![
        Call::MakeDirectory("d", 0o755),
        Call::MakeDirectory("d/d", 0o755),
        Call::MakeDirectory("e", 0o755),
        Call::Symlink("d", "c"),
        Call::Open(0, "a", read_and_write, 0o644),
        Call::Write(0, some),
        Call::Link("a", "d/a"),
        Call::Open(1, "d/d/a", read_and_write | OFlags::APPEND, 0o600),
        Call::Write(1, more),
        Call::SetAttribute("d/d/a", "user.one", b"1".to_vec(), XattrFlags::CREATE),
    ]
}

/// Calls, each with the door through which it is made.
pub fn calls(doors: usize) -> impl Strategy<Value = Vec<(usize, Call)>> {
    let call = prop_oneof![
        30 => opening(), 60 => contents(), 40 => lengths(), 30 => descriptors(), 60 => names(), 40 => attributes(),
        6 => Just(Call::Snapshot), 1 => Just(Call::MountAgain),
    ];
    proptest::collection::vec((0..doors, call), 1..100)
}

fn opening() -> impl Strategy<Value = Call> {
    let access = select(vec![OFlags::RDWR, OFlags::RDONLY, OFlags::WRONLY]);
    let creating = select(vec![
        OFlags::CREATE,
        OFlags::CREATE,
        OFlags::empty(),
        OFlags::CREATE | OFlags::EXCL,
        OFlags::EXCL,
    ]);
    let rarer = [
        OFlags::TRUNC,
        OFlags::APPEND,
        OFlags::NOFOLLOW,
        OFlags::DIRECTORY,
        OFlags::SYNC,
    ];
    let more = proptest::collection::vec(select(rarer.to_vec()), 0..2);
    let flags = (access, creating, more).prop_map(|(access, creating, more)| {
        more.into_iter().fold(access | creating, |all, flag| all | flag)
    });
    (slot(), name(), flags, mode()).prop_map(|(slot, name, flags, mode)| Call::Open(slot, name, flags, mode))
}

fn contents() -> impl Strategy<Value = Call> {
    prop_oneof![
        (slot(), length()).prop_map(|(slot, length)| Call::Read(slot, length)),
        (slot(), offset(), length()).prop_map(|(slot, offset, length)| Call::ReadAt(slot, offset, length)),
        (slot(), filling()).prop_map(|(slot, filling)| Call::Write(slot, filling)),
        (slot(), offset(), filling())
            .prop_map(|(slot, offset, filling)| Call::WriteAt(slot, offset, filling)),
        (slot(), offset(), filling()).prop_map(|(slot, offset, filling)| Call::Map(slot, offset, filling)),
        (slot(), offset(), slot(), offset(), length())
            .prop_map(|(from, at, to, there, length)| Call::Copy(from, at, to, there, length)),
    ]
}

fn lengths() -> impl Strategy<Value = Call> {
    let flags = select(vec![
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        FallocateFlags::KEEP_SIZE,
        FallocateFlags::empty(),
    ]);
    prop_oneof![
        (slot(), offset()).prop_map(|(slot, length)| Call::SetLength(slot, length)),
        (name(), offset()).prop_map(|(name, length)| Call::Truncate(name, length)),
        (slot(), flags, offset(), offset())
            .prop_map(|(slot, flags, offset, length)| Call::Allocate(slot, flags, offset, length)),
        (slot(), offset()).prop_map(|(slot, from)| Call::FindData(slot, from)),
        (slot(), offset()).prop_map(|(slot, from)| Call::FindHole(slot, from)),
    ]
}

fn descriptors() -> impl Strategy<Value = Call> {
    let position = prop_oneof![
        offset().prop_map(SeekFrom::Start),
        (-5000..5000i64).prop_map(SeekFrom::End),
        (-5000..5000i64).prop_map(SeekFrom::Current),
    ];
    let operation = select(vec![
        FlockOperation::NonBlockingLockExclusive,
        FlockOperation::NonBlockingLockShared,
        FlockOperation::NonBlockingUnlock,
    ]);
    prop_oneof![
        slot().prop_map(Call::Close),
        (slot(), slot()).prop_map(|(from, to)| Call::Dup(from, to)),
        (slot(), position).prop_map(|(slot, position)| Call::Seek(slot, position)),
        slot().prop_map(Call::Sync),
        slot().prop_map(Call::SyncData),
        (slot(), operation).prop_map(|(slot, operation)| Call::Lock(slot, operation)),
        slot().prop_map(Call::StatOpen),
    ]
}

fn names() -> impl Strategy<Value = Call> {
    let flags = select(vec![
        RenameFlags::empty(),
        RenameFlags::NOREPLACE,
        RenameFlags::EXCHANGE,
    ]);
    prop_oneof![
        4 => (name(), mode()).prop_map(|(name, mode)| Call::MakeDirectory(name, mode)),
        2 => name().prop_map(Call::RemoveDirectory),
        3 => name().prop_map(Call::Unlink),
        5 => (name(), name(), flags).prop_map(|(from, to, flags)| Call::Rename(from, to, flags)),
        3 => (name(), name()).prop_map(|(from, to)| Call::Link(from, to)),
        2 => (select(TARGETS), name()).prop_map(|(target, name)| Call::Symlink(target, name)),
        1 => name().prop_map(Call::ReadLink),
        2 => name().prop_map(Call::List),
    ]
}

fn attributes() -> impl Strategy<Value = Call> {
    let attribute = || select(ATTRIBUTES);
    let value = proptest::collection::vec(any::<u8>(), 0..20);
    let flags = select(vec![XattrFlags::empty(), XattrFlags::CREATE, XattrFlags::REPLACE]);
    prop_oneof![
        name().prop_map(Call::Stat),
        name().prop_map(Call::StatLink),
        (name(), mode()).prop_map(|(name, mode)| Call::SetMode(name, mode)),
        (name(), 0..3u32, 0..3u32).prop_map(|(name, user, group)| Call::SetOwner(name, user, group)),
        (name(), 1..1000u32).prop_map(|(name, seconds)| Call::SetTime(name, seconds)),
        (name(), attribute(), value, flags)
            .prop_map(|(name, attribute, value, flags)| Call::SetAttribute(name, attribute, value, flags)),
        (name(), attribute()).prop_map(|(name, attribute)| Call::Attribute(name, attribute)),
        (name(), attribute()).prop_map(|(name, attribute)| Call::RemoveAttribute(name, attribute)),
    ]
}

fn slot() -> impl Strategy<Value = Slot> {
    0..SLOTS
}

fn name() -> impl Strategy<Value = Name> {
    select(NAMES)
}

fn mode() -> impl Strategy<Value = u32> {
    select(MODES)
}

/// Mostly in the first pages; some around the size from which files are stored in chunks.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..100u64,
        6 => 0..20_000u64,
        3 => (0..8u64).prop_map(|page| page * 4096),
        1 => (1u64 << 20) - 5000..(1 << 20) + 5000,
    ]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..100usize, 4 => 0..10_000usize, 1 => 0..300_000usize]
}

fn filling() -> impl Strategy<Value = Filling> {
    (1..=255u8, length()).prop_map(|(byte, length)| Filling { byte, length })
}
