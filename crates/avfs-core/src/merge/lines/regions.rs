//! Where the sides differ from the base, and which of them is right there.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, Hunk, Interner, NoSliderHeuristic, Token};

use super::MarkerStyle;

/// Conflicts with at most this many lines between them are shown as one.
const NEAR: usize = 3;

/// A part of the texts that is not the same in all of them. Between regions, both sides say the same.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub base: Range<usize>,
    pub ours: Range<usize>,
    pub theirs: Range<usize>,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ours,
    Theirs,
    Conflict,
}

pub(super) fn regions(base: &[&[u8]], ours: &[&[u8]], theirs: &[&[u8]], style: MarkerStyle) -> Vec<Region> {
    let mut interner = Interner::new(base.len() + ours.len() / 2 + theirs.len() / 2);
    let mut intern = |lines: &[&[u8]]| lines.iter().map(|line| interner.intern(line.to_vec())).collect();
    let [base, our_tokens, theirs]: [Vec<Token>; 3] = [intern(base), intern(ours), intern(theirs)];
    let tokens = interner.num_tokens();
    let our_hunks = compare(&base, &our_tokens, tokens);
    let their_hunks = compare(&base, &theirs, tokens);

    let mut found = Vec::new();
    for region in touching(&our_hunks, &their_hunks) {
        let (mine, yours) = (&our_tokens[region.ours.clone()], &theirs[region.theirs.clone()]);
        match (region.verdict, style) {
            (Verdict::Conflict, _) if mine == yours => {}
            (Verdict::Conflict, MarkerStyle::Ours) => found.push(Region { verdict: Verdict::Ours, ..region }),
            (Verdict::Conflict, MarkerStyle::Theirs) => {
                found.push(Region { verdict: Verdict::Theirs, ..region })
            }
            (Verdict::Conflict, MarkerStyle::Merge) if !mine.is_empty() && !yours.is_empty() => {
                found.extend(refined(&region, &compare(mine, yours, tokens)));
            }
            (Verdict::Conflict | Verdict::Ours | Verdict::Theirs, _) => found.push(region),
        }
    }
    match style {
        MarkerStyle::Merge => joined(found, ours),
        MarkerStyle::Diff3 | MarkerStyle::Ours | MarkerStyle::Theirs => found,
    }
}

fn compare(before: &[Token], after: &[Token], tokens: u32) -> Vec<Hunk> {
    let mut diff = Diff::default();
    diff.compute_with(Algorithm::Histogram, before, after, tokens);
    diff.postprocess_with(before, after, NoSliderHeuristic);
    diff.hunks().collect()
}

/// Puts changes together that overlap or touch: nobody can say which of two such changes comes first.
fn touching(ours: &[Hunk], theirs: &[Hunk]) -> Vec<Region> {
    let (mut ours, mut theirs) = (Side::new(ours), Side::new(theirs));
    let mut regions = Vec::new();
    while let Some(start) = [ours.next_start(), theirs.next_start()].into_iter().flatten().min() {
        let (our_start, their_start) = (ours.position(start), theirs.position(start));
        let (our_rest, their_rest) = (ours.hunks.len(), theirs.hunks.len());
        let mut end = start;
        while ours.take_until(&mut end) || theirs.take_until(&mut end) {}
        let verdict = match (our_rest != ours.hunks.len(), their_rest != theirs.hunks.len()) {
            (true, false) => Verdict::Ours,
            (false, true) => Verdict::Theirs,
            _ => Verdict::Conflict,
        };
        regions.push(Region {
            base: start..end,
            ours: our_start..ours.position(end),
            theirs: their_start..theirs.position(end),
            verdict,
        });
    }
    regions
}

/// The changes of one side that are still to come.
struct Side<'a> {
    hunks: &'a [Hunk],
    /// How far the lines of this side are after those of the base, by the changes that were taken.
    shift: isize,
}

impl<'a> Side<'a> {
    fn new(hunks: &'a [Hunk]) -> Side<'a> {
        Side { hunks, shift: 0 }
    }

    fn next_start(&self) -> Option<usize> {
        self.hunks.first().map(|hunk| hunk.before.start as usize)
    }

    /// Where a line of the base is in this side, all changes before it being taken.
    fn position(&self, base: usize) -> usize {
        base.checked_add_signed(self.shift).expect("a side cannot lose more lines than the base has")
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
fn refined<'a>(whole: &'a Region, differences: &'a [Hunk]) -> impl Iterator<Item = Region> + 'a {
    let moved = |range: &Range<u32>, by: usize| range.start as usize + by..range.end as usize + by;
    differences.iter().map(move |hunk| Region {
        base: whole.base.clone(),
        ours: moved(&hunk.before, whole.ours.start),
        theirs: moved(&hunk.after, whole.theirs.start),
        verdict: Verdict::Conflict,
    })
}

/// Makes conflicts one that have little between them: markers around every second line are hard to read.
fn joined(regions: Vec<Region>, ours: &[&[u8]]) -> Vec<Region> {
    let mut kept: Vec<Region> = Vec::with_capacity(regions.len());
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

fn are_near(first: &Region, second: &Region, ours: &[&[u8]]) -> bool {
    let between = &ours[first.ours.end..second.ours.start];
    let says_nothing = || !between.iter().any(|line| line.iter().any(u8::is_ascii_alphanumeric));
    first.verdict == Verdict::Conflict
        && second.verdict == Verdict::Conflict
        && (between.len() <= NEAR || says_nothing())
}
