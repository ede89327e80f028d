//! The kinds of secrets that are redacted, and sets of them.
//!
//! The marker that replaces a secret contains the name of the secret's kind and is stored in
//! records, so names never change.

macro_rules! secret_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)+) => {
        /// A kind of secret, recognised by its format or by the label before it.
        ///
        /// The description of a kind shows what its secrets look like. In `ghp_…`, the `…` stands
        /// for the characters that differ from secret to secret.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum SecretKind {
            $($(#[$doc])* $kind,)+
        }

        impl SecretKind {
            /// Every kind, in declaration order.
            pub const ALL: [Self; [$(Self::$kind),+].len()] = [$(Self::$kind),+];

            /// The stable name, as in `[redacted:NAME]`.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

secret_kinds! {
    /// The id of an AWS access key: `AKIA…`, `ASIA…`.
    AwsAccessKey = "aws_access_key",
    /// The secret part of an AWS access key: forty characters after a label such as
    /// `aws_secret_access_key`.
    AwsSecretKey = "aws_secret_key",
    /// `AIza…`.
    GoogleApiKey = "google_api_key",
    /// `ya29.…`, `GOCSPX-…`.
    GoogleOauth = "google_oauth",
    /// `AccountKey=…`, `SharedAccessKey=…`, or `sig=…` in a signed URL.
    AzureKey = "azure_key",
    /// `ghp_…`, `gho_…`, `ghu_…`, `ghs_…`, `ghr_…`, `github_pat_…`.
    GithubToken = "github_token",
    /// `glpat-…` and GitLab's other token prefixes.
    GitlabToken = "gitlab_token",
    /// `sk-…`, `sk-proj-…`, `sk-svcacct-…`, `sess-…`.
    OpenaiKey = "openai_key",
    /// `sk-ant-…`.
    AnthropicKey = "anthropic_key",
    /// `sk-or-…`.
    OpenrouterKey = "openrouter_key",
    /// `hf_…`.
    HuggingFaceToken = "hugging_face_token",
    /// `gsk_…`.
    GroqKey = "groq_key",
    /// `xai-…`.
    XaiKey = "xai_key",
    /// `r8_…`.
    ReplicateToken = "replicate_token",
    /// `xoxb-…`, `xoxp-…`, `xapp-…` and Slack's other token prefixes.
    SlackToken = "slack_token",
    /// The path of a Slack or Discord incoming webhook.
    Webhook = "webhook",
    /// `sk_live_…`, `rk_live_…`, `sk_test_…`, `whsec_…`.
    StripeKey = "stripe_key",
    /// A key or token whose label contains `twilio`.
    TwilioKey = "twilio_key",
    /// `SG.….…`.
    SendgridKey = "sendgrid_key",
    /// `npm_…`.
    NpmToken = "npm_token",
    /// `pypi-Ag…`.
    PypiToken = "pypi_token",
    /// `dckr_pat_…`, `dckr_oat_…`.
    DockerToken = "docker_token",
    /// `cio…`.
    CratesToken = "crates_token",
    /// `dop_v1_…`, `doo_v1_…`, `dor_v1_…`.
    DigitaloceanToken = "digitalocean_token",
    /// `shpat_…`, `shpca_…`, `shppa_…`, `shpss_…`.
    ShopifyToken = "shopify_token",
    /// `lin_api_…`, `lin_oauth_…`.
    LinearKey = "linear_key",
    /// `ntn_…`, `secret_…`.
    NotionToken = "notion_token",
    /// A Telegram bot token: `123456789:AA…`.
    TelegramToken = "telegram_token",
    /// A Discord bot token: three parts separated by dots.
    DiscordToken = "discord_token",
    /// A token of another service that has a known prefix.
    ServiceToken = "service_token",
    /// A JSON web token: `eyJ….eyJ….…`.
    Jwt = "jwt",
    /// A PEM, OpenSSH or PGP private key block.
    PrivateKey = "private_key",
    /// The credential in an `Authorization` header, without the scheme.
    Authorization = "authorization",
    /// The value of `x-api-key` and similar headers.
    ApiKeyHeader = "api_key_header",
    /// The values of a `Cookie` or `Set-Cookie` header.
    Cookie = "cookie",
    /// The password in a URL: `postgres://user:…@host`.
    UrlPassword = "url_password",
    /// The password in a connection string: `Server=db;Password=…;`.
    ConnectionPassword = "connection_password",
    /// A value whose label says that it is a password, a secret or a token.
    LabelledSecret = "labelled_secret",
    /// A token with a prefix that was added with `Redaction::with_prefix`.
    CustomPrefix = "custom_prefix",
    /// A match of a pattern that was added with `Redaction::with_pattern`.
    CustomPattern = "custom_pattern",
}

impl SecretKind {
    /// The kind with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl std::fmt::Display for SecretKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of [`SecretKind`]s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SecretKinds(u64);

impl SecretKinds {
    pub(super) const NONE: Self = Self(0);
    pub(super) const ALL: Self = Self((1 << SecretKind::ALL.len()) - 1);

    /// Whether the set contains this kind.
    pub const fn contains(self, kind: SecretKind) -> bool {
        self.0 & Self::bit(kind) != 0
    }

    /// Whether the set contains no kind.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The kinds in the set, in the order of [`SecretKind::ALL`].
    pub fn iter(self) -> impl Iterator<Item = SecretKind> {
        SecretKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }

    pub(super) const fn with(self, kind: SecretKind) -> Self {
        Self(self.0 | Self::bit(kind))
    }

    pub(super) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn without(self, kind: SecretKind) -> Self {
        Self(self.0 & !Self::bit(kind))
    }

    const fn bit(kind: SecretKind) -> u64 {
        1 << kind as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name() {
        for (index, kind) in SecretKind::ALL.into_iter().enumerate() {
            assert_eq!(SecretKind::from_name(kind.name()), Some(kind));
            assert_eq!(kind as usize, index);
            assert!(kind.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        }
        assert_eq!(SecretKind::from_name("no_such_kind"), None);
    }

    #[test]
    fn a_set_contains_the_kinds_that_were_added() {
        let some = SecretKinds::NONE.with(SecretKind::Jwt).with(SecretKind::NpmToken);
        assert_eq!(some.iter().collect::<Vec<_>>(), [SecretKind::NpmToken, SecretKind::Jwt]);
        assert!(!some.without(SecretKind::Jwt).contains(SecretKind::Jwt));
        assert_eq!(SecretKinds::ALL.iter().count(), SecretKind::ALL.len());
    }
}
