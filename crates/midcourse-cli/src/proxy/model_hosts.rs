//! The hosts of model APIs: the only hosts whose TLS connections midcourse opens (decrypts).
//!
//! The list is fixed when `midcourse run` starts. The certificate authority that `midcourse run`
//! creates is constrained to this list, so its certificates are worthless for any other host.

use crate::config::ModelHost;

/// Hosts of vendors and gateways that offer one of the APIs in `apis`. Hosts that are missing here
/// on purpose: those of subscriptions (`chatgpt.com`), and Bedrock and Vertex, whose requests are
/// signed.
const VENDORS: [&str; 25] = [
    "api.anthropic.com",
    "api.cerebras.ai",
    "api.deepinfra.com",
    "api.deepseek.com",
    "api.fireworks.ai",
    "api.groq.com",
    "api.minimax.io",
    "api.mistral.ai",
    "api.moonshot.ai",
    "api.moonshot.cn",
    "api.openai.com",
    "api.perplexity.ai",
    "api.sambanova.ai",
    "api.together.xyz",
    "api.x.ai",
    "api.z.ai",
    "dashscope-intl.aliyuncs.com",
    "dashscope.aliyuncs.com",
    "eu.api.openai.com",
    "generativelanguage.googleapis.com",
    "integrate.api.nvidia.com",
    "open.bigmodel.cn",
    "openrouter.ai",
    "router.huggingface.co",
    "us.api.openai.com",
];

/// Domains whose subdomains, one per customer, offer a model API.
const DOMAINS: [&str; 2] = ["openai.azure.com", "services.ai.azure.com"];

const HTTPS_PORT: u16 = 443;

/// The hosts whose connections are opened: the table above and the user's additions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModelHosts {
    additions: Vec<ModelHost>,
}

impl ModelHosts {
    /// The table with the user's additions.
    pub(crate) fn with(additions: &[ModelHost]) -> Self {
        Self { additions: additions.to_vec() }
    }

    /// Whether connections to this host and port are opened.
    pub(crate) fn contain(&self, host: &str, port: u16) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_vendor = VENDORS.contains(&host.as_str());
        let is_subdomain = DOMAINS.iter().any(|domain| {
            host.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
        });
        (port == HTTPS_PORT && (is_vendor || is_subdomain))
            || self.additions.iter().any(|added| added.name == host && added.port == port)
    }

    /// The names that certificates may be issued for. A name includes its subdomains.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let additions = self.additions.iter().map(|added| added.name.as_str());
        VENDORS.into_iter().chain(DOMAINS).chain(additions)
    }
}

#[cfg(test)]
mod tests {
    use super::ModelHosts;
    use crate::config::Config;

    #[test]
    fn only_model_hosts_are_opened() {
        let hosts = ModelHosts::default();
        for (host, port) in [
            ("api.openai.com", 443),
            ("API.OpenAI.com.", 443),
            ("api.anthropic.com", 443),
            ("mine.openai.azure.com", 443),
        ] {
            assert!(hosts.contain(host, port), "{host}:{port}");
        }
        for (host, port) in [
            ("api.openai.com", 8443),
            ("api.openai.com.evil.example", 443),
            ("evilapi.openai.com", 443),
            ("openai.azure.com", 443),
            (".openai.azure.com", 443),
            ("github.com", 443),
            ("chatgpt.com", 443),
            ("bedrock-runtime.us-east-1.amazonaws.com", 443),
            ("", 443),
        ] {
            assert!(!hosts.contain(host, port), "{host}:{port}");
        }
    }

    #[test]
    fn the_user_can_add_hosts_with_or_without_a_port() {
        let added = "[proxy]\nmodel_hosts = ['Gateway.example.com', 'llm.corp:8443']\n";
        let hosts = ModelHosts::with(&Config::parse(added).unwrap().model_hosts);
        assert!(hosts.contain("gateway.example.com", 443));
        assert!(hosts.contain("llm.corp", 8443));
        assert!(!hosts.contain("llm.corp", 443));
        assert!(hosts.names().any(|name| name == "llm.corp"));
        for wrong in ["", "https://a.b", "a b", "127.0.0.1", "::1", "a:0", "a:x", "*.example.com"] {
            let text = format!("[proxy]\nmodel_hosts = ['{wrong}']\n");
            let error = Config::parse(&text).unwrap_err().to_string();
            assert!(error.contains("invalid host"), "{wrong}: {error}");
        }
    }
}
