//! Where a symbolic link may be, and where it may lead.
//!
//! What is asked for below its name is answered from where it leads. So nothing there may have a higher level than
//! the name seems to give it: `.vscode` must not lead to where `tasks.json` can be written. Rules that hold at any
//! depth hold there too, and forbid no link to a place like its own. Where the name itself is what rules are about, what is
//! too complex to tell is refused.

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
        let any = self.rules().child(above, ANY_NAME, &Labels::default());
        let Some(meanings) = meanings(path, target) else { return denied(None) };
        let leads_higher = |names: &Vec<&[u8]>| self.rules().is_higher_nearby(&self.standing_of(names), link);
        match self.rules().is_no_higher_below(&any, link) && !meanings.iter().any(leads_higher) {
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
        // Not the root itself: whoever means it has all of its rules below the link too.
        true => Some((0..lead.len().max(1)).map(|start| lead[start..].to_vec()).collect()),
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
    fn check(view: &View, link: &str, target: &str, may: bool) {
        let mut path: Vec<EntryName> =
            link.split('/').map(|name| EntryName::new(name.as_bytes()).unwrap()).collect();
        let name = path.pop().unwrap();
        let names: Vec<&[u8]> = path.iter().map(EntryName::as_bytes).collect();
        let above = view.standing_of(&names);
        let standing = view.rules().child(&above, name.as_bytes(), &Labels::default());
        let answer = view.may_lead_from(&above, &path, &standing, target.as_bytes());
        assert_eq!(answer.is_ok(), may, "{link} -> {target}");
    }

    fn through(lines: &[&str]) -> View {
        View::new(Rules::new(lines.iter().map(|line| Rule::parse(line).unwrap()).collect()).unwrap())
    }

    #[test]
    fn rules_that_hold_at_any_depth_forbid_only_the_names_that_they_name() {
        for preset in [Preset::AgentSafe, Preset::Development] {
            let view = View::new(Rules::new(preset.rules()).unwrap());
            for target in ["x", "../x", "/usr/bin/python3", "/output/x", "."] {
                check(&view, "output/a/link", target, true);
            }
            for name in [".vscode", ".idea", ".git"] {
                check(&view, &format!("output/{name}"), "x", false);
            }
            if preset == Preset::Development {
                check(&view, "node_modules/.bin/tool", "/usr/bin/python3", true);
                check(&view, "node_modules/.bin/tool", "../tool/tool.js", true);
                check(&view, "node_modules/own", "../packages/own", true);
                check(&view, "own", "node_modules/own", false);
                check(&view, "env/lib64", "lib", true);
            }
        }
    }

    #[test]
    fn a_link_does_not_lead_out_of_where_something_is_protected() {
        let view = through(&["/**=write", "/top/**/config=read"]);
        check(&view, "free/link", "x", true);
        check(&view, "free/link", "/mnt/top", true);
        check(&view, "top/link", "/mnt/free", false);
        check(&view, "top/link", "../free", false);
        let view = through(&["/**=read", "/a/**=write", "/b/**=write", "/a/x/**/config=read"]);
        check(&view, "a/x/link", "../../b", false);
        check(&view, "a/x/link", "/mnt/work/b", false);
        check(&view, "b/link", "../a/x", true);
    }

    #[test]
    fn a_link_is_not_made_where_bytes_may_only_be_added() {
        let view = through(&["/**=write", "/log/**=append"]);
        check(&view, "log/today", "yesterday", false);
        check(&view, "today", "log/today", true);
    }

    #[test]
    fn a_target_that_is_too_long_to_look_at_is_refused() {
        let view = through(&["/**=write"]);
        check(&view, "a", &"/x".repeat(NAMES_MAX), true);
        check(&view, "a", &"/x".repeat(NAMES_MAX + 1), false);
    }
}
