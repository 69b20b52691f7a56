//! The flag that gives a run variables.

use std::ffi::OsString;

use crate::escape::printable_os;
use crate::printer::Printer;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct EnvArgs {
    /// Pass on a variable from this environment, or set it; can be repeated
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = variable)]
    env: Vec<Variable>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Variable {
    Set(OsString, OsString),
    Pass(OsString),
}

type Pairs = Vec<(OsString, OsString)>;

impl EnvArgs {
    /// The variables with their values.
    pub fn given(&self) -> Pairs {
        let set = |variable: &Variable| match variable {
            Variable::Set(name, value) => Some((name.clone(), value.clone())),
            Variable::Pass(_) => None,
        };
        self.env.iter().filter_map(set).collect()
    }

    /// The variables of the user that are passed on.
    pub fn passed(&self) -> Pairs {
        let value = |name: &OsString| Some((name.clone(), std::env::var_os(name)?));
        self.names().filter_map(value).collect()
    }

    /// Names those that are not set, and go nowhere.
    pub fn warn(&self, out: &mut Printer) {
        for name in self.names().filter(|name| std::env::var_os(name).is_none()) {
            out.warn(format_args!(
                "{} is not set here, so it is not passed on",
                printable_os(name)
            ));
        }
    }

    fn names(&self) -> impl Iterator<Item = &OsString> {
        self.env.iter().filter_map(|variable| match variable {
            Variable::Set(..) => None,
            Variable::Pass(name) => Some(name),
        })
    }
}

/// A variable with its value, for where this environment does not matter.
#[cfg(feature = "server")]
pub fn variable_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it is NAME=VALUE".to_owned()),
    }
}

fn variable(text: &str) -> Result<Variable, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    match (name.is_empty(), value) {
        (true, _) => Err("a variable has a name: write NAME or NAME=VALUE".into()),
        (false, Some(value)) => Ok(Variable::Set(name.into(), value.into())),
        (false, None) => Ok(Variable::Pass(name.into())),
    }
}
