//! Which sets of globs can be matched by one name: the letters of the alphabet that [`Machine`] reads paths in.
//!
//! The globs are read side by side as one automaton that is determinised on the way. What is reached at the end of
//! a possible name is an answer; every answer is reached, because every character that any glob tells from others
//! is tried, and one that none does.
//!
//! [`Machine`]: super::machine::Machine

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::budget::{Budget, Spent};
use super::glob::{Glob, INVALID, Name, Symbol, Token};

pub(super) type GlobId = u32;

/// All globs of a list of rules, each once.
#[derive(Debug, Default)]
pub(super) struct Globs {
    all: Vec<Glob>,
    ids: HashMap<Glob, GlobId>,
    by_literal: HashMap<Box<[u8]>, GlobId>,
    letters: Vec<Letter>,
    /// Where the letters of each glob start.
    starts: Vec<u32>,
    /// Answers about sets of globs with wildcards.
    known: Mutex<HashMap<Box<[GlobId]>, Arc<Together>>>,
}

/// Ascending sets of globs, each with whether so many names match exactly these that they cannot all be literals.
type Together = Vec<(Box<[GlobId]>, bool)>;

const KNOWN_MAX: usize = 1024;

/// A token of a glob, or its end, and whose it is.
#[derive(Debug)]
struct Letter {
    glob: GlobId,
    token: Option<Token>,
}

impl Globs {
    pub(super) fn intern(&mut self, glob: &Glob) -> GlobId {
        if let Some(id) = self.ids.get(glob) {
            return *id;
        }
        let id = self.all.len() as GlobId;
        self.starts.push(self.letters.len() as u32);
        let tokens = glob.tokens().iter().cloned().map(Some).chain([None]);
        self.letters.extend(tokens.map(|token| Letter { glob: id, token }));
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

    /// The glob that is exactly this name.
    pub(super) fn literal(&self, name: &[u8]) -> Option<GlobId> {
        self.by_literal.get(name).copied()
    }

    /// Every set that is all of the globs that some name matches. All are ascending.
    ///
    /// A literal is a name itself: what matches it is asked. Names that are no literal match what names match at
    /// all, unless there are so few of them that they could all be literals: then all globs are read together.
    pub(super) fn matched_together(
        &self,
        literal: &[GlobId],
        wild: &[GlobId],
        budget: &mut Budget,
    ) -> Result<Vec<Box<[GlobId]>>, Spent> {
        let together = self.known_together(wild, budget)?;
        if !literal.is_empty() && together.iter().any(|(_, is_many)| !is_many) {
            let mut all = [literal, wild].concat();
            all.sort_unstable();
            return Ok(self.read_together(&all, budget)?.into_iter().map(|(set, _)| set).collect());
        }
        budget.spend(together.len() + literal.len() * (wild.len() + 1))?;
        let sets = together.iter().map(|(set, _)| set.clone());
        Ok(sets.chain(literal.iter().map(|glob| self.matched_by_literal(*glob, wild))).collect())
    }

    fn matched_by_literal(&self, literal: GlobId, wild: &[GlobId]) -> Box<[GlobId]> {
        let name = Name::new(self.get(literal).literal().expect("the caller gives literals"));
        let mut matched: Vec<GlobId> =
            wild.iter().copied().filter(|glob| self.get(*glob).matches(&name)).collect();
        matched.insert(matched.partition_point(|glob| *glob < literal), literal);
        matched.into()
    }

    fn known_together(&self, wild: &[GlobId], budget: &mut Budget) -> Result<Arc<Together>, Spent> {
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

    fn read_together(&self, globs: &[GlobId], budget: &mut Budget) -> Result<Together, Spent> {
        let starts = globs.iter().map(|id| self.starts[*id as usize]).collect();
        let first = (Dots::Start, self.settled(starts));
        let mut answers: HashMap<Box<[GlobId]>, bool> = HashMap::new();
        // How many names lead there, at least: a place is visited again when that is found to be many.
        let mut seen = HashMap::from([(first.clone(), 1)]);
        let mut open = vec![(first, 1)];
        while let Some(((dots, places), names)) = open.pop() {
            if dots == Dots::Name {
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
        let mut answers: Together = answers.into_iter().collect();
        answers.sort_unstable();
        Ok(answers)
    }

    fn step(&self, places: &[u32], symbol: Symbol) -> Box<[u32]> {
        let mut next = Vec::with_capacity(places.len());
        for place in places {
            match &self.letters[*place as usize].token {
                Some(Token::Star) => next.push(*place),
                Some(token) if token.takes(symbol) => next.push(place + 1),
                Some(_) | None => {}
            }
        }
        self.settled(next)
    }

    /// Adds the place behind each star, which may match nothing, and drops the places that a later star of the same
    /// glob makes needless: what leads to a match from before a star does so from the star itself.
    fn settled(&self, mut places: Vec<u32>) -> Box<[u32]> {
        let is_star = |place: u32| self.letters[place as usize].token == Some(Token::Star);
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
        letters.filter(|letter| letter.token.is_none()).map(|letter| letter.glob).collect()
    }

    /// One symbol of each kind that the tokens at these places tell apart, and how many are of its kind.
    fn told_apart(&self, places: &[u32], dots: Dots) -> Vec<(Symbol, usize)> {
        let mut borders: Vec<Symbol> = vec![1, '/' as Symbol, '0' as Symbol, 0xd800, 0xe000, INVALID];
        let mut add = |low: Symbol, high: Symbol| borders.extend([low, high + 1]);
        if dots != Dots::Name {
            add('.' as Symbol, '.' as Symbol);
        }
        let mut has_ranges = false;
        for place in places {
            match &self.letters[*place as usize].token {
                Some(Token::Char(c)) => add(*c as Symbol, *c as Symbol),
                Some(Token::Class(class)) => {
                    has_ranges = true;
                    class.ranges().iter().for_each(|range| add(range.0, range.1));
                }
                Some(Token::Any | Token::Star) | None => {}
            }
        }
        borders.sort_unstable();
        borders.dedup();
        let kinds = borders.windows(2).map(|pair| (pair[0], (pair[1] - pair[0]) as usize));
        let kinds = kinds.filter(|(low, _)| *low != '/' as Symbol && *low != 0xd800);
        // Without ranges all characters between the single ones are of one kind: the largest part stands for it.
        let others = kinds.clone().filter(|(_, alike)| *alike > 1);
        match has_ranges {
            true => kinds.chain([(INVALID, 1)]).collect(),
            false => {
                let other = others.max_by_key(|(_, alike)| *alike);
                kinds.filter(|(_, alike)| *alike == 1).chain(other).chain([(INVALID, 1)]).collect()
            }
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
    let same = kept.iter().rev().take_while(|place| glob_of(**place) == glob_of(later));
    same.copied().any(is_star)
}

/// How much of a name was read, as far as it matters: empty, `.` and `..` are no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Dots {
    Start,
    One,
    Two,
    Name,
}

impl Dots {
    fn then(self, symbol: Symbol) -> Dots {
        match self {
            Dots::Start if symbol == '.' as Symbol => Dots::One,
            Dots::One if symbol == '.' as Symbol => Dots::Two,
            Dots::Start | Dots::One | Dots::Two | Dots::Name => Dots::Name,
        }
    }
}
