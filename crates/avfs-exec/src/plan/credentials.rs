//! Whether a settings file of a tool holds a credential. Such a file is not shown: what is in doubt counts as one.

/// Words that settings have beside a credential, or in the place of one.
const WORDS: [&str; 13] = [
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
];

/// For settings, in which such a word is a name of something secret.
pub fn holds_credential(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return true };
    let text = text.to_ascii_lowercase();
    WORDS.iter().any(|word| text.contains(word)) || has_user_in_address(&text)
}

/// For files that tools write themselves and that hold addresses: a user or a token in one of them.
pub fn holds_secret_address(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    has_user_in_address(&text) || text.contains("token=") || text.contains("password=")
}

/// `https://user:secret@host`, or with a token alone.
fn has_user_in_address(text: &str) -> bool {
    let ends = |c: char| matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>') || c.is_whitespace();
    text.match_indices("://").any(|(at, _)| {
        let (scheme, rest) = (&text[..at], &text[at + 3..]);
        // Keys, and not passwords, are what a user of these is let in by.
        let is_ssh = scheme.ends_with("ssh");
        let authority = rest.split(ends).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| !is_ssh || user.contains(':'))
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
        assert!(!holds_secret_address(b"{\"dl\":\"https://static.crates.io/crates\"}"));
        assert!(!holds_secret_address(b"https://github.com/huggingface/tokenizers"));
        assert!(!holds_secret_address(b"url = ssh://git@github.com/o/r"));
    }
}
