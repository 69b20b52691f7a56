//! Braces that the shell expands to several words: `{a,b}` and `{1..3}`.

/// More words than this are not listed: the word stays unknown.
const MOST: usize = 64;

/// The words to which braces expand a text, if it contains nothing else that the shell expands or removes.
pub(crate) fn expand(text: &str) -> Option<Vec<String>> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./,:+@%={}".contains(&byte);
    if !text.contains('{') || !text.bytes().all(plain) {
        return None;
    }
    let mut words = expanded(text)?;
    words.retain(|word| !word.is_empty());
    Some(words)
}

fn expanded(text: &str) -> Option<Vec<String>> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| at + from) {
        if let Some((choices, after)) = group(&text[open + 1..])? {
            return joined(&text[..open], &choices, after);
        }
        from = open + 1;
    }
    Some(vec![text.to_owned()])
}

fn joined(before: &str, choices: &[String], after: &str) -> Option<Vec<String>> {
    let ends = expanded(after)?;
    let pairs = choices
        .iter()
        .flat_map(|choice| ends.iter().map(move |end| format!("{before}{choice}{end}")));
    (choices.len() * ends.len() <= MOST).then(|| pairs.collect())
}

/// The contents of a group whose opening brace has been read, and the text after it; `None` if it is not a
/// group.
fn group(text: &str) -> Option<Option<(Vec<String>, &str)>> {
    let (mut depth, mut begun, mut items) = (0, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b',' if depth == 0 => {
                items.push(&text[begun..at]);
                begun = at + 1;
            }
            b'}' => {
                let after = &text[at + 1..];
                if items.is_empty() {
                    return Some(range(&text[..at])?.map(|choices| (choices, after)));
                }
                items.push(&text[begun..at]);
                return Some(Some((each(&items)?, after)));
            }
            _ => {}
        }
    }
    Some(None)
}

fn each(items: &[&str]) -> Option<Vec<String>> {
    let mut choices = Vec::new();
    for item in items {
        choices.extend(expanded(item)?);
    }
    (choices.len() <= MOST).then_some(choices)
}

/// `1..3`. A range in another notation is unknown.
fn range(text: &str) -> Option<Option<Vec<String>>> {
    let Some((first, last)) = text.split_once("..") else {
        return Some(None);
    };
    let number = |text: &str| {
        text.parse::<i64>()
            .ok()
            .filter(|number| number.to_string() == text)
    };
    let (first, last) = (number(first)?, number(last)?);
    let count = usize::try_from(first.abs_diff(last)).ok()?;
    let step = if first <= last { 1 } else { -1 };
    let numbers = (0..=count).scan(first, |at, _| {
        let now = *at;
        *at = at.saturating_add(step);
        Some(now.to_string())
    });
    (count < MOST).then(|| Some(numbers.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, words: &str) {
        assert_eq!(
            expand(text).map(|words| words.join(" ")).as_deref(),
            Some(words),
            "{text}"
        );
    }

    #[test]
    fn braces_become_the_words_that_the_shell_makes_of_them() {
        check("rm{,}", "rm rm");
        check("{,}rm", "rm rm");
        check("{rm,-rf,x}", "rm -rf x");
        check("-{r,f}", "-r -f");
        check("a{b,c{d,e}}f", "abf acdf acef");
        check("{a,b}{1..3}", "a1 a2 a3 b1 b2 b3");
        check("{3..1}", "3 2 1");
        check("{-1..1}", "-1 0 1");
        check("stash@{0}", "stash@{0}");
        check("{a}{b,c}", "{a}b {a}c");
        check("{a,b", "{a,b");
        check("{,}", "");
    }

    #[test]
    fn uncertain_value_stays_unknown() {
        for text in [
            "a",
            "*.{a,b}",
            "'{a,b}'",
            "{$x,b}",
            "{a..c}",
            "{01..03}",
            "{1..9..2}",
            "{1..1000}",
        ] {
            assert_eq!(expand(text), None, "{text}");
        }
        assert_eq!(expand(&"{a,b}".repeat(40)), None);
    }
}
