//! "Did you mean …?" for names that do not exist.

/// The candidate nearest to the written word, if one is near enough to be meant.
pub fn closest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = candidates.into_iter().map(|name| (likeness(written, name), name));
    let near = scored.filter(|(score, _)| *score >= 0.6);
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
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
