//! Where symbolic links may be created, and which targets they may have.
//!
//! A path below the name of a link is resolved at its target. So nothing there may have a higher level than
//! the name of the link would give it: `.vscode` must not lead to a directory in which `tasks.json` can be
//! written. Rules that match at any depth apply at the target too, and do not forbid links to similar places.
//! If rules mention the name itself, links that are too complex to decide are refused.

use avfs_core::rules::{Level, RuleState};
use avfs_core::{EntryName, Labels};

use crate::error::FsError;
use crate::op::EntryPlace;
use crate::worktree::state::TreeState;
use crate::worktree::view::RuleView;

/// A name that no pattern mentions: it represents all such names.
const ANY_NAME: &[u8] = b"\x01any\x01";
/// A target with more names than this is refused: each place to which it may refer is checked.
const NAMES_MAX: usize = 64;

impl RuleView {
    pub(super) fn may_lead(
        &mut self,
        state: &TreeState,
        at: &EntryPlace,
        link: &RuleState,
        target: &[u8],
    ) -> Result<(), FsError> {
        let above = self.directory(state, at.parent).ok_or(FsError::Hidden)?;
        let path = path_of(state, at.parent).ok_or(FsError::Hidden)?;
        self.may_lead_from(&above, &path, link, target)
    }

    /// `above` and `path` are those of the directory that contains the link.
    pub(super) fn may_lead_from(
        &self,
        above: &RuleState,
        path: &[EntryName],
        link: &RuleState,
        target: &[u8],
    ) -> Result<(), FsError> {
        let denied = |needed| {
            Err(FsError::Denied {
                level: link.level(),
                needed,
            })
        };
        // Where bytes may only be appended, the link could be retargeted later.
        if link.level() < Level::Write {
            return denied(Some(Level::Write));
        }
        let any = self.rules().child(above, ANY_NAME, &Labels::default());
        let Some(meanings) = meanings(path, target) else {
            return denied(None);
        };
        let leads_higher =
            |names: &Vec<&[u8]>| self.rules().is_higher_nearby(&self.rule_state_of(names), link);
        if self.rules().is_no_higher_below(&any, link) && !meanings.iter().any(leads_higher) {
            Ok(())
        } else {
            denied(None)
        }
    }

    fn rule_state_of(&self, names: &[&[u8]]) -> RuleState {
        let none = Labels::default();
        names.iter().fold(self.rules().root(&none), |at, name| {
            self.rules().child(&at, name, &none)
        })
    }
}

/// The paths of the tree to which a target may refer, or `None` if it is too long. The mount point of the
/// tree is unknown, so any suffix of an absolute target is possible.
fn meanings<'a>(path: &'a [EntryName], target: &'a [u8]) -> Option<Vec<Vec<&'a [u8]>>> {
    let names = target
        .split(|byte| *byte == b'/')
        .filter(|name| !matches!(name, [] | [b'.']));
    let is_absolute = target.first() == Some(&b'/');
    let mut lead: Vec<&[u8]> = if is_absolute {
        Vec::new()
    } else {
        path.iter().map(EntryName::as_bytes).collect()
    };
    let above = lead.len();
    for name in names {
        match name {
            b".." => drop(lead.pop()),
            name => lead.push(name),
        }
    }
    if lead.len() > above + NAMES_MAX {
        return None;
    }
    if is_absolute {
        // Not the root itself: a target that refers to the root has all of its rules below the link too.
        Some(
            (0..lead.len().max(1))
                .map(|start| lead[start..].to_vec())
                .collect(),
        )
    } else {
        Some(vec![lead])
    }
}

/// The names from the root to a place.
pub(super) fn path_to(state: &TreeState, at: &EntryPlace) -> Option<Vec<EntryName>> {
    let above = path_of(state, at.parent)?;
    Some(above.into_iter().chain([at.name.clone()]).collect())
}

fn path_of(state: &TreeState, directory: crate::inodes::Ino) -> Option<Vec<EntryName>> {
    Some(
        state
            .trail(directory)?
            .into_iter()
            .map(|(name, _)| name)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use avfs_core::rules::{Preset, Rule, Rules};

    use super::*;

    #[track_caller]
    fn check(view: &RuleView, link: &str, target: &str, may: bool) {
        let mut path: Vec<EntryName> = link
            .split('/')
            .map(|name| EntryName::new(name.as_bytes()).unwrap())
            .collect();
        let name = path.pop().unwrap();
        let names: Vec<&[u8]> = path.iter().map(EntryName::as_bytes).collect();
        let above = view.rule_state_of(&names);
        let rule_state = view.rules().child(&above, name.as_bytes(), &Labels::default());
        let answer = view.may_lead_from(&above, &path, &rule_state, target.as_bytes());
        assert_eq!(answer.is_ok(), may, "{link} -> {target}");
    }

    fn view_of(lines: &[&str]) -> RuleView {
        RuleView::new(Rules::new(lines.iter().map(|line| Rule::parse(line).unwrap()).collect()).unwrap())
    }

    #[test]
    fn rules_that_hold_at_any_depth_forbid_only_the_names_that_they_name() {
        for preset in [Preset::AgentSafe, Preset::Development] {
            let view = RuleView::new(Rules::new(preset.rules()).unwrap());
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
        let view = view_of(&["/**=write", "/top/**/config=read"]);
        check(&view, "free/link", "x", true);
        check(&view, "free/link", "/mnt/top", true);
        check(&view, "top/link", "/mnt/free", false);
        check(&view, "top/link", "../free", false);
        let view = view_of(&["/**=read", "/a/**=write", "/b/**=write", "/a/x/**/config=read"]);
        check(&view, "a/x/link", "../../b", false);
        check(&view, "a/x/link", "/mnt/work/b", false);
        check(&view, "b/link", "../a/x", true);
    }

    #[test]
    fn a_link_is_not_made_where_bytes_may_only_be_added() {
        let view = view_of(&["/**=write", "/log/**=append"]);
        check(&view, "log/today", "yesterday", false);
        check(&view, "today", "log/today", true);
    }

    #[test]
    fn a_target_that_is_too_long_to_look_at_is_refused() {
        let view = view_of(&["/**=write"]);
        check(&view, "a", &"/x".repeat(NAMES_MAX), true);
        check(&view, "a", &"/x".repeat(NAMES_MAX + 1), false);
    }
}
