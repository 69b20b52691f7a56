//! Settings that git has inside of a run, beside those of the repository.

use std::ffi::OsString;

/// The variable with the number of settings in other variables.
const COUNT: &str = "GIT_CONFIG_COUNT";

/// A key and its value.
pub type Setting = (&'static str, String);

/// Settings that git needs in the sandbox. If root starts the run, it has another user id, to whom all files
/// belong: judging by owners, no file would match the index of the host, and git would read each of them
/// again.
pub fn settings_inside() -> Vec<Setting> {
    if rustix::process::geteuid().is_root() {
        vec![("core.checkStat", "minimal".to_owned())]
    } else {
        Vec::new()
    }
}

/// The environment variables with these settings for git.
pub fn variables(settings: &[Setting]) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    for (index, (key, value)) in settings.iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{index}").into(), key.into()));
        variables.push((format!("GIT_CONFIG_VALUE_{index}").into(), value.into()));
    }
    if !settings.is_empty() {
        variables.push((COUNT.into(), settings.len().to_string().into()));
    }
    variables
}

/// Adds a setting to those in the variables of an environment.
pub(crate) fn add_setting(env: &mut Vec<(OsString, OsString)>, key: &str, value: &str) {
    let count = env.iter().position(|(name, _)| name == COUNT);
    let told = count
        .and_then(|at| env[at].1.to_str()?.parse::<usize>().ok())
        .unwrap_or_default();
    if let Some(at) = count {
        env.remove(at);
    }
    env.push((format!("GIT_CONFIG_KEY_{told}").into(), key.into()));
    env.push((format!("GIT_CONFIG_VALUE_{told}").into(), value.into()));
    env.push((COUNT.into(), (told + 1).to_string().into()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_told_by_variables() {
        let told = variables(&[
            ("user.name", "Ada L.".to_owned()),
            ("core.checkStat", "minimal".to_owned()),
        ]);
        let text: Vec<String> = told
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        let expected = [
            "GIT_CONFIG_KEY_0=user.name",
            "GIT_CONFIG_VALUE_0=Ada L.",
            "GIT_CONFIG_KEY_1=core.checkStat",
            "GIT_CONFIG_VALUE_1=minimal",
            "GIT_CONFIG_COUNT=2",
        ];
        assert_eq!(text, expected);
        assert!(variables(&[]).is_empty());
    }

    #[test]
    fn a_setting_added_later_follows_those_that_are_told() {
        let mut env = variables(&[("user.name", "Ada L.".to_owned())]);
        add_setting(&mut env, "core.fsmonitor", "ask");
        let expected = variables(&[
            ("user.name", "Ada L.".to_owned()),
            ("core.fsmonitor", "ask".to_owned()),
        ]);
        assert_eq!(env, expected);
        let mut env = Vec::new();
        add_setting(&mut env, "core.fsmonitor", "ask");
        assert_eq!(env, variables(&[("core.fsmonitor", "ask".to_owned())]));
    }
}
