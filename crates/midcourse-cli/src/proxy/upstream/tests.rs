//! Which servers the proxy forwards to, and its URLs for them.

use super::{ModelHosts, Redirect, Upstreams};

fn redirects(environment: &[(&str, &str)]) -> anyhow::Result<Vec<Redirect>> {
    Redirect::all(|name: &str| {
        let value = environment.iter().find(|(known, _)| *known == name);
        value.map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn only_a_base_url_in_the_environment_is_redirected_and_keeps_its_path() {
    assert_eq!(redirects(&[("OPENAI_BASE_URL", "")]).unwrap(), []);
    let address = "127.0.0.1:9".parse().unwrap();
    for (url, path, upstream) in [
        ("http://gate:4000/v1", "/v1", "http://gate:4000/"),
        ("http://gate:4000/v1/", "/v1/", "http://gate:4000/"),
        ("http://gate:4000", "", "http://gate:4000/"),
        ("https://gate.example/a/b", "/a/b", "https://gate.example/"),
    ] {
        let found = redirects(&[("OPENAI_API_BASE", url)]).unwrap();
        assert_eq!(found.len(), 1);
        let ours = found[0].url(address, "token");
        assert_eq!(ours, format!("http://127.0.0.1:9/token/OPENAI_API_BASE{path}"));
        let upstreams = Upstreams::of_redirects(&found);
        let upstreams: Vec<_> = upstreams.iter().map(|(_, url)| url.to_string()).collect();
        assert_eq!(upstreams, [upstream]);
    }
    // Two variables with different servers stay two servers.
    let two = [("OPENAI_BASE_URL", "http://a/v1"), ("OPENAI_API_BASE", "http://b/v1")];
    let upstreams = Upstreams::of_redirects(&redirects(&two).unwrap());
    let upstreams: Vec<_> = upstreams.iter().map(|(name, url)| format!("{name} {url}")).collect();
    assert_eq!(upstreams, ["OPENAI_API_BASE http://b/", "OPENAI_BASE_URL http://a/"]);
    assert!(redirects(&[("OPENAI_BASE_URL", "gate")]).is_err());
    let covered = |url| redirects(&[("OPENAI_BASE_URL", url)]).unwrap()[0].clone();
    let hosts = ModelHosts::default();
    assert!(covered("https://api.openai.com/v1").is_covered_by(&hosts));
    assert!(!covered("http://api.openai.com/v1").is_covered_by(&hosts));
    assert!(!covered("https://gate.example/v1").is_covered_by(&hosts));
}

fn found(options: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Vec<String>> {
    let options: Vec<String> = options.iter().map(|it| (*it).to_owned()).collect();
    let variable = |name: &str| {
        let value = environment.iter().find(|(known, _)| *known == name);
        value.map(|(_, value)| (*value).to_owned())
    };
    let upstreams = Upstreams::find(&options, variable)?;
    Ok(upstreams.iter().map(|(api, url)| format!("{api} {url}")).collect())
}

#[test]
fn options_win_over_the_environment_and_that_over_the_defaults() {
    let gemini = "gemini https://generativelanguage.googleapis.com/";
    let defaults =
        ["anthropic https://api.anthropic.com/", "openai https://api.openai.com/v1", gemini];
    assert_eq!(found(&[], &[("OPENAI_BASE_URL", "")]).unwrap(), defaults);
    let set = [("OPENAI_API_BASE", "http://old/v1"), ("ANTHROPIC_BASE_URL", "http://a/x/")];
    assert_eq!(
        found(&[], &set).unwrap(),
        ["anthropic http://a/x/", "openai http://old/v1", gemini]
    );
    let newer = [("OPENAI_API_BASE", "http://old/v1"), ("OPENAI_BASE_URL", "http://new/v1")];
    assert_eq!(found(&[], &newer).unwrap()[1], "openai http://new/v1");
    for server in ["http://gate:4000", "http://gate:4000/", "http://gate:4000/v1"] {
        let both = [
            "anthropic http://gate:4000/",
            "openai http://gate:4000/v1",
            "gemini http://gate:4000/",
        ];
        assert_eq!(found(&[server], &set).unwrap(), both, "{server}");
    }
    let one = found(&["openai=http://only/v2"], &set).unwrap();
    assert_eq!(one, ["anthropic http://a/x/", "openai http://only/v2", gemini]);
}

#[test]
fn a_named_server_is_part_of_the_urls() {
    let address = "127.0.0.1:9".parse().unwrap();
    let lines = |options: &[&str]| -> Vec<String> {
        let options: Vec<String> = options.iter().map(|it| (*it).to_owned()).collect();
        let variables = Upstreams::named(&options).unwrap().variables(address, "t");
        variables.into_iter().map(|(variable, url)| format!("{variable}={url}")).collect()
    };
    assert_eq!(
        lines(&["openai=https://api.openai.com/v1"]),
        ["OPENAI_BASE_URL=http://127.0.0.1:9/t/openai-api.openai.com"]
    );
    assert_eq!(lines(&["http://gate:4000"]).len(), 3);
    assert!(Upstreams::named(&[]).is_err());
}

#[test]
fn an_invalid_url_is_an_error() {
    for wrong in ["gate", "ftp://gate", "http://", "openai=", "http://gate/?x=1"] {
        let error = found(&[wrong], &[]).unwrap_err().to_string();
        assert!(error.contains("invalid URL"), "{wrong}: {error}");
    }
}
