//! Questions before something cannot be undone.

use std::fmt::Display;
use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Result;

use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;

/// The answer to one of several questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesAnswer {
    Yes,
    No,
    /// Also for the questions that follow.
    All,
    /// Neither this nor what follows.
    None,
}

/// Asks one of several questions on the terminal.
pub fn ask_in_series(out: &mut Printer, question: impl Display) -> Result<SeriesAnswer> {
    out.flush()?;
    write!(io::stderr(), "{question} [y]es, [N]o, [a]ll, n[o]ne of them: ")?;
    let mut answer = String::new();
    // At the end of the input nobody is there to be asked.
    if io::stdin().lock().read_line(&mut answer)? == 0 {
        return Ok(SeriesAnswer::None);
    }
    Ok(series_answer(&answer))
}

fn series_answer(text: &str) -> SeriesAnswer {
    match text.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => SeriesAnswer::Yes,
        "a" | "all" => SeriesAnswer::All,
        "o" | "none" | "q" | "quit" => SeriesAnswer::None,
        _ => SeriesAnswer::No,
    }
}

/// Asks on the terminal and accepts only `y` or `yes` as yes. Without a terminal, or under `--json`, an
/// answer is impossible: then `--yes` is needed.
pub fn confirm(out: &mut Printer, question: impl Display, yes: bool) -> Result<bool> {
    if yes {
        return Ok(true);
    }
    if out.is_json() || !io::stdin().is_terminal() {
        let text = format!("this needs a confirmation: {question}");
        let failure = Failure::new("needs-confirmation", ExitStatus::BadInput, text);
        return Err(failure.hint(Some("pass --yes to go ahead".to_owned())).into());
    }
    out.flush()?;
    write!(io::stderr(), "{question} [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_of_questions_can_be_answered_at_once() {
        for (typed, expected) in [
            ("y\n", SeriesAnswer::Yes),
            ("", SeriesAnswer::No),
            ("ALL\n", SeriesAnswer::All),
            ("o\n", SeriesAnswer::None),
            ("q\n", SeriesAnswer::None),
        ] {
            assert_eq!(series_answer(typed), expected, "{typed:?}");
        }
    }
}
