//! Combines two versions of a line: the common parts, and the removed and added ones between them.

use agentvfs::patch::WordDiff;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffPiece<'a> {
    Same(&'a [u8]),
    Removed(&'a [u8]),
    Added(&'a [u8]),
}

/// The pieces in reading order; removed text comes before its replacement.
pub fn pieces<'a>(old: &'a [u8], new: &'a [u8], words: &WordDiff) -> Vec<DiffPiece<'a>> {
    let mut pieces = Vec::new();
    let (mut removed, mut added) = (words.old.iter().peekable(), words.new.iter().peekable());
    let (mut in_old, mut in_new) = (0, 0);
    while in_old < old.len() || in_new < new.len() {
        if let Some(range) = removed.next_if(|range| range.start == in_old) {
            pieces.push(DiffPiece::Removed(&old[range.clone()]));
            in_old = range.end;
        }
        if let Some(range) = added.next_if(|range| range.start == in_new) {
            pieces.push(DiffPiece::Added(&new[range.clone()]));
            in_new = range.end;
        }
        let until_removed = removed.peek().map_or(old.len(), |range| range.start) - in_old;
        let until_added = added.peek().map_or(new.len(), |range| range.start) - in_new;
        let same = until_removed.min(until_added);
        if same > 0 {
            pieces.push(DiffPiece::Same(&new[in_new..in_new + same]));
            in_old += same;
            in_new += same;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: &str) {
        let words = WordDiff::compute(old.as_bytes(), new.as_bytes()).expect("lines that are alike");
        let shown = pieces(old.as_bytes(), new.as_bytes(), &words)
            .into_iter()
            .map(|piece| match piece {
                DiffPiece::Same(text) => String::from_utf8_lossy(text).into_owned(),
                DiffPiece::Removed(text) => format!("[-{}-]", String::from_utf8_lossy(text)),
                DiffPiece::Added(text) => format!("{{+{}+}}", String::from_utf8_lossy(text)),
            });
        assert_eq!(shown.collect::<String>(), expected);
    }

    #[test]
    fn changed_line_appears_once_with_both_versions() {
        check("port = 80;", "port = 8080;", "port = [-80-]{+8080+};");
        check("f(a, b)", "f(a, c, b)", "f(a, {+c, +}b)");
        check(
            "old name stays here",
            "name stays here too",
            "[-old -]name stays here{+ too+}",
        );
        check("same", "same", "same");
    }
}
