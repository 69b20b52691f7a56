//! Images of containers into a vault: layers that add and hide, in archives of all kinds, and hostile ones.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::Path;

use avfs_core::{EntryKind, Meta};
use avfs_transfer::{
    ImageImport, ImageSource, ImportedImage, MOST_BYTES, MOST_ENTRIES, SkipReason, TransferError,
    import_image,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use support::*;
use tar::{EntryType, Header};

/// One member of a layer.
enum Part<'a> {
    File(&'a str, &'a str),
    Directory(&'a str),
    Symlink(&'a str, &'a str),
    Link(&'a str, &'a str),
    Device(&'a str),
}
use Part::{Device, Directory, File, Link, Symlink};

fn header(kind: EntryType, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size as u64);
    header.set_mode(if kind == EntryType::Directory {
        0o755
    } else {
        0o644
    });
    header.set_uid(0);
    header.set_gid(42);
    header.set_mtime(1_000_000_000);
    header
}

/// The path goes into the header as it is, however bad it is.
fn named(mut header: Header, path: &str, link: &str) -> Header {
    let old = header.as_old_mut();
    old.name[..path.len()].copy_from_slice(path.as_bytes());
    old.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_cksum();
    header
}

fn add(archive: &mut Vec<u8>, header: &Header, data: &[u8]) {
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(data);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

fn layer(parts: &[Part<'_>]) -> Vec<u8> {
    let mut archive = Vec::new();
    for part in parts {
        let (kind, path, link, data) = match part {
            File(path, text) => (EntryType::Regular, path, "", text.as_bytes()),
            Directory(path) => (EntryType::Directory, path, "", &b""[..]),
            Symlink(path, target) => (EntryType::Symlink, path, *target, &b""[..]),
            Link(path, target) => (EntryType::Link, path, *target, &b""[..]),
            Device(path) => (EntryType::Char, path, "", &b""[..]),
        };
        add(&mut archive, &named(header(kind, data.len()), path, link), data);
    }
    archive.extend([0; 1024]);
    archive
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The files of an image, by path.
type Files = BTreeMap<String, Vec<u8>>;

const CONFIG: &str = r#""architecture":"amd64","os":"linux","config":{"Env":["A=b c"],"Cmd":["sh"],"Entrypoint":null,"User":"app:9","WorkingDir":"/srv"}"#;

/// An archive by `docker save` of these layers.
fn saved(layers: &[Vec<u8>]) -> Files {
    let digests: Vec<String> = layers
        .iter()
        .map(|layer| format!("\"sha256:{}\"", sha256(layer)))
        .collect();
    let config = format!(
        r#"{{{CONFIG},"rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
        digests.join(",")
    );
    let paths: Vec<String> = (0..layers.len())
        .map(|index| format!("{:064x}/layer.tar", index + 1))
        .collect();
    let manifest = format!(
        r#"[{{"Config":"c.json","RepoTags":["registry/app:1"],"Layers":{:?}}}]"#,
        paths
    );
    let mut files: Files = paths.into_iter().zip(layers.iter().cloned()).collect();
    files.insert("c.json".into(), config.into_bytes());
    files.insert("manifest.json".into(), manifest.into_bytes());
    files
}

fn put(files: &mut Files, bytes: Vec<u8>) -> String {
    let digest = sha256(&bytes);
    files.insert(format!("blobs/sha256/{digest}"), bytes);
    digest
}

/// A manifest of these layers, compressed, in the files of a layout; returns its digest.
fn manifest(files: &mut Files, layers: &[Vec<u8>]) -> String {
    let config = put(files, format!("{{{CONFIG}}}").into_bytes());
    let layers: Vec<String> = layers
        .iter()
        .map(|layer| format!(r#"{{"digest":"sha256:{}"}}"#, put(files, gzip(layer))))
        .collect();
    let text = format!(
        r#"{{"schemaVersion":2,"config":{{"digest":"sha256:{config}"}},"layers":[{}]}}"#,
        layers.join(",")
    );
    put(files, text.into_bytes())
}

fn with_index(mut files: Files, manifests: &str) -> Files {
    files.insert("oci-layout".into(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec());
    files.insert(
        "index.json".into(),
        format!(r#"{{"manifests":[{manifests}]}}"#).into_bytes(),
    );
    files
}

fn layout(layers: &[Vec<u8>]) -> Files {
    let mut files = Files::new();
    let digest = manifest(&mut files, layers);
    with_index(files, &format!(r#"{{"digest":"sha256:{digest}"}}"#))
}

fn archived(files: &Files) -> Vec<u8> {
    let mut archive = Vec::new();
    for (path, data) in files {
        add(
            &mut archive,
            &named(header(EntryType::Regular, data.len()), path, ""),
            data,
        );
    }
    archive.extend([0; 1024]);
    archive
}

fn unpacked(files: &Files) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for (path, data) in files {
        let path = place.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, data).unwrap();
    }
    place
}

fn options() -> ImageImport<'static> {
    ImageImport {
        most_bytes: MOST_BYTES,
        most_entries: MOST_ENTRIES,
        wanted: None,
        architecture: "amd64",
        skip_refused: false,
        implied: Meta {
            mode: 0o755,
            ..Meta::default()
        },
        scratch: &tempfile::tempfile,
    }
}

fn import_with(
    vault: &Place,
    source: ImageSource<'_>,
    options: &ImageImport<'_>,
) -> Result<ImportedImage, TransferError> {
    import_image(&vault.objects, &vault.writer, source, options, &())
}

fn stream(bytes: Vec<u8>) -> ImageSource<'static> {
    ImageSource::Stream(Box::new(Cursor::new(bytes)))
}

fn file_of(bytes: &[u8]) -> ImageSource<'static> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    ImageSource::File(file.reopen().unwrap())
}

fn import(bytes: Vec<u8>) -> Result<ImportedImage, TransferError> {
    import_with(&Place::new(), stream(bytes), &options())
}

/// The files and links of the tree that layers make, with their contents.
fn tree_of(layers: &[Vec<u8>]) -> Vec<String> {
    let vault = Place::new();
    let image = import_with(&vault, stream(archived(&saved(layers))), &options()).unwrap();
    listed(&vault, image)
}

fn listed(vault: &Place, image: ImportedImage) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("out");
    vault.export(&vault.tree(image.tree), &to).unwrap();
    let mut lines = Vec::new();
    list(&to, "", &mut lines);
    lines.sort();
    lines
}

fn list(directory: &Path, above: &str, lines: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{above}{}", entry.file_name().into_string().unwrap());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            lines.push(format!("{name}/"));
            list(&entry.path(), &format!("{name}/"), lines);
        } else if kind.is_symlink() {
            lines.push(format!(
                "{name} -> {}",
                fs::read_link(entry.path()).unwrap().display()
            ));
        } else {
            lines.push(format!("{name} = {}", fs::read_to_string(entry.path()).unwrap()));
        }
    }
}

#[test]
fn layers_lie_on_each_other_and_hide_what_they_say() {
    let below = layer(&[
        Directory("etc"),
        File("etc/passwd", "old"),
        File("etc/gone", "x"),
        File("opt/a/b", "x"),
        File("opt/c", "x"),
        File("var/log/one", "x"),
        Symlink("bin", "usr/bin"),
        File("was-file", "x"),
        File("was-dir/inner", "x"),
    ]);
    let above = layer(&[
        File("etc/passwd", "new"),
        File("etc/.wh.gone", ""),
        File(".wh.opt", ""),
        // What a layer adds is not hidden by it, in whatever order it comes.
        File("var/log/two", "y"),
        File("var/log/.wh..wh..opq", ""),
        Directory("was-file"),
        File("was-file/inner", "y"),
        File("was-dir", "y"),
        File("missing/.wh.thing", ""),
    ]);
    assert_eq!(
        tree_of(&[below, above]),
        [
            "bin -> usr/bin",
            "etc/",
            "etc/passwd = new",
            "var/",
            "var/log/",
            "var/log/two = y",
            "was-dir = y",
            "was-file/",
            "was-file/inner = y",
        ]
    );
}

#[test]
fn a_directory_that_is_hidden_and_made_again_is_a_new_one() {
    let below = layer(&[File("a/b/c", "x"), File("a/d", "x")]);
    let hidden_first = layer(&[File(".wh.a", ""), Directory("a"), File("a/b/e", "y")]);
    let hidden_last = layer(&[Directory("a"), File("a/b/e", "y"), File(".wh.a", "")]);
    for above in [hidden_first, hidden_last] {
        assert_eq!(tree_of(&[below.clone(), above]), ["a/", "a/b/", "a/b/e = y"]);
    }
}

#[test]
fn a_third_layer_sees_nothing_of_what_the_second_has_hidden() {
    let one = layer(&[File("a/b", "1"), File("c", "1")]);
    let two = layer(&[File(".wh.a", ""), File(".wh.c", "")]);
    let three = layer(&[Link("d", "e"), File("e", "3")]);
    match import(archived(&saved(&[one.clone(), two.clone(), three]))) {
        Err(TransferError::Refused { refused }) => {
            assert_eq!(refused[0].reason, SkipReason::LinkToNothing(b"e"[..].into()));
        }
        other => panic!("{other:?}"),
    }
    let three = layer(&[File("a/x", "3")]);
    assert_eq!(tree_of(&[one, two, three]), ["a/", "a/x = 3"]);
}

#[test]
fn a_hard_link_reaches_into_the_layers_below() {
    let below = layer(&[File("usr/bin/tool", "code")]);
    let above = layer(&[
        Link("usr/bin/alias", "usr/bin/tool"),
        File("usr/bin/.wh.tool", ""),
    ]);
    assert_eq!(
        tree_of(&[below, above]),
        ["usr/", "usr/bin/", "usr/bin/alias = code"]
    );
}

#[test]
fn every_kind_of_archive_gives_the_same_tree_and_configuration() {
    let layers = [
        layer(&[File("etc/a", "1"), Link("etc/b", "etc/a")]),
        layer(&[File("etc/c", "2")]),
    ];
    let (saved, layout) = (archived(&saved(&layers)), layout(&layers));
    let place = unpacked(&layout);
    let vault = Place::new();
    let sources = [
        stream(saved.clone()),
        stream(gzip(&saved)),
        file_of(&saved),
        file_of(&gzip(&saved)),
        stream(archived(&layout)),
        file_of(&archived(&layout)),
        ImageSource::Directory(place.path()),
    ];
    let mut trees = Vec::new();
    for source in sources {
        let image = import_with(&vault, source, &options()).unwrap();
        let config = &image.config;
        assert_eq!(
            (&config.env[..], &config.cmd[..], &config.entrypoint[..]),
            (&["A=b c".to_owned()][..], &["sh".to_owned()][..], &[][..])
        );
        assert_eq!((&config.user[..], &config.working_dir[..]), ("app:9", "/srv"));
        assert_eq!(image.layers, 2);
        trees.push(vault.tree(image.tree));
    }
    assert!(trees.windows(2).all(|pair| pair[0] == pair[1]));
    let reader = vault.reader(&trees[0]);
    let meta = reader.find(&path("etc/c")).unwrap().entry.meta;
    assert_eq!((meta.uid, meta.gid, meta.mode), (0, 42, 0o644));
}

#[test]
fn a_plain_root_directory_is_an_image_too_in_which_nothing_is_hidden() {
    let parts = [Directory("./"), Directory("./etc"), File("./etc/.wh.a", "kept")];
    let vault = Place::new();
    for source in [stream(layer(&parts)), file_of(&gzip(&layer(&parts)))] {
        let image = import_with(&vault, source, &options()).unwrap();
        assert_eq!(listed(&vault, image), ["etc/", "etc/.wh.a = kept"]);
    }
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("etc")).unwrap();
    fs::write(place.path().join("etc/name"), "text").unwrap();
    let image = import_with(&vault, ImageSource::Directory(place.path()), &options()).unwrap();
    assert_eq!(listed(&vault, image), ["etc/", "etc/name = text"]);
}

#[test]
fn set_user_id_bits_stay_and_devices_of_dev_are_left_out() {
    let mut header = named(header(EntryType::Regular, 0), "bin/su", "");
    header.set_mode(0o4755);
    header.set_cksum();
    let mut archive = Vec::new();
    add(&mut archive, &header, b"");
    archive.extend(layer(&[Device("./dev/null")]));
    let vault = Place::new();
    let image = import_with(&vault, stream(archive), &options()).unwrap();
    assert_eq!(image.tree.report.skipped.len(), 1);
    assert_eq!(image.tree.report.skipped[0].reason, SkipReason::DeviceOmitted);
    let found = vault
        .reader(&vault.tree(image.tree))
        .find(&path("bin/su"))
        .unwrap()
        .entry;
    assert_eq!(found.meta.mode, 0o4755);
    assert!(matches!(found.kind, EntryKind::File { .. }));
}

#[track_caller]
fn refused(parts: &[Part<'_>], reason: SkipReason) {
    let below = layer(&[Symlink("link", "/etc"), File("file", "x")]);
    match import(archived(&saved(&[below, layer(parts)]))) {
        Err(TransferError::Refused { refused }) => assert_eq!(refused[0].reason, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_entry_that_would_lead_out_is_refused() {
    refused(&[File("/etc/passwd", "x")], SkipReason::Absolute);
    refused(&[File("../passwd", "x")], SkipReason::DotDot);
    refused(&[File("a/.wh...", "")], SkipReason::DotDot);
    refused(&[File("../.wh.etc", "")], SkipReason::DotDot);
    refused(&[File(".wh.", "")], SkipReason::UnknownKind);
    refused(
        &[File("link/passwd", "x")],
        SkipReason::ThroughLink(b"link"[..].into()),
    );
    refused(
        &[File("link/.wh.passwd", "")],
        SkipReason::ThroughLink(b"link"[..].into()),
    );
    refused(&[File("file/x", "x")], SkipReason::UnderFile(b"file"[..].into()));
    refused(
        &[Link("a", "../../etc/shadow")],
        SkipReason::LinkOutside(b"../../etc/shadow"[..].into()),
    );
    refused(&[Device("sda")], SkipReason::Device);
}

#[test]
fn a_bomb_is_refused_before_it_is_all_read() {
    let layer_of_zeros = layer(&[File("zeros", &"\0".repeat(1 << 20))]);
    let zeros = gzip(&layer_of_zeros);
    let small = ImageImport {
        most_bytes: 100_000,
        ..options()
    };
    for source in [
        stream(zeros.clone()),
        file_of(&zeros),
        stream(gzip(&archived(&layout(&[layer_of_zeros])))),
    ] {
        match import_with(&Place::new(), source, &small) {
            Err(TransferError::OverLimit {
                what: "bytes",
                limit: 100_000,
            }) => {}
            other => panic!("{other:?}"),
        }
    }
    let few = ImageImport {
        most_entries: 3,
        ..options()
    };
    let two = layer(&[File("a", ""), File("b", "")]);
    match import_with(&Place::new(), stream(archived(&saved(&[two.clone(), two]))), &few) {
        Err(TransferError::OverLimit {
            what: "entries",
            limit: 3,
        }) => {}
        other => panic!("{other:?}"),
    }
}

/// A layer that does not end: files with one name after the other.
struct EndlessLayer {
    count: u64,
    block: Cursor<Vec<u8>>,
}

impl Read for EndlessLayer {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.block.position() == self.block.get_ref().len() as u64 {
            self.count += 1;
            let mut block = Vec::new();
            let name = format!("d{}/f{}", self.count / 1000, self.count);
            add(&mut block, &named(header(EntryType::Regular, 0), &name, ""), b"");
            self.block = Cursor::new(block);
        }
        self.block.read(buffer)
    }
}

#[test]
fn an_image_without_an_end_is_refused_at_the_limit_of_its_entries() {
    let endless = EndlessLayer {
        count: 0,
        block: Cursor::new(Vec::new()),
    };
    let limited = ImageImport {
        most_entries: 30_000,
        ..options()
    };
    match import_with(&Place::new(), ImageSource::Stream(Box::new(endless)), &limited) {
        Err(TransferError::OverLimit {
            what: "entries",
            limit: 30_000,
        }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_with_odd_bytes_are_names_and_hide_what_they_say() {
    let odd = |name: &[u8]| {
        let mut header = header(EntryType::Regular, 0);
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_cksum();
        let mut archive = Vec::new();
        add(&mut archive, &header, b"");
        archive
    };
    let names: [&[u8]; 5] = [b"\x1b[31mred", b"\xff\xfe", b"a\nb", b"-rf", b".wh"];
    let mut below: Vec<u8> = names.iter().flat_map(|name| odd(name)).collect();
    below.extend([0; 1024]);
    let mut above: Vec<u8> = names[..3]
        .iter()
        .flat_map(|name| odd(&[b".wh.", *name].concat()))
        .collect();
    above.extend([0; 1024]);
    let (vault, image) = (Place::new(), archived(&saved(&[below, above])));
    let image = import_with(&vault, stream(image), &options()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("out");
    vault.export(&vault.tree(image.tree), &to).unwrap();
    let mut left: Vec<_> = std::fs::read_dir(&to)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["-rf", ".wh"]);
}

#[test]
fn a_layer_that_is_not_the_named_one_is_refused() {
    let layers = [layer(&[File("a", "1")])];
    let mut files = saved(&layers);
    let path = files
        .keys()
        .find(|path| path.ends_with("layer.tar"))
        .unwrap()
        .clone();
    files.insert(path, layer(&[File("a", "2")]));
    assert!(matches!(
        import(archived(&files)),
        Err(TransferError::BadImage { .. })
    ));
    let mut files = layout(&layers);
    let changed = gzip(&layer(&[File("a", "2")]));
    let stored = gzip(&layers[0]);
    files.insert(format!("blobs/sha256/{}", sha256(&stored)), changed);
    assert!(matches!(
        import(archived(&files)),
        Err(TransferError::BadImage { .. })
    ));
}

#[test]
fn a_damaged_image_is_refused_with_its_reason() {
    let layers = [layer(&[File("a", "1")])];
    let cases: [(&str, &[u8]); 4] = [
        ("manifest.json", b"[]"),
        ("manifest.json", b"{"),
        ("c.json", b"{}"),
        (
            "manifest.json",
            br#"[{"Config":"../../etc/passwd","Layers":["x"]}]"#,
        ),
    ];
    for (path, text) in cases {
        let mut files = saved(&layers);
        files.insert(path.into(), text.to_vec());
        match import(archived(&files)) {
            Err(TransferError::BadImage { .. }) => {}
            other => panic!("{path}: {other:?}"),
        }
    }
    for digest in ["md5:1", "sha256:../../../etc/passwd", "sha256:00"] {
        let files = with_index(layout(&layers), &format!(r#"{{"digest":"{digest}"}}"#));
        match import(archived(&files)) {
            Err(TransferError::BadImage { reason }) => assert!(reason.contains("sha256"), "{reason}"),
            other => panic!("{digest}: {other:?}"),
        }
    }
}

#[test]
fn a_layout_reaches_nothing_through_a_symbolic_link() {
    let files = layout(&[layer(&[File("a", "1")])]);
    let place = unpacked(&files);
    let index = place.path().join("index.json");
    fs::rename(&index, place.path().join("real")).unwrap();
    std::os::unix::fs::symlink("real", &index).unwrap();
    match import_with(&Place::new(), ImageSource::Directory(place.path()), &options()) {
        Err(TransferError::Host { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_several_images_one_is_taken_by_name_or_by_machine() {
    let mut files = Files::new();
    let one = manifest(&mut files, &[layer(&[File("one", "1")])]);
    let two = manifest(&mut files, &[layer(&[File("two", "2")])]);
    let name = |name: &str| format!(r#""annotations":{{"org.opencontainers.image.ref.name":"{name}"}}"#);
    let platform = |machine: &str| format!(r#""platform":{{"os":"linux","architecture":"{machine}"}}"#);
    let index = |one_is: String, two_is: String| {
        let manifests =
            format!(r#"{{"digest":"sha256:{one}",{one_is}}},{{"digest":"sha256:{two}",{two_is}}}"#);
        archived(&with_index(files.clone(), &manifests))
    };
    let named = index(name("app:1"), name("app:2"));
    match import(named.clone()) {
        Err(TransferError::SeveralImages { names }) => assert_eq!(names, ["app:1", "app:2"]),
        other => panic!("{other:?}"),
    }
    let vault = Place::new();
    let wanted = ImageImport {
        wanted: Some("app:2"),
        ..options()
    };
    let image = import_with(&vault, stream(named), &wanted).unwrap();
    assert_eq!(listed(&vault, image), ["two = 2"]);
    let machines = index(platform("arm64"), platform("amd64"));
    let image = import_with(&vault, stream(machines), &options()).unwrap();
    assert_eq!(listed(&vault, image), ["two = 2"]);
}

#[test]
fn zstd_is_named_in_the_refusal() {
    let error = import([&[0x28, 0xb5, 0x2f, 0xfd][..], &[0; 600]].concat()).unwrap_err();
    let source = std::error::Error::source(&error)
        .map(ToString::to_string)
        .unwrap_or_default();
    assert!(source.contains("zstd"), "{error} {source}");
}

/// Changed in any way, an image gives an error or a tree, and never a panic.
#[test]
fn damaged_images_are_refused_or_read_and_never_more() {
    let layers = [
        layer(&[
            Directory("a"),
            File("a/b", "text"),
            Link("a/c", "a/b"),
            Symlink("l", "a"),
        ]),
        layer(&[
            File("a/.wh.b", ""),
            File("x/.wh..wh..opq", ""),
            File("a/d", "text"),
        ]),
    ];
    let seeds = [
        archived(&saved(&layers)),
        archived(&layout(&layers)),
        gzip(&layers[0]),
        layers[1].clone(),
    ];
    let (vault, options) = (
        Place::new(),
        ImageImport {
            most_bytes: 1 << 20,
            most_entries: 1000,
            ..options()
        },
    );
    avfs_testkit::fuzz(&seeds, |bytes| {
        if let Ok(image) = import_with(&vault, stream(bytes.to_vec()), &options) {
            vault.tree(image.tree);
        }
    });
}
