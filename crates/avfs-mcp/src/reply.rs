//! What a tool answers: data for programs, the same as text, and words of the server apart from both.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

use crate::tool_error::ToolError;

/// The field of every answer with the words of the server.
pub(crate) const NOTES: &str = "notes";

/// The most text that one answer has, in bytes.
pub(crate) const TEXT_MAX: usize = 50_000;

/// An answer. What files and commands say stands in a block, or in fields, of its own: nothing that they contain can pass
/// for a note of the server.
#[derive(Debug)]
pub(crate) struct Reply {
    structured: Value,
    text: String,
    notes: Vec<String>,
}

impl Reply {
    pub fn new(structured: &impl Serialize, text: String) -> Result<Reply, ToolError> {
        let structured = serde_json::to_value(structured)
            .map_err(|error| ToolError::new("internal", format!("the answer cannot be written: {error}")))?;
        Ok(Reply {
            structured,
            text,
            notes: Vec::new(),
        })
    }

    /// Adds words of the server.
    pub fn note(mut self, note: impl Into<String>) -> Reply {
        self.notes.push(note.into());
        self
    }

    pub fn note_if(self, note: Option<String>) -> Reply {
        match note {
            Some(note) => self.note(note),
            None => self,
        }
    }

    pub fn into_result(self) -> CallToolResult {
        let mut blocks = vec![ContentBlock::text(self.text)];
        if !self.notes.is_empty() {
            blocks.push(ContentBlock::text(format!(
                "[agentvfs] {}",
                self.notes.join("\n[agentvfs] ")
            )));
        }
        let mut structured = self.structured;
        if let Value::Object(members) = &mut structured {
            // Some clients show a model the structured content alone.
            if !self.notes.is_empty() {
                members.insert(NOTES.to_owned(), self.notes.into());
            }
        }
        let mut result = CallToolResult::success(blocks);
        result.structured_content = Some(structured);
        result
    }
}

/// Text that may be shown on a terminal: lines and tabs stay, other control characters are spelled out.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() || is_invisible(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Characters that change how the text around them is shown.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// The beginning of a text, at most `most` bytes of it.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// The beginning and the end of a text that is longer than `most` bytes.
pub(crate) fn ends(text: &str, most: usize) -> Option<(&str, &str)> {
    if text.len() <= most {
        return None;
    }
    let half = most / 2;
    let tail = text.ceil_char_boundary(text.len() - half);
    Some((beginning(text, half), &text[tail..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_spelled_out_and_lines_stay() {
        assert_eq!(shown("a\tb\nc\u{1b}[31m\u{202e}"), "a\tb\nc\\u{1b}[31m\\u{202e}");
    }

    #[test]
    fn a_long_text_keeps_both_ends_at_character_boundaries() {
        assert_eq!(ends("short", 10), None);
        let (head, tail) = ends("äääääääääää", 8).unwrap();
        assert_eq!((head, tail), ("ää", "ää"));
    }
}
