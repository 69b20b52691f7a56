//! Questions before something cannot be undone.

use std::fmt::Display;
use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Result;

use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;

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
