//! From a classification to a decision: the strictest over all parts.

use super::{BUILT_IN, Policy, PolicyAction, PolicyDecision, PrefixRule};
use crate::capability::Capabilities;
use crate::classify::{Class, Classification, CommandPart};

impl Policy {
    /// Decides on a command that requests no network. If approval is impossible, a command that needs one is
    /// denied.
    pub fn decide(&self, found: &Classification, can_ask: bool) -> PolicyDecision {
        self.decide_for(found, &Capabilities::of_words(found.classes), can_ask)
    }

    /// Decides on a command and on the capabilities that it requests. The capabilities are decided first and
    /// separately; the words of the command can only make the answer stricter.
    pub fn decide_for(&self, found: &Classification, asked: &Capabilities, can_ask: bool) -> PolicyDecision {
        let by_words = self.by_words(found, asked);
        let worst = match self.by_network(found, asked) {
            Some(by_network) => together(by_network, by_words),
            None => by_words,
        };
        decision(found, worst, can_ask)
    }

    /// Decides on a command in a session, which has the capabilities that were granted at its start.
    pub fn decide_within(
        &self,
        found: &Classification,
        granted: &Capabilities,
        can_ask: bool,
    ) -> PolicyDecision {
        decision(found, self.by_words(found, granted), can_ask)
    }

    /// Decides on the capabilities that a session requests. Its commands are decided on one by one.
    pub fn decide_session(&self, asked: &Capabilities, can_ask: bool) -> PolicyDecision {
        let found = Classification::nothing();
        let granted = || PartVerdict {
            action: PolicyAction::Allow,
            class: Class::ReadOnly,
            is_own_class: true,
            rule: format!("network ({})", self.network.origin),
            reason: "the policy grants what it asks for".to_owned(),
            alternative: None,
        };
        let verdict = self.by_network(&found, asked).unwrap_or_else(granted);
        decision(&found, verdict, can_ask)
    }

    fn by_words(&self, found: &Classification, asked: &Capabilities) -> PartVerdict {
        let worst = found
            .parts
            .iter()
            .map(|part| self.verdict(part, asked))
            .reduce(stricter);
        worst.unwrap_or_else(|| {
            let class = if asked.write {
                Class::Mutating
            } else {
                Class::ReadOnly
            };
            self.by_class_alone(class, "nothing is run")
        })
    }

    /// The verdict on the network that a run requests; `None` if all of it is granted.
    fn by_network(&self, found: &Classification, asked: &Capabilities) -> Option<PartVerdict> {
        let missing = self.network.granted.missing(asked);
        let is_answered = self.network.others == PolicyAction::RequireApproval;
        let saved: &[PrefixRule] = if is_answered { &self.saved } else { &[] };
        // A rule is about words, and with other variables the same words are another command. The caller decides
        // which of the saved rules apply.
        let own: &[PrefixRule] = if found.sets.is_empty() { &self.rules } else { &[] };
        // Every part of a command has the capabilities of the command, so each needs a rule of its own.
        let grants = |part: &CommandPart| {
            let mut rules = own.iter().chain(saved);
            rules.any(|rule| {
                rule.action < PolicyAction::RequireApproval
                    && rule.matches(part)
                    && rule.network.covers(&missing)
            })
        };
        let by_rules = !found.parts.is_empty() && found.parts.iter().all(grants);
        (missing.has_network() && !by_rules).then(|| PartVerdict {
            action: self.network.others,
            class: Class::Networked,
            is_own_class: true,
            rule: format!("network ({})", self.network.origin),
            reason: format!("it asks to {}", missing.network_shown()),
            alternative: None,
        })
    }

    pub(super) fn verdict(&self, part: &CommandPart, asked: &Capabilities) -> PartVerdict {
        let own = self.own_verdict(part, asked);
        match own.action {
            PolicyAction::RequireApproval => self.saved_verdict(part).unwrap_or(own),
            PolicyAction::Allow | PolicyAction::AllowWithCheckpoint | PolicyAction::Deny => own,
        }
    }

    fn saved_verdict(&self, part: &CommandPart) -> Option<PartVerdict> {
        let matching = self.saved.iter().filter(|rule| rule.matches(part));
        matching.map(|rule| by_rule(rule, part)).reduce(stricter)
    }

    fn own_verdict(&self, part: &CommandPart, asked: &Capabilities) -> PartVerdict {
        let by_class = self.by_class(part, asked);
        let matching = self
            .rules
            .iter()
            .filter(|rule| rule.matches(part))
            .map(|rule| by_rule(rule, part));
        let verdict = matching.reduce(stricter).unwrap_or(by_class);
        let named = self
            .rules
            .iter()
            .filter(|rule| rule.matches_by_name(part))
            .map(|rule| by_rule(rule, part));
        named.fold(verdict, stricter)
    }

    /// A part that can write counts as writing, whatever its words say.
    fn by_class(&self, part: &CommandPart, asked: &Capabilities) -> PartVerdict {
        let classes = if asked.write {
            part.classes.with(Class::Mutating)
        } else {
            part.classes
        };
        let lines = classes.iter().map(|class| match class {
            Class::Networked if self.answers_networked(asked) => self.by_granted_network(&part.reason),
            class => self.by_class_alone(class, &part.reason),
        });
        let strictest = lines.reduce(stricter);
        let verdict = strictest.unwrap_or_else(|| self.by_class_alone(Class::ReadOnly, &part.reason));
        let is_own_class = part.classes.contains(verdict.class);
        PartVerdict {
            reason: reason_of(part),
            is_own_class,
            ..verdict
        }
    }

    /// Whether the policy only defines the networks of runs, and says nothing else about networked commands.
    fn answers_networked(&self, asked: &Capabilities) -> bool {
        let is_built_in = self.class_line(Class::Networked).origin == BUILT_IN;
        is_built_in && asked.has_network() && self.network.granted.covers(asked)
    }

    fn by_granted_network(&self, reason: &str) -> PartVerdict {
        PartVerdict {
            action: PolicyAction::AllowWithCheckpoint,
            class: Class::Networked,
            is_own_class: true,
            rule: format!("network ({})", self.network.origin),
            reason: reason.to_owned(),
            alternative: None,
        }
    }

    fn by_class_alone(&self, class: Class, reason: &str) -> PartVerdict {
        let line = self.class_line(class);
        PartVerdict {
            action: line.action,
            class,
            is_own_class: true,
            rule: format!("{class} ({})", line.origin),
            reason: reason.to_owned(),
            alternative: None,
        }
    }
}

/// The verdict on one part.
pub(super) struct PartVerdict {
    pub action: PolicyAction,
    class: Class,
    /// Whether the words of the part have this class, and not only the capabilities of the whole command.
    is_own_class: bool,
    rule: String,
    reason: String,
    alternative: Option<String>,
}

fn decision(found: &Classification, worst: PartVerdict, can_ask: bool) -> PolicyDecision {
    let unanswered = worst.action == PolicyAction::RequireApproval && !can_ask;
    PolicyDecision {
        action: if unanswered {
            PolicyAction::Deny
        } else {
            worst.action
        },
        class: found.class,
        classes: found.classes,
        rule: worst.rule,
        reason: if unanswered {
            nobody(&worst.reason)
        } else {
            worst.reason
        },
        alternative: worst.alternative,
    }
}

/// If two are equally strict, both reasons are given.
fn together(by_network: PartVerdict, by_words: PartVerdict) -> PartVerdict {
    if by_network.action != by_words.action {
        return stricter(by_words, by_network);
    }
    let reason = format!("{}; {}", by_words.reason, by_network.reason);
    PartVerdict { reason, ..by_words }
}

fn by_rule(rule: &PrefixRule, part: &CommandPart) -> PartVerdict {
    PartVerdict {
        action: rule.action,
        class: part.classes.worst(),
        is_own_class: true,
        rule: rule.name(),
        reason: rule.reason.clone().unwrap_or_else(|| reason_of(part)),
        alternative: rule.alternative.clone(),
    }
}

fn reason_of(part: &CommandPart) -> String {
    if part.text.is_empty() || part.reason.contains(&part.text) {
        part.reason.clone()
    } else {
        format!("{}: {}", part.text, part.reason)
    }
}

fn nobody(reason: &str) -> String {
    format!("{reason}; it needs an approval, and there is no person to give it")
}

/// If two are equally strict, the one with the worse class is more informative, and among those the one that
/// has it by its own words.
fn stricter(left: PartVerdict, right: PartVerdict) -> PartVerdict {
    let weight = |verdict: &PartVerdict| (verdict.action, verdict.class, verdict.is_own_class);
    if weight(&right) > weight(&left) {
        right
    } else {
        left
    }
}
