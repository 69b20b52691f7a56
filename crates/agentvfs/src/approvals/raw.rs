//! Bytes of the host in a record: text where they are text.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

/// A word, a name or a value of the host, exactly.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Raw(Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Hex { hex: String },
}

impl Raw {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn to_os(&self) -> OsString {
        OsString::from_vec(self.0.clone())
    }
}

impl From<&OsStr> for Raw {
    fn from(text: &OsStr) -> Raw {
        Raw(text.as_bytes().to_vec())
    }
}

impl From<&[u8]> for Raw {
    fn from(bytes: &[u8]) -> Raw {
        Raw(bytes.to_vec())
    }
}

impl From<Raw> for Form {
    fn from(raw: Raw) -> Form {
        match String::from_utf8(raw.0) {
            Ok(text) => Form::Text(text),
            Err(error) => {
                Form::Hex { hex: error.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect() }
            }
        }
    }
}

impl TryFrom<Form> for Raw {
    type Error = &'static str;

    fn try_from(form: Form) -> Result<Raw, &'static str> {
        let hex = match form {
            Form::Text(text) => return Ok(Raw(text.into_bytes())),
            Form::Hex { hex } => hex,
        };
        let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(digits).collect();
        bytes.map(Raw).ok_or("not hexadecimal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_read_back() {
        for bytes in [&b"plain"[..], b"", b"\xff\x00a", "grün".as_bytes()] {
            let raw = Raw::from(OsStr::from_bytes(bytes));
            let read: Raw = serde_json::from_slice(&serde_json::to_vec(&raw).unwrap()).unwrap();
            assert_eq!(read.as_bytes(), bytes);
        }
    }
}
