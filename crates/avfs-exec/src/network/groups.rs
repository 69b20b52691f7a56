//! Named groups of hosts that are needed together. They are data: `groups.toml`.

use std::sync::LazyLock;

use toml::de::{DeTable, DeValue};

use super::rule::HostRule;

/// A named list of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGroup {
    /// Its name, as `@NAME` in lists of hosts.
    pub name: String,
    /// What it is for, in a few words.
    pub about: String,
    /// The hosts.
    pub hosts: Vec<HostRule>,
    /// The programs that need it.
    pub tools: Vec<String>,
}

static GROUPS: LazyLock<Vec<HostGroup>> = LazyLock::new(|| {
    let table = DeTable::parse(include_str!("groups.toml")).expect(READ);
    table
        .get_ref()
        .iter()
        .map(|(name, group)| read(name.get_ref(), group.get_ref()))
        .collect()
});

/// Why parsing the file of this crate cannot fail.
const READ: &str = "a test reads the same file";

fn read(name: &str, group: &DeValue<'_>) -> HostGroup {
    let value = |key: &str| {
        group
            .as_table()
            .and_then(|table| table.get(key))
            .expect(READ)
            .get_ref()
    };
    let list = |key: &str| -> Vec<String> {
        let items = value(key).as_array().expect(READ);
        items
            .iter()
            .map(|item| item.get_ref().as_str().expect(READ).to_owned())
            .collect()
    };
    HostGroup {
        name: name.to_owned(),
        about: value("about").as_str().expect(READ).to_owned(),
        hosts: list("hosts")
            .iter()
            .map(|host| host.parse().expect(READ))
            .collect(),
        tools: list("tools"),
    }
}

/// All groups, by name.
pub fn groups() -> &'static [HostGroup] {
    &GROUPS
}

/// The group that contains a host, if one does.
pub fn group_of(host: &str) -> Option<&'static HostGroup> {
    groups()
        .iter()
        .find(|group| group.hosts.iter().any(|rule| rule.allows_name(host, 443)))
}

impl HostGroup {
    /// The group with this name.
    pub fn named(name: &str) -> Option<&'static HostGroup> {
        groups().iter().find(|group| group.name == name)
    }

    /// The names of all groups, for a message.
    pub(super) fn names() -> String {
        let names: Vec<&str> = groups().iter().map(|group| group.name.as_str()).collect();
        names.join(", ")
    }

    /// The group that a program needs.
    pub fn for_tool(tool: &str) -> Option<&'static HostGroup> {
        groups()
            .iter()
            .find(|group| group.tools.iter().any(|known| known == tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_can_be_read_and_no_host_or_tool_is_in_two() {
        let mut hosts: Vec<String> = groups()
            .iter()
            .flat_map(|group| group.hosts.iter().map(ToString::to_string))
            .collect();
        let mut tools: Vec<&String> = groups().iter().flat_map(|group| &group.tools).collect();
        let counts = (hosts.len(), tools.len());
        hosts.sort();
        hosts.dedup();
        tools.sort();
        tools.dedup();
        assert_eq!((hosts.len(), tools.len()), counts);
        for name in ["npm", "pypi", "crates", "github", "go", "debian"] {
            assert!(HostGroup::named(name).is_some(), "{name}");
        }
        assert_eq!(group_of("registry.npmjs.org").unwrap().name, "npm");
        assert_eq!(HostGroup::for_tool("cargo").unwrap().name, "crates");
    }
}
