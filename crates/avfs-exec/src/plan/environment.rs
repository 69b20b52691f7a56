//! The environment of a command: an allow-list of the caller's, and what is given.

use std::ffi::{OsStr, OsString};

use super::{HOME, Toolchain};

/// Variables of the caller that say how to talk to people. Nothing in them opens a door.
const INHERITED: [&str; 9] =
    ["LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR"];

/// What only reads is to change nothing and ask nobody: git does not refresh its index while it looks, and nothing looks for
/// newer versions of itself.
const QUIET: [(&str, &str); 4] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("npm_config_update_notifier", "false"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("CHECKPOINT_DISABLE", "1"),
];

const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The environment inside: what is allowed of `caller`, what toolchains need, and `given`, which wins.
pub fn environment(
    caller: &[(OsString, OsString)],
    toolchains: &[Toolchain],
    given: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let mut env = fixed();
    let allowed = caller.iter().filter(|(name, _)| is_inherited(name));
    for (name, value) in allowed.chain(&toolchain_variables(toolchains)).chain(given) {
        set(&mut env, name, value);
    }
    env
}

fn fixed() -> Vec<(OsString, OsString)> {
    let pairs = [
        ("HOME", HOME),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
        ("SHELL", "/bin/bash"),
        ("TMPDIR", "/tmp"),
        ("PATH", SYSTEM_PATH),
        ("LANG", "C.UTF-8"),
    ];
    pairs.into_iter().chain(QUIET).map(|(name, value)| (name.into(), value.into())).collect()
}

/// Whether a variable of the caller comes along.
pub fn is_inherited(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| INHERITED.contains(&name) || name.starts_with("LC_"))
}

fn toolchain_variables(toolchains: &[Toolchain]) -> Vec<(OsString, OsString)> {
    let mut path = OsString::new();
    for directory in toolchains.iter().flat_map(|toolchain| &toolchain.path) {
        path.push(directory);
        path.push(":");
    }
    path.push(SYSTEM_PATH);
    let set = toolchains.iter().flat_map(|toolchain| &toolchain.env).cloned();
    set.chain([("PATH".into(), path)]).collect()
}

fn set(env: &mut Vec<(OsString, OsString)>, name: &OsStr, value: &OsStr) {
    match env.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value.to_owned(),
        None => env.push((name.to_owned(), value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        list.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn value<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a str> {
        env.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.to_str())
    }

    #[test]
    fn secrets_and_loaders_of_the_caller_stay_outside() {
        let names = ["AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD", "BASH_ENV", "PATH", "HOME"];
        let caller: Vec<(&str, &str)> = names.iter().map(|name| (*name, "leak")).collect();
        let env = environment(&pairs(&caller), &[], &[]);
        assert!(env.iter().all(|(_, value)| value != "leak"), "{env:?}");
    }

    #[test]
    fn the_language_comes_along_and_what_is_given_wins() {
        let caller = pairs(&[("LANG", "de_DE.UTF-8"), ("LC_TIME", "C"), ("TERM", "xterm")]);
        let env = environment(&caller, &[], &pairs(&[("TERM", "dumb"), ("CI", "1")]));
        assert_eq!(value(&env, "LANG"), Some("de_DE.UTF-8"));
        assert_eq!(value(&env, "LC_TIME"), Some("C"));
        assert_eq!(value(&env, "TERM"), Some("dumb"));
        assert_eq!(value(&env, "CI"), Some("1"));
    }
}
