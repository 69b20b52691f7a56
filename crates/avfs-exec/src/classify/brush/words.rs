//! Words as `brush-parser` splits them.

use brush_parser::ast;
use brush_parser::word::{Parameter, ParameterExpr, ParameterTransformOp, SpecialParameter};
use brush_parser::word::{TildeExpr, WordPiece, WordPieceWithSource};

use super::{BrushReader, Read};
use crate::classify::bounds::MAX_NESTING;
use crate::classify::braces;
use crate::classify::script::{ShellAssignment, ShellWord, UnreadableScript, has_braces, look_at_arithmetic};

impl BrushReader {
    pub(super) fn word(&mut self, word: &ast::Word) -> Result<ShellWord, UnreadableScript> {
        self.raw_word(&word.value)
    }

    fn raw_word(&mut self, raw: &str) -> Result<ShellWord, UnreadableScript> {
        if raw == "[" || raw.bytes().all(is_plain) {
            return Ok(ShellWord::exact(raw));
        }
        let mut built = ShellWord::exact("");
        // Braces expand only outside of quotes.
        let mut unquoted = String::new();
        for piece in &self.pieces(raw)? {
            if let WordPiece::Text(text) = &piece.piece {
                unquoted.push_str(text);
            }
            self.piece(&piece.piece, &mut built, false)?;
        }
        if has_braces(&unquoted) {
            return Ok(without_braces(built, raw));
        }
        Ok(built)
    }

    fn pieces(&mut self, raw: &str) -> Result<Vec<WordPieceWithSource>, UnreadableScript> {
        check_word_nesting(raw)?;
        let pieces = brush_parser::word::parse(raw, &self.options);
        pieces.map_err(|error| UnreadableScript::Syntax(error.to_string()))
    }

    pub(super) fn here_document(&mut self, raw: &str) -> Read {
        check_word_nesting(raw)?;
        let pieces = brush_parser::word::parse_heredoc(raw, &self.options);
        let pieces = pieces.map_err(|error| UnreadableScript::Syntax(error.to_string()))?;
        // The text itself is of no interest here, only the commands that its expansion runs.
        let mut ignored = ShellWord::exact("");
        for piece in &pieces {
            self.piece(&piece.piece, &mut ignored, true)?;
        }
        Ok(())
    }

    fn piece(&mut self, piece: &WordPiece, built: &mut ShellWord, quoted: bool) -> Read {
        match piece {
            WordPiece::Text(text) if quoted => built.push_literal(text),
            WordPiece::Text(text) => built.push_unquoted(text),
            WordPiece::SingleQuotedText(text) => built.push_literal(text),
            // Its escapes can spell anything; it counts as unknown instead of being decoded.
            WordPiece::AnsiCQuotedText(_) => built.push_expansion(false),
            WordPiece::DoubleQuotedSequence(pieces) => {
                for inner in pieces {
                    self.piece(&inner.piece, built, true)?;
                }
            }
            WordPiece::GettextDoubleQuotedSequence(pieces) => {
                built.push_expansion(false);
                for inner in pieces {
                    self.piece(&inner.piece, built, true)?;
                }
            }
            WordPiece::TildeExpansion(tilde) => built.push_literal(&tilde_text(tilde)),
            WordPiece::ParameterExpansion(expression) => {
                // Without quotes the value is split into words, so that a word may be several or none.
                built.push_expansion(!quoted || is_list(expression));
                self.parameter(expression)?;
            }
            WordPiece::CommandSubstitution(inner) | WordPiece::BackquotedCommandSubstitution(inner) => {
                built.push_expansion(!quoted);
                self.program(inner)?;
            }
            WordPiece::EscapeSequence(sequence) => built.push_literal(unescaped(sequence)),
            WordPiece::ArithmeticExpression(expression) => {
                built.push_expansion(false);
                self.arithmetic(&expression.value)?;
            }
        }
        Ok(())
    }

    /// An expression. Commands in it are read like all others; their output is evaluated.
    pub(super) fn arithmetic(&mut self, expression: &str) -> Read {
        // With any of these the parser of words would find other borders than the shell does.
        let certain = !expression.contains(['[', '`']) && !expression.contains("${");
        if !certain || !expression.contains("$(") {
            look_at_arithmetic(expression, &mut self.script);
            return Ok(());
        }
        let mut plain = String::new();
        for piece in &self.pieces(expression)? {
            match &piece.piece {
                WordPiece::CommandSubstitution(inner) => {
                    self.program(inner)?;
                    self.script.evaluated.push("$(…)".to_owned());
                    plain.push('0');
                }
                WordPiece::ArithmeticExpression(inner) => {
                    self.arithmetic(&inner.value)?;
                    plain.push('0');
                }
                WordPiece::Text(text) => plain.push_str(text),
                _ => plain.push_str(expression.get(piece.start_index..piece.end_index).unwrap_or("[")),
            }
        }
        look_at_arithmetic(&plain, &mut self.script);
        Ok(())
    }

    /// Words and expressions inside `${…}`.
    fn parameter(&mut self, expression: &ParameterExpr) -> Read {
        let inside = ExpansionContents::of(expression);
        if inside.indirect {
            self.hazard("the name of a variable comes from another variable");
        }
        if let Some(Parameter::NamedWithIndex { index, .. }) = inside.parameter {
            self.subscript(index);
        }
        for expression in inside.arithmetic {
            look_at_arithmetic(expression, &mut self.script);
        }
        for word in inside.words {
            self.raw_word(word)?;
        }
        match expression {
            ParameterExpr::Transform { op, .. } => self.transform(op),
            ParameterExpr::AssignDefaultValues {
                parameter: Parameter::Named(name),
                ..
            } => {
                let assignment = ShellAssignment {
                    name: name.clone(),
                    value: ShellWord::unknown(),
                };
                self.script.other_assignments.push(assignment);
            }
            ParameterExpr::VariableNames { .. } => self.hazard("names of variables are expanded"),
            _ => {}
        }
        Ok(())
    }

    fn transform(&mut self, operation: &ParameterTransformOp) {
        match operation {
            ParameterTransformOp::PromptExpand | ParameterTransformOp::ToAssignmentLogic => {
                self.hazard("a value is expanded as code");
            }
            ParameterTransformOp::CapitalizeInitial
            | ParameterTransformOp::ExpandEscapeSequences
            | ParameterTransformOp::PossiblyQuoteWithArraysExpanded { .. }
            | ParameterTransformOp::Quoted
            | ParameterTransformOp::ToAttributeFlags
            | ParameterTransformOp::ToLowerCase
            | ParameterTransformOp::ToUpperCase => {}
        }
    }

    /// A subscript is arithmetic. Ordinary subscripts are a plain number or one plain variable.
    pub(super) fn subscript(&mut self, index: &str) {
        // `a[i]`, `a[$i]` and `a["$i"]` all evaluate what `i` holds.
        let plain = index.trim_matches('"').trim_start_matches('$');
        if plain.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            look_at_arithmetic(plain, &mut self.script)
        } else {
            self.hazard("a subscript runs code")
        }
    }

    fn hazard(&mut self, reason: &str) {
        self.script.hazards.push(reason.to_owned());
    }
}

/// Bytes without special meaning. Most words consist of them, and parsing a word is slow.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-./,:+@%=".contains(&byte)
}

fn check_word_nesting(raw: &str) -> Read {
    // Counted, not matched: what matters is how deep the parser may recurse.
    let opening = raw
        .bytes()
        .filter(|byte| matches!(byte, b'(' | b'{' | b'`' | b'"'))
        .count();
    if raw.contains(['$', '`', '(']) && opening > MAX_NESTING {
        Err(UnreadableScript::TooDeep)
    } else {
        Ok(())
    }
}

/// Of a word with braces, only the part before the first brace is known.
fn without_braces(built: ShellWord, raw: &str) -> ShellWord {
    let known = built.text.split('{').next().unwrap_or_default();
    let choices = braces::expand(raw).unwrap_or_default();
    ShellWord {
        text: known.to_owned(),
        exact: false,
        splits: true,
        choices,
    }
}

fn tilde_text(tilde: &TildeExpr) -> String {
    match tilde {
        TildeExpr::Home => "~".to_owned(),
        TildeExpr::UserHome(user) => format!("~{user}"),
        TildeExpr::WorkingDir => "~+".to_owned(),
        TildeExpr::OldWorkingDir => "~-".to_owned(),
        TildeExpr::NthDirFromTopOfDirStack { n, plus_used: true } => format!("~+{n}"),
        TildeExpr::NthDirFromTopOfDirStack { n, plus_used: false } => format!("~{n}"),
        TildeExpr::NthDirFromBottomOfDirStack { n } => format!("~-{n}"),
    }
}

fn unescaped(sequence: &str) -> &str {
    match sequence.strip_prefix('\\') {
        // A backslash at the end of a line joins it with the next one.
        Some("\n") => "",
        Some(rest) => rest,
        None => sequence,
    }
}

/// `"$@"` and `"${a[@]}"` are many words in spite of their quotes.
fn is_list(expression: &ParameterExpr) -> bool {
    let parameter = ExpansionContents::of(expression).parameter;
    matches!(
        parameter,
        Some(
            Parameter::Special(SpecialParameter::AllPositionalParameters { concatenate: false })
                | Parameter::NamedWithAllIndices {
                    concatenate: false,
                    ..
                }
        )
    ) || matches!(
        expression,
        ParameterExpr::MemberKeys { .. } | ParameterExpr::VariableNames { .. }
    )
}

/// The contents of an expansion, whatever its operator is.
struct ExpansionContents<'a> {
    parameter: Option<&'a Parameter>,
    indirect: bool,
    words: Vec<&'a str>,
    arithmetic: Vec<&'a str>,
}

impl<'a> ExpansionContents<'a> {
    fn of(expression: &'a ParameterExpr) -> ExpansionContents<'a> {
        let with = |parameter, indirect: &bool, words: Vec<Option<&'a String>>| ExpansionContents {
            parameter: Some(parameter),
            indirect: *indirect,
            words: words.into_iter().flatten().map(String::as_str).collect(),
            arithmetic: Vec::new(),
        };
        use ParameterExpr as E;
        match expression {
            E::Parameter { parameter, indirect }
            | E::ParameterLength { parameter, indirect }
            | E::Transform {
                parameter, indirect, ..
            } => with(parameter, indirect, Vec::new()),
            E::UseDefaultValues {
                parameter,
                indirect,
                default_value: word,
                ..
            }
            | E::AssignDefaultValues {
                parameter,
                indirect,
                default_value: word,
                ..
            }
            | E::IndicateErrorIfNullOrUnset {
                parameter,
                indirect,
                error_message: word,
                ..
            }
            | E::UseAlternativeValue {
                parameter,
                indirect,
                alternative_value: word,
                ..
            }
            | E::RemoveSmallestSuffixPattern {
                parameter,
                indirect,
                pattern: word,
            }
            | E::RemoveLargestSuffixPattern {
                parameter,
                indirect,
                pattern: word,
            }
            | E::RemoveSmallestPrefixPattern {
                parameter,
                indirect,
                pattern: word,
            }
            | E::RemoveLargestPrefixPattern {
                parameter,
                indirect,
                pattern: word,
            }
            | E::UppercaseFirstChar {
                parameter,
                indirect,
                pattern: word,
            }
            | E::UppercasePattern {
                parameter,
                indirect,
                pattern: word,
            }
            | E::LowercaseFirstChar {
                parameter,
                indirect,
                pattern: word,
            }
            | E::LowercasePattern {
                parameter,
                indirect,
                pattern: word,
            } => with(parameter, indirect, vec![word.as_ref()]),
            E::ReplaceSubstring {
                parameter,
                indirect,
                pattern,
                replacement,
                ..
            } => with(parameter, indirect, vec![Some(pattern), replacement.as_ref()]),
            E::Substring {
                parameter,
                indirect,
                offset,
                length,
            } => {
                let mut inside = with(parameter, indirect, Vec::new());
                inside.arithmetic.push(&offset.value);
                inside
                    .arithmetic
                    .extend(length.iter().map(|length| length.value.as_str()));
                inside
            }
            E::VariableNames { .. } | E::MemberKeys { .. } => ExpansionContents {
                parameter: None,
                indirect: false,
                words: Vec::new(),
                arithmetic: Vec::new(),
            },
        }
    }
}
