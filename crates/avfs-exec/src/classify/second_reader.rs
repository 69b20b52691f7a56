//! The second reader: the grammar `tree-second_reader-bash`, which shares no code with the first.

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::bounds::{MAX_COMMANDS, MAX_TREE_DEPTH};
use super::braces;
use super::script::{
    RedirectKind, ShellAssignment, ShellRedirect, ShellScript, ShellWord, SimpleCommand, UnreadableScript,
    has_braces,
};

/// Steps of the parser, by its own count, for each byte of text. Ordinary text needs a tenth of it.
const STEPS_PER_BYTE: usize = 1;
const LEAST_STEPS: usize = 10_000;

/// Returns the same as the first reader, except for hazards and arithmetic.
pub(crate) fn read(text: &str) -> Result<ShellScript, UnreadableScript> {
    let tree = parse(text)?;
    let root = tree.root_node();
    // This parser recovers from errors by guessing, and a guess is worth nothing here.
    if root.has_error() {
        return Err(UnreadableScript::Syntax("it is not well-formed".to_owned()));
    }
    let mut reader = SecondReader {
        text,
        script: ShellScript::default(),
        depth: 0,
    };
    reader.node(root)?;
    Ok(reader.script)
}

fn parse(text: &str) -> Result<Tree, UnreadableScript> {
    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_bash::LANGUAGE.into())
        .map_err(|_| UnreadableScript::Failed)?;
    // Ambiguous text can make it try exponentially many ways, so its steps are counted.
    let limit = LEAST_STEPS.max(text.len() * STEPS_PER_BYTE);
    let mut steps = 0;
    let mut count = |_: &ParseState| {
        steps += 1;
        if steps > limit {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut count);
    let bytes = text.as_bytes();
    let tree = parser.parse_with_options(
        &mut |at, _| bytes.get(at..).unwrap_or_default(),
        None,
        Some(options),
    );
    tree.ok_or(UnreadableScript::TooDeep)
}

struct SecondReader<'a> {
    text: &'a str,
    script: ShellScript,
    depth: usize,
}

type Read = Result<(), UnreadableScript>;

impl<'a> SecondReader<'a> {
    /// A node that may contain commands.
    fn node(&mut self, node: Node<'a>) -> Read {
        self.depth += 1;
        if self.depth > MAX_TREE_DEPTH {
            return Err(UnreadableScript::TooDeep);
        }
        match node.kind() {
            "command" => self.command(node, None)?,
            "redirected_statement" => self.redirected(node)?,
            "declaration_command" | "unset_command" => self.declaration(node)?,
            "test_command" => self.test(node)?,
            "variable_assignment" => self.assignment(node)?,
            "file_redirect" => self.file_redirect(node)?,
            "herestring_redirect" => self.here_string(node)?,
            "heredoc_redirect" => self.here_document(node)?,
            "function_definition" => self.function(node)?,
            // Its three expressions are arithmetic, which the first reader examines.
            "c_style_for_statement" => {
                node.child_by_field_name("body")
                    .map_or(Ok(()), |body| self.node(body))?;
            }
            _ => self.children(node)?,
        }
        self.depth -= 1;
        Ok(())
    }

    fn children(&mut self, node: Node<'a>) -> Read {
        named_children(node)
            .into_iter()
            .try_for_each(|child| self.node(child))
    }

    fn push(&mut self, simple: SimpleCommand) -> Read {
        if self.script.simples.len() >= MAX_COMMANDS {
            return Err(UnreadableScript::TooMany(MAX_COMMANDS));
        }
        self.script.simples.push(simple);
        Ok(())
    }

    fn push_redirect(&mut self, kind: RedirectKind, target: ShellWord) -> Read {
        self.push(SimpleCommand {
            redirects: vec![ShellRedirect { kind, target }],
            ..SimpleCommand::default()
        })
    }

    /// The grammar loses a lone `-` before a here-document, as in `python3 - <<EOF`.
    fn redirected(&mut self, node: Node<'a>) -> Read {
        let all = named_children(node);
        let [first, second, ..] = all.as_slice() else {
            return self.children(node);
        };
        let between = self
            .text
            .get(first.end_byte()..second.start_byte())
            .unwrap_or_default()
            .trim();
        if first.kind() != "command" || between != "-" {
            return self.children(node);
        }
        self.command(*first, Some(ShellWord::exact("-")))?;
        all[1..].iter().try_for_each(|child| self.node(*child))
    }

    fn command(&mut self, node: Node<'a>, lost: Option<ShellWord>) -> Read {
        let mut words = Vec::new();
        for (child, is_argument) in children_of_command(node) {
            match child.kind() {
                "variable_assignment" | "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                    self.node(child)?;
                }
                "command_name" => {
                    for part in named_children(child) {
                        words.push(self.word(part)?);
                    }
                }
                "comment" => {}
                _ if child.is_named() => words.push(self.word(child)?),
                _ if is_argument => words.push(ShellWord::exact(self.source(child))),
                _ => {}
            }
        }
        words.extend(lost);
        strip_time(&mut words);
        if words.is_empty() {
            Ok(())
        } else {
            self.push(SimpleCommand {
                words,
                ..SimpleCommand::default()
            })
        }
    }

    /// `export A=1` and the like, whose arguments the grammar parses itself.
    fn declaration(&mut self, node: Node<'a>) -> Read {
        // The keyword is no named child: it is a terminal of the grammar.
        let keyword = node.child(0).map(|first| self.source(first)).unwrap_or_default();
        let mut words = vec![ShellWord::exact(keyword)];
        for child in named_children(node) {
            match child.kind() {
                "variable_assignment" => words.push(self.assignment_word(child)?),
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => self.node(child)?,
                "comment" => {}
                _ => words.push(self.word(child)?),
            }
        }
        self.push(SimpleCommand {
            words,
            ..SimpleCommand::default()
        })
    }

    fn assignment_word(&mut self, node: Node<'a>) -> Result<ShellWord, UnreadableScript> {
        let value = node.child_by_field_name("value");
        let end = value.map_or(node.end_byte(), |value| value.start_byte());
        let mut word = ShellWord::exact(&self.text[node.start_byte()..end]);
        let is_array = value.is_some_and(|value| value.kind() == "array");
        match value.map(|value| self.assigned(value)).transpose()? {
            Some(_) if is_array => word.push_expansion(false),
            Some(value) if value.exact => word.push_literal(&value.text),
            Some(value) => {
                word.push_literal(&value.text);
                word.push_expansion(value.splits);
            }
            None => {}
        }
        Ok(word)
    }

    /// `[ … ]` and `[[ … ]]`: only the substitutions in the condition matter.
    fn test(&mut self, node: Node<'a>) -> Read {
        let bracket = node.child(0).map(|first| self.source(first)).unwrap_or_default();
        if bracket == "((" {
            return self.children(node);
        }
        self.push(SimpleCommand {
            words: vec![ShellWord::exact(bracket)],
            ..SimpleCommand::default()
        })?;
        self.children(node)
    }

    fn assignment(&mut self, node: Node<'a>) -> Read {
        let name = node.child_by_field_name("name");
        if let Some(name) = name {
            self.children(name)?;
        }
        let name = name.map(|name| self.source(name)).unwrap_or_default();
        let name = name.split('[').next().unwrap_or_default().to_owned();
        let value = match node.child_by_field_name("value") {
            Some(value) => self.assigned(value)?,
            None => ShellWord::exact(""),
        };
        self.push(SimpleCommand {
            assignments: vec![ShellAssignment { name, value }],
            ..SimpleCommand::default()
        })
    }

    fn assigned(&mut self, value: Node<'a>) -> Result<ShellWord, UnreadableScript> {
        match value.kind() {
            "array" => {
                for item in named_children(value) {
                    self.word(item)?;
                }
                Ok(ShellWord::unknown())
            }
            _ => self.word(value),
        }
    }

    fn file_redirect(&mut self, node: Node<'a>) -> Read {
        let all = children_of_command(node);
        let operator = all
            .iter()
            .map(|(child, _)| child.kind())
            .find(|kind| kind.contains(['<', '>']));
        let kind = match operator {
            Some("<") => RedirectKind::Read,
            Some(">&" | "<&" | "<&-" | ">&-") => RedirectKind::Duplicate,
            Some(">>" | "&>>" | "<>") => RedirectKind::Append,
            _ => RedirectKind::Write,
        };
        let mut cursor = node.walk();
        let targets: Vec<Node<'a>> = node.children_by_field_name("destination", &mut cursor).collect();
        if targets.is_empty() {
            return self.push_redirect(kind, ShellWord::exact("-"));
        }
        // The grammar treats words after the file as further files.
        for target in targets {
            let target = self.word(target)?;
            self.push_redirect(kind, target)?;
        }
        Ok(())
    }

    fn here_string(&mut self, node: Node<'a>) -> Read {
        for child in named_children(node)
            .into_iter()
            .filter(|child| child.kind() != "file_descriptor")
        {
            let target = self.word(child)?;
            self.push_redirect(RedirectKind::HereString, target)?;
        }
        Ok(())
    }

    /// The grammar puts the rest of the line after `<<EOF` into the redirection.
    fn here_document(&mut self, node: Node<'a>) -> Read {
        self.push_redirect(RedirectKind::HereDocument, ShellWord::exact(""))?;
        let skip = |kind: &str| matches!(kind, "heredoc_start" | "heredoc_end" | "file_descriptor");
        for child in named_children(node)
            .into_iter()
            .filter(|child| !skip(child.kind()))
        {
            self.node(child)?;
        }
        Ok(())
    }

    fn function(&mut self, node: Node<'a>) -> Read {
        let name = node.child_by_field_name("name");
        self.script
            .functions
            .extend(name.map(|name| self.source(name).to_owned()));
        let others = named_children(node)
            .into_iter()
            .filter(|child| Some(*child) != name);
        others.into_iter().try_for_each(|child| self.node(child))
    }

    fn word(&mut self, node: Node<'a>) -> Result<ShellWord, UnreadableScript> {
        if self.source(node) == "[" {
            return Ok(ShellWord::exact("["));
        }
        let mut word = ShellWord::exact("");
        let mut unquoted = String::new();
        self.append(node, &mut word, &mut unquoted)?;
        if has_braces(&unquoted) {
            let known = word.text.split('{').next().unwrap_or_default().to_owned();
            word = ShellWord {
                text: known,
                exact: false,
                splits: true,
                choices: Vec::new(),
            };
        }
        if !word.exact && word.splits && has_braces(self.source(node)) {
            word.choices = braces::expand(self.source(node)).unwrap_or_default();
        }
        Ok(word)
    }

    fn append(&mut self, node: Node<'a>, word: &mut ShellWord, unquoted: &mut String) -> Read {
        match node.kind() {
            "word"
            | "number"
            | "variable_name"
            | "special_variable_name"
            | "test_operator"
            | "regex"
            | "extglob_pattern"
                if node.named_child_count() == 0 =>
            {
                append_unquoted(self.source(node), word, unquoted);
            }
            "raw_string" => word.push_literal(self.source(node).trim_matches('\'')),
            "ansi_c_string" => word.push_expansion(false),
            "translated_string" => {
                word.push_expansion(false);
                self.children(node)?;
            }
            "string" => self.string(node, word)?,
            "concatenation" | "command_name" => self.concatenation(node, word, unquoted)?,
            "simple_expansion" | "expansion" => {
                word.push_expansion(true);
                self.children(node)?;
            }
            "command_substitution" => {
                word.push_expansion(true);
                self.children(node)?;
            }
            "process_substitution" => {
                word.push_literal("/dev/fd/");
                word.push_expansion(false);
                self.children(node)?;
            }
            "arithmetic_expansion" => {
                word.push_expansion(false);
                self.children(node)?;
            }
            "brace_expression" => {
                word.push_expansion(true);
            }
            _ => {
                word.push_expansion(true);
                self.children(node)?;
            }
        }
        Ok(())
    }

    /// Adjacent parts of one word; characters without a node are text.
    fn concatenation(&mut self, node: Node<'a>, word: &mut ShellWord, unquoted: &mut String) -> Read {
        let mut end = node.start_byte();
        for child in named_children(node) {
            append_unquoted(&self.text[end..child.start_byte()], word, unquoted);
            self.append(child, word, unquoted)?;
            end = child.end_byte();
        }
        append_unquoted(&self.text[end..node.end_byte()], word, unquoted);
        Ok(())
    }

    fn string(&mut self, node: Node<'a>, word: &mut ShellWord) -> Read {
        let mut end = node.start_byte() + 1;
        for child in named_children(node)
            .into_iter()
            .filter(|child| child.kind() != "string_content")
        {
            append_quoted(&self.text[end..child.start_byte()], word);
            let list = child.kind() == "expansion" && self.source(child).contains("[@]");
            let names = self.source(child).starts_with("${!");
            let splits = list || names || matches!(self.source(child), "$@" | "${@}");
            word.push_expansion(splits && child.kind() != "command_substitution");
            self.children(child)?;
            end = child.end_byte();
        }
        append_quoted(&self.text[end..node.end_byte() - 1], word);
        Ok(())
    }

    fn source(&self, node: Node<'a>) -> &'a str {
        &self.text[node.byte_range()]
    }
}

/// An argument such as a lone `-` is not a named node. Accessing a child by its index would cost as much as
/// all before it.
fn children_of_command(node: Node<'_>) -> Vec<(Node<'_>, bool)> {
    let mut cursor = node.walk();
    let mut children = Vec::new();
    let mut more = cursor.goto_first_child();
    while more {
        children.push((cursor.node(), cursor.field_name() == Some("argument")));
        more = cursor.goto_next_sibling();
    }
    children
}

fn named_children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).collect()
}

/// The first reader treats `time` as a keyword of the language, as the shell does.
fn strip_time(words: &mut Vec<ShellWord>) {
    if words.first().and_then(ShellWord::literal) == Some("time") {
        words.remove(0);
        if words.first().and_then(ShellWord::literal) == Some("-p") {
            words.remove(0);
        }
    }
}

/// Unquoted text: a backslash removes the special meaning of the next character.
fn append_unquoted(source: &str, word: &mut ShellWord, unquoted: &mut String) {
    let mut characters = source.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('\n') | None => {}
                Some(escaped) => word.push_literal(escaped.encode_utf8(&mut [0; 4])),
            },
            plain => {
                unquoted.push(plain);
                push_plain(plain, word);
            }
        }
    }
}

fn push_plain(plain: char, word: &mut ShellWord) {
    match plain {
        '*' | '?' | '[' => word.push_expansion(false),
        other => word.push_literal(other.encode_utf8(&mut [0; 4])),
    }
}

/// Inside double quotes a backslash is literal unless an escapable character follows.
fn append_quoted(source: &str, word: &mut ShellWord) {
    let mut characters = source.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        match (character, next) {
            ('\\', Some('\n')) => _ = characters.next(),
            ('\\', Some(escaped @ ('$' | '`' | '"' | '\\'))) => {
                characters.next();
                word.push_literal(escaped.encode_utf8(&mut [0; 4]));
            }
            (plain, _) => word.push_literal(plain.encode_utf8(&mut [0; 4])),
        }
    }
}
