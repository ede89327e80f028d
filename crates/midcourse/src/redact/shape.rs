//! The kinds of secrets that are known, and sets of them.
//!
//! A shape's name is what stands in a record where the secret stood, and what a person writes in a
//! configuration: names never change.

/// A kind of secret that can be told by its looks or by its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SecretShape {
    /// `AKIA…`, `ASIA…`: the id of an AWS access key.
    AwsAccessKey,
    /// The forty characters labelled as an AWS secret key.
    AwsSecretKey,
    /// `AIza…`.
    GoogleApiKey,
    /// `ya29.…`, `GOCSPX-…`.
    GoogleOauth,
    /// `AccountKey=…`, `SharedAccessKey=…`, the `sig=…` of a signed address.
    AzureKey,
    /// `ghp_…`, `gho_…`, `ghu_…`, `ghs_…`, `ghr_…`, `github_pat_…`.
    GithubToken,
    /// `glpat-…` and its siblings.
    GitlabToken,
    /// `sk-…`, `sk-proj-…`, `sk-svcacct-…`, `sess-…`.
    OpenaiKey,
    /// `sk-ant-…`.
    AnthropicKey,
    /// `sk-or-…`.
    OpenrouterKey,
    /// `hf_…`.
    HuggingFaceToken,
    /// `gsk_…`.
    GroqKey,
    /// `xai-…`.
    XaiKey,
    /// `r8_…`.
    ReplicateToken,
    /// `xoxb-…`, `xoxp-…`, `xapp-…` and their siblings.
    SlackToken,
    /// The path of an incoming webhook of Slack or Discord.
    Webhook,
    /// `sk_live_…`, `rk_live_…`, `sk_test_…`, `whsec_…`.
    StripeKey,
    /// A key or token whose label names Twilio.
    TwilioKey,
    /// `SG.….…`.
    SendgridKey,
    /// `npm_…`.
    NpmToken,
    /// `pypi-Ag…`.
    PypiToken,
    /// `dckr_pat_…`.
    DockerToken,
    /// `cio…`.
    CratesToken,
    /// `dop_v1_…`.
    DigitaloceanToken,
    /// `shpat_…` and its siblings.
    ShopifyToken,
    /// `lin_api_…`.
    LinearKey,
    /// `ntn_…`, `secret_…`.
    NotionToken,
    /// `123456789:AA…`.
    TelegramToken,
    /// The three parts of a Discord bot's token.
    DiscordToken,
    /// Tokens of other services that are known by their beginning.
    ServiceToken,
    /// `eyJ….eyJ….…`.
    Jwt,
    /// A PEM, OpenSSH or PGP private key block.
    PrivateKey,
    /// What follows `Authorization:` and its scheme.
    Authorization,
    /// What follows `x-api-key:` and its like.
    ApiKeyHeader,
    /// The cookies behind `Cookie:` and `Set-Cookie:`.
    Cookie,
    /// The password in an address.
    UrlPassword,
    /// The password in a connection string.
    ConnectionPassword,
    /// A value that its label calls a password, a secret or a token.
    LabelledSecret,
    /// A token that begins as a person said their own do.
    OwnPrefix,
}

impl SecretShape {
    /// Every shape.
    pub const ALL: [Self; 39] = [
        Self::AwsAccessKey,
        Self::AwsSecretKey,
        Self::GoogleApiKey,
        Self::GoogleOauth,
        Self::AzureKey,
        Self::GithubToken,
        Self::GitlabToken,
        Self::OpenaiKey,
        Self::AnthropicKey,
        Self::OpenrouterKey,
        Self::HuggingFaceToken,
        Self::GroqKey,
        Self::XaiKey,
        Self::ReplicateToken,
        Self::SlackToken,
        Self::Webhook,
        Self::StripeKey,
        Self::TwilioKey,
        Self::SendgridKey,
        Self::NpmToken,
        Self::PypiToken,
        Self::DockerToken,
        Self::CratesToken,
        Self::DigitaloceanToken,
        Self::ShopifyToken,
        Self::LinearKey,
        Self::NotionToken,
        Self::TelegramToken,
        Self::DiscordToken,
        Self::ServiceToken,
        Self::Jwt,
        Self::PrivateKey,
        Self::Authorization,
        Self::ApiKeyHeader,
        Self::Cookie,
        Self::UrlPassword,
        Self::ConnectionPassword,
        Self::LabelledSecret,
        Self::OwnPrefix,
    ];

    /// The shape's stable name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AwsAccessKey => "aws_access_key",
            Self::AwsSecretKey => "aws_secret_key",
            Self::GoogleApiKey => "google_api_key",
            Self::GoogleOauth => "google_oauth",
            Self::AzureKey => "azure_key",
            Self::GithubToken => "github_token",
            Self::GitlabToken => "gitlab_token",
            Self::OpenaiKey => "openai_key",
            Self::AnthropicKey => "anthropic_key",
            Self::OpenrouterKey => "openrouter_key",
            Self::HuggingFaceToken => "hugging_face_token",
            Self::GroqKey => "groq_key",
            Self::XaiKey => "xai_key",
            Self::ReplicateToken => "replicate_token",
            Self::SlackToken => "slack_token",
            Self::Webhook => "webhook",
            Self::StripeKey => "stripe_key",
            Self::TwilioKey => "twilio_key",
            Self::SendgridKey => "sendgrid_key",
            Self::NpmToken => "npm_token",
            Self::PypiToken => "pypi_token",
            Self::DockerToken => "docker_token",
            Self::CratesToken => "crates_token",
            Self::DigitaloceanToken => "digitalocean_token",
            Self::ShopifyToken => "shopify_token",
            Self::LinearKey => "linear_key",
            Self::NotionToken => "notion_token",
            Self::TelegramToken => "telegram_token",
            Self::DiscordToken => "discord_token",
            Self::ServiceToken => "service_token",
            Self::Jwt => "jwt",
            Self::PrivateKey => "private_key",
            Self::Authorization => "authorization",
            Self::ApiKeyHeader => "api_key_header",
            Self::Cookie => "cookie",
            Self::UrlPassword => "url_password",
            Self::ConnectionPassword => "connection_password",
            Self::LabelledSecret => "labelled_secret",
            Self::OwnPrefix => "own_prefix",
        }
    }

    /// The shape of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.name() == name)
    }
}

impl std::fmt::Display for SecretShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of shapes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SecretShapes(u64);

impl SecretShapes {
    pub(super) const NONE: Self = Self(0);
    pub(super) const ALL: Self = Self((1 << SecretShape::ALL.len()) - 1);

    /// Whether the shape is one of them.
    pub const fn contains(self, shape: SecretShape) -> bool {
        self.0 & Self::bit(shape) != 0
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The shapes, in the order of [`SecretShape::ALL`].
    pub fn iter(self) -> impl Iterator<Item = SecretShape> {
        SecretShape::ALL.into_iter().filter(move |shape| self.contains(*shape))
    }

    pub(super) const fn with(self, shape: SecretShape) -> Self {
        Self(self.0 | Self::bit(shape))
    }

    pub(super) const fn without(self, shape: SecretShape) -> Self {
        Self(self.0 & !Self::bit(shape))
    }

    const fn bit(shape: SecretShape) -> u64 {
        1 << shape as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_shape() {
        for (index, shape) in SecretShape::ALL.into_iter().enumerate() {
            assert_eq!(SecretShape::from_name(shape.name()), Some(shape));
            assert_eq!(shape as usize, index);
            assert!(shape.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        }
        assert_eq!(SecretShape::from_name("no_such_shape"), None);
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let some = SecretShapes::NONE.with(SecretShape::Jwt).with(SecretShape::NpmToken);
        assert_eq!(some.iter().collect::<Vec<_>>(), [SecretShape::NpmToken, SecretShape::Jwt]);
        assert!(!some.without(SecretShape::Jwt).contains(SecretShape::Jwt));
        assert_eq!(SecretShapes::ALL.iter().count(), SecretShape::ALL.len());
    }
}
