//! Command lines as users write them: those that are read, and those that are refused.

use clap::Parser;

use crate::cli::Cli;

#[track_caller]
fn check(line: &str, accepted: bool) {
    let outcome = Cli::try_parse_from(line.split(' '));
    assert_eq!(outcome.is_ok(), accepted, "{line}: {outcome:?}");
}

#[test]
fn lines_are_read_as_users_write_them() {
    for line in [
        "avfs checkpoint save -m text",
        "avfs checkpoint restore v1 --path a --path b",
        "avfs log --graph",
        "avfs diff v1 @ src --stat",
        "avfs find --name *.rs --type f --size -10k --newer 2d",
        "avfs grep -inl -C 2 pattern src -g *.rs",
        "avfs quota set --bytes 2G",
        "avfs audit --follow",
        "avfs audit verify --expect 12",
        "avfs vault create web --from /tmp/web",
        "avfs vault fork web fix --use --at v1",
        "avfs vault fork web fix --count 8",
        "avfs vault delete web --yes",
        "avfs ls -laR src --vault web",
        "avfs cat a --lines 1:2",
        "avfs write notes.txt text --append --expect 12ab",
        "avfs cp -r a b c",
        "avfs export out.tar",
        "avfs export src out.tar",
        "avfs import -",
        "avfs vault export web web.avfs",
        "avfs vault import web.avfs --name copy",
        "avfs image import - --name app --max-bytes 2G",
        "avfs image delete app --yes",
    ] {
        check(line, true);
    }
}

#[test]
fn lines_with_a_mistake_are_refused() {
    for line in [
        "avfs diff --stat --patch",
        "avfs find --size big",
        "avfs find --newer soon",
        "avfs quota set",
        "avfs log --graph src",
        "avfs ls a/../b",
        "avfs cat",
        "avfs cat a --lines 1:2 --bytes 1:2",
        "avfs vault fork web fix --count 0",
        "avfs cp a",
        "avfs export",
        "avfs image import",
        "avfs image save web",
    ] {
        check(line, false);
    }
}
