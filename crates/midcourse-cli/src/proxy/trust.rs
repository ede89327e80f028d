//! Makes a command trust the certificate authority of its `midcourse run`, through environment
//! variables that name files with certificates.
//!
//! If the user has set such a variable, it gets a copy of the user's file with the authority added.
//! If not, and if the file would replace the root certificates of the program that reads it, the
//! file also contains the roots of the system and of Mozilla. Together, these are what the program
//! would have used.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::run_settings::LaunchFolder;

/// What a variable means to the programs that read it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// The file replaces the program's own roots.
    Replaces,
    /// The file replaces the roots of Python's `requests`, and also those that a program which uses
    /// `requests`, such as pip, chose itself. So it needs every root that the user named in any
    /// variable.
    ReplacesAll,
    /// The file adds to the program's own roots.
    Adds,
    /// Changed only if the user has set it. Otherwise it would override the configuration files of
    /// programs that talk to no model.
    OnlyIfSet,
    /// Like `OnlyIfSet`, because `curl` reads `SSL_CERT_FILE` too. But it does not if the user has
    /// set `SSL_CERT_DIR`; then this variable has to be set.
    Curl,
}

const VARIABLES: [(&str, Meaning); 9] = [
    ("SSL_CERT_FILE", Meaning::Replaces),
    ("REQUESTS_CA_BUNDLE", Meaning::ReplacesAll),
    ("CURL_CA_BUNDLE", Meaning::Curl),
    ("NODE_EXTRA_CA_CERTS", Meaning::Adds),
    ("DENO_CERT", Meaning::Adds),
    ("PIP_CERT", Meaning::OnlyIfSet),
    ("AWS_CA_BUNDLE", Meaning::OnlyIfSet),
    ("GIT_SSL_CAINFO", Meaning::OnlyIfSet),
    ("CARGO_HTTP_CAINFO", Meaning::OnlyIfSet),
];

/// Writes the files into the folder of the launch. Returns the variables to set.
pub(crate) fn write(
    folder: &LaunchFolder,
    authority: &str,
    environment: impl Fn(&str) -> Option<PathBuf>,
) -> Result<Vec<(&'static str, PathBuf)>> {
    let write = |name: &str, text: &str| {
        folder.write(name, text.as_bytes()).context("cannot write the certificates")?;
        anyhow::Ok(folder.path().join(name))
    };
    let named: Vec<Option<String>> = VARIABLES
        .iter()
        .map(|(variable, _)| {
            let file = environment(variable).filter(|file| !file.as_os_str().is_empty());
            file.map(|file| std::fs::read_to_string(file).unwrap_or_default())
        })
        .collect();
    let roots = roots();
    let all: String = named.iter().flatten().map(|text| format!("{}\n", text.trim_end())).collect();
    let mut variables = Vec::new();
    for ((variable, meaning), named) in VARIABLES.into_iter().zip(&named) {
        let text = match (named, meaning) {
            // The variable names a folder, an empty file, or a file that cannot be read. Leave it
            // as it is, so that the program does the same as without midcourse.
            (Some(text), _) if text.is_empty() => continue,
            (Some(text), _) => format!("{}\n{authority}", text.trim_end()),
            (None, Meaning::Replaces) => format!("{roots}{authority}"),
            (None, Meaning::ReplacesAll) => format!("{roots}{all}{authority}"),
            (None, Meaning::Adds) => authority.to_owned(),
            (None, Meaning::Curl) if environment("SSL_CERT_DIR").is_some() => {
                format!("{roots}{authority}")
            }
            (None, Meaning::OnlyIfSet | Meaning::Curl) => continue,
        };
        let name = format!("trust/{}.pem", variable.to_ascii_lowercase());
        variables.push((variable, write(&name, &text)?));
    }
    Ok(variables)
}

/// The certificates of the system and of Mozilla in PEM form.
fn roots() -> String {
    // Certificates that cannot be read are left out, as a program would do.
    let system = rustls_native_certs::load_native_certs().certs;
    let system = system.iter().map(|certificate| certificate.to_vec());
    let mozilla = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|it| it.to_vec());
    let all: BTreeSet<Vec<u8>> = system.chain(mozilla).collect();
    all.iter().map(|certificate| pem(certificate)).collect()
}

fn pem(certificate: &[u8]) -> String {
    const LINE_LEN: usize = 64;
    let encoded = BASE64_STANDARD.encode(certificate);
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in encoded.as_bytes().chunks(LINE_LEN) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use midcourse::DataDir;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use crate::run_settings::RunSettings;

    const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    #[test]
    fn each_variable_keeps_the_certificates_that_it_named() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::at(folder.path().join("home"));
        let launch = RunSettings::shipped().for_new_launch(None, false).save(&data_dir).unwrap();
        let own = folder.path().join("own.pem");
        std::fs::write(&own, "own roots").unwrap();
        let variables = super::write(&launch, AUTHORITY, |name| match name {
            "PIP_CERT" => Some(own.clone()),
            "CURL_CA_BUNDLE" => Some(PathBuf::from("/nowhere")),
            _ => None,
        })
        .unwrap();
        let names: Vec<_> = variables.iter().map(|(name, _)| *name).collect();
        let expected = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "DENO_CERT"];
        assert_eq!(names[..4], expected);
        assert_eq!(names[4..], ["PIP_CERT"]);
        let read = |name: &str| {
            let file = variables.iter().find(|(variable, _)| *variable == name);
            std::fs::read_to_string(&file.unwrap().1).unwrap()
        };
        assert_eq!(read("PIP_CERT"), format!("own roots\n{AUTHORITY}"));
        // pip prefers this variable to its own.
        assert!(read("REQUESTS_CA_BUNDLE").ends_with(&format!("own roots\n{AUTHORITY}")));
        assert_eq!(read("NODE_EXTRA_CA_CERTS"), AUTHORITY);
        let roots = read("SSL_CERT_FILE");
        assert!(roots.ends_with(AUTHORITY));
        let count = CertificateDer::pem_slice_iter(roots.as_bytes()).flatten().count();
        assert!(count > 100, "{count} certificates");
    }
}
