//! The colours of a review, for terminals that know 16, 256 or all of them.

use ratatui_core::style::{Color, Modifier, Style};

use super::syntax::SyntaxToken;

/// The number of colours, and whether the background is dark or light.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    None,
    /// Sixteen: the terminal's own. Changed lines have the colour of their side, and tokens none.
    Basic,
    Indexed {
        is_light: bool,
    },
    True {
        is_light: bool,
    },
}

/// Which side of a change a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineSide {
    Removed,
    Added,
}

impl Palette {
    /// From the environment: `COLORTERM`, `TERM`, and `COLORFGBG` for the background if a terminal sets it.
    pub fn of_terminal(in_color: bool, environment: &dyn Fn(&str) -> Option<String>) -> Palette {
        if !in_color {
            return Palette::None;
        }
        let is = |name: &str, wanted: &[&str]| {
            environment(name).is_some_and(|value| wanted.iter().any(|wanted| value.contains(wanted)))
        };
        let background = environment("COLORFGBG");
        let is_light = background
            .as_deref()
            .and_then(|colors| colors.rsplit(';').next())
            .is_some_and(|background| matches!(background, "7" | "15"));
        if is("COLORTERM", &["truecolor", "24bit"]) {
            Palette::True { is_light }
        } else if is("TERM", &["256color", "direct", "kitty", "alacritty"]) {
            Palette::Indexed { is_light }
        } else {
            Palette::Basic
        }
    }

    /// The style of a changed line. On a background of its own, the text also has a colour of its own: so it
    /// is readable with any colours of the terminal.
    pub fn changed(self, change: LineSide) -> Style {
        let plain = Style::new();
        match (self, change) {
            (Palette::None, _) => plain,
            (Palette::Basic, LineSide::Removed) => plain.fg(Color::Red),
            (Palette::Basic, LineSide::Added) => plain.fg(Color::Green),
            (Palette::Indexed { is_light: false }, LineSide::Removed) => {
                on(Color::Indexed(252), Color::Indexed(52))
            }
            (Palette::Indexed { is_light: false }, LineSide::Added) => {
                on(Color::Indexed(252), Color::Indexed(22))
            }
            (Palette::Indexed { is_light: true }, LineSide::Removed) => {
                on(Color::Indexed(235), Color::Indexed(224))
            }
            (Palette::Indexed { is_light: true }, LineSide::Added) => {
                on(Color::Indexed(235), Color::Indexed(194))
            }
            (Palette::True { is_light: false }, LineSide::Removed) => on(rgb(0xd6d6d6), rgb(0x3f1d20)),
            (Palette::True { is_light: false }, LineSide::Added) => on(rgb(0xd6d6d6), rgb(0x16341f)),
            (Palette::True { is_light: true }, LineSide::Removed) => on(rgb(0x24292f), rgb(0xffdfe0)),
            (Palette::True { is_light: true }, LineSide::Added) => on(rgb(0x24292f), rgb(0xd8f5dd)),
        }
    }

    /// The style of a word that differs from the line that it replaces.
    pub fn word(self, style: Style, change: LineSide) -> Style {
        let background = match (self, change) {
            (Palette::None | Palette::Basic, _) => return style.add_modifier(Modifier::REVERSED),
            (Palette::Indexed { is_light: false }, LineSide::Removed) => Color::Indexed(88),
            (Palette::Indexed { is_light: false }, LineSide::Added) => Color::Indexed(28),
            (Palette::Indexed { is_light: true }, LineSide::Removed) => Color::Indexed(217),
            (Palette::Indexed { is_light: true }, LineSide::Added) => Color::Indexed(157),
            (Palette::True { is_light: false }, LineSide::Removed) => rgb(0x7d2a30),
            (Palette::True { is_light: false }, LineSide::Added) => rgb(0x1f6a35),
            (Palette::True { is_light: true }, LineSide::Removed) => rgb(0xffb3b6),
            (Palette::True { is_light: true }, LineSide::Added) => rgb(0x9be9a8),
        };
        style.bg(background).add_modifier(Modifier::BOLD)
    }

    /// The style of a token in a line of this style.
    pub fn token(self, token: SyntaxToken, line: Style) -> Style {
        let is_changed = line.fg.is_some();
        let color = match (self, token) {
            (Palette::None, SyntaxToken::Comment) => return line.add_modifier(Modifier::ITALIC),
            (Palette::None, SyntaxToken::Keyword) => return line.add_modifier(Modifier::BOLD),
            (Palette::None, _) => return line,
            // The colour of a changed line shows its side.
            (Palette::Basic, SyntaxToken::Keyword) if is_changed => return line.add_modifier(Modifier::BOLD),
            (Palette::Basic, _) if is_changed => return line,
            (Palette::Basic, SyntaxToken::Comment) => return line.add_modifier(Modifier::DIM),
            (Palette::Basic, SyntaxToken::Text) => Color::Yellow,
            (Palette::Basic, SyntaxToken::Number) => Color::Cyan,
            (Palette::Basic, SyntaxToken::Keyword) => Color::Magenta,
            (Palette::Indexed { is_light: false }, SyntaxToken::Comment) => Color::Indexed(246),
            (Palette::Indexed { is_light: false }, SyntaxToken::Text) => Color::Indexed(186),
            (Palette::Indexed { is_light: false }, SyntaxToken::Number) => Color::Indexed(117),
            (Palette::Indexed { is_light: false }, SyntaxToken::Keyword) => Color::Indexed(176),
            (Palette::Indexed { is_light: true }, SyntaxToken::Comment) => Color::Indexed(243),
            (Palette::Indexed { is_light: true }, SyntaxToken::Text) => Color::Indexed(94),
            (Palette::Indexed { is_light: true }, SyntaxToken::Number) => Color::Indexed(25),
            (Palette::Indexed { is_light: true }, SyntaxToken::Keyword) => Color::Indexed(90),
            (Palette::True { is_light: false }, SyntaxToken::Comment) => rgb(0x8f9aa6),
            (Palette::True { is_light: false }, SyntaxToken::Text) => rgb(0xe3c78a),
            (Palette::True { is_light: false }, SyntaxToken::Number) => rgb(0x7fc8f8),
            (Palette::True { is_light: false }, SyntaxToken::Keyword) => rgb(0xd59bf0),
            (Palette::True { is_light: true }, SyntaxToken::Comment) => rgb(0x6a737d),
            (Palette::True { is_light: true }, SyntaxToken::Text) => rgb(0x7a4b00),
            (Palette::True { is_light: true }, SyntaxToken::Number) => rgb(0x0550ae),
            (Palette::True { is_light: true }, SyntaxToken::Keyword) => rgb(0x8b1a9c),
        };
        line.fg(color)
    }
}

fn on(text: Color, background: Color) -> Style {
    Style::new().fg(text).bg(background)
}

fn rgb(hex: u32) -> Color {
    let [_, red, green, blue] = hex.to_be_bytes();
    Color::Rgb(red, green, blue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_how_many_colours_there_are() {
        let check = |in_color, variables: &[(&str, &str)], expected| {
            let environment = |name: &str| {
                variables
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(
                Palette::of_terminal(in_color, &environment),
                expected,
                "{variables:?}"
            );
        };
        check(false, &[("COLORTERM", "truecolor")], Palette::None);
        check(true, &[("TERM", "xterm")], Palette::Basic);
        check(true, &[], Palette::Basic);
        check(
            true,
            &[("TERM", "screen-256color")],
            Palette::Indexed { is_light: false },
        );
        check(
            true,
            &[("TERM", "xterm-256color"), ("COLORFGBG", "0;15")],
            Palette::Indexed { is_light: true },
        );
        check(
            true,
            &[("TERM", "xterm"), ("COLORTERM", "24bit")],
            Palette::True { is_light: false },
        );
    }

    #[test]
    fn sixteen_colours_leave_changed_lines_the_colour_of_their_side() {
        let line = Palette::Basic.changed(LineSide::Added);
        for token in [
            SyntaxToken::Comment,
            SyntaxToken::Text,
            SyntaxToken::Number,
            SyntaxToken::Keyword,
        ] {
            assert_eq!(Palette::Basic.token(token, line).fg, line.fg);
            assert_eq!(Palette::None.token(token, Style::new()).fg, None);
        }
    }
}
