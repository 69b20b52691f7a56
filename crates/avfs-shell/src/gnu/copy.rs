//! `cp` and `mv`

use avfs_vfs::{Kind, Result, Stat, VfsError};

use super::options::{Given, Known};
use super::{GnuCall, Report, base_name, below, words};
use crate::command::CommandResult;

const CP: Known = Known {
    short: "abdfHiLlnPpRrst:TuvxS:Z",
    long: &[
        ("archive", 'a'),
        ("dereference", 'L'),
        ("force", 'f'),
        ("interactive", 'i'),
        ("no-clobber", 'n'),
        ("no-dereference", 'P'),
        ("no-target-directory", 'T'),
        ("parents", 'B'),
        ("preserve[=", 'p'),
        ("recursive", 'r'),
        ("target-directory=", 't'),
        ("update[=", 'u'),
        ("verbose", 'v'),
    ],
};
const MV: Known = Known {
    short: "finTt:uvZ",
    long: &[
        ("force", 'f'),
        ("interactive", 'i'),
        ("no-clobber", 'n'),
        ("no-target-directory", 'T'),
        ("target-directory=", 't'),
        ("update[=", 'u'),
        ("verbose", 'v'),
    ],
};
/// Options of `cp` that stand for something that this filesystem does not have.
const NOT_HERE: [char; 3] = ['l', 's', 'b'];

pub(super) fn cp(call: &GnuCall<'_>) -> CommandResult {
    each(call, &CP, |copying, source, target| {
        copying.copy_argument(source, target)
    })
}

pub(super) fn mv(call: &GnuCall<'_>) -> CommandResult {
    each(call, &MV, |copying, source, target| {
        copying.move_argument(source, target)
    })
}

/// A path as it was given, and from the root.
struct Named {
    shown: String,
    place: String,
}

struct Copying<'a> {
    call: &'a GnuCall<'a>,
    given: Given,
    report: Report,
}

/// Does it with each source and the place where that goes.
fn each(call: &GnuCall<'_>, known: &Known, work: impl Fn(&mut Copying<'_>, &Named, &Named)) -> CommandResult {
    let mut given = match known.read(call, 1) {
        Ok(given) => given,
        Err(wrong) => return wrong,
    };
    let name = &call.call.name;
    let fail = |text: String| CommandResult::failure(1, format!("{name}: {text}\n"));
    if known.short == CP.short
        && let Some(option) = NOT_HERE.into_iter().find(|option| given.has(*option))
    {
        return fail(format!("-{option} is not supported in this shell"));
    }
    let mut sources = std::mem::take(&mut given.arguments);
    let target = match given.value('t') {
        Some(target) => target.to_owned(),
        None => match sources.pop() {
            Some(target) if !sources.is_empty() => target,
            Some(source) => return fail(format!("missing destination file operand after '{source}'")),
            None => return fail("missing file operand".to_owned()),
        },
    };
    if sources.is_empty() {
        return fail("missing file operand".to_owned());
    }
    let place = call.place(&target);
    let is_directory = !given.has('T') && call.is_directory(&place);
    let needs_directory = sources.len() > 1 || given.value('t').is_some() || given.has('B');
    if needs_directory && !is_directory {
        let why = if call.found(&place).is_some() {
            "Not a directory"
        } else {
            "No such file or directory"
        };
        return fail(format!("target '{target}': {why}"));
    }
    let mut copying = Copying {
        call,
        given,
        report: Report::default(),
    };
    for source in sources {
        let name = match base_name(&source) {
            _ if copying.given.has('B') => source.trim_matches('/'),
            // The entries of that directory, and not the directory.
            "." | ".." => "",
            name => name,
        };
        let shown = match (is_directory, name) {
            (false, _) => target.clone(),
            (true, "") => format!("{}/.", target.trim_end_matches('/')),
            (true, name) => below(&target, name),
        };
        let target = Named {
            place: call.place(&shown),
            shown,
        };
        let source = Named {
            place: call.place(&source),
            shown: source,
        };
        work(&mut copying, &source, &target);
    }
    copying.report.end()
}

impl Copying<'_> {
    fn has(&self, option: char) -> bool {
        self.given.has(option)
    }

    fn fail(&mut self, text: String) {
        let name = &self.call.call.name;
        let line = format!("{name}: {text}");
        self.report.fail(1, line);
    }

    fn is_recursive(&self) -> bool {
        ['r', 'R', 'a'].into_iter().any(|option| self.has(option))
    }

    /// Whether links are copied as links.
    fn keeps_links(&self) -> bool {
        match self.given.last_of("LPdaHrR") {
            Some('L' | 'H') => false,
            found => found.is_some(),
        }
    }

    fn stat(&self, place: &str) -> Result<Stat> {
        let vfs = self.call.vfs();
        if self.keeps_links() {
            vfs.lstat(place)
        } else {
            vfs.stat(place)
        }
    }

    /// Whether what is at the target stays as it is.
    fn is_kept(&self, source: &Stat, target: &str) -> bool {
        let Some(found) = self.call.found(target) else {
            return false;
        };
        let is_older = || source.mtime.as_nanos() <= found.mtime.as_nanos();
        self.given.last_of("nfi") == Some('n') || (self.has('u') && is_older())
    }

    fn copy_argument(&mut self, source: &Named, target: &Named) {
        let stat = match self.stat(&source.place) {
            Ok(stat) => stat,
            Err(error) => return self.fail(format!("cannot stat '{}': {}", source.shown, words(&error))),
        };
        if stat.kind == Kind::Directory && !self.is_recursive() {
            return self.fail(format!("-r not specified; omitting directory '{}'", source.shown));
        }
        if stat.kind == Kind::Directory
            && format!("{}/", target.place).starts_with(&format!("{}/", source.place))
        {
            let (source, target) = (&source.shown, &target.shown);
            return self.fail(format!(
                "cannot copy a directory, '{source}', into itself, '{target}'"
            ));
        }
        if source.place == target.place {
            return self.fail(format!(
                "'{}' and '{}' are the same file",
                source.shown, target.shown
            ));
        }
        if self.has('B')
            && let Some((above, _)) = target.place.rsplit_once('/')
            && !above.is_empty()
            && let Err(error) = self.call.vfs().mkdir(above, true, true)
        {
            return self.fail(format!("cannot make directory '{above}': {}", words(&error)));
        }
        self.copy(source, target, &stat);
    }

    fn copy(&mut self, source: &Named, target: &Named, stat: &Stat) {
        let copied = match stat.kind {
            Kind::Directory => self.copy_directory(source, target, stat),
            _ if self.is_kept(stat, &target.place) => return,
            Kind::File => self.copy_file(source, target, stat),
            Kind::Symlink => self.copy_link(source, target),
        };
        if let Err(error) = copied {
            let text = words(&error);
            self.fail(match (&error, stat.kind) {
                (VfsError::IsADirectory { .. }, _) => {
                    format!("cannot overwrite directory '{}' with non-directory", target.shown)
                }
                (_, Kind::Directory) => format!("cannot create directory '{}': {text}", target.shown),
                _ => format!("cannot create regular file '{}': {text}", target.shown),
            });
        }
    }

    fn tell(&mut self, source: &Named, target: &Named) {
        if self.has('v') {
            self.report
                .say(format!("'{}' -> '{}'", source.shown, target.shown));
        }
    }

    fn keep_attributes(&self, target: &str, stat: &Stat, is_new: bool) -> Result<()> {
        let is_preserved = self.has('p') || self.has('a');
        if is_new || is_preserved {
            self.call.vfs().set_mode(target, stat.mode)?;
        }
        if is_preserved {
            self.call.vfs().set_mtime(target, stat.mtime)?;
        }
        Ok(())
    }

    fn copy_directory(&mut self, source: &Named, target: &Named, stat: &Stat) -> Result<()> {
        let vfs = self.call.vfs();
        let is_new = !vfs.exists(&target.place)?;
        let entries = vfs.ls(&source.place)?;
        vfs.mkdir(&target.place, false, true)?;
        if is_new {
            self.tell(source, target);
        }
        for entry in entries {
            let name = String::from_utf8_lossy(entry.name.as_bytes()).into_owned();
            let inner = |named: &Named| Named {
                shown: below(&named.shown, &name),
                place: below(&named.place, &name),
            };
            let (source, target) = (inner(source), inner(target));
            match self.stat(&source.place) {
                Ok(stat) => self.copy(&source, &target, &stat),
                Err(error) => self.fail(format!("cannot stat '{}': {}", source.shown, words(&error))),
            }
        }
        self.keep_attributes(&target.place, stat, is_new)
    }

    fn copy_file(&mut self, source: &Named, target: &Named, stat: &Stat) -> Result<()> {
        let vfs = self.call.vfs();
        self.check_parent(&target.place)?;
        let is_new = !vfs.exists(&target.place)?;
        let content = vfs.read_file(&source.place)?;
        vfs.write_file(&target.place, content.to_vec(), None)?;
        self.keep_attributes(&target.place, stat, is_new)?;
        self.tell(source, target);
        Ok(())
    }

    /// Files are written where a directory is. The filesystem itself makes those above.
    fn check_parent(&self, place: &str) -> Result<()> {
        let above = place.rsplit_once('/').map_or("", |(above, _)| above);
        self.call
            .vfs()
            .ls(if above.is_empty() { "/" } else { above })
            .map(drop)
    }

    fn copy_link(&mut self, source: &Named, target: &Named) -> Result<()> {
        let vfs = self.call.vfs();
        let leads = vfs.read_link(&source.place)?;
        if vfs
            .lstat(&target.place)
            .is_ok_and(|stat| stat.kind != Kind::Directory)
        {
            vfs.remove(&target.place, false)?;
        }
        vfs.symlink(leads, &target.place)?;
        self.tell(source, target);
        Ok(())
    }

    fn move_argument(&mut self, source: &Named, target: &Named) {
        let vfs = self.call.vfs();
        let stat = match vfs.lstat(&source.place) {
            Ok(stat) => stat,
            Err(error) => return self.fail(format!("cannot stat '{}': {}", source.shown, words(&error))),
        };
        if source.place == target.place {
            return self.fail(format!(
                "'{}' and '{}' are the same file",
                source.shown, target.shown
            ));
        }
        if self.is_kept(&stat, &target.place) {
            return;
        }
        let moved = match vfs.rename(&source.place, &target.place) {
            // Between a storage and the rest, files are written anew.
            Err(VfsError::FilesOnly { .. }) => vfs.move_to(&source.place, &target.place, true).map(drop),
            moved => moved,
        };
        let (from, to) = (&source.shown, &target.shown);
        match moved {
            Ok(()) if self.has('v') => self.report.say(format!("renamed '{from}' -> '{to}'")),
            Ok(()) => {}
            Err(VfsError::IntoItself { .. }) => {
                self.fail(format!(
                    "cannot move '{from}' to a subdirectory of itself, '{to}'"
                ));
            }
            Err(VfsError::IsADirectory { .. }) => {
                self.fail(format!("cannot overwrite directory '{to}' with non-directory"));
            }
            Err(error) => {
                let text = words(&error);
                self.fail(format!("cannot move '{from}' to '{to}': {text}"));
            }
        }
    }
}
