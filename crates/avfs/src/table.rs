//! Lists for people: a heading, and columns as wide as their contents.

use crate::printer::{HEADING, PrintError, Printer};

/// Prints rows under their heading. The cells are safe to show; the last column is not padded.
pub fn print<const COLUMNS: usize>(
    out: &mut Printer,
    heading: [&str; COLUMNS],
    rows: &[[String; COLUMNS]],
) -> Result<(), PrintError> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heading[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let line = |cells: [&str; COLUMNS]| {
        let padded = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    out.line(out.paint(HEADING, line(heading)))?;
    rows.iter()
        .try_for_each(|row| out.line(line(row.each_ref().map(String::as_str))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printer::OutputStyle;
    use crate::settings::ColorWhen;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let sink = Sink::default();
        let manner = OutputStyle {
            color: ColorWhen::Never,
            json: false,
            quiet: false,
            paged: false,
        };
        let mut out = Printer::to(Box::new(sink.clone()), Box::new(std::io::sink()), manner);
        let rows = [["größe", "1", "x"], ["a", "22222", ""]].map(|row| row.map(str::to_owned));
        print(&mut out, ["NAME", "N", "ABOUT"], &rows).unwrap();
        out.flush().unwrap();
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "NAME   N      ABOUT\ngröße  1      x\na      22222\n");
    }
}
