//! Extracts from a page the commands that its readers would type.

/// One thing that a reader does.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Command {
        line: String,
        /// The expected exit status.
        status: i32,
        /// Its line in the page.
        number: usize,
    },
    File {
        name: String,
        text: String,
    },
}

pub struct Page {
    steps: Vec<Step>,
}

/// An instruction in a comment of the page for the next block.
enum Mark {
    NotTyped,
    File(String),
}

/// A block of a page, without its indentation, and the line of the page before it.
struct Block<'a> {
    above: usize,
    lines: Vec<&'a str>,
}

impl Page {
    pub fn read(text: &str) -> Page {
        let lines: Vec<&str> = text.lines().collect();
        let (mut steps, mut mark, mut at) = (Vec::new(), None, 0);
        while at < lines.len() {
            if let Some((comment, end)) = comment_at(&lines, at) {
                mark = read_comment(&comment, at, &mut steps).or(mark);
                at = end;
            } else if let Some((block, end)) = block_at(&lines, at) {
                block.into_steps(mark.take(), &mut steps);
                at = end;
            } else {
                at += 1;
            }
        }
        Page { steps }
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub fn has_commands(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Command { .. }))
    }
}

/// The comment that begins at a line, and the number of the line after it.
fn comment_at(lines: &[&str], start: usize) -> Option<(String, usize)> {
    let first = lines[start].trim_start().strip_prefix("<!--")?;
    let mut text = first.to_owned();
    let mut at = start;
    while !text.contains("-->") {
        at += 1;
        text = format!("{text}\n{}", lines.get(at).expect("a comment ends"));
    }
    Some((
        text.split("-->").next().unwrap_or_default().trim().to_owned(),
        at + 1,
    ))
}

fn read_comment(comment: &str, at: usize, steps: &mut Vec<Step>) -> Option<Mark> {
    if let Some(first) = comment.strip_prefix("typed first:") {
        let lines = first.lines().map(str::trim).filter(|line| !line.is_empty());
        steps.extend(lines.map(|line| command(line, at + 1)));
    }
    if let Some(reason) = comment.strip_prefix("not typed:") {
        assert!(!reason.trim().is_empty(), "line {}: why is it not typed?", at + 1);
        return Some(Mark::NotTyped);
    }
    comment
        .strip_prefix("file:")
        .map(|name| Mark::File(name.trim().to_owned()))
}

/// The block that begins at a line: fenced, or indented after an empty line.
fn block_at<'a>(lines: &[&'a str], start: usize) -> Option<(Block<'a>, usize)> {
    let first = lines[start];
    if first.trim_start().starts_with("```") {
        let length = lines[start + 1..]
            .iter()
            .take_while(|line| !line.trim_start().starts_with("```"))
            .count();
        let inner = lines[start + 1..start + 1 + length].to_vec();
        return Some((
            Block {
                above: start + 1,
                lines: inner,
            },
            start + length + 2,
        ));
    }
    let indent = first.len() - first.trim_start().len();
    let is_apart =
        start == 0 || lines[start - 1].trim().is_empty() || lines[start - 1].trim_end().ends_with("-->");
    if indent < 4 || first.trim().is_empty() || !is_apart {
        return None;
    }
    let belongs = |line: &&&str| line.trim().is_empty() || line.len() - line.trim_start().len() >= indent;
    let length = lines[start..].iter().take_while(belongs).count();
    let inner = lines[start..start + length]
        .iter()
        .map(|line| line.get(indent..).unwrap_or_default());
    Some((
        Block {
            above: start,
            lines: inner.collect(),
        },
        start + length,
    ))
}

impl Block<'_> {
    fn into_steps(self, mark: Option<Mark>, steps: &mut Vec<Step>) {
        match mark {
            Some(Mark::NotTyped) => {}
            Some(Mark::File(name)) => steps.push(Step::File {
                name,
                text: self.lines.join("\n").trim_end().to_owned() + "\n",
            }),
            None if self.is_picture() || !self.lines.iter().any(|line| calls_avfs(line)) => {}
            None => steps.extend(self.commands()),
        }
    }

    /// Boxes and lines between the names of things.
    fn is_picture(&self) -> bool {
        self.lines.iter().any(|line| line.contains(['│', '├', '└']))
    }

    fn commands(&self) -> Vec<Step> {
        let is_transcript = self.lines.iter().any(|line| line.starts_with("$ "));
        let mut commands = Vec::new();
        for (index, line) in self.lines.iter().enumerate() {
            let typed = if is_transcript {
                line.strip_prefix("$ ")
            } else {
                Some(*line)
            };
            // A synopsis is not a command, and neither is a line with an ellipsis.
            let typed = typed.filter(|line| !line.trim().is_empty() && !line.contains('…'));
            commands.extend(typed.map(|line| command(line, self.above + index + 1)));
        }
        commands
    }
}

fn command(line: &str, number: usize) -> Step {
    let comment = line.split_once(" # ").map_or("", |(_, comment)| comment);
    let status = comment.split_once("status ").map(|(_, rest)| rest);
    let digits = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    Step::Command {
        line: line.to_owned(),
        status: status.and_then(digits).unwrap_or(0),
        number,
    }
}

/// Whether `avfs` is in the position of a program name.
fn calls_avfs(line: &str) -> bool {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    line.match_indices("avfs ").any(|(at, _)| {
        let before = line[..at].trim_end();
        before.is_empty() || before.ends_with(['(', ';', '|', '&'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, i32, usize)]) {
        let page = Page::read(text);
        let found: Vec<_> = page
            .steps()
            .iter()
            .map(|step| match step {
                Step::Command { line, status, number } => (line.as_str(), *status, *number),
                Step::File { name, text } => panic!("{name}: {text}"),
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn blocks_of_commands_are_found_with_their_lines_and_statuses() {
        check(
            "text\n\n    avfs ls\n    avfs diff a  # status 1: they differ\n\ntext\n",
            &[("avfs ls", 0, 3), ("avfs diff a  # status 1: they differ", 1, 4)],
        );
        check(
            "```sh\nid=$(avfs session start)\n```\n",
            &[("id=$(avfs session start)", 0, 2)],
        );
        check(
            "- item:\n\n      cd x && avfs ls\n\n  more\n",
            &[("cd x && avfs ls", 0, 3)],
        );
    }

    #[test]
    fn text_that_is_not_a_command_is_not_typed() {
        check("    error: no\n    hint: run avfs fsck\n", &[]);
        check("text\n    avfs in a paragraph\n", &[]);
        check("    avfs review TASK [PATH…]\n", &[]);
        check("    $ avfs ls\n    a\n    b\n", &[("avfs ls", 0, 1)]);
        check(
            "    avfs      the command line\n      │\n    agentvfs  the library\n",
            &[],
        );
        check("    [setup]\n    commands = [\"avfs \"]\n", &[]);
    }

    #[test]
    fn comments_say_what_readers_do_not_need() {
        check(
            "<!-- not typed: dangerous -->\n\n    avfs gc\n\ntext\n\n    avfs ls\n",
            &[("avfs ls", 0, 7)],
        );
        check(
            "<!-- typed first:\nmkdir a\navfs undo # status 4\n-->\n\n    avfs ls\n",
            &[
                ("mkdir a", 0, 1),
                ("avfs undo # status 4", 4, 1),
                ("avfs ls", 0, 6),
            ],
        );
        let page = Page::read("<!-- file: avfs.toml -->\n\n    a = 1\n\n    b = 2\n\ntext\n");
        let file = Step::File {
            name: "avfs.toml".into(),
            text: "a = 1\n\nb = 2\n".into(),
        };
        assert_eq!(page.steps(), [file]);
    }
}
