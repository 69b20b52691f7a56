use std::path::Path;

use super::*;
use crate::classify::{Command, classify};

fn policy(text: &str) -> Policy {
    Policy::parse(Path::new("policy.toml"), text).unwrap()
}

fn shell(command: &str) -> crate::Classification {
    classify(&Command::Shell(command.to_owned()))
}

#[track_caller]
fn check(policy: &Policy, command: &str, action: Action, rule: &str) {
    let decision = policy.decide(&shell(command), true);
    assert_eq!((decision.action, decision.rule.as_str()), (action, rule), "{command}: {}", decision.reason);
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
    check(&policy, "ls", Action::Allow, "read_only (built-in)");
    check(&policy, "touch a", Action::AllowWithCheckpoint, "mutating (built-in)");
    check(&policy, "rm -rf a", Action::AllowWithCheckpoint, "destructive (built-in)");
    check(&policy, "curl https://x", Action::RequireApproval, "networked (built-in)");
    check(&policy, "ls && sudo ls", Action::RequireApproval, "host_escape_risk (built-in)");
    check(&policy, "", Action::Allow, "read_only (built-in)");
}

#[test]
fn with_nobody_to_ask_an_approval_is_a_denial() {
    let decision = Policy::built_in().decide(&shell("git push"), false);
    assert_eq!(decision.action, Action::Deny);
    assert_eq!(decision.rule, "networked (built-in)");
    assert!(decision.reason.ends_with("nobody is there to give it"), "{}", decision.reason);
}

#[test]
fn classes_of_a_file_replace_those_built_in_and_others_stay() {
    let policy = policy("[classes]\nnetworked = \"allow\"\n\ndestructive = \"deny\"\n");
    check(&policy, "curl https://x", Action::Allow, "networked (policy.toml:2)");
    check(&policy, "rm a", Action::Deny, "destructive (policy.toml:4)");
    check(&policy, "touch a", Action::AllowWithCheckpoint, "mutating (built-in)");
}

#[test]
fn the_strictest_of_all_parts_wins() {
    let policy = policy("[classes]\ndestructive = \"deny\"\n");
    check(&policy, "curl https://x; rm a; ls", Action::Deny, "destructive (policy.toml:2)");
}

#[test]
fn a_rule_replaces_the_class_of_its_own_part_only() {
    let policy = policy("[[rules]]\nprefix = [\"git\", \"push\"]\naction = \"allow\"\n");
    check(&policy, "git push origin main", Action::Allow, "rule for 'git push' (policy.toml:1)");
    check(&policy, "git push && curl https://x", Action::RequireApproval, "networked (built-in)");
    check(&policy, "git push > log", Action::AllowWithCheckpoint, "mutating (built-in)");
    check(&policy, "timeout 5 git push", Action::Allow, "rule for 'git push' (policy.toml:1)");
    check(&policy, "sudo git push", Action::RequireApproval, "host_escape_risk (built-in)");
}

#[test]
fn a_milder_rule_needs_the_very_words_and_a_stricter_one_the_names() {
    let allow = policy("[[rules]]\nprefix = [\"git\", \"push\"]\naction = \"allow\"\n");
    for command in
        ["git -C x push", "/usr/bin/git push", "git $x push", "git \"$x\"", "git p\"$x\"", "$g push"]
    {
        assert_eq!(allow.decide(&shell(command), true).action, Action::RequireApproval, "{command}");
    }
    let deny = policy("[[rules]]\nprefix = [\"git\", \"push\"]\naction = \"deny\"\nreason = \"no\"\n");
    for command in ["git push", "git -C x push", "/usr/bin/git push -f", "env A=1 git push", "g\"i\"t push"] {
        assert_eq!(deny.decide(&shell(command), true).action, Action::Deny, "{command}");
    }
}

#[test]
fn no_rule_lifts_what_could_not_be_read() {
    let policy = policy("[[rules]]\nprefix = [\"echo\"]\naction = \"allow\"\n");
    for command in ["echo $(( a[$(id)] ))", "echo ${x@P}", "echo 'unclosed", "echo a\rb", "(echo a"] {
        assert_eq!(policy.decide(&shell(command), true).action, Action::RequireApproval, "{command}");
    }
}

#[test]
fn of_rules_that_match_the_strictest_wins_with_its_words() {
    let policy = policy(
        "[[rules]]\nprefix = [\"npm\"]\naction = \"allow\"\n\n[[rules]]\nprefix = [\"npm\", \"publish\"]\naction = \
         \"deny\"\nreason = \"releases are made by CI\"\nalternative = \"push a tag\"\n",
    );
    let decision = policy.decide(&shell("npm publish"), true);
    assert_eq!(decision.action, Action::Deny);
    assert_eq!(decision.reason, "releases are made by CI");
    assert_eq!(decision.alternative.as_deref(), Some("push a tag"));
    check(&policy, "npm install x", Action::Allow, "rule for 'npm' (policy.toml:1)");
}

#[test]
fn a_rule_can_be_limited_to_whole_commands_and_to_classes() {
    let exact = policy("[[rules]]\nprefix = [\"git\", \"push\"]\nexact = true\naction = \"allow\"\n");
    check(&exact, "git push", Action::Allow, "rule for exactly 'git push' (policy.toml:1)");
    check(&exact, "git push origin", Action::RequireApproval, "networked (built-in)");
    let networked =
        policy("[[rules]]\nprefix = [\"git\", \"push\"]\nclasses = [\"networked\"]\naction = \"allow\"\n");
    check(&networked, "git push origin", Action::Allow, "rule for 'git push' (policy.toml:1)");
    check(&networked, "git push -f", Action::RequireApproval, "networked (built-in)");
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
fn what_is_not_understood_is_refused_with_its_place() {
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
    let keys = "the keys are prefix, action, exact, classes, reason, alternative";
    check_error(
        "[[rules]]\nprefix=[\"a\"]\naction=\"ask\"\nwhy=\"x\"",
        "policy.toml:4:1: unknown key 'why'",
        keys,
    );
    check_error("[[rules]]\naction=\"ask\"", "policy.toml:1:1: 'prefix' is missing", "");
    check_error("[[rules]]\nprefix=[\"a\"]", "policy.toml:1:1: 'action' is missing", "");
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
        "policy.toml:3:10: the command 'ls && git push' gets ask, not allow: `git push` talks to others by \
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
    assert_eq!(saved("git push origin main"), [r#"=["git", "push", "origin", "main"]"#]);
    assert_eq!(saved("ls && curl https://x | jq ."), [r#"=["curl", "https://x"]"#]);
    assert_eq!(saved("gh pr create --body \"$(cat b)\""), [r#"["gh", "pr", "create", "--body"]"#]);
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
    assert_eq!(policy.decide(&found, false).action, Action::Allow);
    for other in ["git push origin main -f", "git push", "git push origin main; curl https://x"] {
        assert_eq!(policy.decide(&shell(other), false).action, Action::Deny, "{other}");
    }
}

#[test]
fn a_saved_rule_answers_a_question_and_lifts_no_denial() {
    let found = shell("curl https://x");
    let saved = Policy::built_in().rules_to_save(&found);
    assert_eq!(Policy::built_in().with_saved(saved.clone()).decide(&found, false).action, Action::Allow);
    for strict in [
        "[classes]\nnetworked = \"deny\"\n",
        "[[rules]]\nprefix = [\"curl\"]\naction = \"deny\"\n",
        "[[rules]]\nprefix = [\"curl\", \"https://x\"]\nexact = true\naction = \"deny\"\n",
    ] {
        let strict = policy(strict).with_saved(saved.clone());
        assert_eq!(strict.decide(&found, true).action, Action::Deny, "{}", strict.text());
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
    assert_eq!(append_rules(Path::new("p"), "", &rules).unwrap(), rules[0].to_toml());
    assert!(append_rules(Path::new("p"), "rules = []", &rules).is_err());
}
