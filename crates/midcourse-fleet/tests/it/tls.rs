//! Connections over TCP with TLS and a password, from processes with the variables of Postgres.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use midcourse_fleet::schema::{self, Access};
use midcourse_fleet::{FleetTarget, Level, ShipSettings, Shipper};
use postgres_server::{OWNER, Server, folder_for_server, give_to_server};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::runs::message;
use crate::world::{Fleet, Machine};

/// A certificate authority, and its certificate in PEM.
fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), pem)
}

fn write(folder: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    file
}

/// A server on a port of 127.0.0.1 that accepts nothing but TLS with a password there, with a
/// certificate for that address.
fn start(folder: &Path) -> Option<Server> {
    let (issuer, authority) = authority("fleet");
    write(folder, "authority.pem", &authority, 0o644);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    let hba = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
    let option = |name: &str, file: &str, text: &str| {
        let file = write(folder, file, text, 0o600);
        give_to_server(&file);
        format!("{name}={}", file.display())
    };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options = [
        option("ssl_cert_file", "server.pem", &certificate),
        option("ssl_key_file", "server.key", &key.serialize_pem()),
        option("hba_file", "hba", hba),
        format!("port={port}"),
        "ssl=on".to_owned(),
        "listen_addresses=127.0.0.1".to_owned(),
        "fsync=off".to_owned(),
        "log_statement=all".to_owned(),
        "log_connections=on".to_owned(),
    ];
    Server::start(&options.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Not a test: what the processes do that [`ship`] starts.
#[test]
fn connecting_process() {
    let Some(folder) = std::env::var_os("MIDCOURSE_TEST_CONNECT") else { return };
    println!();
    let address = std::env::var("MIDCOURSE_TEST_FLEET").unwrap();
    let shipped = FleetTarget::parse(&address).and_then(|target| {
        println!("{target} {target:?}");
        let settings = ShipSettings { project: "p".to_owned(), level: Level::Full };
        let mut shipper = Shipper::open(&midcourse::DataDir::at(&folder), target, settings)?;
        let shipper = shipper.as_mut().unwrap();
        shipper.connect()?;
        shipper.ship(|_| ())
    });
    match shipped {
        Ok(progress) => println!("shipped {}", progress.records),
        Err(error) => println!(
            "error {error} | {error:?} | {} | temporary {}",
            error.hint(),
            error.is_temporary()
        ),
    }
}

/// What a process says that ships a store with these variables.
fn ship(machine: &Machine, address: &str, variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tls::connecting_process", "--nocapture"])
        .env("MIDCOURSE_TEST_CONNECT", machine.data_dir().path())
        .env("MIDCOURSE_TEST_FLEET", address)
        .env("HOME", "/nowhere")
        .env_remove("PGPASSWORD")
        .env_remove("PGPASSFILE")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn the_certificate_is_checked_and_the_password_stays_secret() {
    let folder = folder_for_server();
    let Some(server) = start(folder.path()) else { return };
    let fleet = Fleet::new(&server);
    let role = fleet.role("machine");
    let granted = schema::grant(&mut fleet.client(OWNER), "p", &role, Access::Write, true).unwrap();
    let password = granted.password.unwrap();
    let machine = Machine::new();
    let mut store = machine.open();
    store.append(message("run", 0)).unwrap();
    let (_, other) = authority("another");
    let outside = tempfile::tempdir().unwrap();
    let other = write(outside.path(), "other.pem", &other, 0o644).display().to_string();
    let trusted = write(
        outside.path(),
        "fleet.pem",
        &std::fs::read_to_string(folder.path().join("authority.pem")).unwrap(),
        0o644,
    );
    let trusted = trusted.display().to_string();
    let (port, database) = (server.port(), &fleet.database);
    let address = |host: &str, parameters: &str| {
        format!("postgres://{role}@{host}:{port}/{database}?{parameters}")
    };
    let full = format!("sslmode=verify-full&sslrootcert={trusted}");
    let secret = ("PGPASSWORD", password.as_str());
    let passwords = format!("127.0.0.1:{port}:{database}:{role}:{password}\n");
    let passwords = write(outside.path(), "passwords", &passwords, 0o600).display().to_string();
    let service = format!(
        "[fleet]\nhost=127.0.0.1\nport={port}\ndbname={database}\nuser={role}\npassword={password}\n\
         sslmode=verify-full\nsslrootcert={trusted}\nchannel_binding=require\n"
    );
    let service = write(outside.path(), "services", &service, 0o600).display().to_string();
    let mut said = Vec::new();
    let mut expect = |address: &str, variables: &[(&str, &str)], expected: &str| {
        let text = ship(&machine, address, variables);
        assert!(text.contains(expected), "{address} {expected}: {text}");
        said.push(text);
    };
    expect(&address("127.0.0.1", &full), &[secret], "shipped 1");
    store.append(message("run", 1)).unwrap();
    expect(&address("127.0.0.1", &full), &[("PGPASSFILE", &passwords)], "shipped 1");
    store.append(message("run", 2)).unwrap();
    expect("service=fleet", &[("PGSERVICEFILE", &service)], "shipped 1");
    let binding = format!("{full}&channel_binding=require");
    expect(&address("127.0.0.1", &binding), &[secret], "shipped 0");
    // Another name, another authority, and the authorities of the system.
    let refused = "no trusted connection";
    expect(&address("localhost", &full), &[secret], "certificate is for another host");
    expect(&address("localhost", &full), &[secret], "temporary false");
    let unknown = format!("sslmode=verify-full&sslrootcert={other}");
    expect(&address("127.0.0.1", &unknown), &[secret], "not signed by an authority");
    expect(&address("127.0.0.1", "sslmode=verify-full"), &[secret], "not signed by an authority");
    for mode in ["require", "verify-ca"] {
        let lax = format!("sslmode={mode}&sslrootcert={other}");
        expect(&address("127.0.0.1", &lax), &[secret], refused);
    }
    let nothing = format!("sslmode=verify-full&sslrootcert={}", service);
    expect(&address("127.0.0.1", &nothing), &[secret], "there is no certificate of an authority");
    let missing = "sslmode=verify-full&sslrootcert=/nowhere/ca.pem";
    expect(&address("127.0.0.1", missing), &[secret], "cannot read /nowhere/ca.pem");
    // Without TLS, without a password, and with a wrong one.
    expect(&address("127.0.0.1", "sslmode=disable"), &[secret], "denied access");
    expect(&address("127.0.0.1", &full), &[], "denied access: it asks for a password");
    expect(&address("127.0.0.1", &full), &[("PGPASSWORD", "a wrong secret")], "denied access");
    // A server that offers no TLS must not get the password without.
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let without_tls = plain.local_addr().unwrap().port();
    let listening = std::thread::spawn(move || {
        let (mut client, _) = plain.accept().unwrap();
        let mut all = vec![0; 8];
        client.read_exact(&mut all).unwrap();
        client.write_all(b"N").unwrap();
        let _ = client.read_to_end(&mut all);
        all
    });
    let plain = format!("postgres://{role}@127.0.0.1:{without_tls}/{database}?{full}");
    expect(&plain, &[secret], "does not offer TLS");
    assert_eq!(listening.join().unwrap().len(), 8, "nothing but the request for TLS");

    let activity = fleet.sql("SELECT string_agg(a::text, ' ') FROM pg_stat_activity AS a");
    let log = std::fs::read_to_string(server.folder().join("log")).unwrap();
    assert!(log.contains("midcourse.ship") && log.contains("SSL enabled"), "the log is complete");
    for secret in [password.as_str(), "a wrong secret"] {
        assert!(!said.iter().any(|text| text.contains(secret)), "said by a process");
        assert!(!activity.contains(secret) && !log.contains(secret), "known to the server");
    }
}
