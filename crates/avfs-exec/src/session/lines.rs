//! The lines that the shell reads. The parent module explains their form.

use super::directory::turn_name;
use crate::plan::SESSION;

/// The file with the command of a turn.
pub(super) fn command_name(turn: u8) -> String {
    format!("c{turn}")
}

/// The file with the input of a turn's command.
pub(super) fn input_name(turn: u8) -> String {
    format!("i{turn}")
}

/// Runs the command of a turn.
pub(super) fn command(turn: u8, last: u8, has_input: bool) -> String {
    let before = match last {
        0 => String::new(),
        status => format!("( \\builtin \\exit {status} ) || "),
    };
    let input = if has_input {
        format!("{SESSION}/{}", input_name(turn))
    } else {
        "/dev/null".to_owned()
    };
    let file = command_name(turn);
    format!(
        "\\unset -f builtin; {before}\\builtin \\. {SESSION}/{file} <{input} >{SESSION}/out 2>{SESSION}/err\n"
    )
}

/// Reports the status of a turn. Reporting it twice has no further effect.
pub(super) fn status(turn: u8) -> String {
    format!("<>\"{SESSION}/$?\" <>\"{SESSION}/{}\"\n", turn_name(turn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_those_that_the_reasons_are_given_for() {
        assert_eq!(
            command(5, 3, false),
            "\\unset -f builtin; ( \\builtin \\exit 3 ) || \\builtin \\. /run/avfs/session/c5 \
             </dev/null >/run/avfs/session/out 2>/run/avfs/session/err\n"
        );
        assert!(command(5, 0, true).starts_with("\\unset -f builtin; \\builtin \\. "));
        assert!(command(5, 0, true).contains("</run/avfs/session/i5 "));
        assert_eq!(
            status(5),
            "<>\"/run/avfs/session/$?\" <>\"/run/avfs/session/g5\"\n"
        );
    }
}
