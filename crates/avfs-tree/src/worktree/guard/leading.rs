//! Where a symbolic link may be, and where it may lead.
//!
//! What is asked for below its name is answered from where it leads. So nothing there may have a higher level than
//! the name seems to give it: `.vscode` must not lead to where `tasks.json` can be written. Rules that hold at any
//! depth hold there too, and forbid no link to a place like its own. What is too complex to tell is refused.

use avfs_core::rules::{Level, Standing};
use avfs_core::{EntryName, Labels};

use crate::error::FsError;
use crate::op::Place;
use crate::worktree::state::State;
use crate::worktree::view::View;

/// A name that is in no pattern: what holds for it holds for any.
const ANY_NAME: &[u8] = b"\x01any\x01";
/// A target with more names than this is refused: each place that it may mean is looked at.
const NAMES_MAX: usize = 64;

impl View {
    pub(super) fn may_lead(
        &mut self,
        state: &State,
        at: &Place,
        link: &Standing,
        target: &[u8],
    ) -> Result<(), FsError> {
        let above = self.directory(state, at.parent).ok_or(FsError::Hidden)?;
        let path = state.path_of(at.parent).ok_or(FsError::Hidden)?;
        self.may_lead_from(&above, &path, link, target)
    }

    /// `above` and `path` are those of the directory that the link is in.
    pub(super) fn may_lead_from(
        &self,
        above: &Standing,
        path: &[EntryName],
        link: &Standing,
        target: &[u8],
    ) -> Result<(), FsError> {
        let denied = |needed| Err(FsError::Denied { level: link.level(), needed });
        // Where bytes may only be added, a link could be led to others later.
        if link.level() < Level::Write {
            return denied(Some(Level::Write));
        }
        let mut places = vec![self.rules().child(above, ANY_NAME, &Labels::default())];
        match meanings(path, target) {
            Some(meanings) => places.extend(meanings.iter().map(|names| self.standing_of(names))),
            None => return denied(None),
        }
        match places.iter().all(|place| self.rules().is_no_higher_below(place, link)) {
            true => Ok(()),
            false => denied(None),
        }
    }

    fn standing_of(&self, names: &[&[u8]]) -> Standing {
        let none = Labels::default();
        names.iter().fold(self.rules().root(&none), |at, name| self.rules().child(&at, name, &none))
    }
}

/// The paths of the tree that a target may mean, or `None` if it is too long. It is not known where the tree is
/// mounted, so any end of an absolute one may be meant.
fn meanings<'a>(path: &'a [EntryName], target: &'a [u8]) -> Option<Vec<Vec<&'a [u8]>>> {
    let names = target.split(|byte| *byte == b'/').filter(|name| !matches!(name, [] | [b'.']));
    let is_absolute = target.first() == Some(&b'/');
    let mut lead: Vec<&[u8]> = match is_absolute {
        true => Vec::new(),
        false => path.iter().map(EntryName::as_bytes).collect(),
    };
    let above = lead.len();
    for name in names {
        match name {
            b".." => drop(lead.pop()),
            name => lead.push(name),
        }
    }
    match is_absolute {
        _ if lead.len() > above + NAMES_MAX => None,
        true => Some((0..=lead.len()).map(|start| lead[start..].to_vec()).collect()),
        false => Some(vec![lead]),
    }
}

impl State {
    /// The names from the root to a place.
    pub(super) fn path_to(&self, at: &Place) -> Option<Vec<EntryName>> {
        let above = self.path_of(at.parent)?;
        Some(above.into_iter().chain([at.name.clone()]).collect())
    }

    fn path_of(&self, directory: crate::inodes::Ino) -> Option<Vec<EntryName>> {
        Some(self.trail(directory)?.into_iter().map(|(name, _)| name).collect())
    }
}

#[cfg(test)]
mod tests {
    use avfs_core::rules::{Preset, Rule, Rules};

    use super::*;

    #[track_caller]
    fn check(rules: Vec<Rule>, link: &str, target: &str, may: bool) {
        let view = View::new(Rules::new(rules).unwrap());
        let mut path: Vec<EntryName> =
            link.split('/').map(|name| EntryName::new(name.as_bytes()).unwrap()).collect();
        let name = path.pop().unwrap();
        let names: Vec<&[u8]> = path.iter().map(EntryName::as_bytes).collect();
        let above = view.standing_of(&names);
        let standing = view.rules().child(&above, name.as_bytes(), &Labels::default());
        let answer = view.may_lead_from(&above, &path, &standing, target.as_bytes());
        assert_eq!(answer.is_ok(), may, "{link} -> {target}");
    }

    fn rules(lines: &[&str]) -> Vec<Rule> {
        lines.iter().map(|line| Rule::parse(line).unwrap()).collect()
    }

    #[test]
    fn rules_that_hold_at_any_depth_forbid_only_the_names_that_they_name() {
        for preset in [Preset::Development, Preset::AgentSafe] {
            for target in ["x", "../x", "/usr/bin/python3", "/output/x", "."] {
                check(preset.rules(), "output/a/link", target, true);
            }
            for name in [".vscode", ".idea", ".git"] {
                check(preset.rules(), &format!("output/{name}"), "x", false);
            }
        }
        check(Preset::Development.rules(), "node_modules/.bin/tool", "/usr/bin/python3", true);
        check(Preset::Development.rules(), "node_modules/.bin/tool", "../tool/tool.js", true);
        check(Preset::Development.rules(), "node_modules/own", "../packages/own", true);
        check(Preset::Development.rules(), "own", "node_modules/own", false);
        check(Preset::Development.rules(), "env/lib64", "lib", true);
    }

    #[test]
    fn a_link_does_not_lead_out_of_where_something_is_protected() {
        let top = || rules(&["/**=write", "/top/**/config=read"]);
        check(top(), "free/link", "x", true);
        check(top(), "free/link", "/mnt/top", true);
        check(top(), "top/link", "/mnt/free", false);
        check(top(), "top/link", "../free", false);
        let places = || rules(&["/**=read", "/a/**=write", "/b/**=write", "/a/x/**/config=read"]);
        check(places(), "a/x/link", "../../b", false);
        check(places(), "a/x/link", "/mnt/work/b", false);
        check(places(), "b/link", "../a/x", true);
    }

    #[test]
    fn a_link_is_not_made_where_bytes_may_only_be_added() {
        check(rules(&["/**=write", "/log/**=append"]), "log/today", "yesterday", false);
        check(rules(&["/**=write", "/log/**=append"]), "today", "log/today", true);
    }

    #[test]
    fn a_target_that_is_too_long_to_look_at_is_refused() {
        check(rules(&["/**=write"]), "a", &"/x".repeat(NAMES_MAX), true);
        check(rules(&["/**=write"]), "a", &"/x".repeat(NAMES_MAX + 1), false);
    }
}
