//! Whether a file of a tool holds a credential. Such a file is hidden; in doubt, a file counts as one.
//!
//! The names of files decide which are inspected: those in which tools keep settings, credentials, or
//! addresses that a user has configured.

/// The largest file that is inspected. A larger one with such a name is hidden.
pub const INSPECTED_BYTES: u64 = 4 << 20;

/// The kind of contents of a file.
#[derive(Clone, Copy)]
enum FileHolds {
    /// Settings of the user, in which the name of a credential implies one.
    Settings,
    /// Addresses, written by the tool itself. Such words are names of packages there.
    Addresses,
    /// Addresses among scripts and descriptions, which may contain any words.
    Urls,
    /// Settings that come with a tool, with explanations: only a value with such a name implies a credential.
    Values,
}

/// Names of files, in lower case; a leading star matches any beginning.
const NAMES: &[(&str, FileHolds)] = &[
    // Settings, and files that are made for credentials.
    ("npmrc", FileHolds::Settings),
    (".npmrc", FileHolds::Settings),
    (".pnpmrc", FileHolds::Settings),
    (".yarnrc", FileHolds::Settings),
    (".yarnrc.yml", FileHolds::Settings),
    ("auth.ini", FileHolds::Settings),
    ("bunfig.toml", FileHolds::Settings),
    (".bunfig.toml", FileHolds::Settings),
    ("pip.conf", FileHolds::Settings),
    (".pypirc", FileHolds::Settings),
    ("uv.toml", FileHolds::Settings),
    ("condarc", FileHolds::Settings),
    (".condarc", FileHolds::Settings),
    (".mambarc", FileHolds::Settings),
    ("gemrc", FileHolds::Settings),
    (".gemrc", FileHolds::Settings),
    ("gradle.properties", FileHolds::Settings),
    ("settings.xml", FileHolds::Settings),
    ("nuget.config", FileHolds::Settings),
    ("auth.json", FileHolds::Settings),
    ("auth.toml", FileHolds::Settings),
    ("hex.config", FileHolds::Settings),
    ("user.yaml", FileHolds::Settings),
    (".env", FileHolds::Settings),
    (".envrc", FileHolds::Settings),
    (".netrc", FileHolds::Settings),
    ("_netrc", FileHolds::Settings),
    (".git-credentials", FileHolds::Settings),
    (".credentials", FileHolds::Settings),
    ("credentials", FileHolds::Settings),
    ("credentials.json", FileHolds::Settings),
    ("credentials.toml", FileHolds::Settings),
    ("credentials.tfrc.json", FileHolds::Settings),
    // Repositories that were downloaded.
    ("config", FileHolds::Addresses),
    ("config.worktree", FileHolds::Addresses),
    ("fetch_head", FileHolds::Addresses),
    ("head", FileHolds::Addresses),
    (".gitmodules", FileHolds::Addresses),
    // What was installed, and from where.
    ("config.json", FileHolds::Addresses),
    ("ccache.conf", FileHolds::Addresses),
    ("db.db", FileHolds::Addresses),
    ("direct_url.json", FileHolds::Addresses),
    ("history", FileHolds::Addresses),
    (".nupkg.metadata", FileHolds::Addresses),
    ("pipx_metadata.json", FileHolds::Addresses),
    ("resolver-status.properties", FileHolds::Addresses),
    ("urls.txt", FileHolds::Addresses),
    ("*.log", FileHolds::Addresses),
    // What was requested, and the origin of each package.
    (".yarn-metadata.json", FileHolds::Urls),
    (".yarn-integrity", FileHolds::Urls),
    ("yarn.lock", FileHolds::Urls),
    ("package-lock.json", FileHolds::Urls),
    (".package-lock.json", FileHolds::Urls),
    ("pnpm-lock.yaml", FileHolds::Urls),
    ("lock.yaml", FileHolds::Urls),
    (".modules.yaml", FileHolds::Urls),
    ("bun.lock", FileHolds::Urls),
    ("bun.lockb", FileHolds::Urls),
    ("uv-receipt.toml", FileHolds::Addresses),
    ("*.lastupdated", FileHolds::Addresses),
    // The command line of a build tool's server.
    ("cmdline", FileHolds::Addresses),
];

/// Directories in which every file is inspected, because names indicate nothing there.
const DIRECTORIES: &[(&[&str], FileHolds)] = &[
    // npm's, whose keys are addresses.
    (&["_cacache", "index-v5"], FileHolds::Addresses),
    // go's, where the address of a repository is stored beside it.
    (&["cache", "vcs", "*.info"], FileHolds::Addresses),
    // The log of each branch, which begins with a clone.
    (&["logs", "refs"], FileHolds::Addresses),
    // Scripts that gradle runs before every build.
    (&["init.d"], FileHolds::Settings),
    // conda's, of an environment: variables that the user has set for it.
    (&["conda-meta", "*state"], FileHolds::Values),
    (&["conda", "activate.d"], FileHolds::Values),
    (&["conda", "deactivate.d"], FileHolds::Values),
];

/// A package's description of itself. A user's list of requested packages has the same name.
const PACKAGE: &str = "package.json";

/// Directories of an installation that contain only settings, whatever their names.
const OF_SETTINGS: [&[u8]; 2] = [b"etc", b"conf"];

/// Whether a file must be inspected before it is shown, by its path.
pub fn is_inspected(path: &[u8]) -> bool {
    held_at(path).is_some()
}

/// Whether the file at a path must be hidden because of its contents.
pub fn is_secret(path: &[u8], bytes: &[u8]) -> bool {
    held_at(path).is_some_and(|holds| holds.secret(path, bytes))
}

/// The same for a file of an installation, by its path in it: every file in its directories for settings is
/// inspected.
pub(super) fn is_inspected_in_toolchain(below: &[u8]) -> bool {
    held_in_toolchain(below).is_some()
}

pub(super) fn is_secret_in_toolchain(below: &[u8], bytes: &[u8]) -> bool {
    held_in_toolchain(below).is_some_and(|holds| holds.secret(below, bytes))
}

fn held_in_toolchain(below: &[u8]) -> Option<FileHolds> {
    let mut names: Vec<&[u8]> = below.split(|byte| *byte == b'/').collect();
    names.pop();
    let is_settings = || names.iter().any(|name| OF_SETTINGS.contains(name));
    held_at(below).or_else(|| is_settings().then_some(FileHolds::Values))
}

impl FileHolds {
    fn secret(self, path: &[u8], bytes: &[u8]) -> bool {
        match self {
            FileHolds::Settings => holds_credential(&without_comments(path, bytes)),
            FileHolds::Addresses => holds_secret_address(bytes),
            FileHolds::Urls => {
                let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
                secret_users(&text).any(|user| !NOBODY.contains(&user))
            }
            FileHolds::Values => {
                let text = String::from_utf8_lossy(&without_comments(path, bytes)).to_ascii_lowercase();
                has_secret_value(&text) || has_secret_address(&without_comment_lines(&text))
            }
        }
    }
}

fn held_at(path: &[u8]) -> Option<FileHolds> {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let (name, above) = names.split_last()?;
    let by_name = NAMES
        .iter()
        .find(|(pattern, _)| is_named(name, pattern))
        .map(|(_, holds)| *holds);
    by_name.or_else(|| {
        let is_below = |parts: &[&str]| match parts.split_last() {
            Some((last, parts)) if last.starts_with('*') => is_named(name, last) && ends_with(above, parts),
            _ => above.windows(parts.len()).any(|window| ends_with(window, parts)),
        };
        DIRECTORIES
            .iter()
            .find(|(parts, _)| is_below(parts))
            .map(|(_, holds)| *holds)
            .or_else(|| {
                let is_of_package = above.contains(&&b"node_modules"[..]);
                (is_named(name, PACKAGE) && !is_of_package).then_some(FileHolds::Urls)
            })
    })
}

fn ends_with(names: &[&[u8]], parts: &[&str]) -> bool {
    let start = names.len().checked_sub(parts.len());
    start.is_some_and(|start| {
        names[start..]
            .iter()
            .zip(parts)
            .all(|(name, part)| *name == part.as_bytes())
    })
}

/// Ignoring case: `NuGet.Config` is written in several ways.
fn is_named(name: &[u8], pattern: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => {
            let tail = name.len().checked_sub(end.len()).map(|start| &name[start..]);
            tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end.as_bytes()))
        }
        None => name.eq_ignore_ascii_case(pattern.as_bytes()),
    }
}

/// Maven comes with settings that explain passwords in comments.
fn without_comments<'a>(path: &[u8], bytes: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
    let text = std::str::from_utf8(bytes)
        .ok()
        .filter(|_| path.ends_with(b".xml"));
    let Some(text) = text else { return bytes.into() };
    let mut pieces = text.split("<!--");
    let first = pieces.next().unwrap_or_default().to_owned();
    let kept = pieces
        .filter_map(|piece| piece.split_once("-->"))
        .map(|(_, behind)| behind);
    kept.fold(first, |text, piece| text + piece).into_bytes().into()
}

/// Words that settings contain beside a credential, or in place of one.
const WORDS: [&str; 14] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "_auth",
    "apikey",
    "api_key",
    "api-key",
    "private_key",
    "private-key",
    "bearer",
    "authorization",
];

/// For settings, in which such a word names a secret.
pub(crate) fn holds_credential(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return true;
    };
    let text = text.to_ascii_lowercase();
    WORDS.iter().any(|word| text.contains(word)) || has_secret_value(&text) || has_secret_address(&text)
}

/// For files that tools write themselves and that contain addresses: a user or a token in one of them.
pub(crate) fn holds_secret_address(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    // A header, as checkouts of CI servers leave it in the settings of a repository.
    let words = ["token=", "password=", "authorization:"];
    has_secret_address(&text)
        || words.iter().any(|word| text.contains(word))
        || text
            .lines()
            .any(|line| line.contains("proxy") && has_password_before_host(line))
}

/// User names in addresses that are not credentials.
const NOBODY: [&str; 6] = ["git", "hg", "svn", "anonymous", "user", "username"];

/// `https://user:secret@host`, or with only a token; and `https://host/t/TOKEN/channel`, as conda has it.
fn has_secret_address(text: &str) -> bool {
    secret_users(text).next().is_some()
}

/// The user parts of such addresses.
fn secret_users(text: &str) -> impl Iterator<Item = &str> {
    const SHORTEST_TOKEN: usize = 8;
    let ends = |c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>') || c.is_whitespace();
    text.match_indices("://").filter_map(move |(at, _)| {
        let (scheme, rest) = (&text[..at], &text[at + 3..]);
        // These authenticate users by keys, not by passwords.
        let is_ssh = scheme.ends_with("ssh");
        let (authority, path) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        let token = path.strip_prefix("/t/").and_then(|rest| rest.split(ends).next());
        user.filter(|user| !is_ssh || user.contains(':'))
            .or(token.filter(|token| token.len() >= SHORTEST_TOKEN))
    })
}

/// `user:secret@host`, as settings name a proxy.
fn has_password_before_host(line: &str) -> bool {
    let between = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '=' | ',' | '<' | '>');
    line.match_indices('@').any(|(at, _)| {
        let (before, host) = (&line[..at], &line[at + 1..]);
        // A password may contain any character, so the text before it is parsed from the left.
        let start = before
            .find(':')
            .map_or(0, |colon| before[..colon].rfind(between).map_or(0, |gap| gap + 1));
        let pair = before[start..].trim_start_matches(between);
        // `key: user:secret@host`
        let pair = match pair.split_once(':') {
            Some((_, rest)) if rest.starts_with(between) => rest.trim_start_matches(between),
            _ => pair,
        };
        let is_address = pair.contains("://") || host.starts_with("sha256:");
        let has_host = host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[');
        let has_password = pair
            .split_once(':')
            .is_some_and(|(user, secret)| !user.is_empty() && !secret.is_empty());
        has_host && has_password && !is_address
    })
}

/// Suffixes of the names of settings whose values are credentials.
const SECRET_ENDS: [&str; 18] = [
    "pass",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "token",
    "secret",
    "credential",
    "credentials",
    "auth",
    "authident",
    "apikey",
    "api_key",
    "api-key",
    "_key",
    "access-key",
    "private-key",
    "accesskey",
];

/// Names with such a suffix that are not credentials.
const NOT_SECRET: [&str; 3] = ["bypass", "compass", "always-auth"];

/// Values that are never credentials, whatever the name.
const HARMLESS: [&str; 17] = [
    "",
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "0",
    "1",
    "null",
    "none",
    "always",
    "never",
    "netrc",
    "basic",
    "negotiate",
    "ntlm",
];

/// Whether a setting has a value that is a credential according to its name, or a private key, or a user with
/// a password.
fn has_secret_value(text: &str) -> bool {
    if text.contains("-----begin") && text.contains("private key-----") {
        return true;
    }
    // JSON may have all its settings on one line. TOML may begin like JSON.
    let is_json = text.trim_start().starts_with(['{', '[']);
    let pieces = text.split(['\n', '{', '}', '[', ']', ',']);
    text.lines()
        .chain(pieces.filter(|_| is_json))
        .filter(|line| !is_comment(line))
        .any(|line| is_secret_setting(line) || has_password_before_host(line))
}

fn is_comment(line: &str) -> bool {
    // `//host/:_authToken` is a setting of npm.
    line.trim_start().starts_with(['#', ';', '!'])
}

fn without_comment_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !is_comment(line)).collect();
    lines.join("\n")
}

/// `name = value`, `"name": "value"`, `export NAME=value`, `[env.NAME]`, `c.Name = value`.
fn is_secret_setting(line: &str) -> bool {
    let bare = |text: &str| {
        let kept = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';');
        text.trim_matches(kept).to_owned()
    };
    let is_secret_name = |name: &str| {
        let name = bare(name);
        let ends = |list: &[&str]| list.iter().any(|end| name.ends_with(end));
        ends(&SECRET_ENDS) && !ends(&NOT_SECRET)
    };
    if let Some(section) = line
        .trim()
        .strip_prefix("[env.")
        .and_then(|line| line.strip_suffix(']'))
    {
        return is_secret_name(section);
    }
    let Some(at) = line.find(['=', ':']) else {
        return false;
    };
    let value = bare(&line[at + 1..]);
    is_secret_name(&line[..at]) && !HARMLESS.contains(&value.as_str()) && !value.starts_with('$')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_with_credentials_are_told_from_those_without() {
        for secret in [
            "[registries.own]\ntoken = \"t\"\n",
            "[http]\nproxy = \"http://me:hush@proxy\"\n",
            "//registry.npmjs.org/:_authToken=npm_x\n",
            "index-url = https://ghp_x@pypi.example.com/simple\n",
            "npmAuthToken: x",
            "channels:\n- https://conda.anaconda.org/t/ab-0123-4567/own\n",
            "[global]\nproxy = bob:hunterTwo@proxy:3128\n",
            "[http]\nproxy = \"bob:hunterTwo@proxy:3128\"\n",
            "https-proxy=bob:hunter=Two@proxy.example.com:3128\n",
            "proxy_servers:\n  http: bob:hunterTwo@proxy:3128\n",
            "npmAuthIdent: \"bob:hunterTwo\"\n",
            "key=\"-----BEGIN PRIVATE KEY-----\\nMII\"\n",
            "[env]\nDB_PASS = { value = \"hunterTwo\" }\n",
            "[env.DB_PASS]\nvalue = \"hunterTwo\"\n",
            "[env]\nSIGNING_KEY = \"hunterTwo\"\n",
            "GOAUTH=/x hunterTwo\n",
        ] {
            assert!(holds_credential(secret.as_bytes()), "{secret}");
        }
        assert!(holds_credential(b"\xff\xfe"), "what cannot be read");
        for plain in [
            "[net]\ngit-fetch-with-cli = true\n",
            "@scope:registry=https://npm.example.com/\nfund=false\n",
            "[url \"ssh://git@github.com/\"]\n",
            "[http]\nproxy = \"proxy.example.com:3128\"\n",
            "@scope:registry=https://npm.example.com/@scope\nalways-auth=true\n",
            "GOAUTH=netrc\nGOPROXY=https://proxy.golang.org,direct\n",
            "init-author-email=me@example.com\n",
            "[env]\nNODE_PATH = \"x\"\n[build]\ntarget-dir = \"/a:b/c\"\n",
        ] {
            assert!(!holds_credential(plain.as_bytes()), "{plain}");
        }
    }

    #[test]
    fn addresses_with_a_user_are_found_among_others() {
        assert!(holds_secret_address(
            b"abc\tnot-for-merge\thttps://x-access-token:ghs@github.com/o/r"
        ));
        assert!(holds_secret_address(
            b"{\"dl\":\"https://crates.example.com/dl?token=abc\"}"
        ));
        assert!(holds_secret_address(b"extraheader = AUTHORIZATION: basic eDp5"));
        assert!(!holds_secret_address(
            b"{\"dl\":\"https://static.crates.io/crates\"}"
        ));
        assert!(!holds_secret_address(
            b"https://github.com/huggingface/tokenizers"
        ));
        assert!(!holds_secret_address(b"url = ssh://git@github.com/o/r"));
    }

    #[test]
    fn files_are_looked_into_by_their_names_and_places() {
        for path in [
            ".nvm/versions/node/v1/etc/npmrc",
            ".nuget/NuGet.Config",
            ".npm/_cacache/index-v5/ab/cd/ef",
            "go/pkg/mod/cache/vcs/0a.info",
            "a.jar.lastUpdated",
            ".gradle/init.d/own.gradle",
        ] {
            assert!(is_inspected(path.as_bytes()), "{path}");
        }
        for path in [
            "src/main.rs",
            "index-v5/ab",
            "cache/vcs/0a",
            "vcs/0a.info",
            "token.rs",
            "",
        ] {
            assert!(!is_inspected(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn addresses_with_a_user_are_found_in_what_was_asked_for() {
        for path in [
            ".npm/_npx/1/package.json",
            ".npm/_npx/1/package-lock.json",
            ".npm/_npx/1/node_modules/.package-lock.json",
            ".bun/install/global/package.json",
            ".local/share/pnpm/global/5/package.json",
            ".cache/yarn/v6/x/node_modules/x/.yarn-metadata.json",
        ] {
            let secret = |text: &str| is_secret(path.as_bytes(), text.as_bytes());
            assert!(
                secret("{\"x\":\"git+https://oauth2:hunterTwo@host/o/r\"}"),
                "{path}"
            );
            assert!(secret("{\"x\":\"https://hunterTwo@host/o/r\"}"), "{path}");
            for plain in [
                "https://git@github.com/o/r",
                "npm:y@1.2.3",
                "x --token=$TOKEN",
                "https://host/@scope",
            ] {
                assert!(!secret(&format!("{{\"x\":\"{plain}\"}}")), "{path} {plain}");
            }
        }
        assert!(!is_inspected(b".npm/_npx/1/node_modules/x/package.json"));
    }

    #[test]
    fn settings_that_explain_credentials_hold_none() {
        let secret = |path: &str, text: &str| is_secret_in_toolchain(path.as_bytes(), text.as_bytes());
        for (path, text) in [
            (
                "3.12/etc/jupyter/jupyter_server_config.json",
                "{\"ServerApp\":{\"token\":\"hunterTwo\"}}",
            ),
            (
                "java/21/conf/net.properties",
                "http.proxyUser=bob\nhttp.proxyPassword=hunterTwo\n",
            ),
            ("e/etc/conda/activate.d/env_vars.sh", "export DB_PASS=hunterTwo\n"),
            ("e/conda-meta/state", "{\"env_vars\":{\"DB_PASS\":\"hunterTwo\"}}"),
            ("e/etc/x.conf", "url = https://bob:hunterTwo@host\n"),
        ] {
            assert!(secret(path, text), "{path}");
        }
        for (path, text) in [
            (
                "java/21/conf/net.properties",
                "# http.proxyPassword=x\njdk.http.auth.tunneling.disabledSchemes=Basic\n",
            ),
            (
                "java/21/conf/security/java.security",
                "# a password\nkeystore.type=pkcs12\n",
            ),
            ("e/etc/profile.d/conda.sh", "export CONDA_EXE='/x'\n"),
            (
                "e/etc/jupyter/x.json",
                "{\"ServerApp\":{\"token\":\"\",\"jpserver_extensions\":{\"a\":true}}}",
            ),
            ("e/conda-meta/state", "{\"env_vars\":{}}"),
        ] {
            assert!(!secret(path, text), "{path}");
        }
    }

    #[test]
    fn comments_in_settings_of_maven_hold_nothing() {
        let secret = |text: &str| is_secret(b"conf/settings.xml", text.as_bytes());
        assert!(!secret("<settings><!-- <password>x</password> --></settings>"));
        assert!(secret(
            "<settings><!-- a --><password>x</password><!-- b --></settings>"
        ));
        assert!(!secret("<settings/>"));
    }
}
