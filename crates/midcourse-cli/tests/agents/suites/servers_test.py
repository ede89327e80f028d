"""A test suite as projects have them: servers on loopback, plain and TLS with a certificate authority of their own.

The folder in $CERTIFICATES has ca.pem, and server.pem and server.key for localhost, 127.0.0.1 and ::1.
"""
import http.client
import os
import ssl
import threading
import unittest
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET6

CERTIFICATES = Path(os.environ["CERTIFICATES"])


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello from " + self.path.encode())

    def log_message(self, *_):
        pass


class Server6(ThreadingHTTPServer):
    address_family = AF_INET6


class Servers(unittest.TestCase):
    def start(self, tls, kind=ThreadingHTTPServer, host="127.0.0.1"):
        server = kind((host, 0), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATES / "server.pem", CERTIFICATES / "server.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server.server_port

    def get(self, url, context=None):
        with urllib.request.urlopen(url, context=context, timeout=10) as response:
            return response.read()

    def own_trust(self):
        return ssl.create_default_context(cafile=str(CERTIFICATES / "ca.pem"))

    def test_plain(self):
        for host in ("127.0.0.1", "localhost"):
            self.assertEqual(self.get(f"http://{host}:{self.start(False)}/a"), b"hello from /a")

    def test_tls(self):
        for host in ("127.0.0.1", "localhost"):
            self.assertEqual(self.get(f"https://{host}:{self.start(True)}/b", self.own_trust()), b"hello from /b")

    def test_tls_on_ipv6(self):
        port = self.start(True, Server6, "::1")
        self.assertEqual(self.get(f"https://[::1]:{port}/c", self.own_trust()), b"hello from /c")

    def test_unknown_authority(self):
        with self.assertRaises(urllib.error.URLError) as refused:
            self.get(f"https://127.0.0.1:{self.start(True)}/d")
        self.assertIsInstance(refused.exception.reason, ssl.SSLCertVerificationError)

    def test_no_proxy(self):
        connection = http.client.HTTPSConnection("localhost", self.start(True), context=self.own_trust(), timeout=10)
        connection.request("GET", "/e")
        self.assertEqual(connection.getresponse().read(), b"hello from /e")
        connection.close()


if __name__ == "__main__":
    unittest.main()
