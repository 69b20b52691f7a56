//! The first reader: the grammar of `brush-parser`.

mod words;

use brush_parser::ast;
use brush_parser::{ParserOptions, Token};

use super::bounds::{MAX_COMMANDS, MAX_DEPTH, MAX_NESTING, MAX_WORDS};
use super::script::look_at_arithmetic;
use super::script::{Assignment, Redirect, RedirectKind, Script, Simple, Unreadable, Word};

/// Alternatives of the grammar for `case` are tried twice at each level: the work doubles with it.
const MAX_CASES: usize = 8;
/// So is every bracket once `((` has been seen.
const MAX_BRACKETS: usize = 16;

pub(crate) fn read(text: &str) -> Result<Script, Unreadable> {
    let mut reader = Reader { options: ParserOptions::default(), script: Script::default(), depth: 0 };
    reader.program(text)?;
    Ok(reader.script)
}

struct Reader {
    options: ParserOptions,
    script: Script,
    depth: usize,
}

type Read = Result<(), Unreadable>;

impl Reader {
    fn program(&mut self, text: &str) -> Read {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Unreadable::TooDeep);
        }
        let tokens = brush_parser::uncached_tokenize_str(text, &self.options.tokenizer_options());
        let tokens = tokens.map_err(|error| Unreadable::Syntax(error.to_string()))?;
        if tokens.len() > MAX_WORDS {
            return Err(Unreadable::TooManyWords(MAX_WORDS));
        }
        check_nesting(&tokens)?;
        let program = brush_parser::parse_tokens(&tokens, &self.options);
        let program = program.map_err(|error| Unreadable::Syntax(error.to_string()))?;
        for list in &program.complete_commands {
            self.list(list)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn list(&mut self, list: &ast::CompoundList) -> Read {
        let pipelines = list.0.iter().flat_map(|item| item.0.iter().map(|(_, pipeline)| pipeline));
        for command in pipelines.flat_map(|pipeline| &pipeline.seq) {
            self.command(command)?;
        }
        Ok(())
    }

    fn command(&mut self, command: &ast::Command) -> Read {
        match command {
            ast::Command::Simple(simple) => self.simple(simple),
            ast::Command::Compound(compound, redirects) => {
                self.compound(compound)?;
                self.group_redirects(redirects.as_ref())
            }
            ast::Command::Function(function) => {
                self.script.functions.push(function.fname.value.clone());
                self.compound(&function.body.0)?;
                self.group_redirects(function.body.1.as_ref())
            }
            ast::Command::ExtendedTest(test, redirects) => {
                self.test(&test.expr)?;
                self.push(Simple { words: vec![Word::exact("[[")], ..Simple::default() })?;
                self.group_redirects(redirects.as_ref())
            }
        }
    }

    fn push(&mut self, simple: Simple) -> Read {
        if self.script.simples.len() >= MAX_COMMANDS {
            return Err(Unreadable::TooMany(MAX_COMMANDS));
        }
        self.script.simples.push(simple);
        Ok(())
    }

    fn group_redirects(&mut self, redirects: Option<&ast::RedirectList>) -> Read {
        let Some(redirects) = redirects else { return Ok(()) };
        let mut simple = Simple::default();
        for redirect in &redirects.0 {
            self.redirect(redirect, &mut simple)?;
        }
        self.push(simple)
    }

    fn compound(&mut self, compound: &ast::CompoundCommand) -> Read {
        match compound {
            ast::CompoundCommand::Arithmetic(arithmetic) => self.arithmetic(&arithmetic.expr.value),
            ast::CompoundCommand::ArithmeticForClause(clause) => {
                let parts = [&clause.initializer, &clause.condition, &clause.updater];
                for part in parts.into_iter().flatten() {
                    self.arithmetic(&part.value)?;
                }
                self.list(&clause.body.list)
            }
            ast::CompoundCommand::BraceGroup(group) => self.list(&group.list),
            ast::CompoundCommand::Subshell(subshell) => self.list(&subshell.list),
            ast::CompoundCommand::ForClause(clause) => self.for_clause(clause),
            ast::CompoundCommand::CaseClause(clause) => self.case(clause),
            ast::CompoundCommand::IfClause(clause) => self.if_clause(clause),
            ast::CompoundCommand::WhileClause(clause) | ast::CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0)?;
                self.list(&clause.1.list)
            }
            ast::CompoundCommand::Coprocess(coprocess) => self.command(&coprocess.body),
        }
    }

    fn for_clause(&mut self, clause: &ast::ForClauseCommand) -> Read {
        for value in clause.values.iter().flatten() {
            for value in self.word(value)?.spread() {
                self.script.other_assignments.push(Assignment { name: clause.variable_name.clone(), value });
            }
        }
        self.list(&clause.body.list)
    }

    fn case(&mut self, clause: &ast::CaseClauseCommand) -> Read {
        self.word(&clause.value)?;
        for case in &clause.cases {
            for pattern in &case.patterns {
                self.word(pattern)?;
            }
            if let Some(list) = &case.cmd {
                self.list(list)?;
            }
        }
        Ok(())
    }

    fn if_clause(&mut self, clause: &ast::IfClauseCommand) -> Read {
        self.list(&clause.condition)?;
        self.list(&clause.then)?;
        for part in clause.elses.iter().flatten() {
            if let Some(condition) = &part.condition {
                self.list(condition)?;
            }
            self.list(&part.body)?;
        }
        Ok(())
    }

    fn test(&mut self, test: &ast::ExtendedTestExpr) -> Read {
        match test {
            ast::ExtendedTestExpr::And(left, right) | ast::ExtendedTestExpr::Or(left, right) => {
                self.test(left)?;
                self.test(right)
            }
            ast::ExtendedTestExpr::Not(inner) | ast::ExtendedTestExpr::Parenthesized(inner) => {
                self.test(inner)
            }
            ast::ExtendedTestExpr::UnaryTest(predicate, word) => self.unary_test(predicate, word),
            ast::ExtendedTestExpr::BinaryTest(predicate, left, right) => {
                self.binary_test(predicate, left, right)
            }
        }
    }

    /// `-v` takes the name of a variable, which may have a subscript.
    fn unary_test(&mut self, predicate: &ast::UnaryPredicate, word: &ast::Word) -> Read {
        use ast::UnaryPredicate::{ShellVariableIsSetAndAssigned, ShellVariableIsSetAndNameRef};
        let word = self.word(word)?;
        let names = matches!(predicate, ShellVariableIsSetAndAssigned | ShellVariableIsSetAndNameRef);
        if names && (!word.exact || word.text.contains('[')) {
            self.script.hazards.push("a subscript in the name of a variable runs code".to_owned());
        }
        Ok(())
    }

    /// Comparing numbers evaluates both sides.
    fn binary_test(&mut self, predicate: &ast::BinaryPredicate, left: &ast::Word, right: &ast::Word) -> Read {
        use ast::BinaryPredicate as Test;
        let numbers = match predicate {
            Test::ArithmeticEqualTo
            | Test::ArithmeticNotEqualTo
            | Test::ArithmeticLessThan
            | Test::ArithmeticLessThanOrEqualTo
            | Test::ArithmeticGreaterThan
            | Test::ArithmeticGreaterThanOrEqualTo => true,
            Test::FilesReferToSameDeviceAndInodeNumbers
            | Test::LeftFileIsNewerOrExistsWhenRightDoesNot
            | Test::LeftFileIsOlderOrDoesNotExistWhenRightDoes
            | Test::StringExactlyMatchesPattern
            | Test::StringDoesNotExactlyMatchPattern
            | Test::StringExactlyMatchesString
            | Test::StringDoesNotExactlyMatchString
            | Test::StringMatchesRegex
            | Test::StringContainsSubstring
            | Test::LeftSortsBeforeRight
            | Test::LeftSortsAfterRight => false,
        };
        for side in [left, right] {
            self.word(side)?;
            if numbers {
                self.compared(&side.value);
            }
        }
        Ok(())
    }

    /// A side of a comparison of numbers. What a substitution prints is evaluated too.
    fn compared(&mut self, raw: &str) {
        if raw.contains("$(") || raw.contains('`') {
            self.script.evaluated.push("$(…)".to_owned());
            if raw.contains('[') {
                look_at_arithmetic("[", &mut self.script);
            }
            return;
        }
        let braces = |c: char| matches!(c, '{' | '}' | '#' | '"');
        look_at_arithmetic(&raw.replace(braces, ""), &mut self.script);
    }

    fn simple(&mut self, command: &ast::SimpleCommand) -> Read {
        let mut simple = Simple::default();
        for item in command.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                ast::CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) => {
                    let assignment = self.assignment(assignment)?;
                    simple.assignments.push(assignment);
                }
                other => self.item(other, &mut simple)?,
            }
        }
        if let Some(verb) = &command.word_or_name {
            simple.words.push(self.word(verb)?);
        }
        for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut simple)?;
        }
        self.push(simple)
    }

    fn item(&mut self, item: &ast::CommandPrefixOrSuffixItem, simple: &mut Simple) -> Read {
        match item {
            ast::CommandPrefixOrSuffixItem::IoRedirect(redirect) => self.redirect(redirect, simple)?,
            ast::CommandPrefixOrSuffixItem::Word(word) => simple.words.push(self.word(word)?),
            ast::CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                simple.words.push(self.assignment_word(assignment, word)?);
            }
            ast::CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                self.list(&subshell.list)?;
                simple.words.push(Word::starting("/dev/fd/"));
            }
        }
        Ok(())
    }

    fn assignment(&mut self, assignment: &ast::Assignment) -> Result<Assignment, Unreadable> {
        let name = match &assignment.name {
            ast::AssignmentName::VariableName(name) => name.clone(),
            ast::AssignmentName::ArrayElementName(name, index) => {
                self.subscript(index);
                name.clone()
            }
        };
        let value = self.assigned(&assignment.value)?;
        if is_arithmetic(&assignment.value) {
            self.script.numbers.push(name.clone());
        }
        Ok(Assignment { name, value })
    }

    fn assigned(&mut self, value: &ast::AssignmentValue) -> Result<Word, Unreadable> {
        match value {
            ast::AssignmentValue::Scalar(word) => self.word(word),
            ast::AssignmentValue::Array(items) => {
                for (key, item) in items {
                    if let Some(key) = key {
                        self.subscript(&key.value);
                    }
                    self.word(item)?;
                }
                Ok(Word::unknown())
            }
        }
    }

    /// An assignment that is an argument, as of `export` or `env`.
    fn assignment_word(
        &mut self,
        assignment: &ast::Assignment,
        word: &ast::Word,
    ) -> Result<Word, Unreadable> {
        match &assignment.value {
            ast::AssignmentValue::Scalar(_) => self.word(word),
            ast::AssignmentValue::Array(_) => {
                let assignment = self.assignment(assignment)?;
                Ok(Word::starting(format!("{}=", assignment.name)))
            }
        }
    }

    fn redirect(&mut self, redirect: &ast::IoRedirect, simple: &mut Simple) -> Read {
        let (kind, target) = match redirect {
            ast::IoRedirect::File(_, kind, target) => (redirect_kind(kind), self.target(target)?),
            ast::IoRedirect::OutputAndError(word, _) => (RedirectKind::Write, self.word(word)?),
            ast::IoRedirect::HereString(_, word) => (RedirectKind::HereString, self.word(word)?),
            ast::IoRedirect::HereDocument(_, document) => {
                if document.requires_expansion {
                    self.here_document(&document.doc.value)?;
                }
                (RedirectKind::HereDocument, Word::exact(""))
            }
        };
        simple.redirects.push(Redirect { kind, target });
        Ok(())
    }

    fn target(&mut self, target: &ast::IoFileRedirectTarget) -> Result<Word, Unreadable> {
        match target {
            ast::IoFileRedirectTarget::Filename(word) | ast::IoFileRedirectTarget::Duplicate(word) => {
                self.word(word)
            }
            ast::IoFileRedirectTarget::Fd(number) => Ok(Word::exact(number.to_string())),
            ast::IoFileRedirectTarget::ProcessSubstitution(_, subshell) => {
                self.list(&subshell.list)?;
                Ok(Word::starting("/dev/fd/"))
            }
        }
    }
}

fn redirect_kind(kind: &ast::IoFileRedirectKind) -> RedirectKind {
    match kind {
        ast::IoFileRedirectKind::Read => RedirectKind::Read,
        ast::IoFileRedirectKind::Write
        | ast::IoFileRedirectKind::Append
        | ast::IoFileRedirectKind::ReadAndWrite
        | ast::IoFileRedirectKind::Clobber => RedirectKind::Write,
        ast::IoFileRedirectKind::DuplicateInput | ast::IoFileRedirectKind::DuplicateOutput => {
            RedirectKind::Duplicate
        }
    }
}

fn is_arithmetic(value: &ast::AssignmentValue) -> bool {
    match value {
        ast::AssignmentValue::Scalar(word) => {
            let inner = word.value.strip_prefix("$((").and_then(|rest| rest.strip_suffix("))"));
            inner.is_some_and(|inner| !inner.contains("$(") && !inner.contains("))"))
        }
        ast::AssignmentValue::Array(_) => false,
    }
}

/// The grammar goes down one call for each of these, whether or not they close again.
fn check_nesting(tokens: &[Token]) -> Read {
    let count = |words: &[&str]| tokens.iter().filter(|token| words.contains(&token.to_str())).count();
    let opened = ["(", "{", "if", "elif", "while", "until", "for", "function", "coproc", "!", "case"];
    let pair = |pair: &[Token]| pair.iter().all(|token| token.to_str() == "(");
    let arithmetic = tokens.windows(2).any(pair) && count(&["("]) > MAX_BRACKETS;
    match count(&opened) > MAX_NESTING || count(&["case"]) > MAX_CASES || arithmetic {
        true => Err(Unreadable::TooDeep),
        false => Ok(()),
    }
}
