//! A tree of sources: unpacked, walked, searched.

use super::{Step, Work, shell};

const FIND: Work = |dir, _| shell(dir, "find tree -name '*.rs' -size +0 | wc -l | grep -qx 4000");
const GREP: Work = |dir, _| shell(dir, "! grep -rl --exclude-dir=.git not-to-be-found tree");

pub fn steps() -> Vec<Step> {
    let unpack = Step::new("unpack 4,000 files", |dir, supplies| {
        shell(dir, &format!("tar -xf '{}'", supplies.archive.display()))
    });
    vec![
        unpack.needed(),
        Step::new("find", FIND).warm(),
        Step::new("grep -r", GREP).warm(),
    ]
}

pub fn cold_steps() -> Vec<Step> {
    vec![
        Step::new("find, cold", FIND).cold(),
        Step::new("grep -r, cold", GREP).cold(),
    ]
}
