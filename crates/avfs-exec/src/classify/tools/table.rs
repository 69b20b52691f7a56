//! The format of the tables.

use std::collections::HashMap;

use super::{Flag, Spec, Sub, Tool};
use crate::classify::class::Classes;
use crate::classify::handler::Handler;

pub(crate) fn read_all(tables: &[(&str, &'static str)]) -> Result<HashMap<&'static str, Tool>, String> {
    let mut all = HashMap::new();
    for (table, text) in tables {
        let mut reader = Reader { tools: Vec::new() };
        for (at, line) in text.lines().enumerate() {
            reader.line(line).map_err(|wrong| format!("{table}.tools:{}: {wrong}", at + 1))?;
        }
        for (names, tool) in reader.tools {
            for name in names {
                if all.insert(name, tool.clone()).is_some() {
                    return Err(format!("{table}.tools: {name} is in the tables twice"));
                }
            }
        }
    }
    Ok(all)
}

struct Reader {
    tools: Vec<(Vec<&'static str>, Tool)>,
}

impl Reader {
    fn line(&mut self, line: &'static str) -> Result<(), String> {
        let line = line.split(" # ").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
        match keyword {
            "tool" => self.tool(rest),
            "sub" => self.sub(rest),
            _ => self.current()?.detail(keyword, rest.trim()),
        }
    }

    fn tool(&mut self, rest: &'static str) -> Result<(), String> {
        let (classes, names) = classes_after(rest)?;
        let spec = Spec { classes, ..Spec::default() };
        self.tools.push((names.split_whitespace().collect(), Tool { spec, subs: Vec::new() }));
        Ok(())
    }

    fn sub(&mut self, rest: &'static str) -> Result<(), String> {
        let (classes, names) = classes_after(rest)?;
        let words: Vec<&str> = names.split_whitespace().collect();
        let (last, before) = words.split_last().ok_or("a subcommand without a name")?;
        let spec = Spec { classes, ..Spec::default() };
        let sub = Sub { before: before.to_vec(), names: last.split('|').collect(), spec };
        let (_, tool) = self.tools.last_mut().ok_or("a subcommand before any tool")?;
        tool.subs.push(sub);
        Ok(())
    }

    /// The subcommand or tool that the line belongs to.
    fn current(&mut self) -> Result<&mut Spec, String> {
        let (_, tool) = self.tools.last_mut().ok_or("a line before any tool")?;
        Ok(match tool.subs.last_mut() {
            Some(sub) => &mut sub.spec,
            None => &mut tool.spec,
        })
    }
}

impl Spec {
    fn detail(&mut self, keyword: &str, rest: &'static str) -> Result<(), String> {
        match keyword {
            "flags" => self.add(rest, Flag::default())?,
            "adds" => {
                let (names, adds) = after_classes(rest)?;
                self.add(names, Flag { adds, ..Flag::default() })?;
            }
            "lowers" => {
                let (names, lowers) = after_classes(rest)?;
                self.add(names, Flag { lowers: Some(lowers), ..Flag::default() })?;
            }
            "unknown" => self.unknown = Some(classes(rest)?),
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

    fn add(&mut self, names: &'static str, flag: Flag) -> Result<(), String> {
        for name in names.split_whitespace() {
            let (name, takes_value) = match name.strip_suffix('=') {
                Some(name) => (name, true),
                None => (name, false),
            };
            if !name.starts_with(['-', '+']) {
                return Err(format!("'{name}' is no flag"));
            }
            if self.flags.insert(name, Flag { takes_value, ..flag }).is_some() {
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

    #[test]
    fn every_table_can_be_read() {
        let tools = read_all(TABLES).unwrap();
        assert!(tools.len() > 300, "{}", tools.len());
    }

    #[test]
    fn a_wrong_line_is_told_with_its_place() {
        let check = |text: &'static str, wrong: &str| {
            assert_eq!(read_all(&[("t", text)]).unwrap_err(), wrong);
        };
        check("tool x : harmless", "t.tools:1: no class 'harmless'");
        check("flags -a", "t.tools:1: a line before any tool");
        check("tool x : read_only\n flags a", "t.tools:2: 'a' is no flag");
        check("tool x : read_only\n flags -a\n adds mutating : -a=", "t.tools:3: -a is listed twice");
        check("tool x : read_only\n fags -a", "t.tools:2: unknown word 'fags'");
        check("tool x x : read_only", "t.tools: x is in the tables twice");
        check("tool x : read_only\n handler none", "t.tools:2: no handler 'none'");
    }

    #[test]
    fn subcommands_have_lines_of_their_own() {
        let table = "tool x : read_only\n flags -a\n sub b c|d : networked\n adds mutating : -e=";
        let tools = read_all(&[("t", table)]).unwrap();
        let sub = tools["x"].sub(&["b", "d", "f"]).unwrap();
        assert_eq!(sub.length(), 2);
        assert!(sub.spec.flags["-e"].takes_value);
        assert!(tools["x"].sub(&["b"]).is_none());
        assert!(tools["x"].spec.flags.contains_key("-a"));
    }
}
