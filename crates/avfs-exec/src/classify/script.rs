//! What both readers make of a command line: simple commands, redirections, assignments, hazards.

/// One word of a command, as far as it is known before it runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Word {
    /// The whole word without its quotes, or what stands before the first expansion.
    pub(crate) text: String,
    /// Nothing is expanded: `text` is what the program gets.
    pub(crate) exact: bool,
    /// It may become several words, or none.
    pub(crate) splits: bool,
    /// The words that braces make of it, when those are all that is expanded.
    pub(crate) choices: Vec<String>,
}

impl Word {
    pub(crate) fn exact(text: impl Into<String>) -> Word {
        Word { text: text.into(), exact: true, splits: false, choices: Vec::new() }
    }

    /// Anything, and any number of it.
    pub(crate) fn unknown() -> Word {
        Word { text: String::new(), exact: false, splits: true, choices: Vec::new() }
    }

    /// Starts with `text`, then goes on as nobody knows.
    pub(crate) fn starting(text: impl Into<String>) -> Word {
        Word { text: text.into(), exact: false, splits: false, choices: Vec::new() }
    }

    /// What follows `text` is known no better than the word itself.
    pub(crate) fn rest_of(&self, text: impl Into<String>) -> Word {
        Word { text: text.into(), exact: self.exact, splits: self.splits, choices: Vec::new() }
    }

    /// The word, or those that braces make of it.
    pub(crate) fn spread(&self) -> Vec<Word> {
        match self.choices.is_empty() {
            true => vec![self.clone()],
            false => self.choices.iter().map(Word::exact).collect(),
        }
    }

    pub(crate) fn literal(&self) -> Option<&str> {
        self.exact.then_some(self.text.as_str())
    }

    /// The word might be an option that nobody has seen.
    pub(crate) fn may_hide_a_flag(&self) -> bool {
        !self.exact && (self.splits || self.text.is_empty() || self.text.starts_with('-'))
    }

    pub(crate) fn push_literal(&mut self, text: &str) {
        if self.exact {
            self.text.push_str(text);
        }
    }

    pub(crate) fn push_expansion(&mut self, splits: bool) {
        self.exact = false;
        self.splits |= splits;
    }

    /// Text outside quotes, in which patterns and braces are expanded.
    pub(crate) fn push_unquoted(&mut self, text: &str) {
        match text.find(is_pattern_character) {
            Some(at) => {
                self.push_literal(&text[..at]);
                self.push_expansion(false);
            }
            None => self.push_literal(text),
        }
    }

    /// As a person should see it.
    pub(crate) fn shown(&self) -> String {
        match self.exact {
            true => self.text.clone(),
            false => format!("{}…", self.text),
        }
    }
}

/// Braces are looked at once the whole word is known: see [`has_braces`].
fn is_pattern_character(character: char) -> bool {
    matches!(character, '*' | '?' | '[')
}

/// Whether text outside quotes makes several words of one: `{a,b}` or `{1..3}`.
pub(crate) fn has_braces(unquoted: &str) -> bool {
    let inner = unquoted.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}'));
    inner.is_some_and(|(inner, _)| inner.contains(',') || inner.contains(".."))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RedirectKind {
    Read,
    /// `>`, `>>`, `>|`, `&>`, `&>>`, `<>`.
    Write,
    /// `>&` and `<&`: another descriptor, or a file.
    Duplicate,
    HereDocument,
    HereString,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Redirect {
    pub(crate) kind: RedirectKind,
    /// The file or descriptor; nothing for a here-document, whose text no program name is in.
    pub(crate) target: Word,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    pub(crate) value: Word,
}

/// One simple command. Without words it is only assignments, or the redirections of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Simple {
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) words: Vec<Word>,
    pub(crate) redirects: Vec<Redirect>,
}

/// Everything in a command line, substitutions included, in no order that matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) simples: Vec<Simple>,
    pub(crate) functions: Vec<String>,
    /// Things that run code without a command standing there.
    pub(crate) hazards: Vec<String>,
    /// Names whose values are evaluated as arithmetic, and so may run code.
    pub(crate) evaluated: Vec<String>,
    /// Names that get a value in other ways than by `name=value`: in a `for`, in arithmetic, by `${name:=…}`.
    pub(crate) other_assignments: Vec<Assignment>,
    /// Names that take the result of arithmetic, once for each time.
    pub(crate) numbers: Vec<String>,
}

/// Why a command line cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("it is longer than {0} bytes")]
    TooLong(usize),
    #[error("it holds more than {0} commands")]
    TooMany(usize),
    #[error("it holds more than {0} words")]
    TooManyWords(usize),
    #[error("it can be read in more than {0} ways")]
    TooManyReadings(usize),
    #[error("it is nested too deeply")]
    TooDeep,
    #[error("reading it takes longer than {0} seconds")]
    TooSlow(u64),
    #[error("it is no shell command that can be read: {0}")]
    Syntax(String),
    #[error("two readers do not agree on {0}")]
    Disagreement(&'static str),
    #[error("it holds the character {0}")]
    Character(String),
    #[error("reading it failed")]
    Failed,
}

/// Looks at an arithmetic expression: subscripts and substitutions run code, names are looked up later.
pub(crate) fn look_at_arithmetic(expression: &str, script: &mut Script) {
    if expression.contains(['[', '`']) || expression.contains("$(") || expression.contains("${") {
        script.hazards.push("arithmetic with a subscript or substitution runs code".to_owned());
    }
    let names = expression.split(|c: char| !c.is_alphanumeric() && c != '_');
    let names = names.filter(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_'));
    script.evaluated.extend(names.map(str::to_owned));
    script.other_assignments.extend(expression.split([';', ',']).filter_map(number_assigned));
}

/// `i = 0` inside arithmetic.
fn number_assigned(expression: &str) -> Option<Assignment> {
    let (name, value) = expression.split_once('=')?;
    let value = value.trim();
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Assignment { name: name.trim().to_owned(), value: Word::exact(value) })
}
