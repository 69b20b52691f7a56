//! The shapes that all JSON output shares. `docs/json.md` is their description for users.

use std::borrow::Cow;
use std::io;

use avfs_core::{TreePath, to_hex};
use serde::Serialize;
use serde_json::ser::Formatter;

use crate::escape::printable;
use crate::failure::Failure;

/// Increased when a field changes its meaning or is removed; new fields do not count.
pub const SCHEMA_VERSION: u32 = 2;

/// The outside of every object: which schema, which kind, then the fields of the kind itself.
#[derive(Serialize)]
pub struct Envelope<'a, T> {
    schema_version: u32,
    kind: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

impl<'a, T: Serialize> Envelope<'a, T> {
    pub fn new(kind: &'static str, body: &'a T) -> Envelope<'a, T> {
        Envelope {
            schema_version: SCHEMA_VERSION,
            kind,
            body,
        }
    }
}

#[derive(Serialize)]
pub struct ErrorBody<'a> {
    error: ErrorFields<'a>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

impl<'a> From<&'a Failure> for ErrorBody<'a> {
    fn from(failure: &'a Failure) -> ErrorBody<'a> {
        let Failure {
            code, message, hint, ..
        } = failure;
        ErrorBody {
            error: ErrorFields {
                code,
                message,
                hint: hint.as_deref(),
            },
        }
    }
}

/// Defines a pair of fields for bytes that are usually text: flatten it into a body.
///
/// The first field is the text itself if the bytes are UTF-8. If not, it is their escaped form for people,
/// and the second field carries the bytes in hexadecimal.
macro_rules! byte_field {
    ($type:ident, $text:ident, $hex:ident) => {
        #[derive(Clone, Debug, Serialize)]
        pub struct $type {
            $text: String,
            #[serde(skip_serializing_if = "Option::is_none")]
            $hex: Option<String>,
        }

        impl $type {
            pub fn new(raw: &[u8]) -> $type {
                let (text, hex) = $crate::json::text_or_hex(raw);
                $type {
                    $text: text.into_owned(),
                    $hex: hex,
                }
            }
        }
    };
}
pub(crate) use byte_field;

byte_field!(PathField, path, path_bytes_hex);

impl From<&TreePath> for PathField {
    fn from(path: &TreePath) -> PathField {
        PathField::new(&from_root(path))
    }
}

/// A path of a vault in the common notation: from the root, with a leading `/`.
pub fn from_root(path: &TreePath) -> Vec<u8> {
    [b"/", path.as_bytes()].concat()
}

pub fn text_or_hex(raw: &[u8]) -> (Cow<'_, str>, Option<String>) {
    match std::str::from_utf8(raw) {
        Ok(text) => (Cow::Borrowed(text), None),
        Err(_) => (Cow::Owned(printable(raw)), Some(to_hex(raw))),
    }
}

/// One line of JSON that is safe on a terminal.
pub fn to_line(value: &impl Serialize) -> serde_json::Result<String> {
    let mut line = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(
        &mut line,
        TerminalSafe,
    ))?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// The same for a line that another process has written. Unsafe characters can only occur in text.
pub fn safe_line(line: &str) -> String {
    let mut safe = String::with_capacity(line.len());
    for c in line.chars() {
        if is_unsafe(c) {
            c.encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| safe.push_str(&format!("\\u{unit:04x}")))
        } else {
            safe.push(c)
        }
    }
    safe
}

/// JSON escapes only the first 32 control characters by itself. The others, and marks that reorder or hide
/// text, would reach a terminal; as `\u` escapes they mean the same to a program.
struct TerminalSafe;

impl Formatter for TerminalSafe {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut plain = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| is_unsafe(*c)) {
            out.write_all(&fragment.as_bytes()[plain..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            plain = at + c.len_utf8();
        }
        out.write_all(&fragment.as_bytes()[plain..])
    }
}

/// The characters that `printable` would escape, except the backslash, which JSON escapes itself.
fn is_unsafe(c: char) -> bool {
    !c.is_ascii_graphic() && c != ' ' && printable(c.encode_utf8(&mut [0; 4]).as_bytes()).starts_with('\\')
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[track_caller]
    fn check(raw: &[u8], expected: &str) {
        assert_eq!(
            to_line(&Envelope::new("file", &PathField::new(raw))).unwrap(),
            expected
        );
    }

    #[test]
    fn a_name_in_utf8_is_itself() {
        check(
            b"src/\"a\\b\"",
            r#"{"schema_version":2,"kind":"file","path":"src/\"a\\b\""}"#,
        );
        check(
            "grün".as_bytes(),
            r#"{"schema_version":2,"kind":"file","path":"grün"}"#,
        );
    }

    #[test]
    fn a_name_in_other_bytes_carries_them_in_hexadecimal() {
        let expected = r#"{"schema_version":2,"kind":"file","path":"a\\xff","path_bytes_hex":"61ff"}"#;
        check(b"a\xff", expected);
    }

    #[test]
    fn terminal_control_characters_are_escaped_and_read_back() {
        let name = "\u{1b}[31m \u{9b}2J \u{202e}txt \u{7f} \u{e0001}";
        let line = to_line(&PathField::new(name.as_bytes())).unwrap();
        assert!(line.is_ascii() && !line.contains(char::is_control), "{line}");
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["path"], name);
    }
}
