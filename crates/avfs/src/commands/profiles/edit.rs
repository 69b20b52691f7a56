//! `avfs profiles edit` and `avfs profiles reset`: a profile of the user's own, in place of a built-in one.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use agentvfs::exec::sandbox::profile::{Profile, ProfileError, Profiles};
use anyhow::Result;
use serde::Serialize;

use super::{load, named, place};
use crate::context::Context;
use crate::editor;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;

/// Change a profile in your editor
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Opens the current profile in $VISUAL or $EDITOR; for a new name, an empty one. The result is saved as \
a file of yours that overrides the built-in profile. A profile with a mistake in it is never saved: the old one stays in \
force, and the editor opens again with your text.

Examples:
  avfs profiles edit claude
  EDITOR='code --wait' avfs profiles edit claude
  avfs profiles edit my-agent"
)]
pub struct ProfilesEditArgs {
    /// The profile
    name: String,
}

/// Go back to the built-in profile
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Your own file is kept with the suffix `.old`. A profile that is not built in no longer exists after that.

Examples:
  avfs profiles reset claude"
)]
pub struct ResetArgs {
    /// The profile
    name: String,
}

#[derive(Serialize)]
struct EditedBody<'a> {
    name: &'a str,
    file: &'a Path,
    changed: bool,
}

#[derive(Serialize)]
struct ResetBody<'a> {
    name: &'a str,
    kept: &'a Path,
}

pub fn edit(context: &mut Context<'_>, args: &ProfilesEditArgs) -> Result<ExitStatus> {
    let name = &args.name;
    let file = place(name)?;
    // No profile: its name does not end as one has to.
    let draft = file.with_extension("toml.draft");
    let before = text_of(name, &file)?;
    if !draft.exists() {
        write(&draft, &before)?;
    }
    let text = loop {
        if !editor::edit(&draft)? {
            let text = format!("profile '{name}' stays as it was: the editor ended with an error");
            return Err(Failure::new("not-edited", ExitStatus::Refused, text).into());
        }
        let text = std::fs::read_to_string(&draft).map_err(|source| host("reading", &draft, source))?;
        match Profile::parse(name, Some(&file), &text) {
            Ok(_) => break text,
            Err(error) if is_asked_again(context, &error)? => {}
            Err(error) => return Err(refused(name, &error).into()),
        }
    };
    let changed = text != before;
    if changed {
        std::fs::rename(&draft, &file).map_err(|source| host("writing", &file, source))?
    } else {
        std::fs::remove_file(&draft).map_err(|source| host("removing", &draft, source))?
    }
    if context.out.is_json() {
        context.out.object(
            "profile-edited",
            &EditedBody {
                name,
                file: &file,
                changed,
            },
        )?;
    } else if changed {
        context.out.talk(format_args!(
            "profile {name} is now that of {}",
            printable_path(&file)
        ));
    } else {
        context.out.talk(format_args!(
            "profile {name} stays as it was: nothing was changed"
        ));
    }
    Ok(ExitStatus::Success)
}

pub fn reset(context: &mut Context<'_>, args: &ResetArgs) -> Result<ExitStatus> {
    let name = &args.name;
    let (file, profiles) = (place(name)?, load()?);
    let kept = file.with_extension("toml.old");
    // A draft of the older text must not reappear.
    let _ = std::fs::remove_file(file.with_extension("toml.draft"));
    match std::fs::rename(&file, &kept) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            named(&profiles, name)?;
            let text = format!("profile '{name}' is the built-in one already");
            return Err(Failure::new("not-changed", ExitStatus::No, text).into());
        }
        Err(source) => return Err(host("moving away", &file, source).into()),
    }
    if context.out.is_json() {
        context
            .out
            .object("profile-reset", &ResetBody { name, kept: &kept })?;
        return Ok(ExitStatus::Success);
    }
    let kept = printable_path(&kept);
    match Profiles::built_in(name)? {
        Some(_) => context.out.talk(format_args!(
            "profile {name} is the built-in one again; yours is {kept}"
        )),
        None => context.out.talk(format_args!(
            "profile {name} no longer exists; your file is kept as {kept}"
        )),
    }
    Ok(ExitStatus::Success)
}

/// The initial text: the user's file, the built-in profile, or a template.
fn text_of(name: &str, file: &Path) -> Result<String> {
    match std::fs::read_to_string(file) {
        Ok(text) if !text.is_empty() => return Ok(text),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(host("reading", file, error).into());
        }
        Ok(_) | Err(_) => {}
    }
    let built_in = Profiles::built_in(name)?.map(|profile| profile.text);
    Ok(built_in.unwrap_or_else(|| {
        format!(
            "about = \"\"\ncommands = [\"{name}\"]\nprograms = [\".local/bin\"]\nhosts = []\nenvironment = []\n\
             state = []\nsettings = []\ncopied = []\n"
        )
    }))
}

fn write(draft: &Path, text: &str) -> Result<()> {
    if let Some(directory) = draft.parent() {
        std::fs::create_dir_all(directory).map_err(|source| host("making", directory, source))?;
    }
    Ok(std::fs::write(draft, text).map_err(|source| host("writing", draft, source))?)
}

/// On a terminal, an error is reported and can be corrected.
fn is_asked_again(context: &mut Context<'_>, error: &ProfileError) -> Result<bool> {
    if context.out.is_json() || !io::stdin().is_terminal() {
        return Ok(false);
    }
    context.out.warn(error);
    if let Some(hint) = error.hint() {
        context.out.talk(format_args!("hint: {hint}"));
    }
    context.out.flush()?;
    write!(io::stderr(), "edit it again? [Y/n] ")?;
    let mut answer = String::new();
    let count = io::stdin().lock().read_line(&mut answer)?;
    Ok(count > 0 && !matches!(answer.trim().to_ascii_lowercase().as_str(), "n" | "no"))
}

fn refused(name: &str, error: &ProfileError) -> Failure {
    let text = format!("profile '{name}' stays as it was: {error}");
    let again = format!("`avfs profiles edit {name}` continues with this text");
    let hint = match error.hint() {
        Some(hint) => format!("{hint} {again}"),
        None => again,
    };
    Failure::new(error.code(), ExitStatus::BadInput, text).hint(Some(hint))
}

fn host(action: &'static str, place: &Path, source: io::Error) -> agentvfs::Error {
    agentvfs::Error::Host {
        action,
        place: printable_path(&PathBuf::from(place)),
        source,
    }
}
