//! Maps keys to actions.

use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// An action of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewAction {
    Move(CursorStep),
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
    /// Resolutions of a conflict.
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
pub enum CursorStep {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Left,
    Right,
}

/// The current meaning of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Browse,
    Filter,
    Help,
    Ask(ReviewQuestion),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewQuestion {
    Apply,
}

/// The keys and their actions, in the order in which a newcomer needs them. The user's page has the same
/// list.
pub const KEYS: [(&str, &str); 18] = [
    ("j k ↓ ↑", "go to the next or previous line or file"),
    (
        "PgDn PgUp g G",
        "go one page forward or back, to the beginning or the end",
    ),
    ("Tab", "switch between the files and the differences"),
    (
        "← →",
        "scroll long lines; in the files, close or open a directory",
    ),
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
    ("v", "switch between side by side and unified"),
    ("Enter p", "apply what is accepted"),
    ("q", "leave; the decisions are kept"),
];

/// The action of a key, if it has one.
pub fn action(mode: Mode, key: KeyEvent) -> Option<ReviewAction> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return control(mode, key.code);
    }
    match mode {
        Mode::Browse => browse(key.code),
        Mode::Filter => filter(key.code),
        Mode::Help => Some(ReviewAction::Help),
        Mode::Ask(_) => match key.code {
            KeyCode::Char('y' | 'Y') | KeyCode::Enter => Some(ReviewAction::Yes),
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => Some(ReviewAction::No),
            _ => None,
        },
    }
}

fn control(mode: Mode, code: KeyCode) -> Option<ReviewAction> {
    match (mode, code) {
        (_, KeyCode::Char('z')) => Some(ReviewAction::Suspend),
        (Mode::Ask(_), KeyCode::Char('c')) => Some(ReviewAction::No),
        (Mode::Filter, KeyCode::Char('c')) => Some(ReviewAction::DropFilter),
        (_, KeyCode::Char('c')) => Some(ReviewAction::Quit),
        (Mode::Browse, KeyCode::Char('d' | 'f')) => Some(ReviewAction::Move(CursorStep::PageDown)),
        (Mode::Browse, KeyCode::Char('u' | 'b')) => Some(ReviewAction::Move(CursorStep::PageUp)),
        _ => None,
    }
}

fn browse(code: KeyCode) -> Option<ReviewAction> {
    Some(match code {
        KeyCode::Char('j') | KeyCode::Down => ReviewAction::Move(CursorStep::Down),
        KeyCode::Char('k') | KeyCode::Up => ReviewAction::Move(CursorStep::Up),
        KeyCode::PageDown => ReviewAction::Move(CursorStep::PageDown),
        KeyCode::PageUp => ReviewAction::Move(CursorStep::PageUp),
        KeyCode::Char('g') | KeyCode::Home => ReviewAction::Move(CursorStep::First),
        KeyCode::Char('G') | KeyCode::End => ReviewAction::Move(CursorStep::Last),
        KeyCode::Char('h') | KeyCode::Left => ReviewAction::Move(CursorStep::Left),
        KeyCode::Char('l') | KeyCode::Right => ReviewAction::Move(CursorStep::Right),
        KeyCode::Tab | KeyCode::BackTab => ReviewAction::SwitchPane,
        KeyCode::Char('n') => ReviewAction::NextHunk,
        KeyCode::Char('N') => ReviewAction::PreviousHunk,
        KeyCode::Char('a') => ReviewAction::Accept,
        KeyCode::Char('r') => ReviewAction::Reject,
        KeyCode::Char(' ') => ReviewAction::Toggle,
        KeyCode::Char('u') => ReviewAction::Clear,
        KeyCode::Char('A') => ReviewAction::AcceptAll,
        KeyCode::Char('R') => ReviewAction::RejectAll,
        KeyCode::Char('U') => ReviewAction::ClearAll,
        KeyCode::Char('m') => ReviewAction::KeepMine,
        KeyCode::Char('t') => ReviewAction::TakeTask,
        KeyCode::Char('b') => ReviewAction::TakeBoth,
        KeyCode::Char('e') => ReviewAction::Edit,
        KeyCode::Char('s') => ReviewAction::SplitHunk,
        KeyCode::Char('o') => ReviewAction::ToggleFold,
        KeyCode::Char('v') => ReviewAction::SwitchForm,
        KeyCode::Char('/') => ReviewAction::StartFilter,
        KeyCode::Esc => ReviewAction::DropFilter,
        KeyCode::Char('?') => ReviewAction::Help,
        KeyCode::Char('p') | KeyCode::Enter => ReviewAction::Apply,
        KeyCode::Char('q') => ReviewAction::Quit,
        _ => return None,
    })
}

fn filter(code: KeyCode) -> Option<ReviewAction> {
    match code {
        KeyCode::Char(c) => Some(ReviewAction::Type(c)),
        KeyCode::Backspace => Some(ReviewAction::Erase),
        KeyCode::Enter => Some(ReviewAction::KeepFilter),
        KeyCode::Esc => Some(ReviewAction::DropFilter),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mode: Mode, code: KeyCode, expected: Option<ReviewAction>) {
        assert_eq!(action(mode, KeyEvent::new(code, KeyModifiers::NONE)), expected);
    }

    #[test]
    fn a_key_means_what_the_mode_says() {
        let a = KeyCode::Char('a');
        check(Mode::Browse, a, Some(ReviewAction::Accept));
        check(Mode::Filter, a, Some(ReviewAction::Type('a')));
        check(Mode::Help, a, Some(ReviewAction::Help));
        check(Mode::Ask(ReviewQuestion::Apply), a, None);
        check(
            Mode::Ask(ReviewQuestion::Apply),
            KeyCode::Char('y'),
            Some(ReviewAction::Yes),
        );
        check(Mode::Browse, KeyCode::F(1), None);
    }

    #[test]
    fn control_c_leaves_and_answers_no() {
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action(Mode::Browse, control_c), Some(ReviewAction::Quit));
        assert_eq!(
            action(Mode::Ask(ReviewQuestion::Apply), control_c),
            Some(ReviewAction::No)
        );
    }

    #[test]
    fn the_page_for_users_lists_every_key() {
        let page = include_str!("../../../../../docs/review.md");
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        let expected = KEYS.map(|(keys, what)| {
            let keys = keys
                .split(' ')
                .map(|key| format!("`{key}`"))
                .collect::<Vec<_>>()
                .join(" ");
            format!("| {keys} | {what} |")
        });
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }
}
