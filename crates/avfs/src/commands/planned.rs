//! Commands whose arguments are settled and whose work is not done yet. They are read in tests only: a user
//! never meets a command that does nothing.
//!
//! To finish one: give its module a `run`, move its `mod` line and its variant to those of the real commands,
//! and call `run` from [`super::run`].

use clap::{CommandFactory, Parser};

use super::*;

#[derive(Debug, Parser)]
#[command(name = "avfs")]
struct Planned {
    #[command(flatten)]
    global: crate::cli::GlobalArgs,
    #[command(subcommand)]
    command: PlannedCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PlannedCommand {
    #[command(subcommand)]
    Vault(PlannedVaultCommand),
    #[command(subcommand)]
    Checkpoint(checkpoint::CheckpointCommand),
    Log(log::LogArgs),
    Diff(diff::DiffArgs),
    Checkout(checkout::CheckoutArgs),
    Revert(revert::RevertArgs),
    Undo(undo::UndoArgs),
    Grep(grep::GrepArgs),
    Find(find::FindArgs),
    Search(search::SearchArgs),
    Stats(stats::StatsArgs),
    #[command(subcommand)]
    Quota(quota::QuotaCommand),
    Audit(audit::AuditArgs),
    Gc(gc::GcArgs),
    Prune(prune::PruneArgs),
    Fsck(fsck::FsckArgs),
}

#[derive(Debug, clap::Subcommand)]
enum PlannedVaultCommand {
    Export(vault::export::ExportArgs),
    Import(vault::import::ImportArgs),
}

#[test]
fn the_planned_definitions_are_sound() {
    Planned::command().debug_assert();
}

#[test]
fn every_planned_command_has_examples() {
    fn check(command: &clap::Command) {
        if command.get_subcommands().next().is_none() {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.contains("Examples:\n  "), "{}", command.get_name());
        }
        command.get_subcommands().for_each(check);
    }
    check(&Planned::command());
}

#[track_caller]
fn check(line: &str, accepted: bool) {
    let read = Planned::try_parse_from(line.split(' '));
    assert_eq!(read.is_ok(), accepted, "{line}: {read:?}");
}

#[test]
fn planned_lines_are_read_as_users_write_them() {
    for line in [
        "avfs checkpoint save -m text",
        "avfs checkpoint restore v1 --path a --path b",
        "avfs log --graph",
        "avfs diff v1 @ src --stat",
        "avfs find --name *.rs --type f --size -10k --newer 2d",
        "avfs grep -inl -C 2 pattern src -g *.rs",
        "avfs quota set --bytes 2G",
        "avfs audit --follow",
        "avfs audit verify --expect 12",
    ] {
        check(line, true);
    }
}

#[test]
fn planned_lines_with_a_mistake_are_refused() {
    for line in [
        "avfs diff --stat --patch",
        "avfs find --size big",
        "avfs find --newer soon",
        "avfs quota set",
        "avfs log --graph src",
    ] {
        check(line, false);
    }
}
