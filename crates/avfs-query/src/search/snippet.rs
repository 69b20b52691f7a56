//! The line of a file that shows best why it was found.

use std::ops::Range;

use super::parse::{Query, SearchTerm};
use super::words::{fold, words};

/// A part of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snippet {
    /// The number of the line, from 1 on.
    pub line: u64,
    /// The part, without the line feed.
    pub text: String,
    /// Where the words of the query are in `text`.
    pub matches: Vec<Range<usize>>,
    /// Whether the line continues before and after `text`.
    pub cut_before: bool,
    /// Whether the line continues after `text`.
    pub cut_after: bool,
}

/// How many bytes of a line to show before the first match, and in all.
const LEAD: usize = 60;
const LENGTH: usize = 200;

/// Finds the first line that has most of the query's terms; `None` if none has any.
pub(super) fn cut(bytes: &[u8], query: &Query) -> Option<Snippet> {
    let text = String::from_utf8_lossy(bytes);
    let terms: Vec<&SearchTerm> = query.shown_terms().collect();
    let mut best: Option<(usize, u64, &str, Vec<Range<usize>>)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let (score, matches) = matches_in(line, &terms);
        if score > best.as_ref().map_or(0, |best| best.0) {
            best = Some((score, number, line, matches));
            if score == terms.len() {
                break;
            }
        }
    }
    let (_, line, whole, matches) = best?;
    Some(shorten(line, whole, &matches))
}

/// How many of the terms a line contains, and where.
fn matches_in(line: &str, terms: &[&SearchTerm]) -> (usize, Vec<Range<usize>>) {
    let words: Vec<(Range<usize>, String)> = words(line)
        .map(|range| (range.clone(), fold(&line[range])))
        .collect();
    let mut matches = Vec::new();
    let mut score = 0;
    for term in terms {
        let places = words
            .windows(term.words.len())
            .filter(|window| term.is_at(window));
        let before = matches.len();
        matches.extend(places.filter_map(|window| Some(window.first()?.0.start..window.last()?.0.end)));
        score += usize::from(matches.len() > before);
    }
    (score, joined(matches))
}

impl SearchTerm {
    fn is_at(&self, window: &[(Range<usize>, String)]) -> bool {
        let last = self.words.len() - 1;
        window
            .iter()
            .zip(&self.words)
            .enumerate()
            .all(|(index, ((_, found), wanted))| {
                if self.prefix && index == last {
                    found.starts_with(wanted)
                } else {
                    found == wanted
                }
            })
    }
}

/// Sorts ranges and joins those that overlap.
fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut out: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

/// Cuts a long line at the edges of words around the first match.
fn shorten(line: u64, whole: &str, matches: &[Range<usize>]) -> Snippet {
    let indent = whole.len() - whole.trim_start().len();
    let first = matches.first().map_or(indent, |range| range.start);
    let start = match first.saturating_sub(LEAD) {
        near if near <= indent => indent.min(first),
        near => words(whole)
            .map(|word| word.start)
            .find(|word| *word >= near)
            .unwrap_or(first)
            .min(first),
    };
    let end = if whole.len() - start <= LENGTH {
        whole.trim_end().len()
    } else {
        let ends = words(whole)
            .map(|word| word.end)
            .take_while(|end| *end <= start + LENGTH);
        ends.last()
            .filter(|end| *end > start)
            .unwrap_or_else(|| whole.floor_char_boundary(start + LENGTH))
    };
    let inside = matches
        .iter()
        .filter(|range| range.start >= start && range.start < end);
    Snippet {
        line,
        text: whole[start..end].to_owned(),
        matches: inside
            .map(|range| range.start - start..range.end.min(end) - start)
            .collect(),
        cut_before: start > indent,
        cut_after: end < whole.trim_end().len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn snippet(text: &str, query: &str) -> Option<Snippet> {
        cut(text.as_bytes(), &Query::parse(query).unwrap())
    }

    /// The snippet with its matches in brackets.
    #[track_caller]
    fn check(text: &str, query: &str, expected: &str) {
        let snippet = snippet(text, query).unwrap();
        let mut shown = snippet.text.clone();
        for range in snippet.matches.iter().rev() {
            shown.insert(range.end, ']');
            shown.insert(range.start, '[');
        }
        assert_eq!(format!("{}: {shown}", snippet.line), expected);
    }

    #[test]
    fn the_first_line_with_most_of_the_terms_is_shown() {
        check(
            "x\n  red apple\nred green apple",
            "red green",
            "3: [red] [green] apple",
        );
        check(
            "Config parse\nparse_config(x)",
            "parse_config",
            "2: [parse_config](x)",
        );
        check("  configure all", "conf* all", "1: [configure] [all]");
        check("a ärger b", "ÄRGER", "1: a [ärger] b");
        check("one two", "one OR zwei", "1: [one] two");
        assert_eq!(snippet("nothing", "words"), None);
    }

    #[test]
    fn a_long_line_is_cut_at_words() {
        let text = "lorem ipsum ".repeat(100) + "needle" + &" dolor sit".repeat(100);
        let snippet = snippet(&text, "needle").unwrap();
        assert!(snippet.cut_before && snippet.cut_after && snippet.text.len() <= LENGTH);
        assert!(snippet.text.starts_with("lorem") || snippet.text.starts_with("ipsum"));
        assert_eq!(&snippet.text[snippet.matches[0].clone()], "needle");
    }

    proptest! {
        #[test]
        fn ranges_are_always_within_the_text(text in "(\\PC|a|b| |\n|ä){0,600}", query in "[ab ä*]{1,8}") {
            if let Ok(query) = Query::parse(&query)
                && let Some(snippet) = cut(text.as_bytes(), &query)
            {
                prop_assert!(!snippet.matches.is_empty());
                for range in snippet.matches {
                    prop_assert!(snippet.text.get(range).is_some());
                }
            }
        }
    }
}
