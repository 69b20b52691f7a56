//! `avfs profiles`: what agents in a terminal need from this machine.

mod edit;
mod groups;

use std::ffi::OsString;
use std::path::PathBuf;

use agentvfs::exec::sandbox::profile::{Profile, Profiles};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::escape::{printable_path, printable_text};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::settings::UserDirectories;
use crate::suggest;

/// List, show and change the profiles that `avfs run` gives to programs
#[derive(Debug, clap::Subcommand)]
pub enum ProfilesCommand {
    List(ProfilesListArgs),
    Show(ProfilesShowArgs),
    Edit(edit::ProfilesEditArgs),
    Reset(edit::ResetArgs),
    EditPath(EditPathArgs),
    Groups(groups::GroupsArgs),
}

/// List the profiles
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs profiles list
  avfs profiles list --json | jq -r '.profiles[].name'")]
pub struct ProfilesListArgs {}

/// Print a profile in the format of a profile file
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs profiles show claude
  avfs profiles show claude --built-in")]
pub struct ProfilesShowArgs {
    /// The profile
    name: String,
    /// Print the built-in profile, even if a file of yours overrides it
    #[arg(long)]
    built_in: bool,
}

/// Print the path of the file that overrides a built-in profile
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The file does not have to exist; its directory is created. To change it, use `avfs profiles edit`.

Examples:
  avfs profiles edit-path claude
  cp claude.toml \"$(avfs profiles edit-path claude)\""
)]
pub struct EditPathArgs {
    /// The profile
    name: String,
}

#[derive(Serialize)]
struct ProfilesBody {
    profiles: Vec<ProfileBody>,
}

#[derive(Serialize)]
struct ProfileBody {
    name: String,
    about: String,
    /// The file that it is from, unless it is built in.
    file: Option<PathBuf>,
    commands: Vec<String>,
    programs: Vec<PathBuf>,
    hosts: Vec<String>,
    environment: Vec<String>,
    state: Vec<String>,
    settings: Vec<String>,
    copied: Vec<PathBuf>,
}

impl From<&Profile> for ProfileBody {
    fn from(profile: &Profile) -> ProfileBody {
        ProfileBody {
            name: profile.name.clone(),
            about: profile.about.clone(),
            file: profile.file.clone(),
            commands: profile.commands.clone(),
            programs: profile.programs.clone(),
            hosts: profile.hosts.iter().map(ToString::to_string).collect(),
            environment: profile.environment.clone(),
            state: profile.state.iter().map(ToString::to_string).collect(),
            settings: profile.settings.iter().map(ToString::to_string).collect(),
            copied: profile.copied_files(),
        }
    }
}

#[derive(Serialize)]
struct EditPathBody {
    file: PathBuf,
}

pub fn run(context: &mut Context<'_>, command: &ProfilesCommand) -> Result<ExitStatus> {
    match command {
        ProfilesCommand::List(_) => list(context),
        ProfilesCommand::Show(args) => show(context, args),
        ProfilesCommand::Edit(args) => edit::edit(context, args),
        ProfilesCommand::Reset(args) => edit::reset(context, args),
        ProfilesCommand::Groups(_) => groups::list(context),
        ProfilesCommand::EditPath(args) => edit_path(context, &args.name),
    }
}

/// The profiles in force.
pub fn load() -> Result<Profiles> {
    Ok(Profiles::load(directory().as_deref())?)
}

/// A profile by its name.
pub fn named<'a>(profiles: &'a Profiles, name: &str) -> Result<&'a Profile> {
    let unknown = || {
        let names = profiles.all().iter().map(|profile| profile.name.as_str());
        let hint = match suggest::closest(name, names.clone()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("there are {}", names.collect::<Vec<_>>().join(", ")),
        };
        let text = format!("there is no profile '{}'", printable_text(name.as_bytes()));
        Failure::new("unknown-profile", ExitStatus::NotFound, text).hint(Some(hint))
    };
    Ok(profiles.named(name)?.ok_or_else(unknown)?)
}

fn directory() -> Option<PathBuf> {
    let environment = |name: &str| -> Option<OsString> { std::env::var_os(name) };
    UserDirectories::from_environment(&environment).profiles()
}

fn list(context: &mut Context<'_>) -> Result<ExitStatus> {
    let profiles = load()?;
    if context.out.is_json() {
        let profiles = profiles.all().iter().map(ProfileBody::from).collect();
        context.out.object("profiles", &ProfilesBody { profiles })?;
        return Ok(ExitStatus::Success);
    }
    for profile in profiles.all() {
        let from = profile
            .file
            .as_deref()
            .map_or_else(|| "built in".to_owned(), printable_path);
        let about = printable_text(profile.about.as_bytes());
        context
            .out
            .line(format_args!("{:<12} {about} ({from})", profile.name))?;
    }
    for broken in profiles.broken() {
        context.out.warn(format_args!(
            "profile '{}' cannot be used: {}",
            broken.name, broken.error
        ));
    }
    Ok(ExitStatus::Success)
}

fn show(context: &mut Context<'_>, args: &ProfilesShowArgs) -> Result<ExitStatus> {
    let built_in = if args.built_in {
        Profiles::built_in(&args.name)?
    } else {
        None
    };
    let profiles = if args.built_in {
        Profiles::load(None)?
    } else {
        load()?
    };
    let profile = match &built_in {
        Some(profile) => profile,
        None => named(&profiles, &args.name)?,
    };
    if context.out.is_json() {
        context.out.object("profile", &ProfileBody::from(profile))?
    } else {
        context.out.content(profile.text.as_bytes())?
    }
    Ok(ExitStatus::Success)
}

/// The file of the user for a profile.
fn place(name: &str) -> Result<PathBuf> {
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if !is_name || name.is_empty() {
        let text = "the name of a profile consists of letters, digits, '-' and '_'";
        return Err(Failure::new("bad-name", ExitStatus::BadInput, text).into());
    }
    let no_place = || {
        Failure::new(
            "no-home",
            ExitStatus::BadInput,
            "there is no place for profiles: HOME is not set",
        )
    };
    Ok(directory().ok_or_else(no_place)?.join(format!("{name}.toml")))
}

fn edit_path(context: &mut Context<'_>, name: &str) -> Result<ExitStatus> {
    let file = place(name)?;
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory).map_err(|source| agentvfs::Error::Host {
            action: "making",
            place: printable_path(directory),
            source,
        })?;
    }
    if context.out.is_json() {
        context.out.object("profile-file", &EditPathBody { file })?
    } else {
        context.out.line(printable_path(&file))?
    }
    Ok(ExitStatus::Success)
}
