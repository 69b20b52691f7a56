//! Lists in messages.

use std::fmt::Display;

/// `HEAD: ONE; OTHER; and 3 more`. A complete long list would flood a terminal; callers that need it have the
/// list itself.
pub fn capped_list(head: impl Display, items: &[impl Display], most: usize) -> String {
    let mut text = head.to_string();
    for (index, item) in items.iter().take(most).enumerate() {
        text.push_str(if index == 0 { ": " } else { "; " });
        text.push_str(&item.to_string());
    }
    if items.len() > most {
        text.push_str(&format!("; and {} more", items.len() - most));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::capped_list;

    #[test]
    fn a_long_list_is_cut() {
        assert_eq!(capped_list("none", &[] as &[u8], 2), "none");
        assert_eq!(capped_list("two", &[1, 2], 2), "two: 1; 2");
        assert_eq!(capped_list("four", &[1, 2, 3, 4], 2), "four: 1; 2; and 2 more");
    }
}
