//! Addresses, passwords and TLS, without a server.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{Config, FleetTarget, SslMode, percent_decoded};

fn parse(text: &str, variables: &[(&str, &str)]) -> Result<FleetTarget, String> {
    let variables: HashMap<&str, OsString> =
        variables.iter().map(|(name, value)| (*name, OsString::from(value))).collect();
    FleetTarget::parse_with(text, &|name| variables.get(name).cloned())
        .map_err(|error| error.to_string())
}

fn password(config: &Config) -> Option<&str> {
    config.get_password().map(|bytes| std::str::from_utf8(bytes).unwrap())
}

fn write(file: &Path, text: &str, mode: u32) {
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_password_in_the_address_is_refused_and_never_repeated() {
    for text in [
        "postgres://u:secret@h/d",
        "postgres://u:secret@h/d?bad=x",
        "postgres://u@h/d?password=secret",
        "postgres://u:sec%72et@h:port/d",
    ] {
        let error = parse(text, &[]).unwrap_err();
        assert!(!error.contains("secret") && !error.contains("sec%72et"), "{error}");
    }
}

#[test]
fn the_password_comes_from_the_environment_or_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("passwords");
    let text = "# comment\nother:*:*:*:no\nh:5433:d:*:it\\:s\\\\:here\n*:*:*:*:any\n";
    write(&file, text, 0o600);
    let variables = [("PGPASSFILE", file.to_str().unwrap())];
    let found = |text: &str| parse(text, &variables).unwrap().config;
    assert_eq!(password(&found("postgres://u@h:5433/d")), Some("it:s\\:here"));
    assert_eq!(password(&found("postgres://u@h:5432/d")), Some("any"));
    let both = [variables[0], ("PGPASSWORD", "first")];
    assert_eq!(password(&parse("postgres://u@h/d", &both).unwrap().config), Some("first"));
    write(&file, text, 0o644);
    let error = parse("postgres://u@h/d", &variables).unwrap_err();
    assert!(error.contains("chmod 600"), "{error}");
    let missing = [("PGPASSFILE", "/nowhere/passwords")];
    assert!(parse("postgres://u@h/d", &missing).unwrap_err().contains("cannot read"));
}

#[test]
fn a_service_entry_has_everything() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("services");
    let text = "[other]\nhost=no\n\n[fleet]\nhost = db.example\nport=5433\ndbname=d\nuser=u\n\
                password=p\nsslmode=verify-full\nsslrootcert=/ca.pem\n";
    write(&file, text, 0o600);
    let variables = [("PGSERVICEFILE", file.to_str().unwrap())];
    let target = parse("service=fleet", &variables).unwrap();
    assert_eq!(target.to_string(), "postgres://db.example:5433/d");
    assert_eq!(password(&target.config), Some("p"));
    assert_eq!(target.root_certificates.as_deref(), Some(Path::new("/ca.pem")));
    assert!(parse("service=none", &variables).unwrap_err().contains("no entry [none]"));
    write(&file, text, 0o640);
    assert!(parse("service=fleet", &variables).unwrap_err().contains("chmod 600"));
}

#[test]
fn beyond_this_machine_the_connection_uses_tls() {
    let mode = |text: &str| parse(text, &[]).unwrap().config.get_ssl_mode();
    for local in ["postgres://u@localhost/d", "postgres://u@127.0.0.1/d", "postgres://u@%2Ftmp/d"] {
        assert_eq!(mode(local), SslMode::Disable, "{local}");
    }
    assert_eq!(mode("postgres://u@db.example/d"), SslMode::Require);
    assert_eq!(mode("postgres://u@localhost,db.example/d"), SslMode::Require);
    assert_eq!(mode("postgres://u@db.example/d?sslmode=disable"), SslMode::Disable);
    assert_eq!(mode("postgres://u@localhost/d?sslmode=verify-full"), SslMode::Require);
    assert!(parse("postgres://u@db.example/d?sslmode=prefer", &[]).is_err());
    for host in ["", "localhost"] {
        let address = format!("postgres://u@{host}/d?hostaddr=192.0.2.1");
        assert!(parse(&address, &[]).unwrap_err().contains("hostaddr"), "{address}");
    }
}

#[test]
fn an_address_is_shown_without_credentials() {
    let variables = [("PGPASSWORD", "secret")];
    let target = parse("postgres://user@h:5433/d", &variables).unwrap();
    assert_eq!(target.to_string(), "postgres://h:5433/d");
    assert_eq!(format!("{target:?}"), "FleetTarget(postgres://h:5433/d)");
    assert!(parse("postgres://u@h", &[]).unwrap_err().contains("no database"));
    assert!(parse("postgres://h/d", &[]).unwrap_err().contains("PGUSER"));
}

#[test]
fn percent_encoding_is_decoded() {
    assert_eq!(percent_decoded("/a%20b%2"), "/a b%2");
    assert_eq!(percent_decoded("%C3%A9%zz"), "é%zz");
}
