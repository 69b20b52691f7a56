//! Bytes of the host in a record: text where they are text.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

/// A word, a name or a value of the host, exactly.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "StoredForm", into = "StoredForm")]
pub struct StoredBytes(Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredForm {
    Text(String),
    Hex { hex: String },
}

impl StoredBytes {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as a word of the system.
    pub fn to_os(&self) -> OsString {
        OsString::from_vec(self.0.clone())
    }
}

impl From<&OsStr> for StoredBytes {
    fn from(text: &OsStr) -> StoredBytes {
        StoredBytes(text.as_bytes().to_vec())
    }
}

impl From<&[u8]> for StoredBytes {
    fn from(bytes: &[u8]) -> StoredBytes {
        StoredBytes(bytes.to_vec())
    }
}

impl From<StoredBytes> for StoredForm {
    fn from(raw: StoredBytes) -> StoredForm {
        match String::from_utf8(raw.0) {
            Ok(text) => StoredForm::Text(text),
            Err(error) => StoredForm::Hex {
                hex: error
                    .as_bytes()
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect(),
            },
        }
    }
}

impl TryFrom<StoredForm> for StoredBytes {
    type Error = &'static str;

    fn try_from(form: StoredForm) -> Result<StoredBytes, &'static str> {
        let hex = match form {
            StoredForm::Text(text) => return Ok(StoredBytes(text.into_bytes())),
            StoredForm::Hex { hex } => hex,
        };
        let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(digits).collect();
        bytes.map(StoredBytes).ok_or("not hexadecimal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_read_back() {
        for bytes in [&b"plain"[..], b"", b"\xff\x00a", "grün".as_bytes()] {
            let raw = StoredBytes::from(OsStr::from_bytes(bytes));
            let read: StoredBytes = serde_json::from_slice(&serde_json::to_vec(&raw).unwrap()).unwrap();
            assert_eq!(read.as_bytes(), bytes);
        }
    }
}
