//! Labels: names that a tree gives to its entries, for rules that follow an entry wherever it is moved.

use std::fmt;
use std::sync::Arc;

use crate::codec::{ByteReader, DecodeError, put_bytes, put_number};

/// The longest name of a label, in bytes.
pub const LABEL_MAX: usize = 64;

/// Contains a `:`, which labels written by users cannot contain.
const FRESH_REPOSITORY: &str = "system:fresh-repository";

/// Why a text is not a label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLabel {
    /// It is empty.
    #[error("a label cannot be empty")]
    Empty,
    /// It has so many bytes, which is more than [`LABEL_MAX`].
    #[error("a label has at most {LABEL_MAX} bytes, this one has {0}")]
    TooLong(usize),
    /// It does not begin with a letter or a digit.
    #[error("a label starts with a letter or a digit")]
    Start,
    /// It has a character that labels cannot have.
    #[error(
        "a label has lower-case letters, digits, '.', '_' and '-' only: '{character}' at byte {position}"
    )]
    Character {
        /// The character.
        character: char,
        /// Its byte offset in the text.
        position: usize,
    },
}

/// A checked name: 1 to 64 of `a-z 0-9 . _ -`, the first a letter or a digit. Clones share their text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(Arc<str>);

impl Label {
    /// Checks a text.
    pub fn new(name: &str) -> Result<Label, BadLabel> {
        check(name)?;
        Ok(Label(name.into()))
    }

    /// The label that a tree itself gives to a repository that was created since the tree's base. Users
    /// cannot write it.
    pub fn fresh_repository() -> Label {
        Label(FRESH_REPOSITORY.into())
    }

    /// Whether only the system can assign it.
    pub fn is_reserved(&self) -> bool {
        self.0.contains(':')
    }

    /// The label as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Also accepts labels of the system: for text that the program itself has written.
    pub(crate) fn from_stored(name: &str) -> Result<Label, BadLabel> {
        match name {
            FRESH_REPOSITORY => Ok(Label::fresh_repository()),
            name => Label::new(name),
        }
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<Label, DecodeError> {
        Label::from_stored(reader.text()?).map_err(|_| DecodeError::Invalid("a label is not a label's name"))
    }
}

fn check(name: &str) -> Result<(), BadLabel> {
    let allowed = |c: &char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-');
    if let Some((position, character)) = name.char_indices().find(|(_, c)| !allowed(c)) {
        return Err(BadLabel::Character { character, position });
    }
    match name.as_bytes() {
        [] => Err(BadLabel::Empty),
        [first, ..] if !first.is_ascii_alphanumeric() => Err(BadLabel::Start),
        all if all.len() > LABEL_MAX => Err(BadLabel::TooLong(all.len())),
        _ => Ok(()),
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

/// A sorted set of labels. Most entries have none, and an empty set needs no memory; clones share their
/// labels.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels(Option<Arc<[Label]>>);

impl Labels {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn as_slice(&self) -> &[Label] {
        self.0.as_deref().unwrap_or_default()
    }

    fn from_sorted(labels: Vec<Label>) -> Labels {
        Labels((!labels.is_empty()).then(|| labels.into()))
    }

    /// Whether the label is among them.
    pub fn contains(&self, label: &Label) -> bool {
        self.as_slice().binary_search(label).is_ok()
    }

    /// The labels, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.as_slice().iter()
    }

    /// The labels of both sets.
    pub fn union(&self, other: &Labels) -> Labels {
        if self.is_empty() || self == other {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        self.iter().chain(other.iter()).cloned().collect()
    }

    /// Returns whether the label is new in the set.
    pub fn insert(&mut self, label: Label) -> bool {
        let Err(index) = self.as_slice().binary_search(&label) else {
            return false;
        };
        let mut labels = self.as_slice().to_vec();
        labels.insert(index, label);
        *self = Labels::from_sorted(labels);
        true
    }

    /// Returns whether the label was in the set.
    pub fn remove(&mut self, label: &Label) -> bool {
        let Ok(index) = self.as_slice().binary_search(label) else {
            return false;
        };
        let mut labels = self.as_slice().to_vec();
        labels.remove(index);
        *self = Labels::from_sorted(labels);
        true
    }

    /// An empty set has no encoding: the encoding that contains it must mark its absence.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.len() as u64);
        for label in self.iter() {
            put_bytes(out, label.as_str().as_bytes());
        }
    }

    /// Reads what [`Labels::encode`] wrote.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Labels, DecodeError> {
        let count = reader.number()?;
        let mut labels: Vec<Label> = Vec::new();
        for _ in 0..count {
            let label = Label::decode(reader)?;
            if labels.last().is_some_and(|last| *last >= label) {
                return Err(DecodeError::Invalid("labels are not in order"));
            }
            labels.push(label);
        }
        if labels.is_empty() {
            Err(DecodeError::Invalid("an empty set of labels is written out"))
        } else {
            Ok(Labels::from_sorted(labels))
        }
    }
}

impl FromIterator<Label> for Labels {
    fn from_iter<I: IntoIterator<Item = Label>>(labels: I) -> Labels {
        let mut labels: Vec<Label> = labels.into_iter().collect();
        labels.sort();
        labels.dedup();
        Labels::from_sorted(labels)
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(names: &[&str]) -> Labels {
        names.iter().map(|name| Label::new(name).unwrap()).collect()
    }

    #[test]
    fn a_label_is_a_short_plain_name() {
        for good in ["private", "0", "a.b_c-d", &"x".repeat(64)] {
            assert_eq!(Label::new(good).unwrap().as_str(), good);
        }
        assert_eq!(Label::new(""), Err(BadLabel::Empty));
        assert_eq!(Label::new("-a"), Err(BadLabel::Start));
        assert_eq!(
            Label::new("aB"),
            Err(BadLabel::Character {
                character: 'B',
                position: 1
            })
        );
        assert_eq!(Label::new(&"x".repeat(65)), Err(BadLabel::TooLong(65)));
    }

    #[test]
    fn label_of_the_system_cannot_be_written_by_users() {
        let reserved = Label::fresh_repository();
        assert!(reserved.is_reserved());
        assert!(Label::new(reserved.as_str()).is_err());
        assert!(!Label::new("fresh-repository").unwrap().is_reserved());
    }

    #[test]
    fn a_set_is_sorted_and_holds_each_label_once() {
        let mut set = labels(&["b", "a", "b"]);
        assert_eq!(format!("{set:?}"), "{a, b}");
        assert!(!set.insert(Label::new("a").unwrap()));
        assert!(set.insert(Label::new("c").unwrap()));
        assert_eq!(labels(&["c"]).union(&labels(&["a", "b"])), set);
        assert_eq!(set.union(&Labels::default()), set);
        for name in ["a", "b", "c"] {
            assert!(set.remove(&Label::new(name).unwrap()));
        }
        assert!(set.is_empty() && set == Labels::default());
    }

    #[test]
    fn labels_read_back_and_have_one_encoding() {
        let mut set = labels(&["a", "private"]);
        set.insert(Label::fresh_repository());
        let mut out = Vec::new();
        set.encode(&mut out);
        assert_eq!(Labels::decode(&mut ByteReader::new(&out)), Ok(set));
        for bad in [
            &b"\x00"[..],
            b"\x02\x01b\x01a",
            b"\x02\x01a\x01a",
            b"\x01\x01A",
            b"\x01\x03a:b",
            b"\x05\x01a",
        ] {
            assert!(Labels::decode(&mut ByteReader::new(bad)).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn accepted_bytes_are_the_encoding(bytes in proptest::collection::vec(prop_oneof![0u8..4, b'a'..b'd'], 0..12)) {
            let mut reader = ByteReader::new(&bytes);
            if let Ok(set) = Labels::decode(&mut reader) {
                let mut again = Vec::new();
                set.encode(&mut again);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - reader.len()]);
            }
        }
    }
}
