//! Permission bits as people write and read them.

use std::str::FromStr;

use agentvfs::InodeKind;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a mode: write octal digits such as 755, or changes such as u+x,go-w")]
pub struct BadMode(String);

/// A change of permission bits by `chmod`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModeChange {
    Exactly(u32),
    Steps(Vec<ModeStep>),
}

/// One change of a symbolic mode: `go-w`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeStep {
    /// The bits of those it is about: user, group, others.
    who: u32,
    action: ModeAction,
    /// In all three places.
    permissions: u32,
    /// `X`: execute only for directories and for files that are already executable for some user.
    execute_if_any: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModeAction {
    Add,
    Remove,
    Set,
}

const USER: u32 = 0o4700;
const GROUP: u32 = 0o2070;
const OTHERS: u32 = 0o1007;
const EVERYONE: u32 = USER | GROUP | OTHERS;

impl FromStr for ModeChange {
    type Err = BadMode;

    fn from_str(text: &str) -> Result<ModeChange, BadMode> {
        let read = if text.starts_with(|c: char| c.is_ascii_digit()) {
            u32::from_str_radix(text, 8)
                .ok()
                .filter(|mode| *mode <= 0o7777)
                .map(ModeChange::Exactly)
        } else {
            read_steps(text).map(ModeChange::Steps)
        };
        read.ok_or_else(|| BadMode(text.to_owned()))
    }
}

fn read_steps(text: &str) -> Option<Vec<ModeStep>> {
    let mut steps = Vec::new();
    for clause in text.split(',') {
        let start = clause.find(['+', '-', '='])?;
        let (who, mut rest) = (read_who(&clause[..start])?, &clause[start..]);
        while !rest.is_empty() {
            let end = rest[1..].find(['+', '-', '=']).map_or(rest.len(), |end| end + 1);
            steps.push(read_step(who, &rest[..end])?);
            rest = &rest[end..];
        }
    }
    Some(steps)
}

fn read_who(text: &str) -> Option<u32> {
    if text.is_empty() {
        return Some(EVERYONE);
    }
    text.chars().try_fold(0, |who, c| match c {
        'u' => Some(who | USER),
        'g' => Some(who | GROUP),
        'o' => Some(who | OTHERS),
        'a' => Some(EVERYONE),
        _ => None,
    })
}

fn read_step(who: u32, text: &str) -> Option<ModeStep> {
    let action = match text.as_bytes().first()? {
        b'+' => ModeAction::Add,
        b'-' => ModeAction::Remove,
        _ => ModeAction::Set,
    };
    let mut step = ModeStep {
        who,
        action,
        permissions: 0,
        execute_if_any: false,
    };
    for c in text[1..].chars() {
        step.permissions |= match c {
            'r' => 0o444,
            'w' => 0o222,
            'x' => 0o111,
            's' => 0o6000,
            't' => 0o1000,
            'X' => {
                step.execute_if_any = true;
                0
            }
            _ => return None,
        };
    }
    Some(step)
}

impl ModeChange {
    /// The bits after the change.
    pub fn apply(&self, mode: u32, is_directory: bool) -> u32 {
        match self {
            ModeChange::Exactly(mode) => *mode,
            ModeChange::Steps(steps) => steps
                .iter()
                .fold(mode, |mode, step| step.apply(mode, is_directory)),
        }
    }
}

impl ModeStep {
    fn apply(self, mode: u32, is_directory: bool) -> u32 {
        let execute = self.execute_if_any && (is_directory || mode & 0o111 != 0);
        let wanted = self.permissions | if execute { 0o111 } else { 0 };
        let bits = wanted & self.who;
        match self.action {
            ModeAction::Add => mode | bits,
            ModeAction::Remove => mode & !bits,
            ModeAction::Set => mode & !self.who | bits,
        }
    }
}

/// Kind and permissions in ten letters, as `ls -l` shows them: `-rw-r--r--`.
pub fn show_mode(kind: InodeKind, mode: u32) -> String {
    let mut text = String::from(match kind {
        InodeKind::File => "-",
        InodeKind::Directory => "d",
        InodeKind::Symlink => "l",
        InodeKind::Fifo => "p",
        InodeKind::Socket => "s",
        InodeKind::CharDevice { .. } => "c",
        InodeKind::BlockDevice { .. } => "b",
    });
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: &str, mode: u32, expected: u32) {
        let changed = change.parse::<ModeChange>().unwrap().apply(mode, false);
        assert_eq!(changed, expected, "{change}: {changed:o}");
    }

    #[test]
    fn modes_change_as_chmod_does_it() {
        check("755", 0o644, 0o755);
        check("u+x", 0o644, 0o744);
        check("+x", 0o644, 0o755);
        check("go-w,u=rx", 0o666, 0o544);
        check("a=r", 0o777, 0o444);
        check("u=rwx,go=", 0o644, 0o700);
        check("u+s,g+s,+t", 0o755, 0o7755);
        check("u+x-w", 0o644, 0o544);
        check("a+X", 0o644, 0o644);
        check("a+X", 0o744, 0o755);
        assert_eq!("a+X".parse::<ModeChange>().unwrap().apply(0o644, true), 0o755);
    }

    #[test]
    fn invalid_mode_is_refused_by_name() {
        for text in ["", "8", "77777", "u", "x+u", "u+q", "u+x,", "0x1ff"] {
            assert_eq!(
                text.parse::<ModeChange>(),
                Err(BadMode(text.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn modes_are_shown_in_ten_letters() {
        assert_eq!(show_mode(InodeKind::File, 0o644), "-rw-r--r--");
        assert_eq!(show_mode(InodeKind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(show_mode(InodeKind::Symlink, 0o777), "lrwxrwxrwx");
        assert_eq!(show_mode(InodeKind::File, 0o4755), "-rwsr-xr-x");
        assert_eq!(show_mode(InodeKind::File, 0o6644), "-rwSr-Sr--");
    }
}
