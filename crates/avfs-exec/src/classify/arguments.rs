//! Parses the arguments of one call by a tool's table.

use super::class::Classes;
use super::handler::Handler;
use super::script::ShellWord;
use super::tools::{ToolFlag, ToolSpec};

/// Parsed arguments, and what they add to the effects of the tool.
#[derive(Debug, Default)]
pub(crate) struct ParsedArguments<'a> {
    /// Known flags in their order, each with its value.
    pub(crate) flags: Vec<(String, Option<ShellWord>)>,
    pub(crate) operands: Vec<&'a ShellWord>,
    /// The words after the operands that a wrapper takes for itself.
    pub(crate) rest: &'a [ShellWord],
    pub(crate) adds: Vec<(Classes, String)>,
    /// The class that a flag gives to the whole call.
    pub(crate) lowered: Option<Classes>,
    /// There was a `--`.
    pub(crate) dashes: bool,
}

/// The end of the options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionsEnd {
    /// Options may stand between operands, up to `--`.
    End,
    /// After this many operands, the rest does not belong to the tool.
    Operands(usize),
    /// Nothing is parsed.
    Start,
}

impl<'a> ParsedArguments<'a> {
    /// `above` is the table of the tool itself when `spec` is that of a subcommand.
    pub(crate) fn read(
        words: &'a [ShellWord],
        spec: &ToolSpec,
        above: Option<&ToolSpec>,
        until: OptionsEnd,
    ) -> ParsedArguments<'a> {
        let mut reader = ArgumentReader {
            words,
            at: 0,
            spec,
            above,
            found: ParsedArguments::default(),
        };
        match until {
            OptionsEnd::Start => reader.found.rest = words,
            OptionsEnd::End | OptionsEnd::Operands(_) => reader.all(until),
        }
        reader.found
    }

    pub(crate) fn values(&self, names: &[&str]) -> impl Iterator<Item = &ShellWord> {
        let wanted: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let of =
            move |(name, value): &'_ &(String, Option<ShellWord>)| wanted.contains(name) && value.is_some();
        self.flags
            .iter()
            .filter(of)
            .filter_map(|(_, value)| value.as_ref())
    }

    pub(crate) fn has(&self, names: &[&str]) -> bool {
        self.flags.iter().any(|(name, _)| names.contains(&name.as_str()))
    }
}

struct ArgumentReader<'a, 's> {
    words: &'a [ShellWord],
    at: usize,
    spec: &'s ToolSpec,
    above: Option<&'s ToolSpec>,
    found: ParsedArguments<'a>,
}

impl<'a> ArgumentReader<'a, '_> {
    fn all(&mut self, until: OptionsEnd) {
        let mut ended = false;
        while let Some(word) = self.words.get(self.at) {
            if let OptionsEnd::Operands(count) = until
                && (ended || !self.is_flag(word))
            {
                // What follows them is the command of a wrapper, with flags of its own.
                self.take_operands(count);
                break;
            }
            self.at += 1;
            // Checked before the word is taken: the first operand ends the options behind it.
            ended |= self.spec.stops && !self.found.operands.is_empty();
            match word.literal() {
                _ if ended => self.found.operands.push(word),
                Some("--") => {
                    // Some tools read options after `--` all the same.
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

    /// After its first operand, a wrapper has no more options of its own.
    fn take_operands(&mut self, count: usize) {
        let end = self.words.len().min(self.at + count);
        self.found.operands.extend(&self.words[self.at..end]);
        self.at = end;
    }

    /// `+x` is a flag of tools that have a flag of that form.
    fn is_flag(&self, word: &ShellWord) -> bool {
        let plus = || {
            word.literal()
                .filter(|text| text.starts_with('+'))
                .and_then(|text| text.get(..2))
        };
        looks_like_a_flag(word) || plus().is_some_and(|start| self.known(start).is_some())
    }

    fn known(&self, name: &str) -> Option<ToolFlag> {
        let above = self.above.and_then(|above| above.flags.get(name));
        self.spec.flags.get(name).or(above).copied()
    }

    fn flag(&mut self, text: &str) {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(ShellWord::exact(value))),
            None => (text, None),
        };
        match self.known(name) {
            Some(flag) => self.take(name, flag, value),
            None if text.starts_with("--") => self.unknown_long(name),
            None => self.cluster(&text[1..], None),
        }
    }

    fn take(&mut self, name: &str, flag: ToolFlag, attached: Option<ShellWord>) {
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
        // A later flag that lowers wins, and one that does not lower takes nothing back.
        self.found.lowered = flag.lowers.or(self.found.lowered);
        self.found.flags.push((name.to_owned(), value));
    }

    /// Many tools accept a prefix of a long flag.
    fn unknown_long(&mut self, name: &str) {
        let specs = [Some(self.spec), self.above];
        // Many tools accept the beginning of a long flag, so it may be any that begins so.
        let longer = specs.into_iter().flatten().flat_map(|spec| &spec.flags);
        let longer = longer
            .filter(|(known, _)| known.starts_with(name))
            .map(|(_, flag)| flag.adds);
        let adds: Classes = longer.collect();
        let unknown = if self.spec.any {
            Classes::READ_ONLY
        } else {
            self.spec.unknown()
        };
        self.found.adds.push((adds.and(unknown), name.to_owned()));
        self.found.flags.push((name.to_owned(), None));
    }

    /// Short flags in one word, of which the last may have a value. `tail` follows the known part of the
    /// word.
    fn cluster(&mut self, letters: &str, tail: Option<&ShellWord>) {
        for (at, letter) in letters.char_indices() {
            let name = format!("-{letter}");
            let after = &letters[at + letter.len_utf8()..];
            match self.known(&name) {
                Some(flag) if flag.takes_value => {
                    let attached = match (after, tail) {
                        ("", None) => None,
                        (after, None) => Some(ShellWord::exact(after)),
                        // The word goes on with something that is known only when it runs.
                        (after, Some(_)) => Some(ShellWord::starting(after)),
                    };
                    return self.take(&name, flag, attached);
                }
                // Such tools read `-exec` as one flag, which is not in the table then.
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
    fn expansion(&mut self, word: &'a ShellWord) {
        let long = word
            .text
            .split_once('=')
            .filter(|_| !word.splits && word.text.starts_with('-'));
        match long.and_then(|(name, value)| Some((name, self.known(name)?, value))) {
            Some((name, flag, value)) => self.take(name, flag, Some(ShellWord::starting(value))),
            None if !word.may_hide_a_flag() || self.is_assignment(word) => self.found.operands.push(word),
            None if !word.splits && is_short(&word.text) => self.cluster(&word.text[1..], Some(word)),
            None => {
                self.hidden(&word.text);
                self.found.operands.push(word);
            }
        }
    }

    /// The shell does not split `x=$(…)` after `export` and the like.
    fn is_assignment(&self, word: &ShellWord) -> bool {
        let name = word.text.split_once('=').map(|(name, _)| name);
        let is_name = |name: &str| {
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        self.spec.handler == Some(Handler::Declare) && name.is_some_and(is_name)
    }

    /// A word that may be an unknown flag. If it begins with a dash, only a few flags are possible.
    fn hidden(&mut self, known: &str) {
        let what = format!("{known}… (it may be any flag)");
        let alike = |name: &str| name.starts_with(known) || is_short(known) && is_short(name);
        let flags = self
            .spec
            .flags
            .iter()
            .filter(|(name, _)| known.starts_with('-') && alike(name));
        // It may become any flag that begins so, and counts as the worst of them.
        let worst: Classes = flags.map(|(_, flag)| flag.adds).collect();
        self.found.adds.push((self.spec.hidden_flag().and(worst), what));
    }

    fn count_operands(&mut self) {
        let Some((most, adds)) = self.spec.operands.filter(|_| self.found.lowered.is_none()) else {
            return;
        };
        let many = self
            .found
            .operands
            .iter()
            // One word that may become several counts as too many.
            .any(|word| word.splits || !word.exact && word.text.is_empty());
        if self.found.operands.len() > most || many {
            self.found.adds.push((adds, "an operand".to_owned()));
        }
    }
}

fn is_short(text: &str) -> bool {
    text.len() > 1 && text.starts_with('-') && !text.starts_with("--")
}

fn looks_like_a_flag(word: &ShellWord) -> bool {
    word.exact && word.text.len() > 1 && word.text.starts_with('-')
}
