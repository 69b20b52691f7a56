use std::path::Path;

use super::*;
use crate::capability::Capabilities;
use crate::classify::{Command, classify};
use crate::network::NetworkChoice;
use crate::plan::Network;

fn policy(text: &str) -> Policy {
    Policy::parse(Path::new("policy.toml"), text).unwrap()
}

fn shell(command: &str) -> crate::Classification {
    classify(&Command::Shell(command.to_owned()))
}

#[track_caller]
fn check(policy: &Policy, command: &str, action: PolicyAction, rule: &str) {
    let decision = policy.decide(&shell(command), true);
    assert_eq!(
        (decision.action, decision.rule.as_str()),
        (action, rule),
        "{command}: {}",
        decision.reason
    );
}

#[track_caller]
fn check_error(text: &str, message: &str, hint: &str) {
    let error = Policy::parse(Path::new("policy.toml"), text).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert_eq!(error.hint().unwrap_or_default(), hint);
}

#[test]
fn the_built_in_policy_asks_only_for_what_leaves_the_tree() {
    let policy = Policy::built_in();
    check(&policy, "ls", PolicyAction::Allow, "read_only (built-in)");
    check(
        &policy,
        "touch a",
        PolicyAction::AllowWithCheckpoint,
        "mutating (built-in)",
    );
    check(
        &policy,
        "rm -rf a",
        PolicyAction::AllowWithCheckpoint,
        "destructive (built-in)",
    );
    check(
        &policy,
        "curl https://x",
        PolicyAction::RequireApproval,
        "networked (built-in)",
    );
    check(
        &policy,
        "ls && sudo ls",
        PolicyAction::RequireApproval,
        "host_escape_risk (built-in)",
    );
    check(&policy, "", PolicyAction::Allow, "read_only (built-in)");
}

#[test]
fn without_a_person_to_ask_an_approval_is_a_denial() {
    let decision = Policy::built_in().decide(&shell("git push"), false);
    assert_eq!(decision.action, PolicyAction::Deny);
    assert_eq!(decision.rule, "networked (built-in)");
    assert!(
        decision.reason.ends_with("there is no person to give it"),
        "{}",
        decision.reason
    );
}

#[test]
fn classes_of_a_file_replace_those_built_in_and_others_stay() {
    let policy = policy("[classes]\nnetworked = \"allow\"\n\ndestructive = \"deny\"\n");
    check(
        &policy,
        "curl https://x",
        PolicyAction::AllowWithCheckpoint,
        "mutating (built-in)",
    );
    check(&policy, "rm a", PolicyAction::Deny, "destructive (policy.toml:4)");
    check(
        &policy,
        "touch a",
        PolicyAction::AllowWithCheckpoint,
        "mutating (built-in)",
    );
}

#[test]
fn the_reason_is_that_of_the_part_whose_words_decide() {
    for line in ["sh -c 'echo y > new.txt'", "ls; touch a", "touch a; ls"] {
        let decision = Policy::built_in().decide(&shell(line), true);
        assert_eq!(decision.rule, "mutating (built-in)", "{line}");
        assert!(
            !decision.reason.contains("changes nothing"),
            "{line}: {}",
            decision.reason
        );
    }
}

#[test]
fn the_strictest_of_all_parts_wins() {
    let policy = policy("[classes]\ndestructive = \"deny\"\n");
    check(
        &policy,
        "curl https://x; rm a; ls",
        PolicyAction::Deny,
        "destructive (policy.toml:2)",
    );
}

#[test]
fn a_rule_replaces_the_class_of_its_own_part_only() {
    let policy = policy("[[rules]]\nprefix = [\"git\", \"push\"]\naction = \"allow\"\n");
    check(
        &policy,
        "git push origin main",
        PolicyAction::Allow,
        "rule for 'git push' (policy.toml:1)",
    );
    check(
        &policy,
        "git push && curl https://x",
        PolicyAction::RequireApproval,
        "networked (built-in)",
    );
    check(
        &policy,
        "git push > log",
        PolicyAction::AllowWithCheckpoint,
        "mutating (built-in)",
    );
    // `timeout` has no rule, and its workspace is writable.
    check(
        &policy,
        "timeout 5 git push",
        PolicyAction::AllowWithCheckpoint,
        "mutating (built-in)",
    );
    check(
        &policy,
        "sudo git push",
        PolicyAction::RequireApproval,
        "host_escape_risk (built-in)",
    );
}

#[test]
fn a_milder_rule_needs_the_very_words_and_a_stricter_one_the_names() {
    let allow = policy("[[rules]]\nprefix = [\"git\", \"push\"]\naction = \"allow\"\n");
    for command in [
        "git -C x push",
        "/usr/bin/git push",
        "git $x push",
        "git \"$x\"",
        "git p\"$x\"",
        "$g push",
    ] {
        assert_eq!(
            allow.decide(&shell(command), true).action,
            PolicyAction::RequireApproval,
            "{command}"
        );
    }
    let deny = policy("[[rules]]\nprefix = [\"git\", \"push\"]\naction = \"deny\"\nreason = \"no\"\n");
    for command in [
        "git push",
        "git -C x push",
        "/usr/bin/git push -f",
        "env A=1 git push",
        "g\"i\"t push",
    ] {
        assert_eq!(
            deny.decide(&shell(command), true).action,
            PolicyAction::Deny,
            "{command}"
        );
    }
}

#[test]
fn no_rule_lifts_what_could_not_be_read() {
    let policy = policy("[[rules]]\nprefix = [\"echo\"]\naction = \"allow\"\n");
    for command in [
        "echo $(( a[$(id)] ))",
        "echo ${x@P}",
        "echo 'unclosed",
        "echo a\rb",
        "(echo a",
    ] {
        assert_eq!(
            policy.decide(&shell(command), true).action,
            PolicyAction::RequireApproval,
            "{command}"
        );
    }
}

#[test]
fn of_rules_that_match_the_strictest_wins_with_its_words() {
    let policy = policy(
        "[[rules]]\nprefix = [\"npm\"]\naction = \"allow\"\n\n[[rules]]\nprefix = [\"npm\", \"publish\"]\naction = \
         \"deny\"\nreason = \"releases are made by CI\"\nalternative = \"push a tag\"\n",
    );
    let decision = policy.decide(&shell("npm publish"), true);
    assert_eq!(decision.action, PolicyAction::Deny);
    assert_eq!(decision.reason, "releases are made by CI");
    assert_eq!(decision.alternative.as_deref(), Some("push a tag"));
    check(
        &policy,
        "npm install x",
        PolicyAction::Allow,
        "rule for 'npm' (policy.toml:1)",
    );
}

#[test]
fn a_rule_can_be_limited_to_whole_commands_and_to_classes() {
    let exact = policy("[[rules]]\nprefix = [\"git\", \"push\"]\nexact = true\naction = \"allow\"\n");
    check(
        &exact,
        "git push",
        PolicyAction::Allow,
        "rule for exactly 'git push' (policy.toml:1)",
    );
    check(
        &exact,
        "git push origin",
        PolicyAction::RequireApproval,
        "networked (built-in)",
    );
    let networked =
        policy("[[rules]]\nprefix = [\"git\", \"push\"]\nclasses = [\"networked\"]\naction = \"allow\"\n");
    check(
        &networked,
        "git push origin",
        PolicyAction::Allow,
        "rule for 'git push' (policy.toml:1)",
    );
    check(
        &networked,
        "git push -f",
        PolicyAction::RequireApproval,
        "networked (built-in)",
    );
}

#[test]
fn a_decision_is_data_for_programs() {
    let decision = Policy::built_in().decide(&shell("git pull"), true);
    let json = serde_json::to_value(&decision).unwrap();
    assert_eq!(json["action"], "require_approval");
    assert_eq!(json["class"], "networked");
    assert_eq!(json["classes"], serde_json::json!(["mutating", "networked"]));
    assert!(json.get("alternative").is_none());
}

#[test]
fn unknown_setting_is_refused_with_its_place() {
    check_error(
        "[clases]\nread_only = \"allow\"",
        "policy.toml:1:2: unknown key 'clases'",
        "did you mean 'classes'?",
    );
    check_error(
        "[classes]\nreadonly = \"allow\"",
        "policy.toml:2:1: unknown class 'readonly'",
        "did you mean 'read_only'?",
    );
    check_error(
        "[classes]\nread_only = \"permit\"",
        "policy.toml:2:13: unknown action 'permit'",
        "the actions are allow, checkpoint, ask, deny",
    );
    check_error(
        "[classes]\nread_only = 1",
        "policy.toml:2:13: 'the action of a class' should be text in quotes",
        "",
    );
    let keys = "the keys are prefix, action, exact, classes, network, publish, reason, alternative";
    check_error(
        "[[rules]]\nprefix=[\"a\"]\naction=\"ask\"\nwhy=\"x\"",
        "policy.toml:4:1: unknown key 'why'",
        keys,
    );
    check_error(
        "[[rules]]\naction=\"ask\"",
        "policy.toml:1:1: 'prefix' is missing",
        "",
    );
    check_error(
        "[[rules]]\nprefix=[\"a\"]",
        "policy.toml:1:1: 'action' is missing",
        "",
    );
    check_error(
        "[[rules]]\nprefix=[]\naction=\"ask\"",
        "policy.toml:2:8: a rule needs at least one word",
        "to say what happens to every command, use [classes]",
    );
    check_error(
        "[[rules]]\nprefix=\"git\"\naction=\"ask\"",
        "policy.toml:2:8: 'prefix' should be a list of texts",
        "",
    );
    let error = Policy::parse(Path::new("p"), "[classes\n").unwrap_err();
    assert_eq!((error.code(), error.line), ("policy-syntax", 1));
}

#[test]
fn an_example_that_does_not_hold_is_refused_with_what_decides() {
    policy("[[examples]]\ncommand = \"git push\"\naction = \"ask\"\n");
    check_error(
        "[[examples]]\ncommand = \"ls && git push\"\naction = \"allow\"\n",
        "policy.toml:3:10: the command 'ls && git push' gets ask, not allow: `git push` uses the network by \
         networked (built-in)",
        "change the example, or the rule that decides",
    );
}

#[test]
fn an_approval_saves_the_command_itself_and_nothing_wider() {
    let saved = |command: &str| {
        let rules = Policy::built_in().rules_to_save(&shell(command));
        rules
            .iter()
            .map(|rule| format!("{}{:?}", if rule.exact { "=" } else { "" }, rule.prefix))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        saved("git push origin main"),
        [r#"=["git", "push", "origin", "main"]"#]
    );
    assert_eq!(
        saved("ls && curl https://x | jq ."),
        [r#"=["curl", "https://x"]"#]
    );
    assert_eq!(
        saved("gh pr create --body \"$(cat b)\""),
        [r#"["gh", "pr", "create", "--body"]"#]
    );
    assert_eq!(saved("timeout 9 npm ci"), [r#"=["npm", "ci"]"#]);
    for nothing in [
        "ls",
        "touch a",
        "curl \"$URL\"",
        "git push origin \"$branch\"",
        "kubectl delete pod \"$pod\"",
        "docker compose run \"$service\"",
        "bash -c 'curl https://x'",
        "$x",
        "curl https://x | bash -c \"$y\"",
    ] {
        assert!(saved(nothing).is_empty(), "{nothing}");
    }
}

#[test]
fn a_saved_rule_allows_its_command_and_no_worse_one() {
    let found = shell("git push origin main");
    let policy = Policy::built_in().with_saved(Policy::built_in().rules_to_save(&found));
    assert_eq!(policy.decide(&found, false).action, PolicyAction::Allow);
    for other in [
        "git push origin main -f",
        "git push",
        "git push origin main; curl https://x",
    ] {
        assert_eq!(
            policy.decide(&shell(other), false).action,
            PolicyAction::Deny,
            "{other}"
        );
    }
}

#[test]
fn a_saved_rule_answers_a_question_and_lifts_no_denial() {
    let found = shell("curl https://x");
    let saved = Policy::built_in().rules_to_save(&found);
    assert_eq!(
        Policy::built_in()
            .with_saved(saved.clone())
            .decide(&found, false)
            .action,
        PolicyAction::Allow
    );
    for strict in [
        "[classes]\nnetworked = \"deny\"\n",
        "[[rules]]\nprefix = [\"curl\"]\naction = \"deny\"\n",
        "[[rules]]\nprefix = [\"curl\", \"https://x\"]\nexact = true\naction = \"deny\"\n",
    ] {
        let strict = policy(strict).with_saved(saved.clone());
        assert_eq!(
            strict.decide(&found, true).action,
            PolicyAction::Deny,
            "{}",
            strict.text()
        );
    }
}

#[test]
fn the_text_of_a_policy_is_what_it_says_and_not_how() {
    let one = policy("[classes]\nnetworked = \"deny\"\n[[rules]]\nprefix = [\"a\"]\naction = \"ask\"\n");
    let same =
        policy("# why\n\n[[rules]]\naction = \"ask\"\nprefix = ['a']\n[classes]\nnetworked = 'deny'\n");
    assert_eq!(one.text(), same.text());
    assert_eq!(policy(&one.text()).text(), one.text());
    assert_ne!(one.text(), Policy::built_in().text());
}

#[test]
fn rules_are_added_to_a_file_without_touching_the_rest() {
    let text =
        "# mine\n[classes]\nread_only = \"allow\" # fine\n\n[[rules]]\nprefix = [\"a\"]\naction = \"deny\"";
    let rules = Policy::built_in().rules_to_save(&shell("curl 'https://x/\"q\\' -d 'two\nlines'"));
    let whole = append_rules(Path::new("policy.toml"), text, &rules).unwrap();
    assert!(whole.starts_with(text), "{whole}");
    let again = policy(&whole);
    assert_eq!(again.rules()[1].prefix, rules[0].prefix);
    assert_eq!(again.rules()[1].classes, rules[0].classes);
    assert_eq!(
        append_rules(Path::new("p"), "", &rules).unwrap(),
        rules[0].to_toml()
    );
    assert!(append_rules(Path::new("p"), "rules = []", &rules).is_err());
}

/// A run that can write and has the network that `--net` would request.
fn asking_for(net: &str) -> Capabilities {
    let choices: Vec<NetworkChoice> = [net.parse().unwrap()].into();
    Capabilities {
        write: true,
        network: NetworkChoice::all(&choices, Network::None),
        published: Vec::new(),
    }
}

#[track_caller]
fn check_net(policy: &Policy, net: &str, command: &str, action: PolicyAction, rule: &str) {
    let found = shell(command);
    let asked = asking_for(net).narrowed_by(found.classes);
    let decision = policy.decide_for(&found, &asked, true);
    assert_eq!(
        (decision.action, decision.rule.as_str()),
        (action, rule),
        "{net} {command}: {}",
        decision.reason
    );
}

#[test]
fn network_is_the_question_whatever_the_words_are() {
    let policy = Policy::built_in();
    let commands = [
        "python3 x.py",
        "touch a",
        "./build.sh",
        "make",
        "true; touch a",
        "cp a b",
        "x=1 env",
    ];
    for command in commands {
        for net in ["host", "a.example", "127.0.0.1:5432", "10.1.0.0/16"] {
            check_net(
                &policy,
                net,
                command,
                PolicyAction::RequireApproval,
                "network (built-in)",
            );
        }
        check_net(
            &policy,
            "none",
            command,
            PolicyAction::AllowWithCheckpoint,
            "mutating (built-in)",
        );
    }
    // A read-only command gets no network, so no approval is needed.
    check_net(
        &policy,
        "host",
        "cat a",
        PolicyAction::Allow,
        "read_only (built-in)",
    );
    let published = Capabilities {
        published: vec!["0.0.0.0:8080:80".parse().unwrap()],
        ..asking_for("none")
    };
    let decision = policy.decide_for(&shell("python3 server.py 80"), &published, true);
    assert_eq!(decision.action, PolicyAction::RequireApproval);
    assert_eq!(decision.reason, "it asks to publish 0.0.0.0:8080:80");
}

#[test]
fn network_question_names_hosts_beside_the_reason_of_the_words() {
    let decision =
        Policy::built_in().decide_for(&shell("curl x"), &asking_for("a.example,b.example:80"), true);
    assert_eq!(decision.rule, "networked (built-in)");
    assert!(
        decision
            .reason
            .ends_with("; it asks to reach a.example, b.example:80"),
        "{}",
        decision.reason
    );
}

#[test]
fn network_section_grants_hosts_and_decides_on_others() {
    let text =
        "[network]\nallow = [\"npm\", \"*.corp.example\"]\npublish = [\"0:5173\"]\nothers = \"deny\"\n";
    let policy = policy(text);
    check_net(
        &policy,
        "+npm",
        "python3 x",
        PolicyAction::AllowWithCheckpoint,
        "mutating (built-in)",
    );
    check_net(
        &policy,
        "+npm",
        "npm ci",
        PolicyAction::AllowWithCheckpoint,
        "network (policy.toml:1)",
    );
    check_net(
        &policy,
        "a.corp.example",
        "python3 x",
        PolicyAction::AllowWithCheckpoint,
        "mutating (built-in)",
    );
    check_net(
        &policy,
        "+npm,+evil.example",
        "npm ci",
        PolicyAction::Deny,
        "network (policy.toml:1)",
    );
    check_net(
        &policy,
        "host",
        "touch a",
        PolicyAction::Deny,
        "network (policy.toml:1)",
    );
    // Without a network, a networked command was granted nothing.
    check_net(
        &policy,
        "none",
        "npm ci",
        PolicyAction::RequireApproval,
        "networked (built-in)",
    );
    let publishing = |text: &str| Capabilities {
        published: vec![text.parse().unwrap()],
        ..asking_for("none")
    };
    let decide = |text: &str| {
        policy
            .decide_for(&shell("npm run dev"), &publishing(text), true)
            .action
    };
    assert_eq!(decide("5173"), PolicyAction::AllowWithCheckpoint);
    assert_eq!(decide("0.0.0.0:5173:5173"), PolicyAction::Deny);
    let stricter = self::policy("[classes]\nnetworked = \"ask\"\n[network]\nallow = [\"host\"]\n");
    check_net(
        &stricter,
        "host",
        "curl x",
        PolicyAction::RequireApproval,
        "networked (policy.toml:2)",
    );
    assert_eq!(
        Policy::parse(Path::new("policy.toml"), &policy.text())
            .unwrap()
            .text(),
        policy.text()
    );
}

#[test]
fn network_of_a_rule_is_granted_if_every_part_has_such_a_rule() {
    let text = "[[rules]]\nprefix = [\"npm\", \"ci\"]\nnetwork = [\"npm\"]\naction = \"allow\"\n";
    let policy = policy(text);
    check_net(
        &policy,
        "+npm",
        "npm ci",
        PolicyAction::Allow,
        "rule for 'npm ci' (policy.toml:1)",
    );
    check_net(
        &policy,
        "+npm,+a.example",
        "npm ci",
        PolicyAction::RequireApproval,
        "network (built-in)",
    );
    for command in [
        "npm ci; python3 x",
        "npm ci && true",
        "cat a; npm ci",
        "npm ci > out; ls",
    ] {
        check_net(
            &policy,
            "+npm",
            command,
            PolicyAction::RequireApproval,
            "network (built-in)",
        );
    }
    let plain = self::policy("[[rules]]\nprefix = [\"npm\", \"ci\"]\naction = \"allow\"\n");
    check_net(
        &plain,
        "+npm",
        "npm ci",
        PolicyAction::RequireApproval,
        "network (built-in)",
    );
}

#[test]
fn saved_rules_grant_the_network_that_was_approved_and_no_other() {
    let found = shell("cd web && python3 x.py");
    let asked = asking_for("a.example");
    let rules = Policy::built_in().rules_to_save_for(&found, &asked);
    assert_eq!(rules.len(), 2, "{rules:?}");
    let policy = Policy::built_in().with_saved(rules.clone());
    assert_eq!(
        policy.decide_for(&found, &asked, false).action,
        PolicyAction::AllowWithCheckpoint
    );
    check_net(
        &policy,
        "a.example",
        "python3 y.py",
        PolicyAction::RequireApproval,
        "network (built-in)",
    );
    check_net(
        &policy,
        "a.example",
        "cd web && python3 x.py; ls",
        PolicyAction::RequireApproval,
        "network (built-in)",
    );
    check_net(
        &policy,
        "b.example",
        "python3 x.py",
        PolicyAction::RequireApproval,
        "network (built-in)",
    );
    let strict = self::policy("[network]\nothers = \"deny\"\n").with_saved(rules);
    assert_eq!(strict.decide_for(&found, &asked, true).action, PolicyAction::Deny);
}

#[test]
fn commands_that_can_write_count_as_writing_whatever_their_class() {
    let policy =
        policy("[classes]\nmutating = \"ask\"\n[[rules]]\nprefix = [\"make\"]\naction = \"allow\"\n");
    let writing = Capabilities {
        write: true,
        ..Capabilities::READING
    };
    let within =
        |command: &str, granted: &Capabilities| policy.decide_within(&shell(command), granted, true).action;
    for command in ["ls", "cat a", "x=1", "", "git diff"] {
        assert_eq!(
            within(command, &writing),
            PolicyAction::RequireApproval,
            "{command}"
        );
        assert_eq!(
            within(command, &Capabilities::READING),
            PolicyAction::Allow,
            "{command}"
        );
    }
    assert_eq!(within("make", &writing), PolicyAction::Allow);
    // The reading part has the capabilities of the writing part.
    check(
        &policy,
        "make && cat a",
        PolicyAction::RequireApproval,
        "mutating (policy.toml:2)",
    );
    check(&policy, "cat a", PolicyAction::Allow, "read_only (built-in)");
}

#[test]
fn sessions_are_asked_for_by_their_network_alone() {
    let policy = policy("[classes]\nmutating = \"ask\"\n[network]\nallow = [\"a.example\"]\n");
    assert_eq!(
        policy.decide_session(&asking_for("none"), true).action,
        PolicyAction::Allow
    );
    assert_eq!(
        policy.decide_session(&asking_for("a.example"), true).action,
        PolicyAction::Allow
    );
    assert_eq!(
        policy.decide_session(&asking_for("host"), true).action,
        PolicyAction::RequireApproval
    );
    assert_eq!(
        policy.decide_session(&asking_for("host"), false).action,
        PolicyAction::Deny
    );
}

#[test]
fn network_grants_that_make_no_sense_are_errors() {
    check_error(
        "[network]\nothers = \"allow\"\n",
        "policy.toml:2:10: 'others' should be ask or deny; allow = [\"host\"] grants every network",
        "",
    );
    check_error(
        "[network]\nallow = [\"http://x\"]\n",
        "policy.toml:2:10: 'allow': \"http://x\" is not a host: expected a block such as 10.1.0.0/16, and :PORT if only one is meant",
        "",
    );
    check_error(
        "[[rules]]\nprefix = [\"x\"]\nnetwork = [\"host\"]\naction = \"deny\"\n",
        "policy.toml:1:1: only a rule that allows can grant a network",
        "use action = \"allow\" or \"checkpoint\"",
    );
}

#[test]
fn saved_network_is_read_back_as_the_same_hosts() {
    let found = shell("python3 x.py");
    let nets = [
        "npm.",
        "host.",
        "none.",
        "npn.",
        "a.example,*.b.example:443,10.1.0.0/16,10.1.0.0/16:80",
        "[::1]:8080,127.0.0.1:5432,localhost:8080,npm:8080",
        "npm",
        "host",
    ];
    for net in nets {
        let asked = asking_for(net);
        let rules = Policy::built_in().rules_to_save_for(&found, &asked);
        let policy = policy(&rules[0].to_toml());
        assert_eq!(
            policy.rules()[0].network.network,
            asked.network,
            "{net}: {}",
            rules[0].to_toml()
        );
        assert!(
            policy.decide_for(&found, &asked, false).action < PolicyAction::RequireApproval,
            "{net}"
        );
    }
}

#[test]
fn network_of_a_rule_is_not_granted_to_lines_that_set_variables_of_programs() {
    let policy = policy("[[rules]]\nprefix = [\"make\"]\nnetwork = [\"host\"]\naction = \"allow\"\n");
    check_net(
        &policy,
        "host",
        "make",
        PolicyAction::Allow,
        "rule for 'make' (policy.toml:1)",
    );
    check_net(
        &policy,
        "host",
        "for i in 1 2; do make; done",
        PolicyAction::Allow,
        "rule for 'make' (policy.toml:1)",
    );
    check_net(
        &policy,
        "host",
        "x=1; make",
        PolicyAction::Allow,
        "rule for 'make' (policy.toml:1)",
    );
    for line in [
        "CC=./x; make",
        "CC=./x make",
        "CI=1; make",
        "CC+=x; make",
        "for CC in ./x; do make; done",
        "((CC = 5)); make",
        "make ${CC:=./x}",
        "npm_config_script_shell=./x; make",
        "http_proxy=x; make",
    ] {
        check_net(
            &policy,
            "host",
            line,
            PolicyAction::RequireApproval,
            "network (built-in)",
        );
    }
}

#[test]
fn effects_of_a_line_on_variables_and_input_are_reported() {
    let sets = |line: &str| shell(line).sets;
    assert_eq!(sets("A=1; b=2; make"), ["A"]);
    assert_eq!(shell("A=1; b=2; make").assigns, ["b"]);
    for line in [
        "export a; make",
        "export a=1",
        "declare -x a=1",
        "readonly -x a",
        "declare -n a=CC",
        "set -a; a=1",
        "set -ea",
        "set -o allexport",
        "set -k",
        "source x",
        ". ./x",
        "read A",
        "printf -v A x",
        "mapfile A",
        "unset A",
        "command export a=1",
        "eval 'A=1'",
        "env A=1 make",
    ] {
        assert!(!sets(line).is_empty(), "{line}");
    }
    for line in [
        "set -euo pipefail; make",
        "read a; make",
        "cd web && make",
        "printf '%s' A",
        "A() { make; }",
    ] {
        assert!(sets(line).is_empty(), "{line}: {:?}", sets(line));
    }
    for (line, feeds) in [
        ("make || true", false),
        ("make > log 2>&1", false),
        ("make | tee log", true),
        ("make |& tee log", true),
        ("make < in", true),
        ("make <<< x", true),
        ("make <<EOF\nx\nEOF", true),
        ("diff <(ls) b", true),
    ] {
        assert_eq!(shell(line).has_input, feeds, "{line}");
    }
}
