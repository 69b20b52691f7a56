//! Which sets of globs can be matched by one name: the letters of the alphabet that [`PatternMachine`] reads paths in.
//!
//! The globs are read in parallel as one automaton that is determinised on the fly. The set at the end of
//! each possible name is an answer. Every answer is reached, because every character that any glob
//! distinguishes is tried, and one that no glob distinguishes.
//!
//! [`PatternMachine`]: super::machine::PatternMachine

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::budget::{BudgetSpent, StepBudget};
use super::glob::{Glob, GlobToken, GlobbedName, INVALID, Symbol};

pub(super) type GlobId = u32;

/// All globs of a list of rules, each once.
#[derive(Debug, Default)]
pub(super) struct GlobTable {
    all: Vec<Glob>,
    ids: HashMap<Glob, GlobId>,
    by_literal: HashMap<Box<[u8]>, GlobId>,
    letters: Vec<GlobLetter>,
    /// Where the letters of each glob start.
    starts: Vec<u32>,
    /// Answers about sets of globs with wildcards.
    known: Mutex<HashMap<Box<[GlobId]>, Arc<GlobSubsets>>>,
}

/// Ascending sets of globs, each with whether so many names match exactly this set that some of them are not
/// literals.
type GlobSubsets = Vec<(Box<[GlobId]>, bool)>;

const KNOWN_MAX: usize = 1024;

/// A token of a glob, or its end, and the glob to which it belongs.
#[derive(Debug)]
struct GlobLetter {
    glob: GlobId,
    token: Option<GlobToken>,
}

impl GlobTable {
    pub(super) fn intern(&mut self, glob: &Glob) -> GlobId {
        if let Some(id) = self.ids.get(glob) {
            return *id;
        }
        let id = self.all.len() as GlobId;
        self.starts.push(self.letters.len() as u32);
        let tokens = glob.tokens().iter().cloned().map(Some).chain([None]);
        self.letters
            .extend(tokens.map(|token| GlobLetter { glob: id, token }));
        if let Some(literal) = glob.literal() {
            self.by_literal.insert(literal.into(), id);
        }
        self.ids.insert(glob.clone(), id);
        self.all.push(glob.clone());
        id
    }

    pub(super) fn get(&self, id: GlobId) -> &Glob {
        &self.all[id as usize]
    }

    /// The glob that consists of exactly this name.
    pub(super) fn literal(&self, name: &[u8]) -> Option<GlobId> {
        self.by_literal.get(name).copied()
    }

    /// Every set of globs that is the complete set of matches of some name. All sets are ascending.
    ///
    /// A literal is a name itself, so it is simply matched. Other names have the same sets of matches as
    /// names in general, unless there are so few names for a set that they could all be literals: then all
    /// globs are read together.
    pub(super) fn matched_together(
        &self,
        literal: &[GlobId],
        wild: &[GlobId],
        budget: &mut StepBudget,
    ) -> Result<Vec<Box<[GlobId]>>, BudgetSpent> {
        let together = self.known_together(wild, budget)?;
        if !literal.is_empty() && together.iter().any(|(_, is_many)| !is_many) {
            let mut all = [literal, wild].concat();
            all.sort_unstable();
            return Ok(self
                .read_together(&all, budget)?
                .into_iter()
                .map(|(set, _)| set)
                .collect());
        }
        budget.spend(together.len() + literal.len() * (wild.len() + 1))?;
        let sets = together.iter().map(|(set, _)| set.clone());
        Ok(sets
            .chain(literal.iter().map(|glob| self.matched_by_literal(*glob, wild)))
            .collect())
    }

    fn matched_by_literal(&self, literal: GlobId, wild: &[GlobId]) -> Box<[GlobId]> {
        let name = GlobbedName::new(self.get(literal).literal().expect("the caller gives literals"));
        let mut matched: Vec<GlobId> = wild
            .iter()
            .copied()
            .filter(|glob| self.get(*glob).matches(&name))
            .collect();
        matched.insert(matched.partition_point(|glob| *glob < literal), literal);
        matched.into()
    }

    fn known_together(
        &self,
        wild: &[GlobId],
        budget: &mut StepBudget,
    ) -> Result<Arc<GlobSubsets>, BudgetSpent> {
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(together) = lock().get(wild) {
            return Ok(Arc::clone(together));
        }
        let together = Arc::new(self.read_together(wild, budget)?);
        let mut known = lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(wild.into(), Arc::clone(&together));
        Ok(together)
    }

    fn read_together(&self, globs: &[GlobId], budget: &mut StepBudget) -> Result<GlobSubsets, BudgetSpent> {
        let starts = globs.iter().map(|id| self.starts[*id as usize]).collect();
        let first = (DotState::Start, self.reduced(starts));
        let mut answers: HashMap<Box<[GlobId]>, bool> = HashMap::new();
        // The minimum number of names that lead there: a place is visited again when a path with many names
        // to it is found.
        let mut seen = HashMap::from([(first.clone(), 1)]);
        let mut open = vec![(first, 1)];
        while let Some(((dots, places), names)) = open.pop() {
            if dots == DotState::Name {
                *answers.entry(self.ended(&places)).or_default() |= names > self.all.len();
            }
            let symbols = self.told_apart(&places, dots);
            budget.spend((places.len() + 1) * symbols.len())?;
            for (symbol, alike) in symbols {
                let next = (dots.then(symbol), self.step(&places, symbol));
                let names = names.saturating_mul(alike);
                let known = seen.entry(next.clone()).or_insert(0);
                if *known == 0 || *known <= self.all.len() && names > self.all.len() {
                    *known = names;
                    open.push((next, names));
                }
            }
        }
        let mut answers: GlobSubsets = answers.into_iter().collect();
        answers.sort_unstable();
        Ok(answers)
    }

    fn step(&self, places: &[u32], symbol: Symbol) -> Box<[u32]> {
        let mut next = Vec::with_capacity(places.len());
        for place in places {
            match &self.letters[*place as usize].token {
                Some(GlobToken::Star) => next.push(*place),
                Some(token) if token.takes(symbol) => next.push(place + 1),
                Some(_) | None => {}
            }
        }
        self.reduced(next)
    }

    /// Adds the place after each star, which may match nothing, and drops the places that a later star of the
    /// same glob makes redundant: every match from before a star is also a match from the star.
    fn reduced(&self, mut places: Vec<u32>) -> Box<[u32]> {
        let is_star = |place: u32| self.letters[place as usize].token == Some(GlobToken::Star);
        for index in 0..places.len() {
            if is_star(places[index]) {
                places.push(places[index] + 1);
            }
        }
        places.sort_unstable();
        places.dedup();
        let mut kept: Vec<u32> = Vec::with_capacity(places.len());
        let glob_of = |place: u32| self.letters[place as usize].glob;
        for place in places.into_iter().rev() {
            let is_needless = kept.last().is_some_and(|later| {
                glob_of(*later) == glob_of(place) && has_star_from(&kept, *later, &is_star, &glob_of)
            });
            if !is_needless {
                kept.push(place);
            }
        }
        kept.reverse();
        kept.into()
    }

    fn ended(&self, places: &[u32]) -> Box<[GlobId]> {
        let letters = places.iter().map(|place| &self.letters[*place as usize]);
        letters
            .filter(|letter| letter.token.is_none())
            .map(|letter| letter.glob)
            .collect()
    }

    /// One symbol of each class that the tokens at these places distinguish, and the size of the class.
    fn told_apart(&self, places: &[u32], dots: DotState) -> Vec<(Symbol, usize)> {
        let mut borders: Vec<Symbol> = vec![1, '/' as Symbol, '0' as Symbol, 0xd800, 0xe000, INVALID];
        // Bytes that are not part of a character come after the characters.
        let mut add = |low: Symbol, high: Symbol| borders.extend([low, (high + 1).min(INVALID)]);
        if dots != DotState::Name {
            add('.' as Symbol, '.' as Symbol);
        }
        let mut has_ranges = false;
        for place in places {
            match &self.letters[*place as usize].token {
                Some(GlobToken::Char(c)) => add(*c as Symbol, *c as Symbol),
                Some(GlobToken::Class(class)) => {
                    has_ranges = true;
                    class.ranges().iter().for_each(|range| add(range.0, range.1));
                }
                Some(GlobToken::Any | GlobToken::Star) | None => {}
            }
        }
        borders.sort_unstable();
        borders.dedup();
        let kinds = borders
            .windows(2)
            .map(|pair| (pair[0], (pair[1] - pair[0]) as usize));
        let kinds = kinds.filter(|(low, _)| *low != '/' as Symbol && *low != 0xd800);
        // Without ranges, all characters between the single ones are of one class: the largest part
        // represents it.
        let others = kinds.clone().filter(|(_, alike)| *alike > 1);
        if has_ranges {
            kinds.chain([(INVALID, 1)]).collect()
        } else {
            let other = others.max_by_key(|(_, alike)| *alike);
            kinds
                .filter(|(_, alike)| *alike == 1)
                .chain(other)
                .chain([(INVALID, 1)])
                .collect()
        }
    }
}

/// `kept` is descending; whether it holds a star of the glob of `later`, which is its last.
fn has_star_from(
    kept: &[u32],
    later: u32,
    is_star: &impl Fn(u32) -> bool,
    glob_of: &impl Fn(u32) -> GlobId,
) -> bool {
    let same = kept
        .iter()
        .rev()
        .take_while(|place| glob_of(**place) == glob_of(later));
    same.copied().any(is_star)
}

/// The state of the name that was read so far: empty, `.` and `..` are not names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum DotState {
    Start,
    One,
    Two,
    Name,
}

impl DotState {
    fn then(self, symbol: Symbol) -> DotState {
        match self {
            DotState::Start if symbol == '.' as Symbol => DotState::One,
            DotState::One if symbol == '.' as Symbol => DotState::Two,
            DotState::Start | DotState::One | DotState::Two | DotState::Name => DotState::Name,
        }
    }
}
