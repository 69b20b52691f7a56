//! Small changes in place, as editors and shells make them.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::compare::Freedom;
use crate::place::in_both;
use crate::shell::{command, good, sh};
use crate::source::{mtime, text};

fn write_some(dir: &Path, count: usize) {
    for index in 0..count {
        fs::write(dir.join(format!("f{index}")), text(index)).unwrap();
    }
}

#[test]
fn sed_changes_files_in_place() {
    in_both(&Freedom::default(), |run| {
        write_some(run.dir, 200);
        sh(
            run.dir,
            "chmod 751 f3; ln f4 other
             sed -i s/line/LINE/ f*
             sed -i.orig -e '1d' f5
             sed -i --follow-symlinks -e '$d' f6
             test \"$(stat -c %h other)\" = 1
             perl -pi -e 's/text/words/' f7",
        );
    });
}

#[test]
fn mv_replaces_what_is_there() {
    in_both(&Freedom::default(), |run| {
        write_some(run.dir, 100);
        let old = File::open(run.dir.join("f1")).unwrap();
        sh(
            run.dir,
            "for i in $(seq 0 2 98); do mv f$i f$((i + 1)); done
             mkdir -p a/b c; mv f1 a/b; mv a c; mkdir d; mv -T c/a d
             mv --backup=simple f3 f5; mv -n f7 f9; mv -v f11 f13 d/b
             if mv d d/b 2>/dev/null; then exit 1; fi",
        );
        let mut bytes = vec![0; text(1).len()];
        old.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(
            bytes,
            text(1).as_bytes(),
            "who had the replaced file open still reads it"
        );
        assert_eq!(old.metadata().unwrap().nlink(), 0);
    });
}

#[test]
fn find_deletes_while_it_lists() {
    in_both(&Freedom::default(), |run| {
        for directory in 0..20 {
            let directory = run.dir.join(format!("d{directory}/below"));
            fs::create_dir_all(&directory).unwrap();
            write_some(&directory, 60);
        }
        write_some(run.dir, 3000);
        sh(
            run.dir,
            "find . -name 'f*[02468]' -delete
             find d1 d2 d3 -delete
             find . -type f -size -100c -exec rm {} +
             rm -rf d4 d5 d6",
        );
    });
}

/// Written beside, made durable, put in place of the old one, which stays under another name.
fn save(path: &Path, contents: &str) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let beside = path.with_file_name(format!(".{name}.new"));
    let backup = path.with_file_name(format!("{name}~"));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&beside)
        .unwrap();
    file.write_all(contents.as_bytes()).unwrap();
    file.set_permissions(fs::metadata(path).unwrap().permissions())
        .unwrap();
    file.sync_all().unwrap();
    _ = fs::remove_file(&backup);
    fs::hard_link(path, &backup).unwrap();
    fs::rename(&beside, path).unwrap();
    File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
}

#[test]
fn an_editor_saves_by_rename() {
    in_both(&Freedom::default(), |run| {
        let path = run.dir.join("notes.txt");
        fs::write(&path, "start").unwrap();
        for round in 0..50 {
            let reader = File::open(&path).unwrap();
            let (before, old) = (fs::read_to_string(&path).unwrap(), mtime(&path));
            save(&path, &text(round));
            let mut still = vec![0; before.len()];
            reader.read_exact_at(&mut still, 0).unwrap();
            assert_eq!(still, before.as_bytes());
            assert_eq!(fs::read_to_string(&path).unwrap(), text(round));
            assert_eq!(mtime(&run.dir.join("notes.txt~")), old);
        }
    });
}

#[test]
fn vi_saves_a_file_with_a_backup_and_a_swap_file() {
    in_both(&Freedom::default(), |run| {
        fs::write(run.dir.join("poem"), text(30)).unwrap();
        for copy in ["yes", "no"] {
            let mut vi = command("vi", run.dir);
            vi.args(["-Nu", "NONE", "-i", "NONE", "-es", "-c"]);
            vi.arg(format!("set backup backupcopy={copy} swapfile directory=. fsync"));
            vi.args(["-c", "%s/line/verse/", "-c", "wq", "poem"]);
            good(vi);
            sh(run.dir, "sed -i s/verse/line/ poem");
        }
    });
}
