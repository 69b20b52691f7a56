//! Bytes that are text most of the time, for JSON: the text itself, or an escaped form with the bytes beside it.

/// Text, and the bytes in hexadecimal if they are not exactly that text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub text: String,
    pub hex: Option<String>,
}

impl Text {
    pub(crate) fn of(bytes: &[u8]) -> Text {
        match std::str::from_utf8(bytes) {
            Ok(text) => Text {
                text: text.to_owned(),
                hex: None,
            },
            Err(_) => Text {
                text: avfs_core::printable(bytes),
                hex: Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
            },
        }
    }
}
