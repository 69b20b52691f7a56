//! `avfs vault create`: a new vault, empty, from a directory or from a commit.

use std::ffi::OsString;
use std::path::PathBuf;

use agentvfs::git::{GitRevision, GitSource};
use agentvfs::transfer::TransferReport;
use agentvfs::{Store, Vault, VaultLimits, VaultName};
use anyhow::Result;
use serde::Serialize;

use crate::commands::transferred::{ReportBody, tell};
use crate::commands::vault::body::VaultInfoBody;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::progress::Progress;

/// Create a vault
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Files from a commit are exactly as git stores them: no filters (line endings, large file
storage) are applied, submodules are empty directories, and all times are the time of
the commit.

Examples:
  avfs vault create web
  avfs vault create web --from ~/src/web --use
  avfs vault create release --from-git ~/src/web@v1.2"
)]
pub struct VaultCreateArgs {
    /// Name of the vault: letters, digits, '-', '_' and '.'
    name: String,

    /// Fill it with a copy of this directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    from: Option<PathBuf>,

    /// Fill it with the files of a git commit [default REV: HEAD]
    #[arg(long, value_name = "REPO[@REV]", value_hint = clap::ValueHint::DirPath, conflicts_with = "from")]
    from_git: Option<OsString>,

    /// Make it the vault that commands work on
    #[arg(long = "use")]
    choose: bool,
}

#[derive(Serialize)]
struct CreateBody {
    #[serde(flatten)]
    vault: VaultInfoBody,
    /// Of `--from` and `--from-git`.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<ReportBody>,
    /// Of `--from-git`.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
}

/// A new vault, the report of its initial contents, and the commit from which it was made.
type Made = (Vault, Option<TransferReport>, Option<String>);

/// The ways on when a vault has the name already.
const NAME_TAKEN: &str = "choose another name; `avfs vault rename` and `avfs vault delete` free this one";

pub fn run(context: &mut Context<'_>, args: &VaultCreateArgs) -> Result<ExitStatus> {
    let name = VaultName::new(&args.name)?;
    let store = context.store()?;
    let quota = context.settings.quota();
    let limits = VaultLimits {
        bytes: quota.bytes,
        files: quota.files,
    };
    let (vault, report, commit) = make(context, &store, &name, limits, args)
        .map_err(|error| Failure::hinted(error, "vault-exists", NAME_TAKEN))?;
    if args.choose {
        store.use_vault(name.as_str())?;
    }
    if context.out.is_json() {
        let current = context.chosen_vault(&store)?;
        let vault = VaultInfoBody::new(&vault.info()?, current.as_deref());
        let report = report.as_ref().map(ReportBody::from);
        context.out.object(
            "vault-create",
            &CreateBody {
                vault,
                report,
                commit,
            },
        )?;
    }
    context.out.talk(format_args!("created vault '{name}'"));
    if let Some(report) = &report {
        tell(context.out, "imported", report);
    }
    Ok(ExitStatus::Success)
}

fn make(
    context: &mut Context<'_>,
    store: &Store,
    name: &VaultName,
    limits: VaultLimits,
    args: &VaultCreateArgs,
) -> Result<Made> {
    if let Some(from) = &args.from {
        let progress = Progress::start(context.out, "import", None);
        let (vault, report) = store.create_vault_from(name, from, limits, &progress)?;
        return Ok((vault, Some(report), None));
    }
    if let Some(from) = &args.from_git {
        let revision = GitRevision::open(&GitSource::parse(from)).map_err(agentvfs::Error::from)?;
        let progress = Progress::start(context.out, "import", None);
        let (vault, report) = store.create_vault_from_git(name, &revision, limits, &progress)?;
        return Ok((vault, Some(report), Some(revision.commit().to_string())));
    }
    Ok((store.create_limited_vault(name, limits)?, None, None))
}
