//! The commands, one module each: its arguments and its implementation.
//!
//! A command resolves its arguments, acts through the library, reports through the printer, and returns the
//! status to end with.

mod completions;
mod config;
#[cfg(test)]
mod lines;
mod man;

mod apply;
mod approvals;
mod audit;
mod cat;
mod checkout;
mod checkpoint;
mod chmod;
mod compare;
mod conflicts;
mod cp;
mod denied;
mod diff;
mod discard;
mod doctor;
mod exec;
mod export;
mod find;
mod fork;
mod fsck;
mod gc;
mod grep;
mod hook;
mod image;
mod import;
mod label;
mod ln;
mod log;
mod ls;
mod mcp;
mod merge;
mod missing;
mod mkdir;
mod mount;
mod mounts;
mod moves;
mod mv;
mod policy;
mod profiles;
mod project;
mod proxy;
mod prune;
mod quickstart;
mod quota;
mod redo;
mod resolve;
mod revert;
#[cfg(feature = "review")]
mod review;
mod rm;
mod rules;
mod run;
mod search;
#[cfg(feature = "server")]
mod serve;
mod session;
mod setup;
mod stat;
mod stats;
mod status;
mod sync;
mod task;
mod tasks;
#[cfg(feature = "server")]
mod token;
mod touch;
mod transferred;
mod tree;
mod undo;
mod unmount;
mod vault;
mod workspace;
mod write;

use anyhow::Result;
pub use exec::through_door;
pub use profiles::load as known_profiles;

use crate::cli::Cli;
use crate::context::{CommandScope, Context};
use crate::exit::ExitStatus;
use crate::printer::Printer;
#[cfg(feature = "server")]
use crate::remote::{self, SandboxCommand};
use crate::rule_args::RuleArgs;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    #[command(subcommand)]
    Vault(vault::VaultCommand),
    #[command(subcommand)]
    Image(image::ImageCommand),
    Ls(ls::LsArgs),
    Cat(cat::CatArgs),
    Write(write::WriteArgs),
    Mkdir(mkdir::MkdirArgs),
    Cp(cp::CpArgs),
    Mv(mv::MvArgs),
    Rm(rm::RmArgs),
    Ln(ln::LnArgs),
    Chmod(chmod::ChmodArgs),
    Touch(touch::TouchArgs),
    Stat(stat::StatArgs),
    Tree(tree::TreeArgs),
    #[command(subcommand)]
    Checkpoint(checkpoint::CheckpointCommand),
    Log(log::LogArgs),
    Diff(diff::DiffArgs),
    Checkout(checkout::CheckoutArgs),
    Revert(revert::RevertArgs),
    Undo(undo::UndoArgs),
    Redo(redo::RedoArgs),
    Status(status::StatusArgs),
    Tasks(tasks::TasksArgs),
    #[command(subcommand)]
    Project(project::ProjectCommand),
    #[command(subcommand)]
    Task(task::TaskCommand),
    Apply(apply::ApplyArgs),
    Discard(discard::DiscardArgs),
    Sync(sync::SyncArgs),
    Fork(fork::ForkArgs),
    Compare(compare::CompareArgs),
    #[cfg(feature = "review")]
    Review(review::ReviewArgs),
    Setup(setup::SetupArgs),
    #[command(subcommand)]
    Workspace(workspace::WorkspaceCommand),
    Merge(merge::MergeArgs),
    Conflicts(conflicts::ConflictsArgs),
    Resolve(resolve::ResolveArgs),
    Grep(grep::GrepArgs),
    Find(find::FindArgs),
    Search(search::SearchArgs),
    #[command(subcommand)]
    Rules(rules::RulesCommand),
    #[command(subcommand)]
    Label(label::LabelCommand),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Run(run::RunArgs),
    #[command(subcommand)]
    Profiles(profiles::ProfilesCommand),
    Exec(exec::ExecCommandArgs),
    #[command(subcommand)]
    Session(session::SessionSubcommand),
    #[command(subcommand)]
    Approvals(approvals::ApprovalsCommand),
    #[command(subcommand)]
    Proxy(proxy::ProxyCommand),
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    Mcp(mcp::McpArgs),
    #[cfg(feature = "server")]
    Serve(serve::ServeArgs),
    #[cfg(feature = "server")]
    #[command(subcommand)]
    Token(token::TokenCommand),
    #[cfg(feature = "server")]
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    #[command(subcommand)]
    Hook(hook::HookCommand),
    Quickstart(quickstart::QuickstartArgs),
    Mount(mount::MountArgs),
    Unmount(unmount::UnmountArgs),
    Mounts(mounts::MountsArgs),
    Doctor(doctor::DoctorArgs),
    Stats(stats::StatsArgs),
    #[command(subcommand)]
    Quota(quota::QuotaCommand),
    Audit(audit::AuditArgs),
    Gc(gc::GcArgs),
    Prune(prune::PruneArgs),
    Fsck(fsck::FsckArgs),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// Those of them that programs give again and again.
#[derive(Debug, clap::Subcommand)]
pub enum CommonCommand {
    Run(run::RunArgs),
    Exec(exec::ExecCommandArgs),
    #[command(subcommand)]
    Session(session::SessionSubcommand),
}

impl CommonCommand {
    pub const NAMES: [&str; 3] = ["run", "exec", "session"];
}

impl From<CommonCommand> for Command {
    fn from(common: CommonCommand) -> Command {
        match common {
            CommonCommand::Run(args) => Command::Run(args),
            CommonCommand::Exec(args) => Command::Exec(args),
            CommonCommand::Session(command) => Command::Session(command),
        }
    }
}

impl Command {
    /// The flags of a command that sees a vault through rules.
    fn rule_args(&self) -> Option<&RuleArgs> {
        match self {
            Command::Ls(args) => Some(&args.rules),
            Command::Cat(args) => Some(&args.rules),
            Command::Write(args) => Some(&args.rules),
            Command::Mkdir(args) => Some(&args.rules),
            Command::Cp(args) => Some(&args.rules),
            Command::Mv(args) => Some(&args.rules),
            Command::Rm(args) => Some(&args.rules),
            Command::Ln(args) => Some(&args.rules),
            Command::Chmod(args) => Some(&args.rules),
            Command::Touch(args) => Some(&args.rules),
            Command::Stat(args) => Some(&args.rules),
            Command::Tree(args) => Some(&args.rules),
            Command::Log(args) => Some(&args.rules),
            Command::Diff(args) => Some(&args.rules),
            Command::Checkout(args) => Some(&args.rules),
            Command::Revert(args) => Some(&args.rules),
            Command::Grep(args) => Some(&args.rules),
            Command::Find(args) => Some(&args.rules),
            Command::Search(args) => Some(&args.rules),
            Command::Import(args) => Some(&args.rules),
            Command::Export(args) => Some(&args.rules),
            Command::Mcp(args) => Some(&args.rules),
            Command::Mount(args) => Some(&args.rules),
            Command::Run(args) => Some(&args.rules),
            Command::Exec(args) => Some(&args.rules),
            Command::Proxy(proxy::ProxyCommand::Exec(args)) => Some(&args.rules),
            Command::Session(command) => command.rule_args(),
            Command::Task(command) => command.rule_args(),
            Command::Rules(command) => command.rule_args(),
            Command::Checkpoint(command) => command.rule_args(),
            Command::Vault(_)
            | Command::Image(_)
            | Command::Undo(_)
            | Command::Redo(_)
            | Command::Tasks(_)
            | Command::Status(_)
            | Command::Project(_)
            | Command::Apply(_)
            | Command::Discard(_)
            | Command::Sync(_)
            | Command::Fork(_)
            | Command::Compare(_)
            | Command::Setup(_)
            | Command::Hook(_)
            | Command::Quickstart(_)
            | Command::Workspace(_)
            | Command::Merge(_)
            | Command::Conflicts(_)
            | Command::Resolve(_)
            | Command::Label(_)
            | Command::Policy(_)
            | Command::Profiles(_)
            | Command::Approvals(_)
            | Command::Unmount(_)
            | Command::Mounts(_)
            | Command::Doctor(_)
            | Command::Stats(_)
            | Command::Quota(_)
            | Command::Audit(_)
            | Command::Gc(_)
            | Command::Prune(_)
            | Command::Fsck(_)
            | Command::Config(_)
            | Command::Completions(_)
            | Command::Man(_) => None,
            #[cfg(feature = "review")]
            Command::Review(_) => None,
            #[cfg(feature = "server")]
            Command::Serve(_) | Command::Token(_) | Command::Sandbox(_) => None,
        }
    }

    /// Whether it can only be meant for this machine, whatever the environment says about servers.
    #[cfg(feature = "server")]
    pub fn is_about_this_machine(&self) -> bool {
        matches!(
            self,
            Command::Serve(_)
                | Command::Token(_)
                | Command::Config(_)
                | Command::Completions(_)
                | Command::Man(_)
                | Command::Doctor(_)
        )
    }
}

pub fn run(cli: Cli, out: &mut Printer) -> Result<ExitStatus> {
    run_within(cli, CommandScope::Free, out)
}

/// Runs a command that must not reach further than this.
pub fn run_within(cli: Cli, scope: CommandScope, out: &mut Printer) -> Result<ExitStatus> {
    let rules = cli.command.rule_args();
    let vault = cli.global.vault.as_deref();
    let done = act(&cli, rules, &scope, out);
    let done = match scope {
        CommandScope::Free => done.map_err(|error| missing::explained(error, out, &cli.global)),
        // Programs in a sandbox learn nothing about directories of the host.
        CommandScope::OwnVault(_) => done,
    };
    done.map_err(|error| denied::with_flags(error, rules, vault))
}

fn act(cli: &Cli, rules: Option<&RuleArgs>, scope: &CommandScope, out: &mut Printer) -> Result<ExitStatus> {
    #[cfg(feature = "server")]
    if let CommandScope::Free = scope
        && let Some(server) = remote::chosen(&cli.global, &cli.command)
    {
        return remote::run(&server, &cli.global, out);
    }
    let context = |out| Context::load(out, &cli.global, rules).map(|context| context.within(scope));
    match &cli.command {
        Command::Vault(command) => vault::run(&mut context(out)?, command),
        Command::Image(command) => image::run(&mut context(out)?, command),
        Command::Ls(args) => ls::run(&mut context(out)?, args),
        Command::Cat(args) => cat::run(&mut context(out)?, args),
        Command::Write(args) => write::run(&mut context(out)?, args),
        Command::Mkdir(args) => mkdir::run(&mut context(out)?, args),
        Command::Cp(args) => cp::run(&mut context(out)?, args),
        Command::Mv(args) => mv::run(&mut context(out)?, args),
        Command::Rm(args) => rm::run(&mut context(out)?, args),
        Command::Ln(args) => ln::run(&mut context(out)?, args),
        Command::Chmod(args) => chmod::run(&mut context(out)?, args),
        Command::Touch(args) => touch::run(&mut context(out)?, args),
        Command::Stat(args) => stat::run(&mut context(out)?, args),
        Command::Tree(args) => tree::run(&mut context(out)?, args),
        Command::Label(command) => label::run(&mut context(out)?, command),
        Command::Rules(command) => rules::run(&mut context(out)?, command),
        Command::Import(args) => import::run(&mut context(out)?, args),
        Command::Export(args) => export::run(&mut context(out)?, args),
        Command::Checkpoint(command) => checkpoint::run(&mut context(out)?, command),
        Command::Log(args) => log::run(&mut context(out)?, args),
        Command::Diff(args) => diff::run(&mut context(out)?, args),
        Command::Checkout(args) => checkout::run(&mut context(out)?, args),
        Command::Revert(args) => revert::run(&mut context(out)?, args),
        Command::Undo(args) => undo::run(&mut context(out)?, args),
        Command::Redo(args) => redo::run(&mut context(out)?, args),
        Command::Project(command) => project::run(&mut context(out)?, command),
        Command::Status(args) => status::run(&mut context(out)?, args),
        Command::Tasks(args) => tasks::run(&mut context(out)?, args),
        Command::Task(command) => task::run(&mut context(out)?, command),
        Command::Apply(args) => apply::run(&mut context(out)?, args),
        Command::Discard(args) => discard::run(&mut context(out)?, args),
        Command::Sync(args) => sync::run(&mut context(out)?, args),
        Command::Fork(args) => fork::run(&mut context(out)?, args),
        Command::Compare(args) => compare::run(&mut context(out)?, args),
        #[cfg(feature = "review")]
        Command::Review(args) => review::run(&mut context(out)?, args),
        Command::Setup(args) => setup::run(&mut context(out)?, args),
        Command::Workspace(command) => workspace::run(&mut context(out)?, command),
        Command::Merge(args) => merge::run(&mut context(out)?, args),
        Command::Conflicts(args) => conflicts::run(&mut context(out)?, args),
        Command::Resolve(args) => resolve::run(&mut context(out)?, args),
        Command::Grep(args) => grep::run(&mut context(out)?, args),
        Command::Find(args) => find::run(&mut context(out)?, args),
        Command::Search(args) => search::run(&mut context(out)?, args),
        Command::Profiles(command) => profiles::run(&mut context(out)?, command),
        Command::Run(args) => run::run(&mut context(out)?, args),
        Command::Exec(args) => exec::run(&mut context(out)?, args),
        Command::Session(command) => session::run(&mut context(out)?, command),
        Command::Proxy(proxy::ProxyCommand::Exec(args)) => exec::run(&mut context(out)?, args),
        Command::Approvals(command) => approvals::run(&mut context(out)?, command),
        Command::Policy(command) => policy::run(&mut context(out)?, command),
        Command::Mcp(args) => mcp::run(&mut context(out)?, args),
        #[cfg(feature = "server")]
        Command::Serve(args) => serve::run(&mut context(out)?, args),
        #[cfg(feature = "server")]
        Command::Token(command) => token::run(&mut context(out)?, command),
        #[cfg(feature = "server")]
        Command::Sandbox(command) => {
            let context = context(out)?;
            let home = context.home()?.to_owned();
            remote::run_here(&home, command, context.out)
        }
        Command::Hook(command) => hook::run(&mut context(out)?, command),
        Command::Quickstart(args) => quickstart::run(&mut context(out)?, args),
        Command::Mount(args) => mount::run(&mut context(out)?, args),
        Command::Unmount(args) => unmount::run(&mut context(out)?, args),
        Command::Mounts(args) => mounts::run(&mut context(out)?, args),
        Command::Doctor(args) => doctor::run(&mut context(out)?, args),
        Command::Stats(args) => stats::run(&mut context(out)?, args),
        Command::Quota(command) => quota::run(&mut context(out)?, command),
        Command::Audit(args) => audit::run(&mut context(out)?, args),
        Command::Gc(args) => gc::run(&mut context(out)?, args),
        Command::Prune(args) => prune::run(&mut context(out)?, args),
        Command::Fsck(args) => fsck::run(&mut context(out)?, args),
        Command::Config(command) => config::run(&mut context(out)?, command),
        Command::Completions(args) => completions::run(out, args),
        Command::Man(args) => man::run(out, args),
    }
}
