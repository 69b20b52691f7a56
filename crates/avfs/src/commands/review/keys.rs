//! From keys to what they mean.

use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Move(Step),
    SwitchPane,
    NextHunk,
    PreviousHunk,
    Accept,
    Reject,
    Toggle,
    Clear,
    AcceptAll,
    RejectAll,
    ClearAll,
    /// What becomes of a conflict.
    KeepMine,
    TakeTask,
    TakeBoth,
    Edit,
    SplitHunk,
    ToggleFold,
    SwitchForm,
    StartFilter,
    Help,
    Apply,
    Quit,
    Suspend,
    /// While the filter is written.
    Type(char),
    Erase,
    KeepFilter,
    DropFilter,
    /// While a question is open.
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Left,
    Right,
}

/// What the keys are for at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Browse,
    Filter,
    Help,
    Ask(Question),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    Apply,
}

/// The keys and what they do, in the order in which a newcomer needs them. The user's page lists the same.
pub const KEYS: [(&str, &str); 18] = [
    ("j k ↓ ↑", "go to the next or previous line or file"),
    ("PgDn PgUp g G", "go a page on or back, to the beginning or the end"),
    ("Tab", "change between the files and the differences"),
    ("← →", "move long lines; in the files, close or open a directory"),
    ("o", "open or close a directory"),
    ("n N", "go to the next or previous hunk, through all files"),
    ("a", "accept the hunk, file or directory, and go on"),
    ("r", "reject it, and go on"),
    ("Space", "accept it, or reject it if it is accepted"),
    ("u", "leave it undecided"),
    ("s", "split the hunk into its changes, or join them again"),
    ("A R U", "accept, reject or undecide everything that is shown"),
    ("m t", "in a conflict, keep mine or take the task's"),
    ("b e", "in a conflict, take both with markers, or edit it"),
    ("/", "show only files with this in their path; Esc shows all"),
    ("v", "change between side by side and unified"),
    ("Enter p", "apply what is accepted"),
    ("q", "leave; the decisions are kept"),
];

/// What a key means; `None` if nothing.
pub fn action(mode: Mode, key: KeyEvent) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return control(mode, key.code);
    }
    match mode {
        Mode::Browse => browse(key.code),
        Mode::Filter => filter(key.code),
        Mode::Help => Some(Action::Help),
        Mode::Ask(_) => match key.code {
            KeyCode::Char('y' | 'Y') | KeyCode::Enter => Some(Action::Yes),
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => Some(Action::No),
            _ => None,
        },
    }
}

fn control(mode: Mode, code: KeyCode) -> Option<Action> {
    match (mode, code) {
        (_, KeyCode::Char('z')) => Some(Action::Suspend),
        (Mode::Ask(_), KeyCode::Char('c')) => Some(Action::No),
        (Mode::Filter, KeyCode::Char('c')) => Some(Action::DropFilter),
        (_, KeyCode::Char('c')) => Some(Action::Quit),
        (Mode::Browse, KeyCode::Char('d' | 'f')) => Some(Action::Move(Step::PageDown)),
        (Mode::Browse, KeyCode::Char('u' | 'b')) => Some(Action::Move(Step::PageUp)),
        _ => None,
    }
}

fn browse(code: KeyCode) -> Option<Action> {
    Some(match code {
        KeyCode::Char('j') | KeyCode::Down => Action::Move(Step::Down),
        KeyCode::Char('k') | KeyCode::Up => Action::Move(Step::Up),
        KeyCode::PageDown => Action::Move(Step::PageDown),
        KeyCode::PageUp => Action::Move(Step::PageUp),
        KeyCode::Char('g') | KeyCode::Home => Action::Move(Step::First),
        KeyCode::Char('G') | KeyCode::End => Action::Move(Step::Last),
        KeyCode::Char('h') | KeyCode::Left => Action::Move(Step::Left),
        KeyCode::Char('l') | KeyCode::Right => Action::Move(Step::Right),
        KeyCode::Tab | KeyCode::BackTab => Action::SwitchPane,
        KeyCode::Char('n') => Action::NextHunk,
        KeyCode::Char('N') => Action::PreviousHunk,
        KeyCode::Char('a') => Action::Accept,
        KeyCode::Char('r') => Action::Reject,
        KeyCode::Char(' ') => Action::Toggle,
        KeyCode::Char('u') => Action::Clear,
        KeyCode::Char('A') => Action::AcceptAll,
        KeyCode::Char('R') => Action::RejectAll,
        KeyCode::Char('U') => Action::ClearAll,
        KeyCode::Char('m') => Action::KeepMine,
        KeyCode::Char('t') => Action::TakeTask,
        KeyCode::Char('b') => Action::TakeBoth,
        KeyCode::Char('e') => Action::Edit,
        KeyCode::Char('s') => Action::SplitHunk,
        KeyCode::Char('o') => Action::ToggleFold,
        KeyCode::Char('v') => Action::SwitchForm,
        KeyCode::Char('/') => Action::StartFilter,
        KeyCode::Esc => Action::DropFilter,
        KeyCode::Char('?') => Action::Help,
        KeyCode::Char('p') | KeyCode::Enter => Action::Apply,
        KeyCode::Char('q') => Action::Quit,
        _ => return None,
    })
}

fn filter(code: KeyCode) -> Option<Action> {
    match code {
        KeyCode::Char(c) => Some(Action::Type(c)),
        KeyCode::Backspace => Some(Action::Erase),
        KeyCode::Enter => Some(Action::KeepFilter),
        KeyCode::Esc => Some(Action::DropFilter),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mode: Mode, code: KeyCode, expected: Option<Action>) {
        assert_eq!(action(mode, KeyEvent::new(code, KeyModifiers::NONE)), expected);
    }

    #[test]
    fn a_key_means_what_the_mode_says() {
        let a = KeyCode::Char('a');
        check(Mode::Browse, a, Some(Action::Accept));
        check(Mode::Filter, a, Some(Action::Type('a')));
        check(Mode::Help, a, Some(Action::Help));
        check(Mode::Ask(Question::Apply), a, None);
        check(Mode::Ask(Question::Apply), KeyCode::Char('y'), Some(Action::Yes));
        check(Mode::Browse, KeyCode::F(1), None);
    }

    #[test]
    fn control_c_leaves_and_answers_no() {
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action(Mode::Browse, control_c), Some(Action::Quit));
        assert_eq!(action(Mode::Ask(Question::Apply), control_c), Some(Action::No));
    }

    #[test]
    fn the_page_for_users_lists_every_key() {
        let page = include_str!("../../../../../docs/review.md");
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        let expected = KEYS.map(|(keys, what)| {
            let keys = keys.split(' ').map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" ");
            format!("| {keys} | {what} |")
        });
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }
}
