use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use avfs_core::Timestamp;
use avfs_exec::Network;
use avfs_exec::classify::{Command, classify};
use avfs_exec::policy::{Policy, PrefixRule};
use avfs_tree::TreeClock;

use super::asking::{ApprovalQuestion, Standing};
use super::*;
use crate::error::ApprovalError;
use crate::exec::RunSpec;
use crate::{Error, Store, StoreOptions, Vault, VaultName};

/// Seconds since 1970 that a test moves on.
#[derive(Default)]
struct Hand(AtomicU64);

impl TreeClock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(i128::from(self.0.load(Ordering::SeqCst)) * 1_000_000_000)
    }
}

struct House {
    clock: Arc<Hand>,
    vault: Vault,
}

impl House {
    fn new() -> House {
        let clock = Arc::new(Hand::default());
        let store = Store::in_memory_with(StoreOptions {
            clock: clock.clone(),
            ..StoreOptions::default()
        });
        House {
            clock,
            vault: store.create_vault(&VaultName::new("web").unwrap()).unwrap(),
        }
    }

    fn pass(&self, seconds: u64) {
        self.clock.0.fetch_add(seconds, Ordering::SeqCst);
    }

    fn binding(&self, line: &str) -> Binding {
        let request = RunSpec::new(Command::Shell(line.to_owned()));
        let git = FoundProgram::Installed(b"/usr/bin/git"[..].into());
        let programs = vec![NamedProgram {
            name: "git".to_owned(),
            found: git,
        }];
        let meaning = CommandMeaning {
            programs,
            searched: Vec::new(),
        };
        Binding::of(
            &request,
            self.vault.id(),
            Path::new("/workspace"),
            meaning,
            self.vault.head().unwrap(),
        )
    }

    fn standing(&self, line: &str) -> Standing {
        let (binding, found) = (self.binding(line), classify(&Command::Shell(line.to_owned())));
        let rules = Policy::built_in()
            .rules_to_save(&found)
            .iter()
            .map(PrefixRule::to_toml)
            .collect();
        let question = ApprovalQuestion {
            binding: &binding,
            run: "r1",
            reason: "why",
            rules,
            stdin: Some(b"in"),
        };
        self.vault.approvals().standing(&question).unwrap()
    }

    #[track_caller]
    fn pending(&self, line: &str) -> Approval {
        match self.standing(line) {
            Standing::Pending(approval) => approval,
            other => panic!("{other:?}"),
        }
    }

    fn store(&self) -> &Store {
        self.vault.store()
    }

    fn change(&self) {
        let open = self.vault.begin().unwrap();
        open.write_bytes(&avfs_core::TreePath::parse(b"/a").unwrap(), b"x")
            .unwrap();
        open.commit("write", "/a").unwrap();
    }

    /// The actions of the audit log that are about approvals.
    fn audited(&self) -> Vec<String> {
        self.vault.verify_audit(None).unwrap();
        let entries = self.vault.audit(0, 1000).unwrap();
        entries
            .into_iter()
            .map(|entry| entry.action)
            .filter(|action| action.starts_with("approval"))
            .collect()
    }
}

const LINE: &str = "git push origin main";

#[test]
fn a_request_is_asked_for_once_and_used_once() {
    let house = House::new();
    let asked = house.pending(LINE);
    assert_eq!(house.pending(LINE).id, asked.id);
    house.store().allow(&asked.id, &Allowance::Once).unwrap();
    assert!(matches!(house.standing(LINE), Standing::Allowed(_)));
    let binding = house.binding(LINE);
    assert!(
        house
            .vault
            .approvals()
            .use_approval(&asked.id, &binding, "r2")
            .unwrap()
    );
    assert!(
        !house
            .vault
            .approvals()
            .use_approval(&asked.id, &binding, "r3")
            .unwrap()
    );
    let again = house.pending(LINE);
    assert_ne!(again.id, asked.id);
    assert_eq!(again.earlier.unwrap().changed, Vec::<String>::new());
    assert_eq!(
        house.audited(),
        [
            "approval-request",
            "approval-allow",
            "approval-use",
            "approval-request"
        ]
    );
}

#[test]
fn only_one_of_many_concurrent_uses_of_an_approval_succeeds() {
    let house = House::new();
    let asked = house.pending(LINE);
    house.store().allow(&asked.id, &Allowance::Once).unwrap();
    let (binding, start) = (house.binding(LINE), Barrier::new(8));
    let got = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..8)
            .map(|number| {
                let (vault, id, binding, start) = (&house.vault, &asked.id, &binding, &start);
                scope.spawn(move || {
                    start.wait();
                    vault
                        .approvals()
                        .use_approval(id, binding, &format!("r{number}"))
                        .unwrap()
                })
            })
            .collect();
        tries
            .into_iter()
            .map(|tried| tried.join().unwrap())
            .filter(|got| *got)
            .count()
    });
    assert_eq!(got, 1);
}

#[test]
fn an_answer_for_once_does_not_hold_for_another_state_and_one_for_a_session_does() {
    let house = House::new();
    let once = house.pending(LINE);
    house.store().allow(&once.id, &Allowance::Once).unwrap();
    house.change();
    let again = house.pending(LINE);
    assert_eq!(again.earlier.as_ref().unwrap().changed, ["head"]);
    let replaced = house.store().approval(&once.id).unwrap().state;
    assert_eq!(
        replaced,
        ApprovalState::Replaced {
            with: again.id.clone()
        }
    );
    house.store().allow(&again.id, &Allowance::Session).unwrap();
    house.change();
    assert!(matches!(house.standing(LINE), Standing::Allowed(_)));
    for run in ["r2", "r3"] {
        assert!(
            house
                .vault
                .approvals()
                .use_approval(&again.id, &house.binding(LINE), run)
                .unwrap()
        );
    }
    house.pass(SESSION_SECONDS);
    assert!(
        !house
            .vault
            .approvals()
            .use_approval(&again.id, &house.binding(LINE), "r4")
            .unwrap()
    );
    house.pending(LINE);
}

#[test]
fn request_without_an_answer_expires() {
    let house = House::new();
    let asked = house.pending(LINE);
    house.pass(PENDING_SECONDS - 1);
    assert_eq!(
        house.store().approval(&asked.id).unwrap().state,
        ApprovalState::Pending
    );
    house.pass(1);
    let all = house.store().approvals().list().unwrap();
    assert_eq!(
        all.iter()
            .map(|approval| approval.state.as_str())
            .collect::<Vec<_>>(),
        ["expired"]
    );
    assert_eq!(house.audited(), ["approval-request", "approval-expire"]);
    let refused = house.store().allow(&asked.id, &Allowance::Once).unwrap_err();
    assert_eq!(refused.code(), "approval-expired");
    assert_ne!(house.pending(LINE).id, asked.id);
}

#[test]
fn unused_answer_expires_too() {
    let house = House::new();
    let asked = house.pending(LINE);
    house.store().allow(&asked.id, &Allowance::Once).unwrap();
    house.pass(PENDING_SECONDS);
    assert!(
        !house
            .vault
            .approvals()
            .use_approval(&asked.id, &house.binding(LINE), "r2")
            .unwrap()
    );
    house.pending(LINE);
    assert_eq!(
        house.store().approval(&asked.id).unwrap().state,
        ApprovalState::Expired
    );
}

#[test]
fn a_denial_holds_for_the_same_request_and_is_final() {
    let house = House::new();
    let asked = house.pending(LINE);
    house.store().deny(&asked.id, Some("not today")).unwrap();
    assert!(matches!(house.standing(LINE), Standing::Denied(_)));
    for refused in [
        house.store().allow(&asked.id, &Allowance::Once).map(drop),
        house.store().deny(&asked.id, None).map(drop),
    ] {
        assert_eq!(refused.unwrap_err().code(), "approval-decided");
    }
    house.pass(PENDING_SECONDS);
    assert_ne!(house.pending(LINE).id, asked.id);
}

#[test]
fn unused_permission_can_be_withdrawn() {
    let house = House::new();
    let asked = house.pending(LINE);
    house.store().allow(&asked.id, &Allowance::Session).unwrap();
    let twice = house.store().allow(&asked.id, &Allowance::Once).unwrap_err();
    assert_eq!(twice.code(), "approval-decided");
    house.store().deny(&asked.id, None).unwrap();
    assert!(
        !house
            .vault
            .approvals()
            .use_approval(&asked.id, &house.binding(LINE), "r2")
            .unwrap()
    );
}

fn always(edits: &[&str]) -> Allowance {
    Allowance::Always {
        edits: edits.iter().map(|edit| (*edit).to_owned()).collect(),
        place: SavePlace::Vault,
    }
}

#[test]
fn a_rule_is_saved_for_the_network_that_was_asked_for_and_can_be_forgotten() {
    let house = House::new();
    let asked = house.pending(LINE);
    let wide = house.store().allow(&asked.id, &always(&["git"])).unwrap_err();
    assert_eq!(wide.code(), "rule-too-wide");
    house.store().allow(&asked.id, &always(&["git push"])).unwrap();
    let holding = |network: &Network| {
        let found = classify(&Command::Shell(LINE.to_owned()));
        saved::holding(
            &house.vault.approvals().saved_rules().unwrap(),
            network,
            &house.binding(LINE),
            &found,
        )
        .unwrap()
    };
    assert_eq!(holding(&Network::None)[0].prefix, ["git", "push"]);
    assert!(holding(&Network::Host).is_empty());
    assert!(
        !house
            .vault
            .approvals()
            .use_approval(&asked.id, &house.binding(LINE), "r2")
            .unwrap()
    );
    assert_eq!(
        house.vault.approvals().forget_saved_rule(2).unwrap_err().code(),
        "unknown-rule"
    );
    house.vault.approvals().forget_saved_rule(1).unwrap();
    assert!(holding(&Network::None).is_empty());
    assert_eq!(
        house.audited(),
        ["approval-request", "approval-allow", "approval-forget"]
    );
}

#[test]
fn saved_rule_holds_for_what_was_shown_and_one_of_an_older_version_for_nothing() {
    let house = House::new();
    let asked = house.pending(LINE);
    house.store().allow(&asked.id, &always(&[])).unwrap();
    let rules = house.vault.approvals().saved_rules().unwrap();
    let own = house.binding(LINE);
    let holds = |rules: &[SavedRule], binding: &Binding| {
        let found = classify(&binding.command.to_command());
        !saved::holding(rules, &Network::None, binding, &found)
            .unwrap()
            .is_empty()
    };
    assert!(holds(&rules, &own));
    assert!(holds(
        &rules,
        &Binding {
            cwd: b"/workspace/src"[..].into(),
            ..own.clone()
        }
    ));
    let found_at = |found: FoundProgram| Binding {
        programs: vec![NamedProgram {
            name: "git".to_owned(),
            found,
        }],
        ..own.clone()
    };
    for other in [
        Binding {
            programs: Vec::new(),
            ..own.clone()
        },
        found_at(FoundProgram::Installed(b"/usr/local/bin/git"[..].into())),
        found_at(FoundProgram::InVault(b"/workspace/bin/git"[..].into())),
        Binding {
            searched: vec![b"/workspace/bin"[..].into()],
            ..own.clone()
        },
        Binding {
            principal: Some("bob".to_owned()),
            ..own.clone()
        },
        Binding {
            rules: Some(Vec::new()),
            ..own.clone()
        },
        Binding {
            isolation: "landlock".to_owned(),
            ..own.clone()
        },
        Binding {
            inherited: vec![(b"CC"[..].into(), b"x"[..].into())],
            ..own.clone()
        },
        house.binding("GIT_DIR=x; git push origin main"),
        house.binding("git push origin main < x"),
    ] {
        assert!(!holds(&rules, &other), "{other:?}");
    }
    let mut older = serde_json::to_value(&rules).unwrap();
    older[0].as_object_mut().unwrap().remove("holds_for");
    let older: Vec<SavedRule> = serde_json::from_value(older).unwrap();
    assert!(!holds(&older, &own));
}

#[test]
fn a_command_that_is_not_known_before_it_runs_cannot_be_allowed_for_always() {
    let house = House::new();
    let asked = house.pending("curl \"$URL\"");
    let refused = house.store().allow(&asked.id, &always(&[])).unwrap_err();
    assert_eq!(refused.code(), "nothing-to-save");
    assert_eq!(
        house.store().approval(&asked.id).unwrap().state,
        ApprovalState::Pending
    );
}

#[test]
fn standard_input_is_kept_only_while_a_request_waits() {
    let house = House::new();
    let asked = house.pending(LINE);
    let kept = || {
        house
            .store()
            .refs()
            .read(&super::record::keys::input(&asked.id))
            .unwrap()
    };
    assert_eq!(kept().as_deref(), Some(&b"in"[..]));
    house.store().deny(&asked.id, None).unwrap();
    assert_eq!(kept(), None);
}

#[test]
fn invalid_approval_id_is_unknown() {
    let house = House::new();
    for text in [
        "",
        "a",
        "a1",
        "a1-",
        "a1-zzzzzzzz",
        "b1-00000000",
        "a1-000000000",
        "\u{1b}[2J",
    ] {
        assert!(
            matches!(
                ApprovalId::parse(text),
                Err(Error::Approval(ApprovalError::Unknown { .. }))
            ),
            "{text:?}"
        );
    }
    let unknown = house
        .store()
        .approval(&ApprovalId::parse("a1-00000000").unwrap())
        .unwrap_err();
    assert_eq!(unknown.code(), "unknown-approval");
}

#[test]
fn approvals_go_with_their_vault() {
    let house = House::new();
    let asked = house.pending(LINE);
    house.store().allow(&asked.id, &always(&[])).unwrap();
    house.pending("curl https://x");
    let store = house.store().clone();
    house.vault.clone().delete(true).unwrap();
    assert!(store.approvals().list().unwrap().is_empty());
    let left = store
        .refs()
        .scan(&avfs_store::RefRange::prefix("approval"))
        .unwrap();
    assert!(left.is_empty(), "{left:?}");
}
