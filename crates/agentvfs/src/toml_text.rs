//! The text of a TOML file, to say where in it a mistake is.

/// A text that was read from `place`.
pub(crate) struct TomlText<'a> {
    pub place: &'a str,
    pub text: &'a str,
    /// Where each line starts.
    lines: Vec<usize>,
}

impl<'a> TomlText<'a> {
    pub(crate) fn new(place: &'a str, text: &'a str) -> TomlText<'a> {
        let ends = text
            .bytes()
            .enumerate()
            .filter(|(_, byte)| *byte == b'\n')
            .map(|(end, _)| end + 1);
        TomlText {
            place,
            text,
            lines: [0].into_iter().chain(ends).collect(),
        }
    }

    /// `FILE:LINE:COLUMN` of a byte.
    pub(crate) fn place_of(&self, offset: usize) -> String {
        let offset = offset.min(self.text.len());
        let line = self.lines.partition_point(|start| *start <= offset);
        let before = &self.text.as_bytes()[self.lines[line - 1]..offset];
        let column = 1 + before.iter().filter(|byte| is_first_of_char(**byte)).count();
        format!("{}:{line}:{column}", self.place)
    }
}

pub(crate) fn is_first_of_char(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}
