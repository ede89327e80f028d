//! The certificate authority of one use of `midcourse run` (a launch), with which the proxy
//! decrypts TLS connections to model hosts.
//!
//! `midcourse run` creates the authority and keeps its key in memory. Only the command that
//! `midcourse run` starts trusts the authority, and its certificates are valid for hosts of model
//! APIs only. When the proxy process is restarted, `midcourse run` passes the key to the new
//! process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ResolvesServerCert;
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::model_hosts::ModelHosts;

/// How many days the authority's certificate is valid: longer than any agent runs.
const AUTHORITY_DAYS: i64 = 366;

/// How long a host's certificate is valid, and after which time a new one is made.
const HOST_DAYS: i64 = 30;
const HOST_RENEWAL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Issues certificates for hosts of model APIs.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    issued: Mutex<HashMap<String, (Arc<CertifiedKey>, Instant)>>,
}

impl Authority {
    /// Makes a new authority. `name` tells the authorities of different launches apart.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let key = KeyPair::generate().context("cannot make a key")?;
        Ok(Self::with_key(name, key))
    }

    /// The authority with this name and with the key from [`Self::key_pem`].
    pub(crate) fn from_key_pem(name: &str, key: &str) -> Result<Self> {
        let key = KeyPair::from_pem(key).context("cannot read the key of the authority")?;
        Ok(Self::with_key(name, key))
    }

    fn with_key(name: &str, key: KeyPair) -> Self {
        Self { issuer: Issuer::new(authority_params(name), key), issued: Mutex::default() }
    }

    pub(crate) fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// The certificate that clients have to trust, in PEM form.
    pub(crate) fn certificate_pem(&self, name: &str, hosts: &ModelHosts) -> Result<String> {
        let mut params = authority_params(name);
        let permitted = hosts.names().map(|host| GeneralSubtree::DnsName(host.to_owned()));
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: permitted.collect(),
            excluded_subtrees: Vec::new(),
        });
        set_validity(&mut params, AUTHORITY_DAYS);
        let certificate = params.self_signed(self.issuer.key());
        Ok(certificate.context("cannot make the certificate authority")?.pem())
    }

    /// The TLS settings for a client that connects to `host`. `alpn` is the protocol that the model
    /// server chose for this connection, if any.
    pub(super) fn server_config(&self, host: &str, alpn: Option<&[u8]>) -> Result<ServerConfig> {
        let resolver: Arc<dyn ResolvesServerCert> =
            Arc::new(SingleCertAndKey::from(CertifiedKey::clone(&*self.certificate(host)?)));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = alpn.map(<[u8]>::to_vec).into_iter().collect();
        Ok(config)
    }

    fn certificate(&self, host: &str) -> Result<Arc<CertifiedKey>> {
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((certificate, at)) = issued.get(host)
            && at.elapsed() < HOST_RENEWAL
        {
            return Ok(Arc::clone(certificate));
        }
        let certificate = Arc::new(self.issue(host)?);
        issued.insert(host.to_owned(), (Arc::clone(&certificate), Instant::now()));
        Ok(certificate)
    }

    fn issue(&self, host: &str) -> Result<CertifiedKey> {
        let mut params = CertificateParams::new([host.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, host);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Python 3.13 rejects certificates without this extension.
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, HOST_DAYS);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let key = ring::sign::any_supported_type(&key)?;
        Ok(CertifiedKey::new(chain, key))
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "midcourse");
    params.distinguished_name.push(DnType::CommonName, format!("midcourse run {name}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Valid from yesterday, because the clocks of containers and virtual machines may be behind.
fn set_validity(params: &mut CertificateParams, days: i64) {
    let date = |days: i64| {
        let at = jiff::Timestamp::now().saturating_add(jiff::SignedDuration::from_hours(24 * days));
        let at = at.unwrap_or(jiff::Timestamp::MAX).to_zoned(jiff::tz::TimeZone::UTC).date();
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        rcgen::date_time_ymd(i32::from(at.year()), part(at.month()), part(at.day()))
    };
    params.not_before = date(-1);
    params.not_after = date(days);
}
