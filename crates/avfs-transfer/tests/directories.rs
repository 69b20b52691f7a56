//! Host directories in and out of a vault.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use avfs_core::{BadName, EntryKind, TreePath};
use avfs_transfer::{
    DirectoryExport, DirectoryImport, SkipReason, TransferError, TransferProgress, export_directory,
    import_directory,
};
use support::*;

#[test]
fn these_tests_hold_for_an_ordinary_user_too() {
    again_as_an_ordinary_user("these_tests_hold_for_an_ordinary_user_too");
}

#[test]
fn a_directory_comes_out_as_it_went_in() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir(&from).unwrap();
    one_of_everything(&from);
    add_socket(&from);
    set_mtime(&from, 999_999_999, 42);
    let vault = Place::new();
    let imported = vault.import(&from).unwrap();
    assert_eq!(imported.report.skipped, []);
    let (files, directories) = (imported.report.files, imported.report.directories);
    let tree = vault.tree(imported);
    let report = vault.export(&tree, &to).unwrap();
    assert_eq!(report.skipped, []);
    assert_eq!((report.files, report.directories), (files, directories));
    assert_same(&facts(&from), &facts(&to));
    let again = Place::new();
    assert_eq!(again.tree(again.import(&to).unwrap()), tree);
}

#[test]
fn the_same_file_twice_counts_once_and_links_out_of_the_tree_do_not_count() {
    let place = tempfile::tempdir().unwrap();
    let from = place.path().join("from");
    fs::create_dir(&from).unwrap();
    fs::write(from.join("a"), b"12345").unwrap();
    fs::hard_link(from.join("a"), from.join("b")).unwrap();
    fs::write(from.join("c"), b"123").unwrap();
    fs::hard_link(from.join("c"), place.path().join("outside")).unwrap();
    let imported = Place::new().import(&from).unwrap();
    assert_eq!((imported.report.files, imported.report.bytes), (3, 8));
    assert_eq!(imported.links.len(), 1);
    assert_eq!(imported.links[0].1.names, 2);
    let EntryKind::Directory { below, .. } = imported.directory.kind else {
        panic!()
    };
    assert_eq!((below.inodes, below.links, below.bytes), (3, 2, 3));
}

#[test]
fn link_ids_depend_on_the_place_in_the_vault_and_pass_over_those_in_use() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("b"), b"x").unwrap();
    fs::hard_link(place.path().join("b"), place.path().join("a")).unwrap();
    let id_of = |into: &str, options: &DirectoryImport<'_>| {
        let vault = Place::new();
        let (objects, writer) = (&vault.objects, &vault.writer);
        import_directory(objects, writer, place.path(), &path(into), options, &())
            .unwrap()
            .links[0]
            .0
    };
    let options = DirectoryImport::default();
    let id = id_of("d", &options);
    assert_eq!(
        id,
        avfs_core::LinkId(avfs_tree::inodes::Ino::from_hash(&blake3::hash(b"d/a")).0)
    );
    assert_ne!(id, id_of("e", &options));
    assert_ne!(
        id,
        id_of(
            "d",
            &DirectoryImport {
                is_taken: &|taken| taken == id,
                ..options
            }
        )
    );
}

#[test]
fn a_large_flat_directory_is_whole() {
    let place = roomy_place();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir(&from).unwrap();
    for number in 0..3000 {
        fs::write(from.join(format!("file {number}")), number.to_string()).unwrap();
    }
    let vault = Place::new();
    let tree = vault.tree(vault.import(&from).unwrap());
    assert_eq!(vault.export(&tree, &to).unwrap().files, 3000);
    assert_same(&facts(&from), &facts(&to));
}

#[test]
fn excluded_path_leaves_out_the_entry_that_it_leads_to() {
    let place = tempfile::tempdir().unwrap();
    for name in ["keep", "store/objects"] {
        fs::create_dir_all(place.path().join(name)).unwrap();
    }
    fs::write(place.path().join("log"), b"x").unwrap();
    symlink(place.path().join("store"), place.path().join("keep/alias")).unwrap();
    let exclude = vec![
        place.path().join("keep/alias"),
        place.path().join("log"),
        "/no/such".into(),
    ];
    let options = DirectoryImport {
        exclude,
        ..DirectoryImport::default()
    };
    let vault = Place::new();
    let imported = vault.import_with(place.path(), &options).unwrap();
    let skipped: Vec<_> = imported.report.skipped.iter().map(ToString::to_string).collect();
    assert_eq!(skipped, ["log: left out as asked", "store: left out as asked"]);
    let tree = vault.tree(imported);
    assert!(vault.reader(&tree).find(&path("keep/alias")).is_ok());
    assert!(vault.reader(&tree).find(&path("store")).is_err());
}

#[test]
fn symbolic_links_are_never_followed_on_the_way_in() {
    let place = tempfile::tempdir().unwrap();
    let from = place.path().join("from");
    fs::create_dir_all(place.path().join("outside")).unwrap();
    fs::create_dir(&from).unwrap();
    fs::write(place.path().join("outside/secret"), b"secret").unwrap();
    symlink("../outside", from.join("directory")).unwrap();
    symlink("../outside/secret", from.join("file")).unwrap();
    assert_eq!(fs::read(from.join("file")).unwrap(), b"secret");
    let vault = Place::new();
    let imported = vault.import(&from).unwrap();
    assert_eq!((imported.report.files, imported.report.bytes), (2, 0));
    let tree = vault.tree(imported);
    for name in ["directory", "file"] {
        let entry = vault.reader(&tree).find(&path(name)).unwrap().entry;
        assert!(matches!(entry.kind, EntryKind::Symlink { .. }));
    }
}

#[test]
fn unreadable_files_fail_the_import_or_are_skipped_by_name() {
    if is_root() {
        return; // Runs again as an ordinary user.
    }
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("closed")).unwrap();
    fs::write(place.path().join("good"), b"x").unwrap();
    fs::write(place.path().join("secret"), b"x").unwrap();
    let vault = Place::new();
    assert_eq!(vault.import(place.path()).unwrap().report.files, 2);
    set_mode(&place.path().join("secret"), 0);
    set_mode(&place.path().join("closed"), 0);
    let error = vault.import(place.path()).unwrap_err().to_string();
    assert!(
        error.starts_with("2 entries cannot be imported: closed: it cannot be read: "),
        "{error}"
    );
    assert!(error.contains("; secret: it cannot be read: "), "{error}");
    let options = DirectoryImport {
        skip_refused: true,
        ..DirectoryImport::default()
    };
    let report = vault.import_with(place.path(), &options).unwrap().report;
    assert_eq!((report.files, report.skipped.len()), (1, 2));
    set_mode(&place.path().join("closed"), 0o700);
}

/// Changes a file while it is read, a number of times.
struct Meddler<'a> {
    file: &'a Path,
    times: AtomicU64,
}

impl TransferProgress for Meddler<'_> {
    fn advance(&self, _: u64, _: u64) {
        let take = |left: u64| left.checked_sub(1);
        if self
            .times
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
            .is_ok()
        {
            use std::io::Write;
            fs::OpenOptions::new()
                .append(true)
                .open(self.file)
                .unwrap()
                .write_all(b"more")
                .unwrap();
        }
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_read_again() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("log");
    fs::write(&file, pattern(2 << 20)).unwrap();
    let vault = Place::new();
    let import = |times| {
        let meddler = Meddler {
            file: &file,
            times: AtomicU64::new(times),
        };
        let options = DirectoryImport::default();
        import_directory(
            &vault.objects,
            &vault.writer,
            place.path(),
            &TreePath::root(),
            &options,
            &meddler,
        )
    };
    let tree = vault.tree(import(2).unwrap());
    assert_eq!(
        vault.reader(&tree).read(&path("log")).unwrap(),
        fs::read(&file).unwrap()
    );
    let Err(TransferError::Refused { refused }) = import(u64::MAX) else {
        panic!("it never held still")
    };
    assert_eq!(refused[0].reason, SkipReason::Changing);
}

#[test]
fn a_thousand_levels_go_in_and_out() {
    let place = roomy_place();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    make_deep(&from, 1000);
    let vault = Place::new();
    let imported = vault.import(&from).unwrap();
    assert_eq!(imported.report.directories, 1000);
    let tree = vault.tree(imported);
    vault.export(&tree, &to).unwrap();
    let again = Place::new();
    assert_eq!(again.tree(again.import(&to).unwrap()), tree);
    assert_eq!(again.import_tar_exactly(&vault.export_tar(&tree)), tree);
}

#[test]
fn ten_thousand_levels_are_refused_at_the_place_where_the_path_is_too_long() {
    let place = roomy_place();
    make_deep(&place.path().join("from"), 10_000);
    let vault = Place::new();
    let Err(TransferError::Refused { refused }) = vault.import(&place.path().join("from")) else {
        panic!()
    };
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].reason, SkipReason::Name(BadName::PathTooLong(4097)));
    assert_eq!(refused[0].path.len(), 4097);
    let options = DirectoryImport {
        skip_refused: true,
        ..DirectoryImport::default()
    };
    let imported = vault.import_with(&place.path().join("from"), &options).unwrap();
    assert_eq!(imported.report.directories, 2048);
    remove_deep(&place.path().join("from"));
}

/// Nests directories deeper than a path can say.
fn make_deep(top: &Path, levels: usize) {
    use rustix::fs::{Mode, OFlags};
    fs::create_dir(top).unwrap();
    let mut directory = rustix::fs::open(top, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..levels {
        rustix::fs::mkdirat(&directory, "d", Mode::RWXU).unwrap();
        directory = rustix::fs::openat(&directory, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
}

/// Removes them from the top: the subdirectory takes the place of its parent.
fn remove_deep(top: &Path) {
    let aside = top.with_extension("aside");
    while top.join("d").exists() {
        fs::rename(top.join("d"), &aside).unwrap();
        fs::remove_dir(top).unwrap();
        fs::rename(&aside, top).unwrap();
    }
}

#[test]
fn an_export_needs_a_new_or_empty_place_unless_it_merges() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir_all(from.join("sub")).unwrap();
    fs::write(from.join("sub/file"), b"new").unwrap();
    fs::write(from.join("sub/other"), b"new").unwrap();
    fs::hard_link(from.join("sub/other"), from.join("twin")).unwrap();
    let vault = Place::new();
    let tree = vault.tree(vault.import(&from).unwrap());
    fs::create_dir(&to).unwrap();
    vault.export(&tree, &to).unwrap();
    assert!(matches!(
        vault.export(&tree, &to),
        Err(TransferError::NotEmpty { .. })
    ));
    assert!(matches!(
        vault.export(&tree, &to.join("sub/file")),
        Err(TransferError::NotADirectory { .. })
    ));

    fs::write(place.path().join("precious"), b"precious").unwrap();
    fs::write(to.join("kept"), b"kept").unwrap();
    fs::remove_file(to.join("sub/file")).unwrap();
    symlink(place.path().join("precious"), to.join("sub/file")).unwrap();
    let merge = DirectoryExport {
        merge: true,
        ..DirectoryExport::default()
    };
    export_directory(&vault.reader(&tree), &TreePath::root(), &to, &merge, &()).unwrap();
    assert_eq!(fs::read(to.join("sub/file")).unwrap(), b"new");
    assert_eq!(fs::read(to.join("kept")).unwrap(), b"kept");
    assert_eq!(fs::read(place.path().join("precious")).unwrap(), b"precious");
    assert_eq!(
        fs::metadata(to.join("twin")).unwrap().ino(),
        fs::metadata(to.join("sub/other")).unwrap().ino()
    );
    assert_eq!(
        fs::read_dir(to.join("sub")).unwrap().count(),
        2,
        "nothing is left aside"
    );
}

#[test]
fn a_merge_does_not_go_through_a_symbolic_link_to_a_directory() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir_all(from.join("sub")).unwrap();
    fs::write(from.join("sub/file"), b"new").unwrap();
    for directory in ["to", "outside"] {
        fs::create_dir(place.path().join(directory)).unwrap();
    }
    symlink("../outside", to.join("sub")).unwrap();
    let vault = Place::new();
    let tree = vault.tree(vault.import(&from).unwrap());
    let merge = DirectoryExport {
        merge: true,
        ..DirectoryExport::default()
    };
    let error = export_directory(&vault.reader(&tree), &TreePath::root(), &to, &merge, &()).unwrap_err();
    assert_eq!(error.to_string(), format!("opening {}", to.join("sub").display()));
    assert_eq!(fs::read_dir(place.path().join("outside")).unwrap().count(), 0);
}

#[test]
fn a_single_file_is_exported_under_the_name_asked_for() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("from")).unwrap();
    one_of_everything(&place.path().join("from"));
    let vault = Place::new();
    let tree = vault.tree(vault.import(&place.path().join("from")).unwrap());
    let to = place.path().join("sparse copy");
    let options = DirectoryExport::default();
    let export = |path: &str, to: &Path| {
        export_directory(&vault.reader(&tree), &support::path(path), to, &options, &())
    };
    assert_eq!(export("sparse", &to).unwrap().files, 1);
    assert_eq!(data_runs(&to), data_runs(&place.path().join("from/sparse")));
    assert!(matches!(export("sparse", &to), Err(TransferError::Exists { .. })));
    assert!(matches!(export("no such", &to), Err(TransferError::Read(_))));
    assert!(export("small", &place.path().join("no/such/directory")).is_err());
}

#[test]
fn an_ordinary_user_gets_the_files_and_hears_once_that_owners_were_not_kept() {
    if is_root() {
        return; // Runs again as an ordinary user.
    }
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::write(from.join("program"), b"x").unwrap();
    set_mode(&from.join("program"), 0o4755);
    let vault = Place::new();
    let mut imported = vault.import(&from).unwrap();
    // As if it belonged to someone else.
    imported.directory.meta.uid = 1;
    let report = vault.export(&vault.tree(imported), &to).unwrap();
    let reasons: Vec<_> = report
        .skipped
        .iter()
        .map(|skipped| skipped.reason.clone())
        .collect();
    assert_eq!(reasons, [SkipReason::OwnersNeedRoot]);
    assert_eq!(fs::metadata(to.join("program")).unwrap().mode() & 0o7777, 0o4755);
}

#[test]
fn a_program_that_loses_its_owner_loses_the_right_to_act_as_them() {
    if !is_root() {
        return; // Only root can make a file of someone else.
    }
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::write(from.join("program"), b"x").unwrap();
    std::os::unix::fs::chown(from.join("program"), Some(1), Some(1)).unwrap();
    set_mode(&from.join("program"), 0o4755);
    let vault = Place::new();
    let tree = vault.tree(vault.import(&from).unwrap());
    let options = DirectoryExport {
        owners: false,
        ..DirectoryExport::default()
    };
    let report = export_directory(&vault.reader(&tree), &TreePath::root(), &to, &options, &()).unwrap();
    assert_eq!(report.skipped[0].reason, SkipReason::PrivilegeDropped);
    assert_eq!(fs::metadata(to.join("program")).unwrap().mode() & 0o7777, 0o755);
    vault.export(&tree, &place.path().join("exact")).unwrap();
    assert_eq!(
        fs::metadata(place.path().join("exact/program")).unwrap().mode() & 0o7777,
        0o4755
    );
}

#[test]
fn a_swapped_directory_lets_nothing_out_during_thousands_of_writes() {
    let place = roomy_place();
    let (from, to, outside) = (
        place.path().join("from"),
        place.path().join("to"),
        place.path().join("outside"),
    );
    for directory in ["from/victim/deeper", "outside/deeper"] {
        fs::create_dir_all(place.path().join(directory)).unwrap();
    }
    for number in 0..500 {
        fs::write(from.join(format!("victim/f{number}")), b"x").unwrap();
        fs::write(from.join(format!("victim/deeper/f{number}")), b"x").unwrap();
    }
    let vault = Place::new();
    let tree = vault.tree(vault.import(&from).unwrap());
    let (stop, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    let (victim, aside) = (to.join("victim"), to.join("aside"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if fs::rename(&victim, &aside).is_ok() {
                    let so_far =
                        swaps.fetch_add(u64::from(symlink(&outside, &victim).is_ok()), Ordering::Relaxed);
                    // Short and long, so that the link is met at any moment of a write.
                    (0..so_far % 64).for_each(|_| std::thread::yield_now());
                    let _ = fs::remove_file(&victim);
                    let _ = fs::rename(&aside, &victim);
                }
            }
        });
        let (mut interrupted, mut round) = (0, 0);
        // Until the attack took place, however seldom its thread runs.
        while round < 12 || swaps.load(Ordering::Relaxed) <= 100 || interrupted == 0 {
            interrupted += u64::from(vault.export(&tree, &to).is_err());
            let done = place.path().join("done");
            fs::rename(&to, &done).unwrap();
            fs::remove_dir_all(&done).unwrap();
            round += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
    let found: Vec<_> = facts(&outside).into_keys().collect();
    assert_eq!(found, [Path::new(""), Path::new("deeper")]);
    // The same link does let an ordinary write out.
    fs::create_dir(&to).unwrap();
    symlink(&outside, &victim).unwrap();
    fs::write(victim.join("control"), b"x").unwrap();
    assert!(outside.join("control").exists());
}
