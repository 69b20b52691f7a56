//! The variables that a line names, to show them to people and to query a shell for their values.

use super::environment;

/// Whether a variable affects how programs are found or started, or the shell that reads a line.
pub fn steers_programs(name: &str) -> bool {
    environment::steers(name)
}

/// The names after `$` and `${` in a line, in quotes too, in order and each once. More than the shell would
/// expand, never less, except for arithmetic.
pub fn named_variables(line: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, _) in line.match_indices('$') {
        let rest = line[at + 1..].trim_start_matches(['{', '#', '!']);
        let is_inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| !is_inside(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if is_name && !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}

/// The parameters of a shell that a line names: `$1`, `$@`, `$*`, `$#`.
pub fn named_parameters(line: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, _) in line.match_indices('$') {
        let rest = line[at + 1..].trim_start_matches('{');
        let Some(first) = rest
            .chars()
            .next()
            .filter(|c| c.is_ascii_digit() || "@*#".contains(*c))
        else {
            continue;
        };
        let name = format!("${first}");
        // `${#NAME}` is the length of a variable.
        let is_length = first == '#' && rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if first != '0' && !is_length && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_every_spelling() {
        let line = "curl \"$URL\" ${HOST}:${PORT:-80} $URL ${#LIST[@]} ${!REF} $1 ${2} \"$@\" $? $$ a$";
        assert_eq!(named_variables(line), ["URL", "HOST", "PORT", "LIST", "REF"]);
        assert_eq!(named_parameters(line), ["$1", "$2", "$@"]);
    }
}
