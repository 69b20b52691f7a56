//! Whether a file that git tracks is a key or a credential, judging by its contents, which are inspected and
//! stored nowhere. In doubt it is one.

use std::fmt;

/// Why a file stays hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// Its name shows it: `id_rsa`, `.netrc`, everything in `.ssh`.
    Name,
    /// A rule that is not a preset's hides it.
    Rule,
    /// It has a private key.
    PrivateKey,
    /// An access token of this service.
    Token(&'static str),
    /// It has something that looks like a password.
    Password,
    /// It is not text, or an unknown kind of file.
    Unknown,
    /// It is too large to be looked at.
    TooLarge,
    /// It could not be read.
    Unreadable,
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Name => f.write_str("by its name"),
            Secret::Rule => f.write_str("by a rule"),
            Secret::PrivateKey => f.write_str("a private key"),
            Secret::Token(service) => write!(f, "a token of {service}"),
            Secret::Password => f.write_str("a password or key"),
            Secret::Unknown => f.write_str("contents that cannot be judged"),
            Secret::TooLarge => f.write_str("too large to be judged"),
            Secret::Unreadable => f.write_str("cannot be read"),
        }
    }
}

/// Larger files are not judged.
pub(super) const LARGEST: u64 = 1 << 20;

/// The suffixes of source files. Passwords in them are usually those of tests.
const SOURCES: &[&str] = &[
    "rs", "py", "pyi", "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "vue", "svelte", "go", "java",
    "kt", "kts", "scala", "clj", "c", "h", "cc", "cpp", "cxx", "hh", "hpp", "m", "mm", "cs", "fs", "vb",
    "rb", "php", "pl", "pm", "swift", "dart", "ex", "exs", "erl", "hs", "ml", "mli", "lua", "r", "jl", "zig",
    "nim", "sh", "bash", "zsh", "fish", "ps1", "sql", "proto", "graphql", "html", "css", "scss", "md", "rst",
    "adoc", "tf",
];

/// Directories with data for tests and examples.
const FOR_TESTS: &[&str] = &[
    "test",
    "tests",
    "testing",
    "testdata",
    "test-data",
    "test_data",
    "__tests__",
    "spec",
    "specs",
    "fixture",
    "fixtures",
    "__fixtures__",
    "example",
    "examples",
    "sample",
    "samples",
    "mock",
    "mocks",
    "__mocks__",
    "e2e",
    "integration-tests",
];

/// Whether a path is data for tests or examples: a committed key in it is theirs.
pub(super) fn is_for_tests(path: &[u8]) -> bool {
    let mut directories: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    directories.pop();
    directories.iter().any(|name| {
        FOR_TESTS
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    })
}

/// Whether the contents of the file with this name are a key or a credential, as far as its name leaves that
/// open.
pub(super) fn judge(name: &[u8], contents: &[u8]) -> Option<Secret> {
    let (Ok(text), Ok(name)) = (std::str::from_utf8(contents), std::str::from_utf8(name)) else {
        return Some(Secret::Unknown);
    };
    if text.contains('\0') {
        return Some(Secret::Unknown);
    }
    let name = name.to_ascii_lowercase();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    certain(text).or_else(|| match ending {
        "pem" | "key" => (!is_public_armour(text)).then_some(Secret::Unknown),
        "p12" | "pfx" | "jks" | "keystore" => Some(Secret::Unknown),
        "htpasswd" => (!text.trim().is_empty()).then_some(Secret::Password),
        source if SOURCES.contains(&source) => None,
        _ => has_password(text).then_some(Secret::Password),
    })
}

/// Contents that cannot be anything else: a private key, or a working token.
pub(super) fn certain(text: &str) -> Option<Secret> {
    if blocks(text).any(|kind| kind.contains("PRIVATE KEY")) || text.contains("PuTTY-User-Key-File") {
        return Some(Secret::PrivateKey);
    }
    token(text).map(Secret::Token)
}

/// The types of armoured blocks in a text.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    text.split("-----BEGIN ")
        .skip(1)
        .filter_map(|rest| rest.split_once("-----").map(|(kind, _)| kind))
}

/// Whether everything armoured in it is public: certificates, public keys, parameters.
fn is_public_armour(text: &str) -> bool {
    let is_public = |kind: &str| {
        ["CERTIFICATE", "PUBLIC KEY", "PARAMETERS", "CRL", "PKCS7", "CMS"]
            .iter()
            .any(|word| kind.contains(word))
    };
    let mut kinds = blocks(text).peekable();
    kinds.peek().is_some() && kinds.all(is_public)
}

/// The prefixes of tokens of services, and the minimum number of letters and digits after them.
const TOKENS: &[(&str, usize, &str)] = &[
    ("AKIA", 16, "AWS"),
    ("ASIA", 16, "AWS"),
    ("ghp_", 30, "GitHub"),
    ("gho_", 30, "GitHub"),
    ("ghu_", 30, "GitHub"),
    ("ghs_", 30, "GitHub"),
    ("ghr_", 30, "GitHub"),
    ("github_pat_", 30, "GitHub"),
    ("glpat-", 20, "GitLab"),
    ("xoxb-", 20, "Slack"),
    ("xoxp-", 20, "Slack"),
    ("xoxa-", 20, "Slack"),
    ("xoxs-", 20, "Slack"),
    ("xapp-", 20, "Slack"),
    ("sk-ant-", 20, "Anthropic"),
    ("sk-proj-", 20, "OpenAI"),
    ("sk-", 40, "OpenAI"),
    ("sk_live_", 16, "Stripe"),
    ("rk_live_", 16, "Stripe"),
    ("npm_", 36, "npm"),
    ("pypi-", 50, "PyPI"),
    ("AIza", 35, "Google"),
    ("ya29.", 30, "Google"),
    ("dop_v1_", 40, "DigitalOcean"),
    ("hf_", 30, "Hugging Face"),
    ("SG.", 40, "SendGrid"),
    ("eyJ", 60, "JWT"),
];

/// The service of a token in the text. A token in documentation says that it is an example.
fn token(text: &str) -> Option<&'static str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let words = text.split(|c: char| !is_part(c)).filter(|word| word.len() >= 20);
    words.filter(|word| !says_example(word)).find_map(|word| {
        let begins = |(start, rest, _): &&(&str, usize, &str)| {
            word.strip_prefix(start).is_some_and(|after| after.len() >= *rest)
        };
        TOKENS.iter().find(begins).map(|(_, _, service)| *service)
    })
}

/// Parts of the names of settings whose values are secrets.
const SECRET_NAMES: &[&str] = &[
    "pass",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "accesskey",
    "private_key",
    "privatekey",
    "encryption_key",
    "signing_key",
    "master_key",
    "auth",
    "credential",
    "pwd",
    "_key",
    "dsn",
];

/// Whether a setting in the text has a value that looks like a password or a key.
pub(super) fn has_password(text: &str) -> bool {
    // JSON may have all its settings on one line.
    let is_json = text.trim_start().starts_with(['{', '[']);
    text.split(|c: char| c == '\n' || is_json && matches!(c, '{' | '}' | '[' | ']' | ','))
        .any(|line| {
            let line = line.trim().trim_start_matches("export ").trim_start();
            let is_comment = line.starts_with('#') || line.starts_with("//") || line.starts_with(';');
            is_setting_of_registry(line)
                || !is_comment
                    && (has_password_in_url(line) || has_password_of_proxy(line) || is_secret_setting(line))
        })
}

/// `//registry.example.org/:_authToken=…`, as npm has it.
fn is_setting_of_registry(line: &str) -> bool {
    let setting = line.strip_prefix("//").and_then(|line| line.split_once("/:"));
    setting.is_some_and(|(_, setting)| is_secret_setting(setting))
}

fn is_secret_setting(line: &str) -> bool {
    let Some(at) = line.find(['=', ':']) else {
        return false;
    };
    let trimmed = |text: &str| {
        text.trim()
            .trim_end_matches([',', ';'])
            .trim_matches(|c| matches!(c, '"' | '\'' | '`'))
            .trim()
            .to_owned()
    };
    let (name, value) = (
        trimmed(&line[..at]).to_ascii_lowercase(),
        trimmed(&line[at + 1..]),
    );
    // Several words are a sentence, unless the setting is a passphrase.
    let is_sentence = value.contains(char::is_whitespace) && !name.contains("phrase");
    let is_named = SECRET_NAMES.iter().any(|word| name.contains(word));
    is_named && !value.contains("://") && !is_sentence && !is_placeholder(&value)
}

/// `scheme://user:password@host`
fn has_password_in_url(line: &str) -> bool {
    line.split("://").skip(1).any(|rest| {
        let place = rest
            .split(|c: char| matches!(c, '/' | '"' | '\'') || c.is_whitespace())
            .next()
            .unwrap_or("");
        let Some((user, host)) = place.rsplit_once('@') else {
            return false;
        };
        let Some((_, password)) = user.split_once(':') else {
            return false;
        };
        let is_local = ["localhost", "127.", "[::1]", "0.0.0.0"]
            .iter()
            .any(|local| host.starts_with(local));
        !is_local && !is_placeholder(password)
    })
}

/// `proxy = user:password@host:port`: the scheme of a proxy may be left out.
fn has_password_of_proxy(line: &str) -> bool {
    let words = line.split(|c: char| matches!(c, '"' | '\'' | ',') || c.is_whitespace());
    let is_proxy = line.to_ascii_lowercase().contains("proxy");
    words
        .filter(|word| is_proxy && !word.contains("://"))
        .any(|word| {
            let Some((pair, host)) = word.rsplit_once('@') else {
                return false;
            };
            let pair = pair.split_once('=').map_or(pair, |(_, pair)| pair);
            let has_host = host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[');
            let password = pair.split_once(':').map(|(_, password)| password);
            has_host && password.is_some_and(|password| !is_placeholder(password))
        })
}

/// Words that make up values that are not secret. Longer ones come first.
const HARMLESS: &[&str] = &[
    "placeholder",
    "development",
    "insecure",
    "password",
    "postgres",
    "default",
    "example",
    "replace",
    "abc123",
    "change",
    "insert",
    "please",
    "passwd",
    "sample",
    "secret",
    "12345",
    "admin",
    "dummy",
    "false",
    "guest",
    "local",
    "mysql",
    "redis",
    "super",
    "token",
    "value",
    "1234",
    "demo",
    "fake",
    "here",
    "host",
    "mock",
    "none",
    "null",
    "pass",
    "real",
    "root",
    "some",
    "test",
    "this",
    "todo",
    "true",
    "user",
    "your",
    "app",
    "bar",
    "baz",
    "dev",
    "foo",
    "key",
    "not",
    "xxx",
    "db",
    "in",
    "it",
    "me",
    "my",
];

/// How many letters and digits a value may have beside such words.
const BESIDE_WORDS: usize = 3;

/// Whether a token indicates that it is an example: it contains a harmless word.
fn says_example(token: &str) -> bool {
    let lower = token.to_ascii_lowercase();
    [
        "example",
        "placeholder",
        "sample",
        "dummy",
        "fake",
        "your",
        "xxx",
        "test",
    ]
    .iter()
    .any(|word| lower.contains(word))
}

/// Whether a value is not secret. A word like "secret" in it is not enough: all of it must consist of such
/// words.
fn is_placeholder(value: &str) -> bool {
    let is_reference =
        value.starts_with(['$', '<', '{', '%', '[']) || value.contains("{{") || value.contains("${");
    let kinds = value.chars().collect::<std::collections::HashSet<char>>().len();
    let is_example = value.to_ascii_lowercase().contains("example");
    let words = HARMLESS
        .iter()
        .fold(value.to_ascii_lowercase(), |rest, word| rest.replace(word, " "));
    let beside_words = words.chars().filter(|c| c.is_alphanumeric()).count();
    value.len() < 7 || kinds < 4 || is_reference || is_example || beside_words <= BESIDE_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_decide() {
        let ghp = format!("token: ghp_{}", "aB3".repeat(12));
        let aws = "aws_access_key_id = AKIAQ7ZRT4WX2LMNOP5K\n";
        let service = r#"{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\nMII"}"#;
        let cert = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\n";
        let both = format!("{cert}{key}");
        for (name, contents, expected) in [
            (
                "credentials.rs",
                "pub struct Credentials { password: String }\n",
                None,
            ),
            (
                "credentials.rs",
                "const PASSWORD: &str = \"Zk38vnQ0pLw2\";\n",
                None,
            ),
            ("credentials.rs", &*ghp, Some(Secret::Token("GitHub"))),
            (
                "secrets.py",
                "import secrets\nTOKEN = secrets.token_hex()\n",
                None,
            ),
            ("secrets.py", key, Some(Secret::PrivateKey)),
            ("ca.pem", cert, None),
            ("ca.pem", "not armoured", Some(Secret::Unknown)),
            ("server.pem", &*both, Some(Secret::PrivateKey)),
            (
                "master.key",
                "0f1e2d3c4b5a69788796a5b4c3d2e1f0\n",
                Some(Secret::Unknown),
            ),
            (
                "public.key",
                "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n",
                None,
            ),
            (
                "putty.key",
                "PuTTY-User-Key-File-2: ssh-rsa\n",
                Some(Secret::PrivateKey),
            ),
            ("a.p12", "text", Some(Secret::Unknown)),
            ("a.jks", "\u{fe}\0", Some(Secret::Unknown)),
            (
                ".env.test",
                "DATABASE_URL=postgres://postgres:postgres@localhost/app\nSECRET_KEY=test\n",
                None,
            ),
            (
                ".env.development",
                "API_URL=https://api.example.com\nPORT=3000\nDEBUG=true\n",
                None,
            ),
            (
                ".env.development",
                "API_KEY=\nTOKEN=${TOKEN}\nPASSWORD=changeme-please\n",
                None,
            ),
            (
                ".env.production",
                "DB_PASSWORD=Zk38vnQ0pLw2\n",
                Some(Secret::Password),
            ),
            (
                ".env.production",
                "DB_PASSWORD=hunter2secret9\n",
                Some(Secret::Password),
            ),
            (".env.production", "DB_PASSWORD=hunter2\n", Some(Secret::Password)),
            (
                ".env.production",
                "ADMIN_PASS=Xk29!sdkfj\n",
                Some(Secret::Password),
            ),
            (
                ".env.production",
                "PASSWORD=test1234prod!\n",
                Some(Secret::Password),
            ),
            (
                ".env.production",
                "PASSPHRASE=one two three four\n",
                Some(Secret::Password),
            ),
            (
                ".env.test",
                "DB_PASSWORD=test_password_123\nAPI_KEY=not-a-real-key\nADMIN_PASS=changeme\n",
                None,
            ),
            (
                ".env.test",
                "TOKEN_HINT=the token is asked for at the start\n",
                None,
            ),
            (
                ".env.production",
                "export STRIPE_KEY='Zk38vnQ0pLw2yy'\n",
                Some(Secret::Password),
            ),
            (
                ".env",
                "URL=postgres://app:Zk38vnQ0pLw2@db.prod.internal/app\n",
                Some(Secret::Password),
            ),
            (".env", "URL=postgres://app:Zk38vnQ0pLw2@localhost/app\n", None),
            ("credentials", aws, Some(Secret::Token("AWS"))),
            ("credentials", "aws_access_key_id = AKIAIOSFODNN7EXAMPLE\n", None),
            (
                "credentials.yml",
                "client_secret: 'Zk38vnQ0pLw2'\n",
                Some(Secret::Password),
            ),
            ("service-account.json", service, Some(Secret::PrivateKey)),
            ("service-account.json", r#"{"client_email": "a@b.c"}"#, None),
            (".htpasswd", "ada:$apr1$x$y\n", Some(Secret::Password)),
            (
                ".npmrc",
                "//registry.example.org/:_authToken=Zk38vnQ0pLw2\n",
                Some(Secret::Password),
            ),
            (
                ".npmrc",
                "https-proxy=bob:Zk38vnQ0pLw2@proxy:3128\n",
                Some(Secret::Password),
            ),
            (
                "pip.conf",
                "proxy = bob:Zk38vnQ0pLw2@proxy:3128\n",
                Some(Secret::Password),
            ),
            (".npmrc", "proxy=proxy.example.org:3128\n", None),
            (
                ".yarnrc.yml",
                "npmAuthIdent: \"bob:Zk38vnQ0pLw2\"\n",
                Some(Secret::Password),
            ),
            (
                ".npmrc",
                "//registry.example.org/:_authToken=${NPM_TOKEN}\n",
                None,
            ),
            (
                ".npmrc",
                "// a comment: password=Zk38vnQ0pLw2\nsave-exact=true\n",
                None,
            ),
            (
                "terraform.tfvars",
                "db_password = \"Zk38vnQ0pLw2\"\n",
                Some(Secret::Password),
            ),
        ] {
            assert_eq!(
                judge(name.as_bytes(), contents.as_bytes()),
                expected,
                "{name}: {contents}"
            );
        }
        assert_eq!(judge(b".env", b"A=\xff"), Some(Secret::Unknown));
    }

    #[test]
    fn json_on_one_line_is_read_as_on_many() {
        assert!(has_password(
            r#"{"outputs":{"db":{"user":"app","password":"Zk38vnQ0pLw2"}},"version":4}"#
        ));
        assert!(!has_password(
            r#"{"outputs":{"db":{"user":"app","password":""}},"version":4}"#
        ));
        assert!(!has_password(
            r#"{"scripts":{"token":"node token.js --all"},"version":4}"#
        ));
    }

    #[test]
    fn test_data_is_recognised_by_its_directories() {
        for path in ["tests/key.pem", "a/Fixtures/b/id_rsa", "src/test/resources/a.jks"] {
            assert!(is_for_tests(path.as_bytes()), "{path}");
        }
        for path in ["key.pem", "certs/server.key", "tests", "latest/key.pem"] {
            assert!(!is_for_tests(path.as_bytes()), "{path}");
        }
    }
}
