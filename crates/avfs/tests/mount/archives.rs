//! Programs that copy trees and must lose nothing: tar, cp, rsync. They restore times to the nanosecond, which
//! the comparison checks, because the times of the source lie outside of every run.

use crate::compare::Freedom;
use crate::place::in_both;
use crate::shell::sh;
use crate::source::source;

#[test]
fn tar_unpacks_and_packs() {
    in_both(&Freedom::default(), |run| {
        source(&run.aside.join("source"));
        sh(
            run.dir,
            "tar() { command tar --xattrs --acls --format=posix --sort=name \"$@\"; }
             test -e ../aside/source.tar || tar -cSf ../aside/source.tar -C ../aside source
             tar -xpf ../aside/source.tar
             tar -cf again.tar --pax-option=exthdr.name=%d/%f,delete=atime,delete=ctime source
             mkdir again
             tar -xpf again.tar -C again
             tar --compare -f again.tar
             tar -czf packed.tgz --mtime=@1000000000 source
             tar -xzf packed.tgz -C again --overwrite --delay-directory-restore
             rm packed.tgz",
        );
    });
}

#[test]
fn cp_keeps_everything() {
    in_both(&Freedom::default(), |run| {
        source(&run.aside.join("source"));
        sh(
            run.dir,
            "cp -a ../aside/source copy
             cp -a copy within
             cp -a --reflink=auto --sparse=always within/large within/sparse .
             cp -al copy linked
             cp -a copy/. linked 2>/dev/null || true
             cp -r copy/d0 fresh
             cp -a --backup=numbered copy/large within/large
             diff -r --no-dereference copy/d1 within/d1",
        );
    });
}

#[test]
fn rsync_keeps_everything_and_sends_only_what_differs() {
    in_both(&Freedom::default(), |run| {
        source(&run.aside.join("source"));
        sh(run.dir, "rsync -aHXS ../aside/source/ copy");
        let again = sh(run.dir, "rsync -aHXS --itemize-changes ../aside/source/ copy");
        assert_eq!(again, "", "nothing is left to do");
        sh(
            run.dir,
            "echo more >>copy/d1/e1/'file 1'; rm -r copy/d6; touch copy/extra
             rsync -aHXS --delete --inplace ../aside/source/ copy
             rsync -a --delete --link-dest=../copy ../aside/source/ next
             test next/d1/e1/'file 1' -ef copy/d1/e1/'file 1'",
        );
    });
}
