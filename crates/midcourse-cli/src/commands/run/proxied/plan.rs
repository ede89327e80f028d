//! Decides how a command's model traffic reaches the proxy: the least invasive way that works.

use anyhow::Result;
use midcourse::DataDir;

use super::refusals;
use crate::commands::run::ProxyChoice;
use crate::commands::run::program::Agent;
use crate::hosts::{Host, changed_by_others};
use crate::proxy::{self, ModelHosts, Redirect};
use crate::run_settings::RunSettings;

/// What the proxy of one use of `midcourse run` does.
#[derive(Default)]
pub(in crate::commands::run) struct Plan {
    /// Base URLs in the environment that are replaced by the proxy's.
    pub(super) redirects: Vec<Redirect>,
    /// Whether TLS connections to model hosts are opened (decrypted).
    pub(super) intercepts: bool,
    /// Whether Node programs have to be told to use the proxy. Node 22 prints a warning when it is
    /// told so, also in the programs that an agent runs; so this is done only where it is needed.
    pub(super) tells_node: bool,
    /// What the user should know about this decision.
    pub(in crate::commands::run) note: Option<String>,
}

impl Plan {
    /// Decides for a command that starts `agent`, which is `None` for an unknown program. `name` is
    /// the file name of the program. Fails if the proxy cannot do what is needed.
    pub(in crate::commands::run) fn decide(
        choice: Option<ProxyChoice>,
        agent: Option<Agent>,
        name: &str,
        data_dir: &DataDir,
        settings: &RunSettings,
    ) -> Result<Self> {
        let hosts = ModelHosts::with(&settings.config.model_hosts);
        match choice {
            Some(ProxyChoice::Off) => Ok(Self::default()),
            Some(ProxyChoice::Intercept) => {
                Ok(Self { tells_node: true, ..Self::intercept(&hosts)? })
            }
            Some(ProxyChoice::Redirect) => {
                let plan = Self::redirect()?;
                if plan.is_empty() {
                    anyhow::bail!(
                        "there is no base URL to redirect in the environment; set OPENAI_BASE_URL \
                         or ANTHROPIC_BASE_URL, or use --proxy=intercept"
                    );
                }
                Ok(plan)
            }
            // No proxy is needed inside another `midcourse run`, whose proxy is enough, nor for an
            // agent that has hooks.
            None if proxy::is_inside_another()
                || agent
                    .and_then(|agent| agent.host)
                    .is_some_and(|host| takes_hooks(host, data_dir)) =>
            {
                Ok(Self::default())
            }
            None => {
                let plan = Self::redirect()?;
                if !plan.is_empty() {
                    return Ok(plan);
                }
                let is_refused = refusals::contain(data_dir, name);
                if agent.is_some() && !is_refused {
                    return Self::intercept(&hosts);
                }
                let why = if is_refused {
                    "it refused midcourse's certificate before"
                } else {
                    "midcourse was not tested with it"
                };
                let note = format!(
                    "{name} is not recorded: {why}. To record its model requests, add \
                     --proxy=intercept"
                );
                Ok(Self { note: Some(note), ..Self::default() })
            }
        }
    }

    /// Redirects the base URLs in the environment.
    fn redirect() -> Result<Self> {
        let redirects = Redirect::all(|name| std::env::var(name).ok())?;
        Ok(Self { redirects, ..Self::default() })
    }

    /// Decrypts connections to model hosts, and redirects the base URLs of all other servers, such
    /// as that of a local model.
    fn intercept(hosts: &ModelHosts) -> Result<Self> {
        proxy::check_interception()?;
        let mut plan = Self::redirect()?;
        plan.redirects.retain(|redirect| !redirect.is_covered_by(hosts));
        Ok(Self { intercepts: true, ..plan })
    }

    pub(in crate::commands::run) fn is_empty(&self) -> bool {
        self.redirects.is_empty() && !self.intercepts
    }
}

/// Whether hooks can be installed for one process of this host. midcourse writes them into a file in
/// its data directory; a host that needs root takes them only if nobody else can change that file.
fn takes_hooks(host: Host, data_dir: &DataDir) -> bool {
    !host.capabilities().needs_root || changed_by_others(data_dir.path()).is_none()
}
