//! The result of both readers for a command line: simple commands, redirections, assignments, hazards.

/// One word of a command, as far as it is known before it runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ShellWord {
    /// The whole word without its quotes, or the part before the first expansion.
    pub(crate) text: String,
    /// Nothing is expanded: `text` is what the program receives.
    pub(crate) exact: bool,
    /// It may become several words, or none.
    pub(crate) splits: bool,
    /// The words to which its braces expand, if nothing else is expanded.
    pub(crate) choices: Vec<String>,
}

impl ShellWord {
    pub(crate) fn exact(text: impl Into<String>) -> ShellWord {
        ShellWord {
            text: text.into(),
            exact: true,
            splits: false,
            choices: Vec::new(),
        }
    }

    /// Anything, any number of times.
    pub(crate) fn unknown() -> ShellWord {
        ShellWord {
            text: String::new(),
            exact: false,
            splits: true,
            choices: Vec::new(),
        }
    }

    /// Starts with `text` and continues in an unknown way.
    pub(crate) fn starting(text: impl Into<String>) -> ShellWord {
        ShellWord {
            text: text.into(),
            exact: false,
            splits: false,
            choices: Vec::new(),
        }
    }

    /// The rest after `text` is as uncertain as the word itself.
    pub(crate) fn rest_of(&self, text: impl Into<String>) -> ShellWord {
        ShellWord {
            text: text.into(),
            exact: self.exact,
            splits: self.splits,
            choices: Vec::new(),
        }
    }

    /// The word, or the words to which its braces expand.
    pub(crate) fn spread(&self) -> Vec<ShellWord> {
        if self.choices.is_empty() {
            vec![self.clone()]
        } else {
            self.choices.iter().map(ShellWord::exact).collect()
        }
    }

    pub(crate) fn literal(&self) -> Option<&str> {
        self.exact.then_some(self.text.as_str())
    }

    /// The word might be an unknown option.
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
        if self.exact {
            self.text.clone()
        } else {
            format!("{}…", self.text)
        }
    }
}

/// Braces are considered once the whole word is known: see [`has_braces`].
fn is_pattern_character(character: char) -> bool {
    matches!(character, '*' | '?' | '[')
}

/// Whether unquoted text expands to several words: `{a,b}` or `{1..3}`.
pub(crate) fn has_braces(unquoted: &str) -> bool {
    let inner = unquoted
        .split_once('{')
        .and_then(|(_, rest)| rest.rsplit_once('}'));
    inner.is_some_and(|(inner, _)| inner.contains(',') || inner.contains(".."))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RedirectKind {
    Read,
    /// `>`, `>|`, `&>`: the previous contents of the file are lost.
    Write,
    /// `>>`, `&>>`, `<>`.
    Append,
    /// `>&` and `<&`: another descriptor, or a file.
    Duplicate,
    HereDocument,
    HereString,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ShellRedirect {
    pub(crate) kind: RedirectKind,
    /// The file or descriptor; empty for a here-document, whose text contains no program name.
    pub(crate) target: ShellWord,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ShellAssignment {
    pub(crate) name: String,
    pub(crate) value: ShellWord,
}

/// One simple command. Without words it consists only of assignments, or of the redirections of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SimpleCommand {
    pub(crate) assignments: Vec<ShellAssignment>,
    pub(crate) words: Vec<ShellWord>,
    pub(crate) redirects: Vec<ShellRedirect>,
    /// It is not a command itself: its redirections are those of a group, which may print something.
    pub(crate) of_group: bool,
}

/// Everything in a command line, including substitutions; the order is irrelevant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellScript {
    pub(crate) simples: Vec<SimpleCommand>,
    pub(crate) functions: Vec<String>,
    /// Constructs that run code without a visible command.
    pub(crate) hazards: Vec<String>,
    /// Names whose values are evaluated as arithmetic, and so may run code.
    pub(crate) evaluated: Vec<String>,
    /// Names that get a value other than by `name=value`: in a `for`, in arithmetic, by `${name:=…}`.
    pub(crate) other_assignments: Vec<ShellAssignment>,
    /// Names that receive the result of arithmetic, once for each time.
    pub(crate) numbers: Vec<String>,
    /// Here-documents. Only the first reader keeps them: they add information about commands that both know.
    pub(crate) documents: Vec<String>,
}

/// Why a command line cannot be classified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnreadableScript {
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

/// Examines an arithmetic expression: subscripts and substitutions run code, names are looked up later.
pub(crate) fn look_at_arithmetic(expression: &str, script: &mut ShellScript) {
    if expression.contains(['[', '`']) || expression.contains("$(") || expression.contains("${") {
        script
            .hazards
            .push("arithmetic with a subscript or substitution runs code".to_owned());
    }
    let names = expression.split(|c: char| !c.is_alphanumeric() && c != '_');
    let names = names.filter(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_'));
    script.evaluated.extend(names.map(str::to_owned));
    script
        .other_assignments
        .extend(expression.split([';', ',']).filter_map(number_assigned));
}

/// `i = 0` inside arithmetic.
fn number_assigned(expression: &str) -> Option<ShellAssignment> {
    let (name, value) = expression.split_once('=')?;
    let value = value.trim();
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| ShellAssignment {
        name: name.trim().to_owned(),
        value: ShellWord::exact(value),
    })
}
