//! Permissions of AgentFense's clients as path rules.

use agentvfs::rules::{Rule, Rules};
use tonic::Status;

use super::proto::{PatternType, Permission, PermissionRule};
use crate::service::ServiceError;

/// A directory is there if something below it could be seen, and the workspace is there also if nothing is in it. No file
/// has this name, and nobody can make one.
const NOTHING: &str = "/.nothing";

/// The rules of a sandbox. Without any permissions, nothing exists in it.
pub(super) fn rules_of(permissions: &[PermissionRule]) -> Result<Vec<Rule>, Status> {
    let lines = lines_of(permissions)?;
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let read = agentvfs::rules::lines(&lines).and_then(|rules| {
        // What cannot be decided by is refused before anything is made.
        Rules::shared(rules.clone())?;
        Ok(rules)
    });
    Ok(read.map_err(ServiceError::from)?)
}

/// Each rule as `PATTERN=LEVEL@PRIORITY`.
fn lines_of(permissions: &[PermissionRule]) -> Result<Vec<String>, Status> {
    // Among rules of one priority, those for a file win over those for a directory, and those over globs.
    let rank = |rule: &PermissionRule| (rule.priority, rule.r#type().kind_rank());
    let mut ranks: Vec<(i32, u8)> = permissions.iter().map(rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let rules = permissions.iter().map(|permission| {
        let priority = ranks.partition_point(|known| *known < rank(permission));
        let level = level(permission)?;
        let pattern = pattern(permission, level)?;
        Ok(format!("{pattern}={level}@{priority}"))
    });
    let mut rules: Vec<String> = rules.collect::<Result<_, Status>>()?;
    if permissions
        .iter()
        .all(|rule| rule.permission() == Permission::None)
    {
        rules.push(format!("{NOTHING}=view@{}", i32::MAX));
    }
    Ok(rules)
}

impl PatternType {
    fn kind_rank(self) -> u8 {
        match self {
            PatternType::Unspecified | PatternType::Glob => 0,
            PatternType::Directory => 1,
            PatternType::File => 2,
        }
    }
}

fn level(rule: &PermissionRule) -> Result<&'static str, Status> {
    match rule.permission() {
        Permission::None => Ok("none"),
        Permission::View => Ok("view"),
        Permission::Read => Ok("read"),
        Permission::Write => Ok("write"),
        Permission::Unspecified => Err(Status::invalid_argument(format!(
            "the permission for '{}' is none, view, read or write",
            rule.pattern
        ))),
    }
}

fn pattern(rule: &PermissionRule, level: &str) -> Result<String, Status> {
    if rule.pattern.trim_matches('/').is_empty() && rule.r#type() != PatternType::Directory {
        return Err(Status::invalid_argument("a permission has a pattern"));
    }
    let path = format!("/{}", rule.pattern.trim_start_matches('/'));
    let everything = |path: &str| format!("{}/", path.trim_end_matches('/'));
    Ok(match rule.r#type() {
        PatternType::File => escaped(&path, "*?[{}\\").trim_end_matches('/').to_owned(),
        PatternType::Directory => everything(&escaped(&path, "*?[{}\\")),
        // Everything, with the root: a program that may write everywhere may also make files there.
        PatternType::Unspecified | PatternType::Glob if path == "/**/*" => "/**".to_owned(),
        // Braces mean nothing in the globs of AgentFense's server.
        PatternType::Unspecified | PatternType::Glob => {
            let glob = escaped(&path, "{}");
            // What is below something hidden is hidden.
            if level == "none" && !glob.ends_with("/**") {
                everything(&glob)
            } else {
                glob
            }
        }
    })
}

fn escaped(text: &str, special: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if special.contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use agentvfs::TreePath;
    use agentvfs::rules::{Labels, Level};

    use super::*;

    fn rule(kind: PatternType, pattern: &str, permission: Permission, priority: i32) -> PermissionRule {
        PermissionRule {
            pattern: pattern.to_owned(),
            r#type: kind.into(),
            permission: permission.into(),
            priority,
        }
    }

    #[track_caller]
    fn check(permissions: &[PermissionRule], expected: &[(&str, Level)]) {
        let lines = lines_of(permissions).unwrap();
        let rules = Rules::new(rules_of(permissions).unwrap()).unwrap();
        for (path, level) in expected {
            let path = TreePath::parse(path.as_bytes()).unwrap();
            assert_eq!(
                rules.explain(&path, |_| Labels::default()).level,
                *level,
                "{path} {lines:?}"
            );
        }
    }

    #[test]
    fn the_presets_of_the_client_mean_what_they_say() {
        use PatternType::Glob;
        use Permission::{None, Read, Write};
        check(
            &[
                rule(Glob, "**/*", Read, 0),
                rule(Glob, "/output/**", Write, 10),
                rule(Glob, "**/.env*", None, 100),
                rule(Glob, "**/secrets/**", None, 100),
                rule(Glob, "**/.git/**", None, 50),
            ],
            &[
                ("/a.txt", Level::Read),
                ("/src/deep/a.txt", Level::Read),
                ("/output", Level::Write),
                ("/output/a/b", Level::Write),
                ("/output/.env", Level::None),
                ("/.env", Level::None),
                ("/app/.env.local/x", Level::None),
                ("/a/secrets/key", Level::None),
                ("/.git/config", Level::None),
            ],
        );
    }

    #[test]
    fn a_file_wins_over_a_directory_and_that_over_a_glob() {
        use PatternType::{Directory, File, Glob};
        use Permission::{Read, View, Write};
        check(
            &[
                rule(Glob, "**/*", Write, 0),
                rule(Directory, "docs", Read, 0),
                rule(File, "/docs/a[1].txt", View, 0),
                rule(Glob, "/docs/high", Write, 1),
            ],
            &[
                ("/x", Level::Write),
                ("/docs", Level::Read),
                ("/docs/b.txt", Level::Read),
                ("/docs/a[1].txt", Level::View),
                ("/docs/a1.txt", Level::Read),
                ("/docs/high", Level::Write),
            ],
        );
    }

    #[test]
    fn without_permissions_nothing_exists() {
        for permissions in [vec![], vec![rule(PatternType::Glob, "**/*", Permission::None, 5)]] {
            check(&permissions, &[("/a", Level::None), ("/.nothing/a", Level::None)]);
            let rules = Rules::new(rules_of(&permissions).unwrap()).unwrap();
            assert!(rules.is_passable(&rules.root(&Labels::default())));
        }
        assert!(rules_of(&[rule(PatternType::Glob, "a", Permission::Unspecified, 0)]).is_err());
        assert!(rules_of(&[rule(PatternType::File, "", Permission::Read, 0)]).is_err());
    }
}
