//! From a classification to a decision: the strictest over all parts.

use super::{Action, BUILT_IN, Decision, Policy, PrefixRule};
use crate::capability::Capabilities;
use crate::classify::{Class, Classification, Part};

impl Policy {
    /// Decides on a command that asks for no network. With nobody to ask, what would need an approval is denied.
    pub fn decide(&self, found: &Classification, can_ask: bool) -> Decision {
        self.decide_for(found, &Capabilities::of_words(found.classes), can_ask)
    }

    /// Decides on a command and on what it asks for. What it asks for is decided first and apart; its words can only make
    /// the answer stricter.
    pub fn decide_for(&self, found: &Classification, asked: &Capabilities, can_ask: bool) -> Decision {
        let by_words = self.by_words(found, asked);
        let worst = match self.by_network(found, asked) {
            Some(by_network) => together(by_network, by_words),
            None => by_words,
        };
        decision(found, worst, can_ask)
    }

    /// Decides on a command in a session, which has what it was granted at its start.
    pub fn decide_within(&self, found: &Classification, granted: &Capabilities, can_ask: bool) -> Decision {
        decision(found, self.by_words(found, granted), can_ask)
    }

    /// Decides on what a session asks for. Its commands are decided on one by one.
    pub fn decide_session(&self, asked: &Capabilities, can_ask: bool) -> Decision {
        let found = Classification::nothing();
        let granted = || Verdict {
            action: Action::Allow,
            class: Class::ReadOnly,
            rule: format!("network ({})", self.network.origin),
            reason: "the policy grants what it asks for".to_owned(),
            alternative: None,
        };
        let verdict = self.by_network(&found, asked).unwrap_or_else(granted);
        decision(&found, verdict, can_ask)
    }

    fn by_words(&self, found: &Classification, asked: &Capabilities) -> Verdict {
        let worst = found.parts.iter().map(|part| self.verdict(part, asked)).reduce(stricter);
        worst.unwrap_or_else(|| {
            let class = if asked.write { Class::Mutating } else { Class::ReadOnly };
            self.by_class_alone(class, "nothing is run")
        })
    }

    /// What happens to a run for what it asks of a network; nothing if all of that is granted.
    fn by_network(&self, found: &Classification, asked: &Capabilities) -> Option<Verdict> {
        let missing = self.network.granted.missing(asked);
        let is_answered = self.network.others == Action::RequireApproval;
        let saved: &[PrefixRule] = if is_answered { &self.saved } else { &[] };
        // A rule is about words, and with other variables the same words are another command. Which of the saved rules hold is
        // known to whoever gave them.
        let own: &[PrefixRule] = if found.sets.is_empty() { &self.rules } else { &[] };
        // Every part of a command has what the command has, so each needs a rule of its own.
        let grants = |part: &Part| {
            let mut rules = own.iter().chain(saved);
            rules.any(|rule| {
                rule.action < Action::RequireApproval && rule.matches(part) && rule.network.covers(&missing)
            })
        };
        let by_rules = !found.parts.is_empty() && found.parts.iter().all(grants);
        (missing.has_network() && !by_rules).then(|| Verdict {
            action: self.network.others,
            class: Class::Networked,
            rule: format!("network ({})", self.network.origin),
            reason: format!("it asks to {}", missing.network_shown()),
            alternative: None,
        })
    }

    pub(super) fn verdict(&self, part: &Part, asked: &Capabilities) -> Verdict {
        let own = self.own_verdict(part, asked);
        match own.action {
            Action::RequireApproval => self.saved_verdict(part).unwrap_or(own),
            Action::Allow | Action::AllowWithCheckpoint | Action::Deny => own,
        }
    }

    fn saved_verdict(&self, part: &Part) -> Option<Verdict> {
        let matching = self.saved.iter().filter(|rule| rule.matches(part));
        matching.map(|rule| by_rule(rule, part)).reduce(stricter)
    }

    fn own_verdict(&self, part: &Part, asked: &Capabilities) -> Verdict {
        let by_class = self.by_class(part, asked);
        let matching = self.rules.iter().filter(|rule| rule.matches(part)).map(|rule| by_rule(rule, part));
        let verdict = matching.reduce(stricter).unwrap_or(by_class);
        let named =
            self.rules.iter().filter(|rule| rule.matches_by_name(part)).map(|rule| by_rule(rule, part));
        named.fold(verdict, stricter)
    }

    /// What can write counts as writing, whatever its words say.
    fn by_class(&self, part: &Part, asked: &Capabilities) -> Verdict {
        let classes = if asked.write { part.classes.with(Class::Mutating) } else { part.classes };
        let lines = classes.iter().map(|class| match class {
            Class::Networked if self.answers_networked(asked) => self.by_granted_network(&part.reason),
            class => self.by_class_alone(class, &part.reason),
        });
        let strictest = lines.reduce(stricter);
        let verdict = strictest.unwrap_or_else(|| self.by_class_alone(Class::ReadOnly, &part.reason));
        Verdict { reason: reason_of(part), ..verdict }
    }

    /// Whether the policy has said which networks runs get, and nothing else of commands that talk to others.
    fn answers_networked(&self, asked: &Capabilities) -> bool {
        let is_built_in = self.class_line(Class::Networked).origin == BUILT_IN;
        is_built_in && asked.has_network() && self.network.granted.covers(asked)
    }

    fn by_granted_network(&self, reason: &str) -> Verdict {
        Verdict {
            action: Action::AllowWithCheckpoint,
            class: Class::Networked,
            rule: format!("network ({})", self.network.origin),
            reason: reason.to_owned(),
            alternative: None,
        }
    }

    fn by_class_alone(&self, class: Class, reason: &str) -> Verdict {
        let line = self.class_line(class);
        Verdict {
            action: line.action,
            class,
            rule: format!("{class} ({})", line.origin),
            reason: reason.to_owned(),
            alternative: None,
        }
    }
}

/// What happens to one part.
pub(super) struct Verdict {
    pub action: Action,
    class: Class,
    rule: String,
    reason: String,
    alternative: Option<String>,
}

fn decision(found: &Classification, worst: Verdict, can_ask: bool) -> Decision {
    let unanswered = worst.action == Action::RequireApproval && !can_ask;
    Decision {
        action: if unanswered { Action::Deny } else { worst.action },
        class: found.class,
        classes: found.classes,
        rule: worst.rule,
        reason: if unanswered { nobody(&worst.reason) } else { worst.reason },
        alternative: worst.alternative,
    }
}

/// Of two that are equally strict, both reasons are told.
fn together(by_network: Verdict, by_words: Verdict) -> Verdict {
    if by_network.action != by_words.action {
        return stricter(by_words, by_network);
    }
    let reason = format!("{}; {}", by_words.reason, by_network.reason);
    Verdict { reason, ..by_words }
}

fn by_rule(rule: &PrefixRule, part: &Part) -> Verdict {
    Verdict {
        action: rule.action,
        class: part.classes.worst(),
        rule: rule.name(),
        reason: rule.reason.clone().unwrap_or_else(|| reason_of(part)),
        alternative: rule.alternative.clone(),
    }
}

fn reason_of(part: &Part) -> String {
    match part.text.is_empty() || part.reason.contains(&part.text) {
        true => part.reason.clone(),
        false => format!("{}: {}", part.text, part.reason),
    }
}

fn nobody(reason: &str) -> String {
    format!("{reason}; it needs an approval, and nobody is there to give it")
}

/// Of two that are equally strict, the one with the worse class tells more.
fn stricter(left: Verdict, right: Verdict) -> Verdict {
    match (right.action, right.class) > (left.action, left.class) {
        true => right,
        false => left,
    }
}
