//! The classes of a command, and sets of them.

use std::fmt;

use serde::{Serialize, Serializer};

/// An effect that a command can have. The order decides which class represents a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Changes nothing and communicates with nothing.
    ReadOnly,
    /// Changes files, or runs code of the tree, which may change files.
    Mutating,
    /// Removes something that no other command restores.
    Destructive,
    /// Communicates outside the sandbox.
    Networked,
    /// Changes how later commands run, reaches for the host, or cannot be read with certainty.
    HostEscapeRisk,
}

impl Class {
    /// Every class, from the mildest to the worst.
    pub const ALL: [Class; 5] = [
        Class::ReadOnly,
        Class::Mutating,
        Class::Destructive,
        Class::Networked,
        Class::HostEscapeRisk,
    ];

    /// Its name in policies and envelopes.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::ReadOnly => "read_only",
            Class::Mutating => "mutating",
            Class::Destructive => "destructive",
            Class::Networked => "networked",
            Class::HostEscapeRisk => "host_escape_risk",
        }
    }

    /// The class with this name.
    pub fn named(name: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.as_str() == name)
    }

    /// A read-only command has no effect, so this class has no bit.
    fn bit(self) -> u8 {
        match self {
            Class::ReadOnly => 0,
            Class::Mutating => 1,
            Class::Destructive => 2,
            Class::Networked => 4,
            Class::HostEscapeRisk => 8,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// All effects that a command can have. A command without any effect is read-only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Classes(u8);

impl Classes {
    /// No class but `read_only`.
    pub const READ_ONLY: Classes = Classes(0);

    pub(crate) fn one(class: Class) -> Classes {
        Classes(class.bit())
    }

    /// The classes of both.
    #[must_use]
    pub fn and(self, other: Classes) -> Classes {
        Classes(self.0 | other.0)
    }

    #[must_use]
    pub(crate) fn with(self, class: Class) -> Classes {
        self.and(Classes::one(class))
    }

    /// Whether the class is among them.
    pub fn contains(self, class: Class) -> bool {
        match class {
            Class::ReadOnly => self.0 == 0,
            effect => self.0 & effect.bit() != 0,
        }
    }

    /// Whether there is no other class than `read_only`.
    pub fn is_read_only(self) -> bool {
        self.0 == 0
    }

    /// From the mildest to the worst.
    pub fn iter(self) -> impl Iterator<Item = Class> {
        Class::ALL.into_iter().filter(move |class| self.contains(*class))
    }

    /// The worst of them.
    pub fn worst(self) -> Class {
        self.iter().last().expect("a set without effects holds read_only")
    }

    /// Reads `read_only`, or classes joined by `+`.
    pub fn parse(text: &str) -> Option<Classes> {
        let one = |classes: Classes, name: &str| Some(classes.with(Class::named(name)?));
        text.split('+').try_fold(Classes::READ_ONLY, one)
    }
}

impl From<Class> for Classes {
    fn from(class: Class) -> Classes {
        Classes::one(class)
    }
}

impl FromIterator<Classes> for Classes {
    fn from_iter<I: IntoIterator<Item = Classes>>(all: I) -> Classes {
        all.into_iter().fold(Classes::READ_ONLY, Classes::and)
    }
}

impl fmt::Display for Classes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Class::as_str).collect();
        out.pad(&names.join("+"))
    }
}

impl Serialize for Classes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_reads_back_as_it_is_written() {
        for bits in 0..16 {
            assert_eq!(Classes::parse(&Classes(bits).to_string()), Some(Classes(bits)));
        }
        assert_eq!(Classes::parse("harmless"), None);
        assert_eq!(Classes::parse(""), None);
    }

    #[test]
    fn nothing_is_read_only_and_the_last_is_the_worst() {
        assert_eq!(Classes::READ_ONLY.worst(), Class::ReadOnly);
        let set = Classes::one(Class::Networked)
            .with(Class::Mutating)
            .with(Class::ReadOnly);
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [Class::Mutating, Class::Networked]
        );
        assert_eq!(set.worst(), Class::Networked);
        assert!(!set.contains(Class::ReadOnly));
    }
}
