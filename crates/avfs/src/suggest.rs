//! "Did you mean …?" for names that do not exist.

/// The candidate nearest to the written word, if one is near enough to be meant.
pub fn closest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    close(written, candidates, 1).into_iter().next()
}

/// The candidates that may be meant, the nearest first.
pub fn close<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    let mut names = nearest(written, candidates, count);
    names.retain(|name| likeness(written, name) >= 0.6);
    names
}

/// The candidates that are nearest to the written word, however far they are.
pub fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    count: usize,
) -> Vec<&'a str> {
    let mut names: Vec<&str> = candidates.into_iter().collect();
    names.sort_by(|a, b| likeness(written, b).total_cmp(&likeness(written, a)));
    names.truncate(count);
    names
}

/// 1 for equal names, 0 for names with nothing in common. The last part of a dotted name counts as well:
/// `hourly` means `retention.hourly`.
fn likeness(written: &str, name: &str) -> f64 {
    let whole = strsim::normalized_damerau_levenshtein(written, name);
    match name.rsplit_once('.') {
        Some((_, last)) => whole.max(strsim::normalized_damerau_levenshtein(written, last)),
        None => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_nonsense_finds_nothing() {
        let names = ["vault", "retention.all", "retention.hourly", "search.enabled"];
        let cases = [
            ("valut", Some("vault")),
            ("retension.all", Some("retention.all")),
            ("hourly", Some("retention.hourly")),
            ("search.enable", Some("search.enabled")),
            ("banana", None),
            ("", None),
        ];
        for (written, expected) in cases {
            assert_eq!(closest(written, names), expected, "{written}");
        }
    }
}
