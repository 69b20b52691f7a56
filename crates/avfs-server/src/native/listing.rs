//! Lists that come in pages.

use schemars::JsonSchema;
use serde::Deserialize;

/// How many things a page has, unless the client says otherwise, and at most.
const PAGE: [usize; 2] = [100, 1000];

/// Which page of a list is asked for.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PageWords {
    /// Where the list goes on: `next` of the page before.
    cursor: Option<String>,
    /// The most things of the page; 100, if not said, and at most 1000.
    limit: Option<usize>,
}

impl PageWords {
    /// The page of a list, and the cursor with which it goes on. What the cursor names may be gone: the list goes on where
    /// that would be if its things are in order of their names, and from its beginning otherwise.
    pub fn of<T>(&self, all: Vec<T>, name: impl Fn(&T) -> &str) -> (Vec<T>, Option<String>) {
        let limit = self.limit.unwrap_or(PAGE[0]).clamp(1, PAGE[1]);
        let after = match &self.cursor {
            None => 0,
            Some(cursor) => {
                let known = all.iter().position(|one| name(one) == cursor);
                let is_sorted = all.is_sorted_by(|one, next| name(one) <= name(next));
                let in_order = || {
                    let later = all.partition_point(|one| name(one) <= cursor.as_str());
                    if is_sorted { later } else { 0 }
                };
                known.map_or_else(in_order, |at| at + 1)
            }
        };
        let mut page: Vec<T> = all.into_iter().skip(after).take(limit + 1).collect();
        let has_more = page.len() > limit;
        page.truncate(limit);
        let next = page.last().filter(|_| has_more).map(|last| name(last).to_owned());
        (page, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(cursor: Option<&str>, limit: usize, all: &[&'static str]) -> (Vec<&'static str>, Option<String>) {
        let words = PageWords {
            cursor: cursor.map(str::to_owned),
            limit: Some(limit),
        };
        words.of(all.to_vec(), |name| name)
    }

    #[test]
    fn pages_go_on_after_what_was_seen() {
        let all = ["a", "c", "e"];
        assert_eq!(page(None, 2, &all), (vec!["a", "c"], Some("c".to_owned())));
        assert_eq!(page(Some("c"), 2, &all), (vec!["e"], None));
        // What was seen last is gone.
        assert_eq!(page(Some("b"), 9, &all), (vec!["c", "e"], None));
        assert_eq!(page(Some("z"), 9, &["c", "a"]), (vec!["c", "a"], None));
        assert_eq!(
            page(Some("c"), 1, &["c", "a", "b"]),
            (vec!["a"], Some("a".to_owned()))
        );
    }
}
