//! Options as GNU commands take them: in any order with the arguments, short ones together, long ones shortened.

use crate::command::CommandResult;

use super::GnuCall;

/// Which options a command has.
pub(super) struct Known {
    /// The short ones. A colon behind one means that a value follows.
    pub short: &'static str,
    /// The long ones, each with the short one that it stands for. An equals sign at the end means that a value follows,
    /// and `[=` that one may.
    pub long: &'static [(&'static str, char)],
}

/// The options and arguments of one call.
#[derive(Default)]
pub(super) struct Given {
    options: Vec<(char, String)>,
    pub arguments: Vec<String>,
}

impl Given {
    pub fn has(&self, option: char) -> bool {
        self.options.iter().any(|(given, _)| *given == option)
    }

    /// The last value of an option.
    pub fn value(&self, option: char) -> Option<&str> {
        let mut values = self.options.iter().rev();
        values
            .find(|(given, _)| *given == option)
            .map(|(_, value)| value.as_str())
    }

    /// All values of an option.
    pub fn values(&self, option: char) -> impl Iterator<Item = &str> {
        let values = self.options.iter().filter(move |(given, _)| *given == option);
        values.map(|(_, value)| value.as_str())
    }

    /// Which of these options was given last: the others do not hold.
    pub fn last_of(&self, options: &str) -> Option<char> {
        let mut given = self.options.iter().rev().map(|(given, _)| *given);
        given.find(|given| options.contains(*given))
    }
}

impl Known {
    /// Reads the arguments of a call. The status is that of a wrong use.
    pub fn read(&self, call: &GnuCall<'_>, status: i32) -> Result<Given, CommandResult> {
        let mut given = Given::default();
        let mut words = call.call.args.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                given.arguments.extend(words.by_ref().cloned());
            } else if let Some(long) = word.strip_prefix("--") {
                self.long(long, &mut words, &mut given)
                    .map_err(|text| wrong(call, status, &text))?;
            } else if word.len() > 1 && word.starts_with('-') {
                self.short(&word[1..], &mut words, &mut given)
                    .map_err(|text| wrong(call, status, &text))?;
            } else {
                given.arguments.push(word.clone());
            }
        }
        Ok(given)
    }

    fn short<'a>(
        &self,
        letters: &str,
        words: &mut impl Iterator<Item = &'a String>,
        given: &mut Given,
    ) -> Result<(), String> {
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let at = self.short.find(letter).filter(|_| letter != ':');
            let at = at.ok_or_else(|| format!("invalid option -- '{letter}'"))?;
            if !self.short[at + letter.len_utf8()..].starts_with(':') {
                given.options.push((letter, String::new()));
                continue;
            }
            let value = match rest.as_str() {
                "" => words.next().cloned(),
                value => Some(value.to_owned()),
            };
            let value = value.ok_or_else(|| format!("option requires an argument -- '{letter}'"))?;
            given.options.push((letter, value));
            return Ok(());
        }
        Ok(())
    }

    fn long<'a>(
        &self,
        word: &str,
        words: &mut impl Iterator<Item = &'a String>,
        given: &mut Given,
    ) -> Result<(), String> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word, None),
        };
        let plain = |long: &'static str| long.trim_end_matches('=').trim_end_matches('[');
        let exact = self.long.iter().find(|(long, _)| plain(long) == name);
        let mut close = self.long.iter().filter(|(long, _)| plain(long).starts_with(name));
        let found = exact.or_else(|| close.next().filter(|_| close.next().is_none()));
        let (long, letter) = found.ok_or_else(|| format!("unrecognized option '--{word}'"))?;
        let value = match (long.ends_with('='), value) {
            (false, Some(_)) => return Err(format!("option '--{name}' doesn't allow an argument")),
            (true, None) if !long.ends_with("[=") => {
                let next = words.next().cloned();
                next.ok_or_else(|| format!("option '--{name}' requires an argument"))?
            }
            (_, value) => value.unwrap_or_default(),
        };
        given.options.push((*letter, value));
        Ok(())
    }
}

fn wrong(call: &GnuCall<'_>, status: i32, text: &str) -> CommandResult {
    CommandResult::failure(status, format!("{}: {text}\n", call.call.name))
}
