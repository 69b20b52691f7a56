//! Determines which tool the first word of a command starts.

/// The word in the place of the program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CommandVerb<'a> {
    /// Found by its name, or in a directory of the system.
    Named(&'a str),
    /// A program somewhere else, with its last name.
    Elsewhere(&'a str),
    /// An indirect way to start programs, with the reason.
    Detour(&'static str),
}

const SYSTEM: [&str; 8] = [
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/lib/git-core",
    "/usr/libexec/git-core",
];

pub(crate) fn resolve(word: &str) -> CommandVerb<'_> {
    let Some((directory, name)) = word.rsplit_once('/') else {
        return match word {
            "" => CommandVerb::Detour("the name of the program is empty"),
            word if is_loader(word) => CommandVerb::Detour("a loader starts any program"),
            word => CommandVerb::Named(word),
        };
    };
    let parts: Vec<&str> = directory
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    let absolute = word.starts_with('/');
    let kernel = absolute && matches!(parts.first(), Some(&("proc" | "dev" | "sys")));
    if kernel || parts.contains(&"proc") || absolute && parts.contains(&"..") {
        return CommandVerb::Detour("the program is reached by a detour");
    }
    if is_loader(name) {
        return CommandVerb::Detour("a loader starts any program");
    }
    let plain = format!("/{}", parts.join("/"));
    if absolute && SYSTEM.contains(&plain.as_str()) {
        CommandVerb::Named(name)
    } else {
        CommandVerb::Elsewhere(name)
    }
}

fn is_loader(name: &str) -> bool {
    name.starts_with("ld-") || name == "ld.so" || name.starts_with("ld.so.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_known_by_its_place() {
        assert_eq!(resolve("ls"), CommandVerb::Named("ls"));
        assert_eq!(resolve("/bin//./ls"), CommandVerb::Named("ls"));
        assert_eq!(resolve("./rm"), CommandVerb::Elsewhere("rm"));
        assert_eq!(resolve("~/bin/ls"), CommandVerb::Elsewhere("ls"));
        assert_eq!(resolve("bin/ls"), CommandVerb::Elsewhere("ls"));
        for detour in [
            "",
            "/proc/self/root/bin/ls",
            "/bin/../tmp/ls",
            "/lib64/ld-linux-x86-64.so.2",
            "x/proc/ls",
        ] {
            assert!(matches!(resolve(detour), CommandVerb::Detour(_)), "{detour}");
        }
    }
}
