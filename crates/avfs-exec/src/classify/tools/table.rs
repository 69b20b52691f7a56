//! The format of the tables.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::{ActionWord, Tool, ToolFlag, ToolSpec, ToolSubcommand};
use crate::classify::class::Classes;
use crate::classify::handler::Handler;

/// The position of each tool in the tables. Entries are parsed on demand: a run needs few of them.
#[derive(Debug)]
pub(crate) struct ToolIndex {
    names: HashMap<&'static str, usize>,
    entries: Vec<ToolLines>,
}

/// The lines of one tool.
#[derive(Debug)]
struct ToolLines {
    table: &'static str,
    /// Its first line, counted from one.
    line: usize,
    text: &'static str,
    read: OnceLock<Tool>,
}

impl ToolIndex {
    pub(crate) fn of(tables: &[(&'static str, &'static str)]) -> Result<ToolIndex, String> {
        let mut index = ToolIndex {
            names: HashMap::new(),
            entries: Vec::new(),
        };
        for (table, text) in tables {
            index.add(table, text)?;
        }
        Ok(index)
    }

    /// The entry of a tool, if the tables contain it.
    pub(crate) fn find(&self, name: &str) -> Option<&Tool> {
        let entry = &self.entries[*self.names.get(name)?];
        Some(entry.read.get_or_init(|| match entry.read() {
            Ok(tool) => tool,
            Err(error) => panic!("the tables are checked by a test: {error}"),
        }))
    }

    fn add(&mut self, table: &'static str, text: &'static str) -> Result<(), String> {
        let mut begun: Option<(usize, usize)> = None;
        let mut offset = 0;
        for (at, line) in text.split_inclusive('\n').enumerate() {
            let here = (at + 1, offset);
            offset += line.len();
            if statement(line).starts_with("tool ") {
                self.entry(table, begun.replace(here), &text[..here.1])?;
            } else if begun.is_none() && !statement(line).is_empty() {
                return Err(format!("{table}.tools:{}: a line before any tool", at + 1));
            }
        }
        self.entry(table, begun, text)
    }

    /// Adds the tool that begins at a line and an offset, and extends to the end of the text.
    fn entry(
        &mut self,
        table: &'static str,
        begun: Option<(usize, usize)>,
        text: &'static str,
    ) -> Result<(), String> {
        let Some((line, offset)) = begun else {
            return Ok(());
        };
        let text = &text[offset..];
        let first = statement(text.lines().next().unwrap_or_default());
        for name in named(first) {
            if self.names.insert(name, self.entries.len()).is_some() {
                return Err(format!("{table}.tools: {name} is in the tables twice"));
            }
        }
        self.entries.push(ToolLines {
            table,
            line,
            text,
            read: OnceLock::new(),
        });
        Ok(())
    }
}

/// A line without its comment.
fn statement(line: &'static str) -> &'static str {
    let line = line.split(" # ").next().unwrap_or_default().trim();
    if line.starts_with('#') { "" } else { line }
}

/// The names in the first line of a tool.
fn named(first: &'static str) -> impl Iterator<Item = &'static str> {
    let names = first
        .strip_prefix("tool ")
        .and_then(|rest| rest.rsplit_once(" : "));
    names.map_or("", |(names, _)| names).split_whitespace()
}

impl ToolLines {
    fn read(&self) -> Result<Tool, String> {
        let mut tool = Tool::default();
        for (at, line) in self.text.lines().enumerate() {
            let wrong = |wrong| format!("{}.tools:{}: {wrong}", self.table, self.line + at);
            tool.line(statement(line)).map_err(wrong)?;
        }
        Ok(tool)
    }
}

impl Tool {
    fn line(&mut self, line: &'static str) -> Result<(), String> {
        if line.is_empty() {
            return Ok(());
        }
        let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
        match keyword {
            "tool" => {
                (self.spec.classes, _) = classes_after(rest)?;
                Ok(())
            }
            "sub" => self.begin_sub(rest),
            _ => self.current().detail(keyword, rest.trim()),
        }
    }

    fn begin_sub(&mut self, rest: &'static str) -> Result<(), String> {
        let (classes, names) = classes_after(rest)?;
        let words: Vec<&str> = names.split_whitespace().collect();
        let (last, before) = words.split_last().ok_or("a subcommand without a name")?;
        let spec = ToolSpec {
            classes,
            ..ToolSpec::default()
        };
        self.subs.push(ToolSubcommand {
            before: before.to_vec(),
            names: last.split('|').collect(),
            spec,
        });
        Ok(())
    }

    /// The subcommand or tool to which the next line belongs.
    fn current(&mut self) -> &mut ToolSpec {
        match self.subs.last_mut() {
            Some(sub) => &mut sub.spec,
            None => &mut self.spec,
        }
    }
}

impl ToolSpec {
    fn detail(&mut self, keyword: &str, rest: &'static str) -> Result<(), String> {
        match keyword {
            "flags" => self.add(rest, ToolFlag::default())?,
            "adds" => {
                let (names, adds) = after_classes(rest)?;
                self.add(
                    names,
                    ToolFlag {
                        adds,
                        ..ToolFlag::default()
                    },
                )?;
            }
            "lowers" => {
                let (names, lowers) = after_classes(rest)?;
                self.add(
                    names,
                    ToolFlag {
                        lowers: Some(lowers),
                        ..ToolFlag::default()
                    },
                )?;
            }
            "unknown" => self.unknown = Some(classes(rest)?),
            "others" => self.others = Some(classes(rest)?),
            "words" => self.words.extend(said(rest)?),
            "alone" => self.alone.extend(said(rest)?),
            "verbs" => self.verbs = true,
            "runs" => self.add(
                rest,
                ToolFlag {
                    runs: true,
                    ..ToolFlag::default()
                },
            )?,
            "seeks" => self.seeks = true,
            "any" => self.any = true,
            "raw" => self.raw = true,
            "single" => self.single = true,
            "stops" => self.stops = true,
            "through" => self.through = true,
            "info" => self.info.extend(rest.split_whitespace()),
            "operands" => {
                let (adds, count) = classes_after(rest)?;
                self.operands = Some((number(count)?, adds));
            }
            "wraps" => self.wraps = Some(number(rest)?),
            "handler" => self.handler = Some(Handler::named(rest).ok_or(format!("no handler '{rest}'"))?),
            other => return Err(format!("unknown word '{other}'")),
        }
        Ok(())
    }

    fn add(&mut self, names: &'static str, flag: ToolFlag) -> Result<(), String> {
        for name in names.split_whitespace() {
            let (name, takes_value) = match name.strip_suffix('=') {
                Some(name) => (name, true),
                None => (name, false),
            };
            if !name.starts_with(['-', '+']) {
                return Err(format!("'{name}' is no flag"));
            }
            if self
                .flags
                .insert(name, ToolFlag { takes_value, ..flag })
                .is_some()
            {
                return Err(format!("{name} is listed twice"));
            }
        }
        Ok(())
    }
}

/// `something : class`.
fn classes_after(rest: &'static str) -> Result<(Classes, &'static str), String> {
    let (before, after) = rest.rsplit_once(" : ").ok_or("expected ' : ' and a class")?;
    Ok((classes(after)?, before.trim()))
}

/// `class : something`.
fn after_classes(rest: &'static str) -> Result<(&'static str, Classes), String> {
    let (before, after) = rest.split_once(" : ").ok_or("expected a class and ' : '")?;
    Ok((after.trim(), classes(before)?))
}

/// `class : words`.
fn said(rest: &'static str) -> Result<impl Iterator<Item = ActionWord>, String> {
    let (words, classes) = after_classes(rest)?;
    Ok(words
        .split_whitespace()
        .map(move |pattern| ActionWord { classes, pattern }))
}

fn classes(text: &str) -> Result<Classes, String> {
    Classes::parse(text.trim()).ok_or(format!("no class '{}'", text.trim()))
}

fn number(text: &str) -> Result<usize, String> {
    text.trim().parse().map_err(|_| format!("'{text}' is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::tools::TABLES;

    fn read_all(tables: &[(&'static str, &'static str)]) -> Result<ToolIndex, String> {
        let index = ToolIndex::of(tables)?;
        index
            .entries
            .iter()
            .try_for_each(|entry| entry.read().map(drop))?;
        Ok(index)
    }

    #[test]
    fn every_table_can_be_read() {
        let tools = read_all(TABLES).unwrap();
        assert!(tools.names.len() > 300, "{}", tools.names.len());
    }

    #[test]
    fn wrong_line_is_reported_with_its_position() {
        let check = |text: &'static str, wrong: &str| {
            assert_eq!(read_all(&[("t", text)]).unwrap_err(), wrong);
        };
        check("tool x : harmless", "t.tools:1: no class 'harmless'");
        check("tool x", "t.tools:1: expected ' : ' and a class");
        check("# a\nflags -a", "t.tools:2: a line before any tool");
        check("tool x : read_only\n flags a", "t.tools:2: 'a' is no flag");
        check(
            "tool x : read_only\n flags -a\n adds mutating : -a=",
            "t.tools:3: -a is listed twice",
        );
        check(
            "tool y : read_only\ntool x : read_only\n fags -a",
            "t.tools:3: unknown word 'fags'",
        );
        check("tool x x : read_only", "t.tools: x is in the tables twice");
        check(
            "tool x : read_only\ntool x : read_only",
            "t.tools: x is in the tables twice",
        );
        check(
            "tool x : read_only\n handler none",
            "t.tools:2: no handler 'none'",
        );
    }

    #[test]
    fn subcommands_have_lines_of_their_own() {
        let table = "tool x : read_only\n flags -a\n sub b c|d : networked\n adds mutating : -e=\ntool y z : mutating";
        let tools = read_all(&[("t", table)]).unwrap();
        let tool = tools.find("x").unwrap();
        let sub = tool.sub(&["b", "d", "f"]).unwrap();
        assert_eq!(sub.length(), 2);
        assert!(sub.spec.flags["-e"].takes_value);
        assert!(tool.sub(&["b"]).is_none());
        assert!(tool.spec.flags.contains_key("-a"));
        assert!(tools.find("z").unwrap().subs.is_empty());
    }
}
