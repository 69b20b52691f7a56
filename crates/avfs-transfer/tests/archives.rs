//! Tar archives in and out of a vault, with GNU tar as the judge.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use avfs_core::{EntryKind, Meta, TreePath};
use avfs_transfer::{SkipReason, TarImport, TransferError, export_tar};
use support::*;
use tar::{EntryType, Header};

#[test]
fn these_tests_hold_for_an_ordinary_user_too() {
    again_as_an_ordinary_user("these_tests_hold_for_an_ordinary_user_too");
}

/// Runs GNU tar in `directory`.
fn tar(directory: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("tar")
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tar is installed");
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap()
    });
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    let complaints = complaints
        .lines()
        .filter(|line| !line.contains("implausibly old time stamp"));
    assert_eq!(complaints.collect::<Vec<_>>(), [""; 0]);
    output.stdout
}

#[test]
fn gnu_tar_extracts_an_export_exactly() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    one_of_everything(&from);
    let vault = Place::new();
    let tree = vault.tree(vault.import(&from).unwrap());
    let archive = vault.export_tar(&tree);
    tar(&to, &["--xattrs", "--xattrs-include=*", "-xpf", "-"], &archive);
    assert_same(&facts(&from), &facts(&to));
}

#[test]
fn an_archive_of_a_tree_is_the_tree_and_always_the_same_bytes() {
    let place = tempfile::tempdir().unwrap();
    one_of_everything(place.path());
    let vault = Place::new();
    let tree = vault.tree(vault.import(place.path()).unwrap());
    let archive = vault.export_tar(&tree);
    let again = Place::new();
    assert_eq!(again.import_tar_exactly(&archive), tree);
    assert_eq!(again.export_tar(&tree_in(&again, place.path())), archive);
}

fn tree_in(vault: &Place, from: &Path) -> Tree {
    vault.tree(vault.import(from).unwrap())
}

#[test]
fn an_archive_by_gnu_tar_is_the_directory_in_every_notation_of_holes() {
    let place = tempfile::tempdir().unwrap();
    one_of_everything(place.path());
    let vault = Place::new();
    let tree = tree_in(&vault, place.path());
    for version in ["0.0", "0.1", "1.0"] {
        let sparse = format!("--sparse-version={version}");
        let arguments = [
            "--format=pax",
            "-S",
            &sparse,
            "--xattrs",
            "--xattrs-include=*",
            "--pax-option=delete=atime",
            "-cf",
            "-",
            ".",
        ];
        let archive = tar(place.path(), &arguments, b"");
        assert_eq!(vault.import_tar_exactly(&archive), tree, "{version}");
    }
}

#[test]
fn older_formats_are_read_as_far_as_they_go() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("sub")).unwrap();
    fs::write(place.path().join("sub/file"), b"text").unwrap();
    fs::hard_link(place.path().join("sub/file"), place.path().join("twin")).unwrap();
    for path in ["sub/file", "sub", "."] {
        set_mtime(&place.path().join(path), 1_000_000_000, 0);
    }
    let vault = Place::new();
    let tree = tree_in(&vault, place.path());
    for format in ["v7", "ustar", "oldgnu", "gnu", "posix"] {
        let archive = tar(
            place.path(),
            &[&format!("--format={format}"), "-cf", "-", "."],
            b"",
        );
        assert_eq!(vault.import_tar_exactly(&archive), tree, "{format}");
    }
}

#[test]
fn long_names_and_many_holes_of_the_gnu_format_are_read() {
    let place = tempfile::tempdir().unwrap();
    let pages: Vec<u64> = (0..60).map(|index| index * 3).collect();
    sparse_file(&place.path().join("s".repeat(200)), 200 * 4096, &pages);
    std::os::unix::fs::symlink("t".repeat(200), place.path().join("link")).unwrap();
    for path in ["s".repeat(200), "link".into(), ".".into()] {
        set_mtime(&place.path().join(path), 1_000_000_000, 0);
    }
    let vault = Place::new();
    let archive = tar(place.path(), &["--format=gnu", "-S", "-cf", "-", "."], b"");
    assert_eq!(vault.import_tar_exactly(&archive), tree_in(&vault, place.path()));
}

#[test]
fn a_compressed_archive_is_recognised() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), pattern(100_000)).unwrap();
    let vault = Place::new();
    let archive = tar(place.path(), &["--format=posix", "-czf", "-", "."], b"");
    assert_eq!(archive[..2], [0x1f, 0x8b]);
    assert_eq!(vault.import_tar_exactly(&archive), tree_in(&vault, place.path()));
}

#[test]
fn export_of_a_single_file_makes_an_archive_with_one_entry() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("sub")).unwrap();
    fs::write(place.path().join("sub/file"), b"text").unwrap();
    let vault = Place::new();
    let tree = tree_in(&vault, place.path());
    let mut archive = Vec::new();
    export_tar(&vault.reader(&tree), &path("sub/file"), &mut archive, &()).unwrap();
    let listed = tar(place.path(), &["-tf", "-"], &archive);
    assert_eq!(listed, b"file\n");
}

#[test]
fn sockets_are_left_out_and_reported() {
    let place = tempfile::tempdir().unwrap();
    add_socket(place.path());
    let vault = Place::new();
    let tree = tree_in(&vault, place.path());
    let report = export_tar(&vault.reader(&tree), &TreePath::root(), &mut Vec::new(), &()).unwrap();
    assert_eq!(report.skipped.len(), 1);
    assert_eq!(
        report.skipped[0].to_string(),
        "socket: an archive cannot hold sockets"
    );
}

/// One member, made by hand so that it can be wrong.
fn member(name: &[u8], kind: u8, link: &[u8], data: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::new(kind));
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(data.len() as u64);
    let ustar = header.as_ustar_mut().unwrap();
    ustar.name[..name.len()].copy_from_slice(name);
    ustar.linkname[..link.len()].copy_from_slice(link);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(name: &[u8]) -> Vec<u8> {
    member(name, b'0', b"", b"data")
}

/// A member whose name is in an extended header.
fn named_by_pax(name: &[u8]) -> Vec<u8> {
    let mut record = [b"path=", name, b"\n"].concat();
    let len = record.len() + 1 + (record.len() + 4).to_string().len();
    record.splice(0..0, format!("{len} ").into_bytes());
    [member(b"pax", b'x', b"", &record), file(b"short")].concat()
}

fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    [members.concat(), vec![0; 1024]].concat()
}

/// The bad entry fails the import, or is left out alone; the good one in its stead is imported.
#[track_caller]
fn check(before: &[Vec<u8>], bad: Vec<u8>, reason: SkipReason, good: Vec<u8>) {
    let vault = Place::new();
    let with = |entry: Vec<u8>| archive(&[before.to_vec(), vec![entry, file(b"last")]].concat());
    let strict = TarImport::default();
    match vault.import_tar(&with(bad.clone()), &strict) {
        Err(TransferError::Refused { refused }) => {
            let reasons: Vec<_> = refused.into_iter().map(|skipped| skipped.reason).collect();
            assert_eq!(reasons, std::slice::from_ref(&reason));
        }
        other => panic!("{other:?}"),
    }
    let lenient = TarImport {
        skip_refused: true,
        ..TarImport::default()
    };
    let imported = vault.import_tar(&with(bad), &lenient).unwrap();
    assert_eq!(imported.report.skipped.len(), 1);
    let tree = vault.tree(imported);
    assert!(vault.reader(&tree).find(&path("last")).is_ok());
    let without = vault.import_tar(
        &archive(&[before.to_vec(), vec![file(b"last")]].concat()),
        &strict,
    );
    assert_eq!(
        vault.tree(without.unwrap()),
        tree,
        "nothing of the bad entry was taken"
    );
    let control = vault.import_tar(&with(good), &strict).unwrap();
    assert_ne!(vault.tree(control), tree);
}

#[test]
fn an_absolute_path_is_refused() {
    check(
        &[],
        file(b"/etc/passwd"),
        SkipReason::Absolute,
        file(b"etc/passwd"),
    );
}

#[test]
fn a_path_with_dots_is_refused_wherever_they_stand() {
    check(&[], file(b"../out"), SkipReason::DotDot, file(b"./out"));
    check(&[], file(b"a/../../out"), SkipReason::DotDot, file(b"a/..../out"));
    check(&[], file(b"a/.."), SkipReason::DotDot, file(b"a/..b"));
    check(
        &[],
        member(b"..", b'5', b"", b""),
        SkipReason::DotDot,
        member(b"d", b'5', b"", b""),
    );
}

#[test]
fn a_path_through_a_symbolic_link_of_the_archive_is_refused() {
    let link = [member(b"link", b'2', b"/tmp", b"")];
    let through = SkipReason::ThroughLink(Box::from(*b"link"));
    check(&link, file(b"link/out"), through.clone(), file(b"other/in"));
    check(
        &link,
        member(b"link/d", b'5', b"", b""),
        through.clone(),
        member(b"other/d", b'5', b"", b""),
    );
    let linked = [link[0].clone(), member(b"again", b'1', b"link", b"")];
    let through = SkipReason::ThroughLink(Box::from(*b"again"));
    check(&linked, file(b"again/out"), through, file(b"other/in"));
}

#[test]
fn a_path_below_a_file_is_refused() {
    let reason = SkipReason::UnderFile(Box::from(*b"file"));
    check(
        &[file(b"file")],
        file(b"file/below"),
        reason,
        file(b"file2/below"),
    );
}

#[test]
fn a_hard_link_to_outside_or_to_nothing_is_refused() {
    let first = [file(b"first"), member(b"d", b'5', b"", b"")];
    let good = member(b"second", b'1', b"first", b"");
    let target = |name: &[u8]| Box::<[u8]>::from(name);
    for outside in [&b"/etc/passwd"[..], b"../first", b"d/../../first"] {
        let bad = member(b"second", b'1', outside, b"");
        check(
            &first,
            bad,
            SkipReason::LinkOutside(target(outside)),
            good.clone(),
        );
    }
    for nothing in [&b"second"[..], b"no/such"] {
        let bad = member(b"second", b'1', nothing, b"");
        check(
            &first,
            bad,
            SkipReason::LinkToNothing(target(nothing)),
            good.clone(),
        );
    }
    let bad = member(b"second", b'1', b"d", b"");
    check(&first, bad, SkipReason::LinkToDirectory(target(b"d")), good);
}

#[test]
fn a_hard_link_through_a_symbolic_link_is_refused() {
    let before = [member(b"link", b'2', b"/etc", b""), file(b"first")];
    let bad = member(b"second", b'1', b"link/passwd", b"");
    let reason = SkipReason::ThroughLink(Box::from(*b"link"));
    check(&before, bad, reason, member(b"second", b'1', b"first", b""));
}

#[test]
fn device_nodes_are_refused_unless_asked_for() {
    for kind in [b'3', b'4'] {
        check(
            &[],
            member(b"device", kind, b"", b""),
            SkipReason::Device,
            member(b"fifo", b'6', b"", b""),
        );
        let options = TarImport {
            devices: true,
            ..TarImport::default()
        };
        let vault = Place::new();
        let bytes = archive(&[member(b"device", kind, b"", b"")]);
        let tree = vault.tree(vault.import_tar(&bytes, &options).unwrap());
        let kind = vault.reader(&tree).find(&path("device")).unwrap().entry.kind;
        assert!(matches!(
            kind,
            EntryKind::CharDevice { .. } | EntryKind::BlockDevice { .. }
        ));
    }
}

#[test]
fn unknown_kinds_are_refused() {
    check(
        &[],
        member(b"odd", b'M', b"", b""),
        SkipReason::UnknownKind,
        file(b"odd"),
    );
}

#[test]
fn names_that_no_vault_can_hold_are_refused() {
    use avfs_core::BadName;
    let bad = |error: BadName| SkipReason::Name(error);
    let good = named_by_pax(&[b'n'; 255]);
    check(
        &[],
        named_by_pax(&[b'n'; 256]),
        bad(BadName::TooLong(256)),
        good.clone(),
    );
    check(&[], named_by_pax(b"a\0b"), bad(BadName::Nul), good.clone());
    let long = b"123456789/".repeat(410);
    check(
        &[],
        named_by_pax(&long[..4099]),
        bad(BadName::PathTooLong(4099)),
        named_by_pax(&long[..4089]),
    );
    check(&[], file(b"."), bad(BadName::Empty), good);
}

#[test]
fn a_file_does_not_take_the_place_of_a_directory_with_entries() {
    let before = [file(b"d/file")];
    check(&before, file(b"d"), SkipReason::DirectoryInTheWay, file(b"e"));
}

#[test]
fn setuid_setgid_and_capabilities_are_dropped_unless_asked_for() {
    let mut program = member(b"program", b'0', b"", b"x");
    let mut header = Header::new_ustar();
    header.as_mut_bytes().copy_from_slice(&program[..512]);
    header.set_mode(0o6755);
    header.set_cksum();
    program[..512].copy_from_slice(header.as_bytes());
    let record = b"42 SCHILY.xattr.security.capability=abcde\n";
    let bytes = archive(&[member(b"pax", b'x', b"", record), program]);
    let meta = |options: &TarImport<'_>, skipped| {
        let vault = Place::new();
        let imported = vault.import_tar(&bytes, options).unwrap();
        assert_eq!(imported.report.skipped.len(), skipped);
        let tree = vault.tree(imported);
        vault.reader(&tree).find(&path("program")).unwrap().entry.meta
    };
    let dropped = meta(&TarImport::default(), 1);
    assert_eq!((dropped.mode, dropped.xattrs.is_empty()), (0o755, true));
    let kept = meta(
        &TarImport {
            keep_privileges: true,
            ..TarImport::default()
        },
        0,
    );
    assert_eq!(
        (kept.mode, kept.xattrs.get(b"security.capability")),
        (0o6755, Some(&b"abcde"[..]))
    );
}

#[test]
fn of_several_entries_with_one_name_the_last_counts() {
    let members = [
        member(b"file", b'0', b"", b"first"),
        member(b"twin", b'1', b"file", b""),
        member(b"file", b'0', b"", b"second"),
        member(b"was/file", b'5', b"", b""),
        member(b"was/file", b'0', b"", b"now a file"),
        member(b"link", b'2', b"/etc", b""),
        member(b"link", b'5', b"", b""),
        member(b"link/inside", b'0', b"", b"inside"),
    ];
    let vault = Place::new();
    let imported = vault
        .import_tar(&archive(&members), &TarImport::default())
        .unwrap();
    assert_eq!((imported.report.files, imported.report.directories), (4, 2));
    assert_eq!(imported.links, [], "the twin is alone now");
    let tree = vault.tree(imported);
    let read = |name: &str| vault.reader(&tree).read(&path(name)).unwrap();
    assert_eq!(read("file"), &b"second"[..]);
    assert_eq!(read("twin"), &b"first"[..]);
    assert_eq!(read("was/file"), &b"now a file"[..]);
    assert_eq!(read("link/inside"), &b"inside"[..]);
}

#[test]
fn directories_that_are_only_implied_get_the_attributes_asked_for() {
    let implied = Meta {
        mode: 0o700,
        uid: 7,
        gid: 8,
        ..Meta::default()
    };
    let options = TarImport {
        implied: implied.clone(),
        ..TarImport::default()
    };
    let vault = Place::new();
    let tree = vault.tree(vault.import_tar(&archive(&[file(b"a/b/c")]), &options).unwrap());
    for directory in ["", "a", "a/b"] {
        assert_eq!(
            vault.reader(&tree).find(&path(directory)).unwrap().entry.meta,
            implied
        );
    }
}

#[test]
fn invalid_or_truncated_archive_is_an_error() {
    let vault = Place::new();
    let options = TarImport::default();
    let good = archive(&[member(b"file", b'0', b"", &[1; 2000])]);
    assert!(vault.import_tar(&good, &options).is_ok());
    let cuts = [100, 600, 2400];
    for cut in cuts {
        let error = vault.import_tar(&good[..cut], &options).unwrap_err();
        assert!(matches!(error, TransferError::Archive { .. }), "{cut}: {error}");
    }
    let noise = pattern(4096);
    assert!(matches!(
        vault.import_tar(&noise, &options),
        Err(TransferError::Archive { .. })
    ));
    let huge = member(b"pax", b'x', b"", b"99999999999999999999 path=a\n");
    let error = vault
        .import_tar(&archive(&[huge, file(b"a")]), &options)
        .unwrap_err();
    assert!(matches!(error, TransferError::Archive { .. }), "{error}");
}

#[test]
fn flipped_bytes_never_panic() {
    let place = tempfile::tempdir().unwrap();
    sparse_file(&place.path().join("sparse"), 100_000, &[0, 9]);
    fs::write(place.path().join("n".repeat(150)), b"x").unwrap();
    let vault = Place::new();
    let good = vault.export_tar(&tree_in(&vault, place.path()));
    let headers = good.len().min(6000);
    for position in 0..headers {
        let mut bad = good.clone();
        bad[position] ^= 0x11;
        fix_checksum(&mut bad, position);
        let _ = vault.import_tar(&bad, &TarImport::default());
    }
}

/// Changed in any way, an archive gives an error or a tree, and never a panic or more than it may have.
#[test]
fn damaged_archives_are_refused_or_read_and_never_more() {
    let place = tempfile::tempdir().unwrap();
    sparse_file(&place.path().join("sparse"), 100_000, &[0, 9]);
    fs::create_dir(place.path().join("directory")).unwrap();
    fs::write(place.path().join("directory/file"), pattern(700)).unwrap();
    fs::hard_link(place.path().join("directory/file"), place.path().join("link")).unwrap();
    std::os::unix::fs::symlink("directory", place.path().join("symlink")).unwrap();
    let vault = Place::new();
    let seeds = [
        vault.export_tar(&tree_in(&vault, place.path())),
        tar(place.path(), &["--format=gnu", "-S", "-cf", "-", "."], b""),
        tar(place.path(), &["--format=ustar", "-cf", "-", "."], b""),
    ];
    avfs_testkit::fuzz(&seeds, |bytes| {
        let mut bytes = bytes.to_vec();
        for position in (0..bytes.len().min(8192)).step_by(512) {
            fix_checksum(&mut bytes, position);
        }
        if let Ok(imported) = vault.import_tar(&bytes, &TarImport::default()) {
            drop(vault.tree(imported));
        }
    });
}

/// Makes a damaged header valid, so that the fields beyond the checksum are tested.
fn fix_checksum(bytes: &mut [u8], position: usize) {
    let start = position / 512 * 512;
    let Some(block) = bytes.get_mut(start..start + 512) else {
        return;
    };
    if &block[257..262] == b"ustar" {
        let mut header = Header::new_ustar();
        header.as_mut_bytes().copy_from_slice(block);
        header.set_cksum();
        block.copy_from_slice(header.as_bytes());
    }
}
