//! Where things are on the screen.

use ratatui_core::layout::{Rect, Size};

use super::rows::DiffForm;

/// From how many columns on the diff pane shows both sides.
const SIDE_BY_SIDE: u16 = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub title: Rect,
    pub tree: Rect,
    pub diff_title: Rect,
    pub diff: Rect,
    pub keys: Rect,
}

impl Geometry {
    /// `tree_width`: how many columns the tree would like to have.
    pub fn new(size: Size, tree_width: usize) -> Geometry {
        let Size { width, height } = size;
        let body = height.saturating_sub(2);
        let most = (width / 3).max(16).min(width);
        let tree = u16::try_from(tree_width)
            .unwrap_or(u16::MAX)
            .clamp(16.min(most), most);
        // A column between them stays free for a line.
        let left = (tree + 1).min(width);
        Geometry {
            title: Rect::new(0, 0, width, height.min(1)),
            tree: Rect::new(0, 1, tree, body),
            diff_title: Rect::new(left, 1, width - left, body.min(1)),
            diff: Rect::new(left, 2, width - left, body.saturating_sub(1)),
            keys: Rect::new(0, height.saturating_sub(1), width, height.min(1)),
        }
    }

    pub fn form(&self) -> DiffForm {
        if self.diff.width >= SIDE_BY_SIDE {
            DiffForm::SideBySide
        } else {
            DiffForm::Unified
        }
    }
}

/// The first row to show, so that row `at` of `count` is within `height`: the old one if it is there already.
pub fn scrolled(top: usize, at: usize, count: usize, height: usize) -> usize {
    let lowest = at.saturating_sub(height.saturating_sub(1));
    top.clamp(lowest, at.max(lowest))
        .min(count.saturating_sub(height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_of_a_screen_has_its_areas() {
        for width in [0, 1, 5, 16, 17, 40, 80, 200] {
            for height in [0, 1, 2, 3, 24] {
                let screen = Rect::new(0, 0, width, height);
                let geometry = Geometry::new(Size::new(width, height), 30);
                for area in [
                    geometry.title,
                    geometry.tree,
                    geometry.diff,
                    geometry.diff_title,
                    geometry.keys,
                ] {
                    assert!(
                        area.is_empty() || screen.contains(area.as_position()),
                        "{screen} {area}"
                    );
                    assert_eq!(area.intersection(screen).area(), area.area(), "{screen} {area}");
                }
            }
        }
    }

    #[test]
    fn a_wide_screen_shows_both_sides() {
        let form = |width| Geometry::new(Size::new(width, 24), 28).form();
        assert_eq!((form(80), form(120)), (DiffForm::Unified, DiffForm::SideBySide));
    }

    #[test]
    fn selected_line_stays_in_sight() {
        assert_eq!(scrolled(0, 5, 100, 10), 0);
        assert_eq!(scrolled(0, 10, 100, 10), 1);
        assert_eq!(scrolled(50, 20, 100, 10), 20);
        assert_eq!(scrolled(95, 99, 100, 10), 90);
        assert_eq!(scrolled(3, 0, 2, 10), 0);
        assert_eq!(scrolled(0, 0, 0, 0), 0);
    }
}
