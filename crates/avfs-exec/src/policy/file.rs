//! A policy file: from text to rules. Unknown contents are errors.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::{Policy, PolicyAction, PolicyError, PolicyProblem, PrefixRule};
use crate::capability::{Capabilities, NetworkGrant};
use crate::classify::{Class, Classes, Command, classify};
use crate::network::{BadChoice, BadPublish, NetworkChoice, PortPublication};
use crate::plan::Network;

const SECTIONS: &[&str] = &["classes", "network", "rules", "examples"];
const NETWORK_KEYS: &[&str] = &["allow", "publish", "others"];
const RULE_KEYS: &[&str] = &[
    "prefix",
    "action",
    "exact",
    "classes",
    "network",
    "publish",
    "reason",
    "alternative",
];
const EXAMPLE_KEYS: &[&str] = &["command", "network", "publish", "action"];

pub(super) fn parse(file: &Path, text: &str) -> Result<Policy, PolicyError> {
    let reader = PolicyReader { file, text };
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        reader.wrong(offset, PolicyProblem::Syntax(error.message().to_owned()))
    })?;
    reader.policy(table.get_ref())
}

struct PolicyReader<'a> {
    file: &'a Path,
    text: &'a str,
}

type Value<'i> = Spanned<DeValue<'i>>;

impl PolicyReader<'_> {
    fn wrong(&self, offset: usize, wrong: PolicyProblem) -> PolicyError {
        PolicyError::at(self.file, self.text, offset, wrong)
    }

    fn policy(&self, table: &DeTable<'_>) -> Result<Policy, PolicyError> {
        self.check_keys(table, SECTIONS)?;
        // A file changes what it names; for everything else the built-in policy holds.
        let mut policy = Policy::built_in();
        if let Some(classes) = table.get("classes") {
            self.classes(self.table("classes", classes)?, &mut policy)?;
        }
        if let Some(network) = table.get("network") {
            self.network(network, &mut policy)?;
        }
        for rule in self.tables("rules", table.get("rules"))? {
            policy.rules.push(self.rule(rule)?);
        }
        for example in self.tables("examples", table.get("examples"))? {
            // Last, against the finished policy: a file whose examples fail is refused as a whole.
            self.example(example, &policy)?;
        }
        Ok(policy)
    }

    fn classes(&self, table: &DeTable<'_>, policy: &mut Policy) -> Result<(), PolicyError> {
        for (key, value) in table {
            let class = self.class(key.get_ref(), &key.span())?;
            let action = self.action("the action of a class", value)?;
            policy.set_class(class, action, self.place(key.span().start));
        }
        Ok(())
    }

    fn network(&self, item: &Value<'_>, policy: &mut Policy) -> Result<(), PolicyError> {
        let table = self.table("network", item)?;
        self.check_keys(table, NETWORK_KEYS)?;
        policy.network.granted = self.grant(table, "allow")?;
        policy.network.origin = self.place(item.span().start);
        if let Some(others) = table.get("others") {
            let action = self.action("others", others)?;
            // Allowing the others would grant every network under a name that does not say so.
            if action < PolicyAction::RequireApproval {
                return Err(self.kind(
                    "others",
                    others,
                    "ask or deny; allow = [\"host\"] grants every network",
                ));
            }
            policy.network.others = action;
        }
        Ok(())
    }

    /// The network that a section grants: the hosts under `key`, and ports.
    fn grant(&self, table: &DeTable<'_>, key: &'static str) -> Result<NetworkGrant, PolicyError> {
        let mut choices: Vec<NetworkChoice> = Vec::new();
        for (text, item) in self.texts(table, key)? {
            let bad = |error: BadChoice| self.bad_network(key, item, error.to_string());
            choices.push(text.parse().map_err(bad)?);
        }
        let mut published: Vec<PortPublication> = Vec::new();
        for (text, item) in self.texts(table, "publish")? {
            let bad = |error: BadPublish| self.bad_network("publish", item, error.to_string());
            published.push(text.parse().map_err(bad)?);
        }
        Ok(NetworkGrant {
            network: NetworkChoice::all(&choices, Network::None),
            published,
        })
    }

    fn texts<'t, 'i>(
        &self,
        table: &'t DeTable<'i>,
        key: &'static str,
    ) -> Result<Vec<(String, &'t Value<'i>)>, PolicyError> {
        let Some(list) = table.get(key) else {
            return Ok(Vec::new());
        };
        self.array(key, list)?
            .iter()
            .map(|item| Ok((self.string(key, item)?, item)))
            .collect()
    }

    fn bad_network(&self, key: &str, item: &Value<'_>, reason: String) -> PolicyError {
        self.wrong(
            item.span().start,
            PolicyProblem::Network {
                key: key.to_owned(),
                reason,
            },
        )
    }

    fn rule(&self, item: &Value<'_>) -> Result<PrefixRule, PolicyError> {
        let table = self.table("rules", item)?;
        self.check_keys(table, RULE_KEYS)?;
        let prefix = self.needed(table, "prefix", item)?;
        let words = self.words("prefix", prefix)?;
        // A program has a non-empty name; later words may be empty.
        if words.first().is_none_or(String::is_empty) {
            return Err(self.wrong(prefix.span().start, PolicyProblem::EmptyPrefix));
        }
        let mut rule = PrefixRule::new(words, self.action("action", self.needed(table, "action", item)?)?);
        rule.exact = table
            .get("exact")
            .map_or(Ok(false), |value| self.truth("exact", value))?;
        rule.classes = table
            .get("classes")
            .map(|value| self.class_list(value))
            .transpose()?;
        rule.network = self.grant(table, "network")?;
        // What a person grants is decided then; a rule cannot grant it before.
        if rule.network != NetworkGrant::NOTHING && rule.action >= PolicyAction::RequireApproval {
            return Err(self.wrong(item.span().start, PolicyProblem::GrantWithoutLeave));
        }
        rule.reason = table
            .get("reason")
            .map(|value| self.string("reason", value))
            .transpose()?;
        rule.alternative = table
            .get("alternative")
            .map(|value| self.string("alternative", value))
            .transpose()?;
        rule.origin = Some(self.place(item.span().start));
        Ok(rule)
    }

    /// An example that contradicts the policy is an error.
    fn example(&self, item: &Value<'_>, policy: &Policy) -> Result<(), PolicyError> {
        let table = self.table("examples", item)?;
        self.check_keys(table, EXAMPLE_KEYS)?;
        let command = self.string("command", self.needed(table, "command", item)?)?;
        let expected = self.needed(table, "action", item)?;
        let action = self.action("action", expected)?;
        let found = classify(&Command::Shell(command.clone()));
        let NetworkGrant { network, published } = self.grant(table, "network")?;
        let asked = Capabilities {
            write: true,
            network,
            published,
        }
        .narrowed_by(found.classes);
        // As for a run with a sandbox, which is what a policy is written for.
        let decision = policy.decide_for(&found, &asked, true);
        if decision.action == action {
            return Ok(());
        }
        let because = format!("{} by {}", decision.reason, decision.rule);
        let (found, expected_word) = (decision.action.word(), action.word());
        let wrong = PolicyProblem::Example {
            command,
            found,
            expected: expected_word,
            because,
        };
        Err(self.wrong(expected.span().start, wrong))
    }

    fn check_keys(&self, table: &DeTable<'_>, known: &'static [&'static str]) -> Result<(), PolicyError> {
        let Some((key, _)) = table
            .iter()
            .find(|(key, _)| !known.contains(&key.get_ref().as_ref()))
        else {
            return Ok(());
        };
        let name = key.get_ref().to_string();
        let suggestion = closest(&name, known.iter().copied());
        Err(self.wrong(
            key.span().start,
            PolicyProblem::UnknownKey {
                name,
                suggestion,
                known,
            },
        ))
    }

    fn needed<'t, 'i>(
        &self,
        table: &'t DeTable<'i>,
        key: &'static str,
        item: &Value<'_>,
    ) -> Result<&'t Value<'i>, PolicyError> {
        table
            .get(key)
            .ok_or_else(|| self.wrong(item.span().start, PolicyProblem::Missing { key }))
    }

    fn class(&self, name: &str, span: &Range<usize>) -> Result<Class, PolicyError> {
        Class::named(name).ok_or_else(|| {
            let suggestion = closest(name, Class::ALL.into_iter().map(Class::as_str));
            self.wrong(
                span.start,
                PolicyProblem::UnknownClass {
                    name: name.to_owned(),
                    suggestion,
                },
            )
        })
    }

    fn class_list(&self, value: &Value<'_>) -> Result<Classes, PolicyError> {
        let mut classes = Classes::READ_ONLY;
        for item in self.array("classes", value)? {
            classes = classes.with(self.class(&self.string("classes", item)?, &item.span())?);
        }
        Ok(classes)
    }

    fn action(&self, key: &str, value: &Value<'_>) -> Result<PolicyAction, PolicyError> {
        let name = self.string(key, value)?;
        PolicyAction::ALL
            .into_iter()
            .find(|action| action.word() == name)
            .ok_or_else(|| {
                let suggestion = closest(&name, PolicyAction::ALL.into_iter().map(PolicyAction::word));
                self.wrong(
                    value.span().start,
                    PolicyProblem::UnknownAction { name, suggestion },
                )
            })
    }

    fn words(&self, key: &str, value: &Value<'_>) -> Result<Vec<String>, PolicyError> {
        self.array(key, value)?
            .iter()
            .map(|item| self.string(key, item))
            .collect()
    }

    fn kind(&self, key: &str, value: &Value<'_>, expected: &'static str) -> PolicyError {
        self.wrong(
            value.span().start,
            PolicyProblem::Kind {
                key: key.to_owned(),
                expected,
            },
        )
    }

    fn string(&self, key: &str, value: &Value<'_>) -> Result<String, PolicyError> {
        let text = value.get_ref().as_str().map(str::to_owned);
        text.ok_or_else(|| self.kind(key, value, "text in quotes"))
    }

    fn truth(&self, key: &str, value: &Value<'_>) -> Result<bool, PolicyError> {
        value
            .get_ref()
            .as_bool()
            .ok_or_else(|| self.kind(key, value, "true or false"))
    }

    fn array<'t, 'i>(&self, key: &str, value: &'t Value<'i>) -> Result<&'t DeArray<'i>, PolicyError> {
        value
            .get_ref()
            .as_array()
            .ok_or_else(|| self.kind(key, value, "a list of texts"))
    }

    fn table<'t, 'i>(&self, key: &str, value: &'t Value<'i>) -> Result<&'t DeTable<'i>, PolicyError> {
        value
            .get_ref()
            .as_table()
            .ok_or_else(|| self.kind(key, value, "a section with keys"))
    }

    fn tables<'t, 'i>(
        &self,
        key: &str,
        value: Option<&'t Value<'i>>,
    ) -> Result<Vec<&'t Value<'i>>, PolicyError> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let array = value.get_ref().as_array();
        let array =
            array.ok_or_else(|| self.kind(key, value, "sections in double brackets, as [[rules]]"))?;
        Ok(array.iter().collect())
    }

    /// `policy.toml:3`.
    fn place(&self, offset: usize) -> String {
        // Counted when a message needs it: files are short, and most have no error.
        let line = self.text.get(..offset).unwrap_or_default().matches('\n').count() + 1;
        format!(
            "{}:{line}",
            avfs_core::printable(self.file.as_os_str().as_encoded_bytes())
        )
    }
}

/// The known name that was probably meant.
fn closest(name: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let scored = known.map(|known| (strsim::damerau_levenshtein(name, known), known));
    scored
        // Farther words are other words, and a wrong guess is worse than none.
        .filter(|(distance, known)| *distance <= known.len() / 3)
        .min()
        .map(|(_, known)| known)
}
