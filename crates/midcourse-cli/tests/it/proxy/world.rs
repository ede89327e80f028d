//! The network outside midcourse, for tests of `--proxy=intercept`: the HTTP proxy of a company
//! (the corporate proxy) and a TLS server. The corporate proxy connects clients to this one server,
//! whatever host they ask for. A certificate authority of the test signs the server's certificates.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use tempfile::TempDir;

/// How the TLS server behaves during the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Ordinary,
    /// Its certificate is signed by an authority that nobody trusts.
    Untrusted,
    /// It asks every client for a certificate.
    AsksForCertificate,
}

/// A request that reached the TLS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The host name that the client gave in the TLS handshake.
    pub(crate) host: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct World {
    folder: TempDir,
    /// The address of the corporate proxy.
    pub(crate) proxy: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    connects: Arc<Mutex<Vec<String>>>,
}

impl World {
    /// Starts the corporate proxy and the TLS server. `respond` gets the number of a request (0 for
    /// the first) and the request, and returns the bytes of the response.
    pub(crate) fn start(
        behaviour: Behaviour,
        respond: impl Fn(usize, &Asked) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (trusted, pem) = authority("corporate");
        std::fs::write(folder.path().join("corporate.pem"), pem).unwrap();
        let signer = match behaviour {
            Behaviour::Untrusted => authority("unknown").0,
            _ => trusted,
        };
        let server = tls_server(signer, behaviour, b"http/1.1");
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let connects: Arc<Mutex<Vec<String>>> = Arc::default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = listener.local_addr().unwrap();
        let (kept, connected, respond) =
            (Arc::clone(&asked), Arc::clone(&connects), Arc::new(respond));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (kept, connected) = (Arc::clone(&kept), Arc::clone(&connected));
                let (respond, server) = (Arc::clone(&respond), Arc::clone(&server));
                std::thread::spawn(move || {
                    let Some(target) = accept_connect(&client) else { return };
                    connected.lock().unwrap().push(target);
                    serve(client, server, &kept, &*respond);
                });
            }
        });
        Self { folder, proxy, asked, connects }
    }

    /// The file with the certificate of the authority `corporate`. That authority signs the TLS
    /// server's certificates, except with [`Behaviour::Untrusted`].
    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.path().join("corporate.pem")
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The targets of all CONNECT requests that reached the corporate proxy.
    pub(crate) fn connects(&self) -> Vec<String> {
        self.connects.lock().unwrap().clone()
    }
}

pub(crate) fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), pem)
}

/// Makes a certificate for whatever host name a client asks for.
#[derive(Debug)]
struct AnyHost(Issuer<'static, KeyPair>);

impl ResolvesServerCert for AnyHost {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let params = CertificateParams::new([hello.server_name()?.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let key = ring::sign::any_supported_type(&key).unwrap();
        Some(Arc::new(CertifiedKey::new(vec![certificate.der().clone()], key)))
    }
}

pub(crate) fn tls_server(
    signer: Issuer<'static, KeyPair>,
    behaviour: Behaviour,
    protocol: &[u8],
) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if behaviour == Behaviour::AsksForCertificate {
        let mut roots = RootCertStore::empty();
        let (_, pem) = authority("clients");
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated();
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let mut config = builder.with_cert_resolver(Arc::new(AnyHost(signer)));
    config.alpn_protocols = vec![protocol.to_vec()];
    Arc::new(config)
}

/// Reads a CONNECT request and accepts it. Returns its target.
pub(crate) fn accept_connect(mut client: &TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).ok()?;
        head.extend_from_slice(&byte);
    }
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let head = String::from_utf8(head).unwrap();
    Some(head.strip_prefix("CONNECT ")?.split(' ').next()?.to_owned())
}

fn serve(
    client: TcpStream,
    server: Arc<ServerConfig>,
    kept: &Mutex<Vec<Asked>>,
    respond: &(dyn Fn(usize, &Asked) -> Vec<u8> + Send + Sync),
) {
    let connection = ServerConnection::new(server).unwrap();
    let mut stream = BufReader::new(StreamOwned::new(connection, client));
    while let Some((head, body)) = read_request(&mut stream) {
        let host = stream.get_ref().conn.server_name().unwrap_or_default().to_owned();
        let request = Asked { host, head, body };
        let mut all = kept.lock().unwrap();
        let number = all.len();
        all.push(request.clone());
        drop(all);
        let response = respond(number, &request);
        if stream.get_mut().write_all(&response).is_err() {
            return;
        }
    }
}

fn read_request(stream: &mut impl std::io::BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

pub(crate) fn json_response(value: &serde_json::Value) -> Vec<u8> {
    let body = value.to_string();
    let head = "HTTP/1.1 200 Fine\r\nContent-Type: application/json\r\nX-Odd-Case: kept\r\n";
    format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A TLS connection of a client, through an HTTP proxy.
pub(crate) struct Connection {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
    host: String,
}

impl Connection {
    /// Asks the proxy at `url` for a connection to `host`. Returns the status of the reply and the
    /// connection to the proxy, which leads to `host` if the status is 200.
    pub(crate) fn tunnel(url: &str, host: &str) -> (u16, TcpStream) {
        let rest = url.strip_prefix("http://").unwrap();
        let (credentials, address) = rest.split_once('@').unwrap_or(("", rest));
        let credentials = base64(credentials.as_bytes());
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\
             Proxy-Authorization: Basic {credentials}\r\n\r\n"
        )
        .unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend_from_slice(&byte);
        }
        let status = std::str::from_utf8(&head[9..12]).unwrap().parse().unwrap();
        (status, stream)
    }

    /// Connects to `host` through the proxy and trusts only the certificates in `roots`. Returns an
    /// error if the TLS handshake fails, for example because the server's certificate is rejected.
    pub(crate) fn open(url: &str, host: &str, roots: &Path) -> Result<Self, rustls::Error> {
        Self::open_with(url, host, client_config(roots, &[b"h2", b"http/1.1"]))
    }

    /// Like `open`, with these TLS settings.
    pub(crate) fn open_with(
        url: &str,
        host: &str,
        config: Arc<ClientConfig>,
    ) -> Result<Self, rustls::Error> {
        let (status, stream) = Self::tunnel(url, host);
        assert_eq!(status, 200);
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let mut connection = ClientConnection::new(config, name).unwrap();
        let mut stream = stream;
        while connection.is_handshaking() {
            if let Err(error) = connection.complete_io(&mut stream) {
                let error = error.downcast::<rustls::Error>();
                return Err(error.unwrap_or(rustls::Error::HandshakeNotComplete));
            }
        }
        assert_eq!(connection.alpn_protocol(), Some(b"http/1.1".as_slice()));
        let stream = BufReader::new(StreamOwned::new(connection, stream));
        Ok(Self { stream, host: host.to_owned() })
    }

    /// Whether this authority signed the server's certificate. Only searches the bytes of the
    /// certificate for the authority's name.
    pub(crate) fn is_signed_by(&self, authority: &str) -> bool {
        let certificates = self.stream.get_ref().conn.peer_certificates().unwrap();
        let bytes: &[u8] = certificates[0].as_ref();
        bytes.windows(authority.len()).any(|window| window == authority.as_bytes())
    }

    /// Sends a request and returns the head and the body of the response.
    pub(crate) fn post(&mut self, path: &str, body: &str) -> (String, String) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nauthorization: Bearer K\r\nX-Client: odd\r\n\
             Connection: keep-alive\r\nContent-Type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        self.stream.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
        self.stream.get_mut().flush().unwrap();
        let (head, body) = read_request(&mut self.stream).unwrap();
        (head, String::from_utf8(body).unwrap())
    }

    /// Sends bytes as they are, and reads until the received bytes end with `end`.
    pub(crate) fn exchange(&mut self, bytes: &[u8], end: &str) -> String {
        self.stream.get_mut().write_all(bytes).unwrap();
        self.stream.get_mut().flush().unwrap();
        let mut received = Vec::new();
        while !received.ends_with(end.as_bytes()) {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            received.push(byte[0]);
        }
        String::from_utf8(received).unwrap()
    }

    pub(crate) fn chat(&mut self, body: &serde_json::Value) -> (String, String) {
        self.post("/v1/chat/completions", &body.to_string())
    }
}

/// The TLS settings of a client that trusts only the certificates in `roots` and offers these
/// protocols.
pub(crate) fn client_config(roots: &Path, protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let mut trusted = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(roots).unwrap();
    trusted.add_parsable_certificates(certificates.flatten());
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(trusted)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(bytes)
}
