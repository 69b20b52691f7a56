//! The arguments of one call, read by a tool's table.

use super::class::Classes;
use super::handler::Handler;
use super::script::Word;
use super::tools::{Flag, Spec};

/// Arguments taken apart, and what they add to what the tool does.
#[derive(Debug, Default)]
pub(crate) struct Arguments<'a> {
    /// Known flags in their order, each with its value.
    pub(crate) flags: Vec<(String, Option<Word>)>,
    pub(crate) operands: Vec<&'a Word>,
    /// What follows the operands that a wrapper takes for itself.
    pub(crate) rest: &'a [Word],
    pub(crate) adds: Vec<(Classes, String)>,
    /// What a flag makes of the whole call.
    pub(crate) lowered: Option<Classes>,
    /// There was a `--`.
    pub(crate) dashes: bool,
}

/// Where options end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Options may stand between operands, up to `--`.
    End,
    /// After so many operands, the rest is not ours.
    Operands(usize),
    /// Nothing is read.
    Start,
}

impl<'a> Arguments<'a> {
    /// `above` is the table of the tool itself when `spec` is that of a subcommand.
    pub(crate) fn read(words: &'a [Word], spec: &Spec, above: Option<&Spec>, until: Until) -> Arguments<'a> {
        let mut reader = Reader { words, at: 0, spec, above, found: Arguments::default() };
        match until {
            Until::Start => reader.found.rest = words,
            Until::End | Until::Operands(_) => reader.all(until),
        }
        reader.found
    }

    pub(crate) fn values(&self, names: &[&str]) -> impl Iterator<Item = &Word> {
        let wanted: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let of = move |(name, value): &'_ &(String, Option<Word>)| wanted.contains(name) && value.is_some();
        self.flags.iter().filter(of).filter_map(|(_, value)| value.as_ref())
    }

    pub(crate) fn has(&self, names: &[&str]) -> bool {
        self.flags.iter().any(|(name, _)| names.contains(&name.as_str()))
    }
}

struct Reader<'a, 's> {
    words: &'a [Word],
    at: usize,
    spec: &'s Spec,
    above: Option<&'s Spec>,
    found: Arguments<'a>,
}

impl<'a> Reader<'a, '_> {
    fn all(&mut self, until: Until) {
        let mut ended = false;
        while let Some(word) = self.words.get(self.at) {
            if let Until::Operands(count) = until
                && (ended || !self.is_flag(word))
            {
                self.take_operands(count);
                break;
            }
            self.at += 1;
            ended |= self.spec.stops && !self.found.operands.is_empty();
            match word.literal() {
                _ if ended => self.found.operands.push(word),
                Some("--") => {
                    ended = !self.spec.through;
                    self.found.dashes = true;
                }
                Some(text) if self.is_flag(word) => self.flag(text),
                Some(_) => self.found.operands.push(word),
                None => self.expansion(word),
            }
        }
        self.found.rest = self.words.get(self.at..).unwrap_or_default();
        self.count_operands();
    }

    /// After the first operand of a wrapper nothing is an option of its own.
    fn take_operands(&mut self, count: usize) {
        let end = self.words.len().min(self.at + count);
        self.found.operands.extend(&self.words[self.at..end]);
        self.at = end;
    }

    /// `+x` is a flag of tools that know one like it.
    fn is_flag(&self, word: &Word) -> bool {
        let plus = || word.literal().filter(|text| text.starts_with('+')).and_then(|text| text.get(..2));
        looks_like_a_flag(word) || plus().is_some_and(|start| self.known(start).is_some())
    }

    fn known(&self, name: &str) -> Option<Flag> {
        let above = self.above.and_then(|above| above.flags.get(name));
        self.spec.flags.get(name).or(above).copied()
    }

    fn flag(&mut self, text: &str) {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(Word::exact(value))),
            None => (text, None),
        };
        match self.known(name) {
            Some(flag) => self.take(name, flag, value),
            None if text.starts_with("--") => self.unknown_long(name),
            None => self.cluster(&text[1..], None),
        }
    }

    fn take(&mut self, name: &str, flag: Flag, attached: Option<Word>) {
        let value = match attached {
            None if flag.takes_value => {
                self.at += 1;
                self.words.get(self.at - 1).cloned()
            }
            attached => attached,
        };
        if !flag.adds.is_read_only() {
            self.found.adds.push((flag.adds, name.to_owned()));
        }
        self.found.lowered = flag.lowers.or(self.found.lowered);
        self.found.flags.push((name.to_owned(), value));
    }

    /// Many tools take the beginning of a long flag for the flag.
    fn unknown_long(&mut self, name: &str) {
        let specs = [Some(self.spec), self.above];
        let longer = specs.into_iter().flatten().flat_map(|spec| &spec.flags);
        let longer = longer.filter(|(known, _)| known.starts_with(name)).map(|(_, flag)| flag.adds);
        let adds: Classes = longer.collect();
        let unknown = if self.spec.any { Classes::READ_ONLY } else { self.spec.unknown() };
        self.found.adds.push((adds.and(unknown), name.to_owned()));
        self.found.flags.push((name.to_owned(), None));
    }

    /// Short flags in one word, of which the last may have a value. `tail` follows what is known of it.
    fn cluster(&mut self, letters: &str, tail: Option<&Word>) {
        for (at, letter) in letters.char_indices() {
            let name = format!("-{letter}");
            let after = &letters[at + letter.len_utf8()..];
            match self.known(&name) {
                Some(flag) if flag.takes_value => {
                    let attached = match (after, tail) {
                        ("", None) => None,
                        (after, None) => Some(Word::exact(after)),
                        (after, Some(_)) => Some(Word::starting(after)),
                    };
                    return self.take(&name, flag, attached);
                }
                Some(_) if self.spec.single && !after.is_empty() => {
                    return self.found.adds.push((self.spec.unknown(), format!("-{letters}")));
                }
                Some(flag) => self.take(&name, flag, None),
                None if letter.is_ascii_digit() && self.known("-#").is_some() => {}
                None if self.spec.any => self.found.flags.push((name, None)),
                None => return self.found.adds.push((self.spec.unknown(), name)),
            }
        }
        if tail.is_some() {
            self.hidden(&format!("-{letters}"));
        }
    }

    /// A word of which only the beginning is known.
    fn expansion(&mut self, word: &'a Word) {
        let long = word.text.split_once('=').filter(|_| !word.splits && word.text.starts_with('-'));
        match long.and_then(|(name, value)| Some((name, self.known(name)?, value))) {
            Some((name, flag, value)) => self.take(name, flag, Some(Word::starting(value))),
            None if !word.may_hide_a_flag() || self.is_assignment(word) => self.found.operands.push(word),
            None if !word.splits && is_short(&word.text) => self.cluster(&word.text[1..], Some(word)),
            None => {
                self.hidden(&word.text);
                self.found.operands.push(word);
            }
        }
    }

    /// The shell does not split `x=$(…)` after `export` and the like.
    fn is_assignment(&self, word: &Word) -> bool {
        let name = word.text.split_once('=').map(|(name, _)| name);
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        self.spec.handler == Some(Handler::Declare) && name.is_some_and(is_name)
    }

    /// A word of which nobody knows which flag it is. One that begins with a dash can only be one of a few.
    fn hidden(&mut self, known: &str) {
        let what = format!("{known}… (it may be any flag)");
        let alike = |name: &str| name.starts_with(known) || is_short(known) && is_short(name);
        let flags = self.spec.flags.iter().filter(|(name, _)| known.starts_with('-') && alike(name));
        let worst: Classes = flags.map(|(_, flag)| flag.adds).collect();
        self.found.adds.push((self.spec.hidden_flag().and(worst), what));
    }

    fn count_operands(&mut self) {
        let Some((most, adds)) = self.spec.operands.filter(|_| self.found.lowered.is_none()) else { return };
        let many = self.found.operands.iter().any(|word| word.splits || !word.exact && word.text.is_empty());
        if self.found.operands.len() > most || many {
            self.found.adds.push((adds, "an operand".to_owned()));
        }
    }
}

fn is_short(text: &str) -> bool {
    text.len() > 1 && text.starts_with('-') && !text.starts_with("--")
}

fn looks_like_a_flag(word: &Word) -> bool {
    word.exact && word.text.len() > 1 && word.text.starts_with('-')
}
