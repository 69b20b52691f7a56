//! The regions in which the sides differ from the base, and which side is used there.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, Hunk, Interner, NoSliderHeuristic, Token};

use super::MarkerStyle;

/// Conflicts with at most this many lines between them are shown as one.
const NEAR: usize = 3;

/// A part of the texts that is not the same in all of them. Between regions, both sides are equal.
#[derive(Clone, Debug)]
pub(super) struct DifferingRegion {
    pub base: Range<usize>,
    pub ours: Range<usize>,
    pub theirs: Range<usize>,
    pub verdict: RegionVerdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegionVerdict {
    Ours,
    Theirs,
    Conflict,
}

/// `style_of` decides how each conflict is handled.
pub(super) fn regions(
    base: &[&[u8]],
    ours: &[&[u8]],
    theirs: &[&[u8]],
    mut style_of: impl FnMut(&DifferingRegion) -> MarkerStyle,
) -> Vec<DifferingRegion> {
    let mut interner = Interner::new(base.len() + ours.len() / 2 + theirs.len() / 2);
    let mut intern = |lines: &[&[u8]]| lines.iter().map(|line| interner.intern(line.to_vec())).collect();
    // One interner for all three: equal lines get equal tokens, and comparing tokens is comparing numbers.
    let [base, our_tokens, theirs]: [Vec<Token>; 3] = [intern(base), intern(ours), intern(theirs)];
    let tokens = interner.num_tokens();
    let our_hunks = compare(&base, &our_tokens, tokens);
    let their_hunks = compare(&base, &theirs, tokens);

    let mut found = Vec::new();
    let mut is_joined = false;
    for region in touching(&our_hunks, &their_hunks) {
        if region.verdict != RegionVerdict::Conflict {
            found.push(region);
            continue;
        }
        let mine = &our_tokens[region.ours.clone()];
        let yours = &theirs[region.theirs.clone()];
        // Both sides made the same change here: they agree, and nothing is left to decide.
        if mine == yours {
            continue;
        }
        let style = style_of(&region);
        is_joined |= style == MarkerStyle::Merge;
        match style {
            MarkerStyle::Ours => found.push(DifferingRegion {
                verdict: RegionVerdict::Ours,
                ..region
            }),
            MarkerStyle::Theirs => found.push(DifferingRegion {
                verdict: RegionVerdict::Theirs,
                ..region
            }),
            MarkerStyle::Merge if !mine.is_empty() && !yours.is_empty() => {
                found.extend(refined(&region, &compare(mine, yours, tokens)));
            }
            MarkerStyle::Merge | MarkerStyle::Diff3 => found.push(region),
        }
    }
    if is_joined { joined(found, ours) } else { found }
}

fn compare(before: &[Token], after: &[Token], tokens: u32) -> Vec<Hunk> {
    let mut diff = Diff::default();
    diff.compute_with(Algorithm::Histogram, before, after, tokens);
    diff.postprocess_with(before, after, NoSliderHeuristic);
    diff.hunks().collect()
}

/// Combines changes that overlap or touch: the order of two such changes is undefined.
fn touching(ours: &[Hunk], theirs: &[Hunk]) -> Vec<DifferingRegion> {
    let mut ours = RegionSide::new(ours);
    let mut theirs = RegionSide::new(theirs);
    let mut regions = Vec::new();
    while let Some(start) = [ours.next_start(), theirs.next_start()]
        .into_iter()
        .flatten()
        .min()
    {
        let our_start = ours.position(start);
        let their_start = theirs.position(start);
        let our_rest = ours.hunks.len();
        let their_rest = theirs.hunks.len();
        let mut end = start;
        // Each change that is taken may reach further and touch the next one of the other side.
        while ours.take_until(&mut end) || theirs.take_until(&mut end) {}
        let verdict = match (our_rest != ours.hunks.len(), their_rest != theirs.hunks.len()) {
            (true, false) => RegionVerdict::Ours,
            (false, true) => RegionVerdict::Theirs,
            _ => RegionVerdict::Conflict,
        };
        regions.push(DifferingRegion {
            base: start..end,
            ours: our_start..ours.position(end),
            theirs: their_start..theirs.position(end),
            verdict,
        });
    }
    regions
}

/// The changes of one side that are still to come.
struct RegionSide<'a> {
    hunks: &'a [Hunk],
    /// The offset between line numbers of the base and of this side, after the changes that were taken.
    shift: isize,
}

impl<'a> RegionSide<'a> {
    fn new(hunks: &'a [Hunk]) -> RegionSide<'a> {
        RegionSide { hunks, shift: 0 }
    }

    fn next_start(&self) -> Option<usize> {
        self.hunks.first().map(|hunk| hunk.before.start as usize)
    }

    /// The position of a line of the base in this side, after all earlier changes.
    fn position(&self, base: usize) -> usize {
        base.checked_add_signed(self.shift)
            .expect("a side cannot lose more lines than the base has")
    }

    /// Takes the next change if it starts before `end` or at it, and moves `end` behind it.
    fn take_until(&mut self, end: &mut usize) -> bool {
        match self.hunks.split_first() {
            Some((hunk, rest)) if hunk.before.start as usize <= *end => {
                *end = (*end).max(hunk.before.end as usize);
                self.shift += hunk.after.len() as isize - hunk.before.len() as isize;
                self.hunks = rest;
                true
            }
            _ => false,
        }
    }
}

/// The parts of a conflict in which the sides really differ.
fn refined<'a>(
    whole: &'a DifferingRegion,
    differences: &'a [Hunk],
) -> impl Iterator<Item = DifferingRegion> + 'a {
    let moved = |range: &Range<u32>, by: usize| range.start as usize + by..range.end as usize + by;
    differences.iter().map(move |hunk| DifferingRegion {
        // The base is not divided: which of its lines belong to which part is unknown.
        base: whole.base.clone(),
        ours: moved(&hunk.before, whole.ours.start),
        theirs: moved(&hunk.after, whole.theirs.start),
        verdict: RegionVerdict::Conflict,
    })
}

/// Joins conflicts with few lines between them: markers around every second line are hard to read.
fn joined(regions: Vec<DifferingRegion>, ours: &[&[u8]]) -> Vec<DifferingRegion> {
    let mut kept: Vec<DifferingRegion> = Vec::with_capacity(regions.len());
    for region in regions {
        match kept.last_mut() {
            Some(last) if are_near(last, &region, ours) => {
                last.ours.end = region.ours.end;
                last.theirs.end = region.theirs.end;
                last.base.end = region.base.end;
            }
            _ => kept.push(region),
        }
    }
    kept
}

fn are_near(first: &DifferingRegion, second: &DifferingRegion, ours: &[&[u8]]) -> bool {
    let between = &ours[first.ours.end..second.ours.start];
    let says_nothing = || {
        !between
            .iter()
            .any(|line| line.iter().any(u8::is_ascii_alphanumeric))
    };
    first.verdict == RegionVerdict::Conflict
        && second.verdict == RegionVerdict::Conflict
        && (between.len() <= NEAR || says_nothing())
}
