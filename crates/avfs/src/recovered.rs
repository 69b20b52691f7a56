//! Applies that another process had not finished, and how they were recovered.

use agentvfs::apply::{KeptCopy, Recovered, Recovery};

use crate::escape::printable_path;
use crate::printer::Printer;

/// Versions of files that another program wrote in the moment of an exchange.
pub fn tell_kept(out: &mut Printer, kept: &[KeptCopy]) {
    for copy in kept {
        let place = printable_path(&copy.kept);
        out.warn(format_args!(
            "{} was written to at that moment; that version is in {place}",
            copy.path
        ));
    }
}

/// The leftovers of a killed process, and how they were recovered.
pub fn tell_recovered(out: &mut Printer, recovered: &[Recovered]) {
    for one in recovered {
        let what = if one.is_undo {
            format!("the undo of apply {}", one.id)
        } else {
            format!("apply {}", one.id)
        };
        match &one.outcome {
            Recovery::Finished => {
                out.warn(format_args!("{what} was interrupted when all was done"));
            }
            Recovery::TakenBack(kept) => {
                out.warn(format_args!("{what} was interrupted and has been rolled back"));
                tell_kept(out, kept);
            }
            Recovery::Stuck(error) => {
                out.warn(format_args!(
                    "{what} was interrupted and cannot be rolled back yet: {error}"
                ));
            }
        }
    }
}
