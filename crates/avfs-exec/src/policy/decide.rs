//! From a classification to a decision: the strictest over all parts.

use super::{Action, Decision, Policy, PrefixRule};
use crate::classify::{Class, Classification, Part};

impl Policy {
    /// Decides. With nobody to ask, what would need an approval is denied.
    pub fn decide(&self, found: &Classification, can_ask: bool) -> Decision {
        let worst = found.parts.iter().map(|part| self.verdict(part)).reduce(stricter);
        let worst = worst.unwrap_or_else(|| self.by_class_alone(Class::ReadOnly, "nothing is run"));
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

    pub(super) fn verdict(&self, part: &Part) -> Verdict {
        let own = self.own_verdict(part);
        match own.action {
            Action::RequireApproval => self.saved_verdict(part).unwrap_or(own),
            Action::Allow | Action::AllowWithCheckpoint | Action::Deny => own,
        }
    }

    fn saved_verdict(&self, part: &Part) -> Option<Verdict> {
        let matching = self.saved.iter().filter(|rule| rule.matches(part));
        matching.map(|rule| by_rule(rule, part)).reduce(stricter)
    }

    fn own_verdict(&self, part: &Part) -> Verdict {
        let by_class = self.by_class(part);
        let matching = self.rules.iter().filter(|rule| rule.matches(part)).map(|rule| by_rule(rule, part));
        let verdict = matching.reduce(stricter).unwrap_or(by_class);
        let named =
            self.rules.iter().filter(|rule| rule.matches_by_name(part)).map(|rule| by_rule(rule, part));
        named.fold(verdict, stricter)
    }

    fn by_class(&self, part: &Part) -> Verdict {
        let lines = part.classes.iter().map(|class| self.by_class_alone(class, &part.reason));
        let strictest = lines.reduce(stricter);
        let verdict = strictest.unwrap_or_else(|| self.by_class_alone(Class::ReadOnly, &part.reason));
        Verdict { reason: reason_of(part), ..verdict }
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
