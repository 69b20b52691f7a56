//! Whether a file of a tool holds a credential. Such a file is not shown: what is in doubt counts as one.
//!
//! Which files are looked into is known by their names: those in which tools keep settings, credentials, or addresses that a
//! user has given them.

/// The largest file that is looked into. A larger one under such a name is not shown.
pub const INSPECTED_BYTES: u64 = 256 << 10;

/// What a file may hold.
#[derive(Clone, Copy)]
enum Holds {
    /// Settings of the user, in which the name of a credential stands for one.
    Settings,
    /// Addresses, which the tool itself has written. Such words are names of packages there.
    Addresses,
}

/// Names of files, in small letters; one that begins with a star is the end of a name.
const NAMES: &[(&str, Holds)] = &[
    // Settings, and what is made for credentials.
    ("npmrc", Holds::Settings),
    (".npmrc", Holds::Settings),
    (".pnpmrc", Holds::Settings),
    (".yarnrc", Holds::Settings),
    (".yarnrc.yml", Holds::Settings),
    ("auth.ini", Holds::Settings),
    ("bunfig.toml", Holds::Settings),
    (".bunfig.toml", Holds::Settings),
    ("pip.conf", Holds::Settings),
    (".pypirc", Holds::Settings),
    ("uv.toml", Holds::Settings),
    ("condarc", Holds::Settings),
    (".condarc", Holds::Settings),
    (".mambarc", Holds::Settings),
    ("gemrc", Holds::Settings),
    (".gemrc", Holds::Settings),
    ("gradle.properties", Holds::Settings),
    ("settings.xml", Holds::Settings),
    ("nuget.config", Holds::Settings),
    ("auth.json", Holds::Settings),
    ("auth.toml", Holds::Settings),
    ("hex.config", Holds::Settings),
    ("user.yaml", Holds::Settings),
    (".env", Holds::Settings),
    (".envrc", Holds::Settings),
    (".netrc", Holds::Settings),
    ("_netrc", Holds::Settings),
    (".git-credentials", Holds::Settings),
    (".credentials", Holds::Settings),
    ("credentials", Holds::Settings),
    ("credentials.json", Holds::Settings),
    ("credentials.toml", Holds::Settings),
    ("credentials.tfrc.json", Holds::Settings),
    // Repositories that were fetched.
    ("config", Holds::Addresses),
    ("config.worktree", Holds::Addresses),
    ("fetch_head", Holds::Addresses),
    ("head", Holds::Addresses),
    (".gitmodules", Holds::Addresses),
    // What was installed, and from where.
    ("config.json", Holds::Addresses),
    ("ccache.conf", Holds::Addresses),
    ("db.db", Holds::Addresses),
    ("direct_url.json", Holds::Addresses),
    ("history", Holds::Addresses),
    (".nupkg.metadata", Holds::Addresses),
    ("pipx_metadata.json", Holds::Addresses),
    ("resolver-status.properties", Holds::Addresses),
    ("urls.txt", Holds::Addresses),
    ("uv-receipt.toml", Holds::Addresses),
    ("*.lastupdated", Holds::Addresses),
    // How a server of a build tool was started.
    ("cmdline", Holds::Addresses),
    ("command.log", Holds::Addresses),
];

/// Directories whose files are all looked into: their names tell nothing.
const DIRECTORIES: &[(&[&str], Holds)] = &[
    // npm's, whose keys are addresses.
    (&["_cacache", "index-v5"], Holds::Addresses),
    // go's, where a repository has its address beside it.
    (&["cache", "vcs", "*.info"], Holds::Addresses),
    // Scripts that gradle runs before every build.
    (&["init.d"], Holds::Settings),
];

/// Whether a file is to be looked into before it is shown, by its path.
pub fn is_inspected(path: &[u8]) -> bool {
    held_at(path).is_some()
}

/// Whether the file at a path is not to be shown because of what it holds.
pub fn is_secret(path: &[u8], bytes: &[u8]) -> bool {
    match held_at(path) {
        Some(Holds::Settings) => holds_credential(&without_comments(path, bytes)),
        Some(Holds::Addresses) => holds_secret_address(bytes),
        None => false,
    }
}

fn held_at(path: &[u8]) -> Option<Holds> {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let (name, above) = names.split_last()?;
    let by_name = NAMES.iter().find(|(pattern, _)| is_named(name, pattern)).map(|(_, holds)| *holds);
    by_name.or_else(|| {
        let is_below = |parts: &[&str]| match parts.split_last() {
            Some((last, parts)) if last.starts_with('*') => is_named(name, last) && ends_with(above, parts),
            _ => above.windows(parts.len()).any(|window| ends_with(window, parts)),
        };
        DIRECTORIES.iter().find(|(parts, _)| is_below(parts)).map(|(_, holds)| *holds)
    })
}

fn ends_with(names: &[&[u8]], parts: &[&str]) -> bool {
    let start = names.len().checked_sub(parts.len());
    start.is_some_and(|start| names[start..].iter().zip(parts).all(|(name, part)| *name == part.as_bytes()))
}

/// Without regard to letters and capitals: `NuGet.Config` is written in several ways.
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
    let text = std::str::from_utf8(bytes).ok().filter(|_| path.ends_with(b".xml"));
    let Some(text) = text else { return bytes.into() };
    let mut pieces = text.split("<!--");
    let first = pieces.next().unwrap_or_default().to_owned();
    let kept = pieces.filter_map(|piece| piece.split_once("-->")).map(|(_, behind)| behind);
    kept.fold(first, |text, piece| text + piece).into_bytes().into()
}

/// Words that settings have beside a credential, or in the place of one.
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

/// For settings, in which such a word is a name of something secret.
pub fn holds_credential(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return true };
    let text = text.to_ascii_lowercase();
    WORDS.iter().any(|word| text.contains(word)) || has_secret_address(&text)
}

/// For files that tools write themselves and that hold addresses: a user or a token in one of them.
pub fn holds_secret_address(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    // A header, as checkouts of CI servers leave it in the settings of a repository.
    let words = ["token=", "password=", "authorization:"];
    has_secret_address(&text) || words.iter().any(|word| text.contains(word))
}

/// `https://user:secret@host`, or with a token alone; and `https://host/t/TOKEN/channel`, as conda has it.
fn has_secret_address(text: &str) -> bool {
    const SHORTEST_TOKEN: usize = 8;
    let ends = |c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>') || c.is_whitespace();
    text.match_indices("://").any(|(at, _)| {
        let (scheme, rest) = (&text[..at], &text[at + 3..]);
        // Keys, and not passwords, are what a user of these is let in by.
        let is_ssh = scheme.ends_with("ssh");
        let (authority, path) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        let token = path.strip_prefix("/t/").and_then(|rest| rest.split(ends).next());
        authority.rsplit_once('@').is_some_and(|(user, _)| !is_ssh || user.contains(':'))
            || token.is_some_and(|token| token.len() >= SHORTEST_TOKEN)
    })
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
        ] {
            assert!(holds_credential(secret.as_bytes()), "{secret}");
        }
        assert!(holds_credential(b"\xff\xfe"), "what cannot be read");
        for plain in [
            "[net]\ngit-fetch-with-cli = true\n",
            "@scope:registry=https://npm.example.com/\nfund=false\n",
            "[url \"ssh://git@github.com/\"]\n",
        ] {
            assert!(!holds_credential(plain.as_bytes()), "{plain}");
        }
    }

    #[test]
    fn addresses_with_a_user_are_found_among_others() {
        assert!(holds_secret_address(b"abc\tnot-for-merge\thttps://x-access-token:ghs@github.com/o/r"));
        assert!(holds_secret_address(b"{\"dl\":\"https://crates.example.com/dl?token=abc\"}"));
        assert!(holds_secret_address(b"extraheader = AUTHORIZATION: basic eDp5"));
        assert!(!holds_secret_address(b"{\"dl\":\"https://static.crates.io/crates\"}"));
        assert!(!holds_secret_address(b"https://github.com/huggingface/tokenizers"));
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
        for path in ["src/main.rs", "index-v5/ab", "cache/vcs/0a", "vcs/0a.info", "token.rs", ""] {
            assert!(!is_inspected(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn comments_in_settings_of_maven_hold_nothing() {
        let secret = |text: &str| is_secret(b"conf/settings.xml", text.as_bytes());
        assert!(!secret("<settings><!-- <password>x</password> --></settings>"));
        assert!(secret("<settings><!-- a --><password>x</password><!-- b --></settings>"));
        assert!(!secret("<settings/>"));
    }
}
