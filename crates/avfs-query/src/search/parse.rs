//! The language of queries.
//!
//! Words must all occur; `"several words"` must follow each other; `word*` matches all words with that
//! beginning; `this OR that` requires one of the two; `-word` must not occur. Everything else is treated as
//! words: no input is a syntax error, only an empty query.

use std::iter::Peekable;
use std::str::Chars;

use super::words::{fold, words};

/// Why a text is not a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQuery {
    /// It has no words.
    #[error("the query has no word to look for")]
    Nothing,
    /// It has only words that must not be there.
    #[error("the query has only words that must not occur: add one that must")]
    OnlyExclusions,
    /// It has too many words.
    #[error("the query has more than {MAX_WORDS} words")]
    TooLong,
}

const MAX_WORDS: usize = 64;

/// A question to the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Of each group one term must occur.
    wanted: Vec<Vec<SearchTerm>>,
    unwanted: Vec<SearchTerm>,
}

/// Words that follow each other; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SearchTerm {
    pub(super) words: Vec<String>,
    /// The last word is only the beginning of one.
    pub(super) prefix: bool,
}

impl Query {
    /// Reads a query as users write it.
    pub fn parse(text: &str) -> Result<Query, BadQuery> {
        let mut query = Query {
            wanted: Vec::new(),
            unwanted: Vec::new(),
        };
        let (mut join_next, mut count) = (false, 0);
        for piece in pieces(text) {
            match piece {
                // An `OR` with nothing before it joins nothing and is ignored.
                QueryPiece::Or => join_next = !query.wanted.is_empty(),
                QueryPiece::Term { term, excluded } => {
                    count += term.words.len();
                    query.add(term, excluded, std::mem::take(&mut join_next));
                }
            }
        }
        match (query.wanted.is_empty(), query.unwanted.is_empty()) {
            (true, true) => Err(BadQuery::Nothing),
            (true, false) => Err(BadQuery::OnlyExclusions),
            (false, _) if count > MAX_WORDS => Err(BadQuery::TooLong),
            (false, _) => Ok(query),
        }
    }

    fn add(&mut self, term: SearchTerm, excluded: bool, join: bool) {
        match self.wanted.last_mut() {
            _ if excluded => self.unwanted.push(term),
            Some(group) if join => group.push(term),
            _ => self.wanted.push(vec![term]),
        }
    }

    /// The terms whose places are worth showing.
    pub(super) fn shown_terms(&self) -> impl Iterator<Item = &SearchTerm> {
        self.wanted.iter().flatten()
    }

    /// The expression for SQLite's index. It holds quoted words of letters and digits and nothing else of
    /// the user's, and it is flat: the exclusions are one group.
    pub(super) fn match_expression(&self) -> String {
        let any = |terms: &[SearchTerm]| {
            let terms: Vec<String> = terms.iter().map(SearchTerm::expression).collect();
            format!("({})", terms.join(" OR "))
        };
        let wanted: Vec<String> = self.wanted.iter().map(|group| any(group)).collect();
        let wanted = wanted.join(" AND ");
        if self.unwanted.is_empty() {
            wanted
        } else {
            format!("({wanted}) NOT {}", any(&self.unwanted))
        }
    }
}

impl SearchTerm {
    fn expression(&self) -> String {
        let star = if self.prefix { " *" } else { "" };
        format!("\"{}\"{star}", self.words.join(" "))
    }
}

enum QueryPiece {
    Or,
    Term { term: SearchTerm, excluded: bool },
}

fn pieces(text: &str) -> impl Iterator<Item = QueryPiece> + '_ {
    let mut chars = text.chars().peekable();
    std::iter::from_fn(move || {
        loop {
            while chars.next_if(|char| char.is_whitespace()).is_some() {}
            chars.peek()?;
            if let Some(piece) = next_piece(&mut chars) {
                return Some(piece);
            }
        }
    })
}

/// Parses one piece, which is ignored if it has no word.
fn next_piece(chars: &mut Peekable<Chars<'_>>) -> Option<QueryPiece> {
    let excluded = chars.next_if_eq(&'-').is_some();
    let quoted = chars.next_if_eq(&'"').is_some();
    let mut raw = String::new();
    while let Some(char) = chars.next_if(|char| {
        if quoted {
            *char != '"'
        } else {
            !ends_bare_word(*char)
        }
    }) {
        raw.push(char);
    }
    let mut prefix = !quoted && raw.ends_with('*');
    if quoted {
        // The closing quote, or the end of the text if it is missing.
        chars.next();
        prefix = chars.next_if_eq(&'*').is_some();
    }
    match (raw.as_str(), quoted || excluded) {
        ("OR", false) => return Some(QueryPiece::Or),
        ("AND", false) => return None,
        _ => {}
    }
    let words: Vec<String> = words(&raw).map(|range| fold(&raw[range])).collect();
    (!words.is_empty()).then_some(QueryPiece::Term {
        term: SearchTerm { words, prefix },
        excluded,
    })
}

fn ends_bare_word(char: char) -> bool {
    char.is_whitespace() || char == '"'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(Query::parse(text).unwrap().match_expression(), expected);
    }

    #[test]
    fn queries_become_expressions_of_quoted_words() {
        check("one two", r#"("one") AND ("two")"#);
        check("One AND two", r#"("one") AND ("two")"#);
        check(r#""one two" three"#, r#"("one two") AND ("three")"#);
        check("conf*", r#"("conf" *)"#);
        check("a OR b c", r#"("a" OR "b") AND ("c")"#);
        check("a -b -\"c d\"", r#"(("a")) NOT ("b" OR "c d")"#);
        check("parse_config.rs", r#"("parse config rs")"#);
        check("OR a OR OR b OR", r#"("a" OR "b")"#);
        check("a \"unclosed b", r#"("a") AND ("unclosed b")"#);
        check(
            "NEAR(a b) col:x ^y",
            r#"("near a") AND ("b") AND ("col x") AND ("y")"#,
        );
        check("or and", r#"("or") AND ("and")"#);
        check(r#"a"b"*c"#, r#"("a") AND ("b" *) AND ("c")"#);
    }

    #[test]
    fn a_query_that_asks_for_nothing_is_refused() {
        for nothing in ["", "  ", "\"\"", "* - \"", "OR", "AND OR"] {
            assert_eq!(Query::parse(nothing), Err(BadQuery::Nothing), "{nothing}");
        }
        assert_eq!(Query::parse("-a"), Err(BadQuery::OnlyExclusions));
        assert_eq!(Query::parse(&"a ".repeat(65)), Err(BadQuery::TooLong));
    }

    proptest! {
        #[test]
        fn expressions_hold_only_words_and_our_own_signs(text in "\\PC*|[-a\"* ()OR]*") {
            if let Ok(query) = Query::parse(&text) {
                for term in query.shown_terms() {
                    for word in &term.words {
                        prop_assert!(!word.contains(['"', '*', ' ', '\0']), "{word:?}");
                    }
                }
            }
        }
    }
}
