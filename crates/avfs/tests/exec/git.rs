//! git in runs of `exec`.

use std::fs;

use crate::runs::Runs;

#[test]
fn commits_have_the_name_of_the_user_who_started_the_run() {
    let runs = Runs::new();
    fs::create_dir_all(runs.path("home")).unwrap();
    fs::write(
        runs.path("home/.gitconfig"),
        "[user]\n\tname = Ada L.\n\temail = ada@example.com\n[alias]\n\tlook = log\n",
    )
    .unwrap();
    let committed = runs.prints(
        &[],
        "git init -q && echo one >file && git add file && git commit -qm one && git log -1 --format='%an <%ae>'",
    );
    assert_eq!(committed, "Ada L. <ada@example.com>\n");
    // Nothing else of the user's settings is inside.
    assert_ne!(runs.free(&[], "git look").status, 0);
}
