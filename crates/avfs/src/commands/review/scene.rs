//! A review for tests: files with hunks, and a simulated user who presses keys.

use agentvfs::patch::{ChangeSide, ChangeStatus, FileChange, Hunk, HunkLine, HunkLineKind};
use avfs_core::rules::Level;
use avfs_core::{Content, Entry, EntryKind, Meta, TreePath};
use ratatui_core::layout::Size;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::decision::Decision;
use super::file::OpenFile;
use super::keys::action;
use super::model::{Model, ReviewEffect};

pub struct Scene {
    pub model: Model,
    hunks: Vec<Vec<Hunk>>,
    pub effect: Option<ReviewEffect>,
}

impl Scene {
    /// Files with their hunks, whose lines begin with a sign each.
    pub fn new(files: &[(&str, ChangeStatus, &[&str])]) -> Scene {
        let changes: Vec<FileChange> = files
            .iter()
            .map(|(path, status, _)| change(path, *status))
            .collect();
        let hunks = files.iter().map(|(_, _, hunks)| {
            hunks
                .iter()
                .enumerate()
                .map(|(index, lines)| hunk(index as u32 * 20, lines))
                .collect()
        });
        let decisions = vec![Decision::default(); changes.len()];
        let model = Model::new("web-1".into(), "/home/me/web".into(), changes, decisions);
        let mut scene = Scene {
            model,
            hunks: hunks.collect(),
            effect: None,
        };
        scene.load();
        scene
    }

    /// Three files, the second with two hunks.
    pub fn small() -> Scene {
        Scene::new(&[
            ("docs/new", ChangeStatus::Added, &["+one\n+two"]),
            (
                "src/a",
                ChangeStatus::Modified,
                &[" same\n-old word\n+new word\n same", " x\n+more\n y"],
            ),
            ("src/b", ChangeStatus::Modified, &["-1\n+2"]),
        ])
    }

    pub fn sized(mut self, width: u16, height: u16) -> Scene {
        self.model.resize(Size::new(width, height));
        self.load();
        self
    }

    /// Presses keys, given with blanks between them.
    pub fn press(&mut self, keys: &str) -> &mut Scene {
        for key in keys.split_whitespace() {
            if let Some(action) = action(self.model.mode, key_named(key)) {
                if self.model.needs_file(action) {
                    self.load();
                }
                self.effect = self.model.update(action);
            }
        }
        self.load();
        self
    }

    /// The decisions, one word for each file.
    pub fn decided(&self) -> String {
        self.model
            .decisions
            .iter()
            .map(Decision::name)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The selected path, and the number of the hunk.
    pub fn place(&self) -> String {
        let path = self.model.path().map_or("-".to_owned(), ToString::to_string);
        match self.model.hunk() {
            Some(hunk) => format!("{path}:{}", hunk + 1),
            None => path,
        }
    }

    fn load(&mut self) {
        if let Some(file) = self.model.wanted() {
            let hunks = self.hunks[file].clone();
            let is_modified = self.model.files[file].status == ChangeStatus::Modified;
            let changes = |hunk: &Hunk| hunk.changes().len();
            let shape = if is_modified {
                hunks.iter().map(changes).collect()
            } else {
                Vec::new()
            };
            self.model
                .show(OpenFile::with_hunks(file, vec!["a note".into()], hunks, shape));
        }
    }
}

fn key_named(name: &str) -> KeyEvent {
    let code = match name {
        "Tab" => KeyCode::Tab,
        "Enter" => KeyCode::Enter,
        "Esc" => KeyCode::Esc,
        "Space" => KeyCode::Char(' '),
        "PgDn" => KeyCode::PageDown,
        "Right" => KeyCode::Right,
        "Left" => KeyCode::Left,
        "Backspace" => KeyCode::Backspace,
        name => KeyCode::Char(name.chars().next().expect("a key has a name")),
    };
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn change(path: &str, status: ChangeStatus) -> FileChange {
    let side = |path: &str| {
        let kind = EntryKind::File {
            size: 0,
            content: Content::Empty,
        };
        let path = TreePath::parse(path.as_bytes()).expect("a good path");
        Some(ChangeSide {
            path,
            entry: Entry {
                meta: Meta::default(),
                kind,
            },
            level: Level::Write,
        })
    };
    let (old, new) = match status {
        ChangeStatus::Added => (None, side(path)),
        ChangeStatus::Removed => (side(path), None),
        ChangeStatus::Renamed => (side("old/name"), side(path)),
        ChangeStatus::Modified | ChangeStatus::TypeChanged | ChangeStatus::Attributes => {
            (side(path), side(path))
        }
    };
    FileChange { status, old, new }
}

fn hunk(start: u32, text: &str) -> Hunk {
    let lines: Vec<HunkLine> = text.lines().map(line).collect();
    let count = |without| lines.iter().filter(|line| line.kind != without).count() as u32;
    let (old, new) = (count(HunkLineKind::Added), count(HunkLineKind::Removed));
    Hunk {
        old: start..start + old,
        new: start..start + new,
        lines,
    }
}

fn line(text: &str) -> HunkLine {
    let (sign, rest) = text.split_at(1);
    let kind = match sign {
        "-" => HunkLineKind::Removed,
        "+" => HunkLineKind::Added,
        _ => HunkLineKind::Context,
    };
    HunkLine {
        kind,
        text: format!("{rest}\n").into(),
    }
}
