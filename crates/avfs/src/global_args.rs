//! The flags that every command has.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::ValueEnum;

use crate::printer::OutputStyle;
use crate::settings::ColorWhen;

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Work on this vault [env: AVFS_VAULT]
    #[arg(long, global = true, value_name = "NAME")]
    pub vault: Option<String>,

    /// Use this directory as the store [env: AVFS_HOME]
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,

    /// Have this server do it: unix:PATH, http://HOST:PORT or https://HOST:PORT; the token is in AVFS_TOKEN
    /// [env: AVFS_SERVER]
    #[cfg(feature = "server")]
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,

    /// Print one JSON object on standard output, errors included
    #[arg(long, global = true)]
    pub json: bool,

    /// When to use colour; auto means on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN")]
    pub color: Option<ColorArg>,

    /// Print only data, errors and warnings
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Do not send long output through a pager [env: AVFS_PAGER, PAGER]
    #[arg(long, global = true)]
    pub no_pager: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    Auto,
    Always,
    Never,
}

impl ColorArg {
    pub fn as_str(self) -> &'static str {
        match self {
            ColorArg::Auto => "auto",
            ColorArg::Always => "always",
            ColorArg::Never => "never",
        }
    }

    fn when(self) -> ColorWhen {
        match self {
            ColorArg::Auto => ColorWhen::Auto,
            ColorArg::Always => ColorWhen::Always,
            ColorArg::Never => ColorWhen::Never,
        }
    }
}

/// The flags that decide how an error in the arguments is reported, read before the arguments are parsed. A
/// value that looks like a flag (`-m --json`) is mistaken for one: only the format of an error depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyFlags {
    pub color: Option<ColorArg>,
    pub json: bool,
    pub quiet: bool,
    pub no_pager: bool,
}

impl GlobalArgs {
    pub fn style(&self) -> OutputStyle {
        let GlobalArgs {
            json,
            color,
            quiet,
            no_pager,
            ..
        } = *self;
        EarlyFlags {
            color,
            json,
            quiet,
            no_pager,
        }
        .style()
    }
}

impl EarlyFlags {
    pub fn scan(arguments: impl Iterator<Item = OsString>) -> EarlyFlags {
        let mut flags = EarlyFlags::default();
        let mut arguments = arguments.take_while(|argument| argument != "--");
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--json") => flags.json = true,
                Some("-q" | "--quiet") => flags.quiet = true,
                Some("--no-pager") => flags.no_pager = true,
                Some("--color") => flags.color = arguments.next().as_deref().and_then(color_named),
                Some(text) if text.starts_with("--color=") => {
                    flags.color = color_named(OsStr::new(&text["--color=".len()..]));
                }
                _ => {}
            }
        }
        flags
    }

    pub fn style(self) -> OutputStyle {
        let color = self.color.map_or(ColorWhen::Auto, ColorArg::when);
        OutputStyle {
            color,
            json: self.json,
            quiet: self.quiet,
            paged: !self.no_pager,
        }
    }
}

fn color_named(name: &OsStr) -> Option<ColorArg> {
    ColorArg::from_str(name.to_str()?, false).ok()
}
