//! Applies that another process had not finished, and what became of them.

use agentvfs::apply::{KeptCopy, Recovered, Recovery};

use crate::escape::printable_path;
use crate::printer::Printer;

/// Versions of files that somebody wrote in the moment of an exchange.
pub fn tell_kept(out: &mut Printer, kept: &[KeptCopy]) {
    for copy in kept {
        let place = printable_path(&copy.kept);
        out.warn(format_args!("{} was written to at that moment; that version is in {place}", copy.path));
    }
}

/// What a killed process had left, and what became of it.
pub fn tell_recovered(out: &mut Printer, recovered: &[Recovered]) {
    for one in recovered {
        let what = match one.is_undo {
            true => format!("the undo of apply {}", one.id),
            false => format!("apply {}", one.id),
        };
        match &one.outcome {
            Recovery::Finished => {
                out.warn(format_args!("{what} was interrupted when all was done"));
            }
            Recovery::TakenBack(kept) => {
                out.warn(format_args!("{what} was interrupted, and was taken back"));
                tell_kept(out, kept);
            }
            Recovery::Stuck(error) => {
                out.warn(format_args!("{what} was interrupted and cannot be taken back yet: {error}"));
            }
        }
    }
}
