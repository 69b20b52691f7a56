//! Labels: words that a user gives to files and directories, so that rules can follow the thing and not its path.

use std::fmt;
use std::sync::Arc;

use crate::codec::{DecodeError, Reader, put_bytes, put_number};

/// The longest label, in bytes.
const LABEL_MAX: usize = 64;
/// Cannot be written by a user: it has a colon.
const FRESH_REPOSITORY: &str = "avfs:fresh-repository";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no label: it has 1 to {LABEL_MAX} of the characters a-z, 0-9, '.', '_' and '-', and begins with a letter or digit"
)]
pub struct BadLabel(pub String);

/// A checked label.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(Arc<str>);

impl Label {
    pub fn new(text: &str) -> Result<Label, BadLabel> {
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_allowed = |byte: u8| is_word(byte) || matches!(byte, b'.' | b'_' | b'-');
        let first_is_word = text.bytes().next().is_some_and(is_word);
        match first_is_word && text.len() <= LABEL_MAX && text.bytes().all(is_allowed) {
            true => Ok(Label(text.into())),
            false => Err(BadLabel(crate::printable(text.as_bytes()))),
        }
    }

    /// What a repository gets that was made through a view: whoever made it may configure it.
    pub fn fresh_repository() -> Label {
        Label(FRESH_REPOSITORY.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The labels of one entry, in order; most entries have none, and then they take no room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(Option<Arc<[Label]>>);

impl Labels {
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter().flat_map(|labels| labels.iter())
    }

    pub fn contains(&self, label: &Label) -> bool {
        self.0.as_ref().is_some_and(|labels| labels.binary_search(label).is_ok())
    }

    /// Returns whether it was not there.
    pub fn insert(&mut self, label: Label) -> bool {
        let is_new = !self.contains(&label);
        if is_new {
            *self = self.iter().cloned().chain([label]).collect();
        }
        is_new
    }

    /// Returns whether it was there.
    pub fn remove(&mut self, label: &Label) -> bool {
        let was_there = self.contains(label);
        if was_there {
            *self = self.iter().filter(|other| *other != label).cloned().collect();
        }
        was_there
    }

    pub fn union(&self, other: &Labels) -> Labels {
        match (self.is_empty(), other.is_empty()) {
            (_, true) => self.clone(),
            (true, false) => other.clone(),
            (false, false) => self.iter().chain(other.iter()).cloned().collect(),
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.iter().count() as u64);
        self.iter().for_each(|label| put_bytes(out, label.as_str().as_bytes()));
    }

    /// At least one: an entry without labels has no list of them.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Labels, DecodeError> {
        let count = reader.number()?;
        let mut labels: Vec<Label> = Vec::new();
        for _ in 0..count {
            let label = decode_label(reader.bytes()?)?;
            if labels.last().is_some_and(|last| *last >= label) {
                return Err(DecodeError::Invalid("labels are not in order"));
            }
            labels.push(label);
        }
        match labels.is_empty() {
            true => Err(DecodeError::Invalid("an empty list of labels is written out")),
            false => Ok(Labels(Some(labels.into()))),
        }
    }
}

fn decode_label(bytes: &[u8]) -> Result<Label, DecodeError> {
    if bytes == FRESH_REPOSITORY.as_bytes() {
        return Ok(Label::fresh_repository());
    }
    let text = std::str::from_utf8(bytes).ok().and_then(|text| Label::new(text).ok());
    text.ok_or(DecodeError::Invalid("a label has characters that none has"))
}

impl FromIterator<Label> for Labels {
    fn from_iter<I: IntoIterator<Item = Label>>(labels: I) -> Labels {
        let mut labels: Vec<Label> = labels.into_iter().collect();
        labels.sort_unstable();
        labels.dedup();
        Labels((!labels.is_empty()).then(|| labels.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(texts: &[&str]) -> Labels {
        texts.iter().map(|text| Label::new(text).unwrap()).collect()
    }

    #[test]
    fn a_label_is_a_short_plain_word() {
        for good in ["private", "a", "0", "team-a.secret_1", &"x".repeat(LABEL_MAX)] {
            assert_eq!(Label::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "-a", ".a", "A", "a b", "a:b", "ä", "a\n", "a=b", "a@1", &"x".repeat(LABEL_MAX + 1)] {
            assert!(Label::new(bad).is_err(), "{bad:?}");
        }
        assert!(Label::new(Label::fresh_repository().as_str()).is_err());
    }

    #[test]
    fn labels_are_a_set_in_order() {
        let mut set = labels(&["b", "a", "b"]);
        assert_eq!(set, labels(&["a", "b"]));
        assert!(!set.insert(Label::new("a").unwrap()));
        assert!(set.insert(Label::fresh_repository()));
        assert!(set.remove(&Label::fresh_repository()));
        assert!(!set.remove(&Label::new("c").unwrap()));
        assert_eq!(set.union(&labels(&["c", "a"])), labels(&["a", "b", "c"]));
        assert!(set.remove(&Label::new("a").unwrap()) && set.remove(&Label::new("b").unwrap()));
        assert_eq!(set, Labels::default());
    }

    #[test]
    fn labels_survive_their_bytes_and_have_one_form() {
        let mut set = labels(&["private", "b"]);
        set.insert(Label::fresh_repository());
        let mut bytes = Vec::new();
        set.encode(&mut bytes);
        assert_eq!(Labels::decode(&mut Reader::new(&bytes)).unwrap(), set);
        for bad in [&b"\x00"[..], b"\x02\x01b\x01a", b"\x02\x01a\x01a", b"\x01\x01A", b"\x01\x01\xff"] {
            assert!(Labels::decode(&mut Reader::new(bad)).is_err(), "{bad:?}");
        }
    }
}
