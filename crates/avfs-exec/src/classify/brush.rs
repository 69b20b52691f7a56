//! The first reader: the grammar of `brush-parser`.

mod words;

use brush_parser::ast;
use brush_parser::{ParserOptions, Token};

use super::bounds::{MAX_COMMANDS, MAX_DEPTH, MAX_NESTING, MAX_WORDS};
use super::script::look_at_arithmetic;
use super::script::{
    RedirectKind, ShellAssignment, ShellRedirect, ShellScript, ShellWord, SimpleCommand, UnreadableScript,
};

/// The grammar tries alternatives for `case` twice at each level: the work doubles with each.
const MAX_CASES: usize = 8;
/// The same holds for every bracket after `((`.
const MAX_BRACKETS: usize = 16;

pub(crate) fn read(text: &str) -> Result<ShellScript, UnreadableScript> {
    let mut reader = BrushReader {
        options: ParserOptions::default(),
        script: ShellScript::default(),
        depth: 0,
    };
    reader.program(text)?;
    Ok(reader.script)
}

struct BrushReader {
    options: ParserOptions,
    script: ShellScript,
    depth: usize,
}

type Read = Result<(), UnreadableScript>;

impl BrushReader {
    fn program(&mut self, text: &str) -> Read {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(UnreadableScript::TooDeep);
        }
        let tokens = brush_parser::uncached_tokenize_str(text, &self.options.tokenizer_options());
        let tokens = tokens.map_err(|error| UnreadableScript::Syntax(error.to_string()))?;
        // Before the parser sees them: its time and its stack grow with what it is given.
        if tokens.len() > MAX_WORDS {
            return Err(UnreadableScript::TooManyWords(MAX_WORDS));
        }
        check_nesting(&tokens)?;
        let program = brush_parser::parse_tokens(&tokens, &self.options);
        let program = program.map_err(|error| UnreadableScript::Syntax(error.to_string()))?;
        for list in &program.complete_commands {
            self.list(list)?;
        }
        // Only on success: after an error nothing more is read.
        self.depth -= 1;
        Ok(())
    }

    fn list(&mut self, list: &ast::CompoundList) -> Read {
        let pipelines = list
            .0
            .iter()
            .flat_map(|item| item.0.iter().map(|(_, pipeline)| pipeline));
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
                // Its body counts as run: whether a later line calls it is not followed.
                self.script.functions.push(function.fname.value.clone());
                self.compound(&function.body.0)?;
                self.group_redirects(function.body.1.as_ref())
            }
            ast::Command::ExtendedTest(test, redirects) => {
                self.test(&test.expr)?;
                self.push(SimpleCommand {
                    // Not a program, but a command of the script all the same, so that the two readers agree
                    // on their number.
                    words: vec![ShellWord::exact("[[")],
                    ..SimpleCommand::default()
                })?;
                self.group_redirects(redirects.as_ref())
            }
        }
    }

    fn push(&mut self, simple: SimpleCommand) -> Read {
        if self.script.simples.len() >= MAX_COMMANDS {
            return Err(UnreadableScript::TooMany(MAX_COMMANDS));
        }
        self.script.simples.push(simple);
        Ok(())
    }

    fn group_redirects(&mut self, redirects: Option<&ast::RedirectList>) -> Read {
        let Some(redirects) = redirects else { return Ok(()) };
        let mut simple = SimpleCommand {
            of_group: true,
            ..SimpleCommand::default()
        };
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
            // Each value is an assignment that may happen.
            for value in self.word(value)?.spread() {
                self.script.other_assignments.push(ShellAssignment {
                    name: clause.variable_name.clone(),
                    value,
                });
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
        let names = matches!(
            predicate,
            ShellVariableIsSetAndAssigned | ShellVariableIsSetAndNameRef
        );
        // `-v 'a[$(command)]'` runs the command.
        if names && (!word.exact || word.text.contains('[')) {
            self.script
                .hazards
                .push("a subscript in the name of a variable runs code".to_owned());
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

    /// A side of a comparison of numbers. The output of a substitution is evaluated too.
    fn compared(&mut self, raw: &str) {
        if raw.contains("$(") || raw.contains('`') {
            // What the substitution prints is read as an expression, and an expression can run commands
            // again.
            self.script.evaluated.push("$(…)".to_owned());
            if raw.contains('[') {
                look_at_arithmetic("[", &mut self.script);
            }
            return;
        }
        // What stays is names, which are what an expression evaluates in turn.
        let braces = |c: char| matches!(c, '{' | '}' | '#' | '"');
        look_at_arithmetic(&raw.replace(braces, ""), &mut self.script);
    }

    fn simple(&mut self, command: &ast::SimpleCommand) -> Read {
        let mut simple = SimpleCommand::default();
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

    fn item(&mut self, item: &ast::CommandPrefixOrSuffixItem, simple: &mut SimpleCommand) -> Read {
        match item {
            ast::CommandPrefixOrSuffixItem::IoRedirect(redirect) => self.redirect(redirect, simple)?,
            ast::CommandPrefixOrSuffixItem::Word(word) => simple.words.push(self.word(word)?),
            ast::CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                simple.words.push(self.assignment_word(assignment, word)?);
            }
            ast::CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                self.list(&subshell.list)?;
                simple.words.push(ShellWord::starting("/dev/fd/"));
            }
        }
        Ok(())
    }

    fn assignment(&mut self, assignment: &ast::Assignment) -> Result<ShellAssignment, UnreadableScript> {
        let name = match &assignment.name {
            ast::AssignmentName::VariableName(name) => name.clone(),
            ast::AssignmentName::ArrayElementName(name, index) => {
                self.subscript(index);
                name.clone()
            }
        };
        let value = self.assigned(&assignment.value)?;
        // A variable that is certainly a number is harmless in later expressions.
        if is_arithmetic(&assignment.value) {
            self.script.numbers.push(name.clone());
        }
        Ok(ShellAssignment { name, value })
    }

    fn assigned(&mut self, value: &ast::AssignmentValue) -> Result<ShellWord, UnreadableScript> {
        match value {
            ast::AssignmentValue::Scalar(word) => self.word(word),
            ast::AssignmentValue::Array(items) => {
                for (key, item) in items {
                    if let Some(key) = key {
                        self.subscript(&key.value);
                    }
                    self.word(item)?;
                }
                Ok(ShellWord::unknown())
            }
        }
    }

    /// An assignment that is an argument, for example of `export` or `env`.
    fn assignment_word(
        &mut self,
        assignment: &ast::Assignment,
        word: &ast::Word,
    ) -> Result<ShellWord, UnreadableScript> {
        match &assignment.value {
            ast::AssignmentValue::Scalar(_) => self.word(word),
            ast::AssignmentValue::Array(_) => {
                let assignment = self.assignment(assignment)?;
                Ok(ShellWord::starting(format!("{}=", assignment.name)))
            }
        }
    }

    fn redirect(&mut self, redirect: &ast::IoRedirect, simple: &mut SimpleCommand) -> Read {
        let (kind, target) = match redirect {
            ast::IoRedirect::File(_, kind, target) => (redirect_kind(kind), self.target(target)?),
            ast::IoRedirect::OutputAndError(word, true) => (RedirectKind::Append, self.word(word)?),
            ast::IoRedirect::OutputAndError(word, false) => (RedirectKind::Write, self.word(word)?),
            ast::IoRedirect::HereString(_, word) => (RedirectKind::HereString, self.word(word)?),
            ast::IoRedirect::HereDocument(_, document) => {
                // With a quoted delimiter the text is what it is, and runs nothing.
                if document.requires_expansion {
                    self.here_document(&document.doc.value)?;
                }
                // Kept in both cases: an interpreter may be fed with it.
                self.script.documents.push(document.doc.value.clone());
                (RedirectKind::HereDocument, ShellWord::exact(""))
            }
        };
        simple.redirects.push(ShellRedirect { kind, target });
        Ok(())
    }

    fn target(&mut self, target: &ast::IoFileRedirectTarget) -> Result<ShellWord, UnreadableScript> {
        match target {
            ast::IoFileRedirectTarget::Filename(word) | ast::IoFileRedirectTarget::Duplicate(word) => {
                self.word(word)
            }
            ast::IoFileRedirectTarget::Fd(number) => Ok(ShellWord::exact(number.to_string())),
            ast::IoFileRedirectTarget::ProcessSubstitution(_, subshell) => {
                self.list(&subshell.list)?;
                Ok(ShellWord::starting("/dev/fd/"))
            }
        }
    }
}

fn redirect_kind(kind: &ast::IoFileRedirectKind) -> RedirectKind {
    match kind {
        ast::IoFileRedirectKind::Read => RedirectKind::Read,
        ast::IoFileRedirectKind::Write | ast::IoFileRedirectKind::Clobber => RedirectKind::Write,
        ast::IoFileRedirectKind::Append | ast::IoFileRedirectKind::ReadAndWrite => RedirectKind::Append,
        ast::IoFileRedirectKind::DuplicateInput | ast::IoFileRedirectKind::DuplicateOutput => {
            RedirectKind::Duplicate
        }
    }
}

fn is_arithmetic(value: &ast::AssignmentValue) -> bool {
    match value {
        ast::AssignmentValue::Scalar(word) => {
            let inner = word
                .value
                .strip_prefix("$((")
                .and_then(|rest| rest.strip_suffix("))"));
            // The second would end the first expression and begin something else.
            inner.is_some_and(|inner| !inner.contains("$(") && !inner.contains("))"))
        }
        ast::AssignmentValue::Array(_) => false,
    }
}

/// The grammar recurses for each of these, whether or not they are closed.
fn check_nesting(tokens: &[Token]) -> Read {
    let count = |words: &[&str]| {
        tokens
            .iter()
            .filter(|token| words.contains(&token.to_str()))
            .count()
    };
    let opened = [
        "(", "{", "if", "elif", "while", "until", "for", "function", "coproc", "!", "case",
    ];
    let pair = |pair: &[Token]| pair.iter().all(|token| token.to_str() == "(");
    let arithmetic = tokens.windows(2).any(pair) && count(&["("]) > MAX_BRACKETS;
    if count(&opened) > MAX_NESTING || count(&["case"]) > MAX_CASES || arithmetic {
        Err(UnreadableScript::TooDeep)
    } else {
        Ok(())
    }
}
