//! Where a byte is in a text, as editors count.

/// The line and the column of a byte, both from 1 on. A byte beyond the end counts as the end.
pub(crate) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_characters_count_from_one() {
        let text = "ab\nça\n";
        let places = [0, 2, 3, 5, 6, 7, 99].map(|offset| line_and_column(text, offset));
        assert_eq!(places, [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 1), (3, 1)]);
    }
}
