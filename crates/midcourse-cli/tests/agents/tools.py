#!/usr/bin/env python3
"""Runs what agents run in their shells, bare and under `midcourse run --proxy=intercept`, and compares.

    tools.py [--midcourse PATH] [--only NAME,…] [--out FOLDER] [--python PATH,…] [--trust] [--credentials]

Without an option: git, pip, npm, cargo and curl against local servers behind a company's proxy and without one, test
suites with servers on loopback, and clients with a trust of their own. Exit code, output and files have to be the same.
--trust compares which clients accept the company's certificates, for each variable that can name them: under `run`, every
client has to accept what it accepts bare.
--credentials prints a table: which clients send the credentials in a proxy's URL. Needs what `install node` installs;
installs npm, uv and three Python libraries itself. Exits with 1 if anything differs.
"""
import argparse
import base64
import hashlib
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import threading
import time
import zipfile
from pathlib import Path

from agent import HERE, INSTALLED
from network import Certificates, Handler, Model, Server

NODE_VERSIONS = (20, 22, 24)
NPM = "npm@11.19.1"
LIBRARIES = ("requests==2.34.2", "httpx==0.28.1", "aiohttp==3.14.5", "uv==0.13.7")
# Every variable with which a user names a file of certificate authorities, for any of the programs here.
TRUST_VARIABLES = (
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO", "NPM_CONFIG_CAFILE",
)
NAME = "demo"


# --- What the servers serve -------------------------------------------------------------------------------------------


def git_repository(folder):
    """A bare repository with one commit, which is also a Rust crate."""
    source = folder / "source"
    (source / "src").mkdir(parents=True)
    (source / "Cargo.toml").write_text('[package]\nname = "from-git"\nversion = "1.0.0"\nedition = "2021"\n')
    (source / "src/lib.rs").write_text("")
    # Not only small objects.
    (source / "large.txt").write_text("".join(f"{hashlib.sha256(str(n).encode()).hexdigest()}\n" for n in range(30_000)))
    date = "2026-01-01T00:00:00Z"
    who = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    for arguments in ("init -q -b main", "add .", "-c user.name=A -c user.email=a@example.com commit -q -m one"):
        subprocess.run(["git", *arguments.split()], cwd=source, env={**os.environ, **who}, check=True)
    subprocess.run(["git", "clone", "-q", "--bare", source, folder / f"{NAME}.git"], check=True)


def wheel():
    data = io.BytesIO()
    info = f"{NAME}-1.0.dist-info"
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(f"{NAME}.py", "print('hello')\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"{NAME}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return data.getvalue()


def tarball(folder, files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


class Services(Handler):
    """git.test, pypi.test, npm.test, crates.test and any other host, which says hello. `server` has: files, repositories."""

    def respond(self):
        body = self.body()
        host = self.tunnel[1] if self.tunnel else self.headers.get("host", "").partition(":")[0]
        path, _, query = self.path.partition("?")
        self.server.log(kind="request", host=host, method=self.command, path=path)
        if f"/{NAME}.git/" in path:
            return self.git(path, query, body)
        data = self.server.files.get(path)
        status = 404 if data is None and path.startswith(("/simple/", "/index/")) else 200
        data = data if data is not None else f"hello from {path}\n".encode()
        if callable(data):
            data = data(f"https://{self.headers['host']}")
        self.reply(status, {"content-type": "text/html" if path.startswith("/simple/") else "application/octet-stream"}, data)

    def reply(self, status, headers, data):
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def git(self, path, query, body):
        environment = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.server.repositories), "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query, "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": self.headers.get("content-type", ""), "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""), "REMOTE_ADDR": "127.0.0.1",
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True)
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.reply(int(headers.pop("Status", "200").split()[0]), headers, data)

    do_GET = do_HEAD = do_POST = respond


class World:
    """The company's proxy, the servers behind it, and one that is reached without it."""

    def __init__(self, folder, wants_credentials=False):
        folder.mkdir()
        self.entries = []
        self.certificates = Certificates(folder)
        self.ca = self.certificates.ca
        self.proxy = self.start("proxy")
        if wants_credentials:
            self.proxy.RequestHandlerClass = ProxyWithPassword
        self.proxy.repositories = folder / "git"
        self.proxy.repositories.mkdir()
        git_repository(self.proxy.repositories)
        self.proxy.files = files()
        self.server_certificate()
        self.direct = self.direct_server()

    def start(self, name):
        server = Server(name, self.certificates, Model([]), lambda **entry: self.entries.append(entry))
        server.RequestHandlerClass = Services
        return server

    def server_certificate(self):
        """server.pem and server.key for the servers of test suites."""
        folder = self.certificates.folder
        (folder / "server.ext").write_text(
            "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\nbasicConstraints=critical,CA:FALSE\n"
            "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        )
        own = "req -x509 -key leaf.key -subj /CN=Own -days 30 -out own-ca.pem -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign"
        self.certificates.openssl(own)
        self.certificates.openssl("req -new -key leaf.key -subj /CN=localhost -out server.csr -config ca.conf")
        self.certificates.openssl("x509 -req -in server.csr -CA own-ca.pem -CAkey leaf.key -days 30 -extfile server.ext -out server.pem")
        suite = folder / "suite"
        suite.mkdir()
        for source, name in (("own-ca.pem", "ca.pem"), ("server.pem", "server.pem"), ("leaf.key", "server.key")):
            shutil.copy(folder / source, suite / name)

    def direct_server(self):
        """Host and port of a TLS server on the loopback interface that NO_PROXY does not list."""
        # Tests use loopback addresses only.
        host = address = "127.0.0.2"
        try:
            resolved = socket.gethostbyname(socket.gethostname())
            if resolved.startswith("127."):
                host, address = socket.gethostname(), resolved
        except OSError:
            pass
        listener = socket.create_server((address, 0))

        def serve():
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self.accept, args=(connection, host), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        return f"{host}:{listener.getsockname()[1]}"

    def accept(self, connection, host):
        try:
            connection, _ = self.certificates.accept(connection, host)
            Services(connection, (host, 0), self.proxy)
            connection.close()
        except OSError:
            pass


def files():
    """The answers of the registries, by path."""
    package = tarball("package", {"package.json": json.dumps({"name": NAME, "version": "1.0.0"}), "index.js": "exports.x = 1;\n"})
    crate = tarball(f"{NAME}-1.0.0", {"Cargo.toml": f'[package]\nname = "{NAME}"\nversion = "1.0.0"\nedition = "2021"\n', "src/lib.rs": ""})
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(package).digest()).decode()

    def document(base):
        dist = {"tarball": f"{base}/{NAME}-1.0.0.tgz", "integrity": integrity, "shasum": hashlib.sha1(package).hexdigest()}
        versions = {"1.0.0": {"name": NAME, "version": "1.0.0", "dist": dist}}
        return json.dumps({"name": NAME, "dist-tags": {"latest": "1.0.0"}, "versions": versions}).encode()

    crate_line = {"name": NAME, "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(crate).hexdigest(), "features": {}, "yanked": False}
    return {
        f"/simple/{NAME}/": f'<a href="/files/{NAME}-1.0-py3-none-any.whl">{NAME}</a>'.encode(),
        f"/files/{NAME}-1.0-py3-none-any.whl": wheel(),
        f"/{NAME}": document,
        f"/{NAME}-1.0.0.tgz": package,
        "/index/config.json": lambda base: json.dumps({"dl": f"{base}/crates"}).encode(),
        f"/index/de/mo/{NAME}": json.dumps(crate_line).encode(),
        f"/crates/{NAME}/1.0.0/download": crate,
    }


class ProxyWithPassword(Services):
    """A proxy that asks for credentials, as a company's proxy does."""

    def do_CONNECT(self):
        if "proxy-authorization" in self.headers:
            return super().do_CONNECT()
        self.server.log(kind="connect", host=self.path, port=0, proxy_credential=None)
        self.send_response(407, "Proxy Authentication Required")
        self.send_header("Proxy-Authenticate", 'Basic realm="company"')
        self.send_header("Content-Length", "0")
        self.end_headers()


# --- Programs -------------------------------------------------------------------------------------------------------


def install():
    """npm and the Python libraries, unless they are there."""
    folder = INSTALLED / "tools"
    if not (folder / "npm/node_modules/npm").is_dir():
        flags = "--ignore-scripts --no-audit --no-fund --no-save --no-package-lock --no-update-notifier"
        subprocess.run(["npm", "install", "--prefix", folder / "npm", *flags.split(), NPM], check=True, capture_output=True)
    python = folder / "python/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "python"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--only-binary", ":all:", *LIBRARIES], check=True)
    return folder


def node(version):
    return INSTALLED / f"node/node_modules/node{version}/bin/node"


def cargo():
    """The program itself: rustup's wrapper looks for its toolchains in the home folder."""
    found = subprocess.run(["rustup", "which", "cargo"], cwd=HERE, capture_output=True, text=True) if shutil.which("rustup") else None
    return found.stdout.strip() if found and found.returncode == 0 else shutil.which("cargo")


def pythons(given):
    """Python 3.11 to 3.13, as far as they are there."""
    found = {}
    for name in given.split(",") if given else ["python3.11", "python3.12", "python3.13", "python3"]:
        done = subprocess.run([name, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True) if shutil.which(name) else None
        if done and done.returncode == 0:
            found.setdefault(done.stdout.strip(), shutil.which(name))
    return found


# --- Cases ----------------------------------------------------------------------------------------------------------


def project(base):
    """Shell text that writes a Rust project with one crate from the registry and one from git."""
    text = f"""
        mkdir -p src .cargo; : > src/lib.rs
        cat > Cargo.toml <<'END'
        [package]
        name = "project"
        version = "0.1.0"
        edition = "2021"
        [dependencies]
        {NAME} = "1"
        from-git = {{ git = "{base['git']}/{NAME}.git" }}
        END
        cat > .cargo/config.toml <<'END'
        [source.crates-io]
        replace-with = "local"
        [source.local]
        registry = "sparse+{base['crates']}/index/"
        END
    """
    return textwrap.dedent(text)


def install_cases(world, tools, python):
    """(name, setup, shell text) of the programs that load something. Behind the proxy, and without one."""
    proxied = {name: f"https://{name}.test" for name in ("git", "pypi", "npm", "crates", "www")}
    cases = []
    for setup, base in (("company", proxied), ("direct", dict.fromkeys(proxied, f"https://{world.direct}"))):
        cases += [
            ("curl", setup, f"curl -sS {base['www']}/a {base['www']}/b; curl -sS -o big {base['pypi']}/files/{NAME}-1.0-py3-none-any.whl"),
            ("git-clone", setup, f"git clone {base['git']}/{NAME}.git copy && git -C copy log --format=%H && git -C copy fetch"),
            ("cargo-fetch", setup, project(base) + f"{cargo()} fetch"),
        ]
        for version, path in python.items():
            options = f"--index-url {base['pypi']}/simple/ --no-cache-dir --disable-pip-version-check --no-compile"
            cases.append((f"pip-install-{version}", setup, f"{path} -m pip install {options} --target site {NAME}"))
        # Through any proxy, npm fails to verify a server that has an IP address for a name.
        for version in NODE_VERSIONS if not base["npm"].startswith("https://127.") else ():
            command = f"{node(version)} {tools}/npm/node_modules/npm/bin/npm-cli.js install {NAME}"
            cases.append((f"npm-install-node{version}", setup, f"{command} --registry {base['npm']}/ --no-audit --no-fund --no-update-notifier"))
    return cases


def suite_cases(python):
    cases = []
    for setup in ("company", "direct"):
        for version, path in python.items():
            # Python does not find [::1] in NO_PROXY, and httpx refuses a NO_PROXY with brackets.
            tests = "Servers" if setup == "direct" else "Servers.test_plain Servers.test_tls Servers.test_unknown_authority Servers.test_no_proxy"
            cases.append((f"python-suite-{version}", setup, f"{path} {HERE}/suites/servers_test.py {tests}"))
        for version in NODE_VERSIONS:
            cases.append((f"node-suite-{version}", setup, f"{node(version)} --test --test-reporter=tap {HERE}/suites/servers.test.mjs"))
    return cases


OWN_TRUST = """
import os, ssl, sys, urllib.request
context = ssl.create_default_context(cafile=sys.argv[1])
for url in sys.argv[2:]:
    try:
        with urllib.request.urlopen(url, context=context, timeout=10) as response:
            print(url, response.read())
    except OSError as error:
        print(url, "refused" if "CERTIFICATE_VERIFY_FAILED" in str(error) else error)
"""
NO_PROXY_CLIENT = """
import http.client, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
connection = http.client.HTTPSConnection(sys.argv[1], context=context, timeout=10)
connection.request("GET", "/own")
print(connection.getresponse().read())
"""


def trust_cases(world, python):
    """Clients that trust only what they brought along, and one that knows no proxy."""
    path = next(iter(python.values()))
    model = "https://api.openai.com/v1/models"
    return [
        # The first connection to a model host may be refused: the client does not trust midcourse's certificate.
        ("pinned-at-model-host", "company", f"{path} own.py {world.ca} {model} {model} {model}"),
        ("own-bundle", "company", f"{path} own.py {world.ca} https://www.test/x https://www.test/y"),
        ("curl-own-bundle", "company", f"curl -sS --cacert {world.ca} https://www.test/x"),
        # Still at work when the agent has ended.
        ("outlives-agent", "company", "(sleep 2; curl -sS https://www.test/late >part 2>&1; mv part late) >/dev/null 2>&1 &"),
        ("curl-at-model-host", "company", "curl -sS https://api.anthropic.com/v1/hello https://api.openai.com/v1/hello"),
        ("ignores-proxy", "direct", f"{path} none.py {world.direct} {world.ca}"),
    ]


def environment(setup, world, root):
    """`company`: its proxy and its authority in all variables. `direct`: no proxy."""
    home = str(root / "home")
    variables = {
        "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb", "TZ": "UTC", "HOME": home, "TMPDIR": str(root / "tmp"),
        "XDG_CONFIG_HOME": f"{home}/.config", "XDG_CACHE_HOME": f"{home}/.cache", "XDG_DATA_HOME": f"{home}/.local/share",
        "MIDCOURSE_HOME": f"{home}/midcourse", "CARGO_HOME": f"{home}/cargo",
        "RUSTC": str(Path(cargo()).with_name("rustc")), "PYTHONDONTWRITEBYTECODE": "1",
        "PIP_CONFIG_FILE": "/dev/null", "PIP_ROOT_USER_ACTION": "ignore", "NPM_CONFIG_GLOBALCONFIG": f"{home}/npmrc",
        "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_TERMINAL_PROMPT": "0",
        "CARGO_NET_RETRY": "0", "UV_HTTP_RETRIES": "0", "GOCACHE": str(INSTALLED / "tools/go"), "GO111MODULE": "off",
        "CERTIFICATES": str(world.certificates.folder / "suite"),
    }
    if setup == "company":
        variables |= {"HTTPS_PROXY": world.proxy.address, "https_proxy": world.proxy.address, "NO_PROXY": "127.0.0.1,localhost,::1"}
    return variables


def run_once(script, variables, root, prefix):
    """Runs a script in an empty folder, as a child of midcourse or bare. Returns what it printed and left behind."""
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("home", "tmp", "work"):
        (root / folder).mkdir(parents=True)
    (root / "work/own.py").write_text(OWN_TRUST)
    (root / "work/none.py").write_text(NO_PROXY_CLIENT)
    (root / "script").write_text(script)
    # The output of the script alone: midcourse has some of its own to print.
    command = [*prefix, "sh", "-c", f"sh {root}/script >{root}/stdout 2>{root}/stderr"]
    with open(root / "outer", "wb") as outer:
        process = subprocess.Popen(command, cwd=root / "work", env=variables, stdin=subprocess.DEVNULL, stdout=outer, stderr=outer, start_new_session=True)
        try:
            code = process.wait(120)
        except subprocess.TimeoutExpired:
            code = "timeout"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    end = time.monotonic() + 20
    while "late" in script and not (root / "work/late").exists() and time.monotonic() < end:
        time.sleep(0.1)
    return {
        "exit": code,
        **{name: normal((root / name).read_text(errors="replace")) if (root / name).exists() else "" for name in ("stdout", "stderr")},
        "files": left_files(root / "work"),
    }


def normal(text):
    """Without durations, process ids and ports of servers."""
    for pattern, replacement in (
        (r"\b(in|in:|duration_ms:?) [0-9.]+(ms|s)?\b", r"\1 TIME"),
        (r"\b[0-9.]+ ?(ms|kB/s|MB/s|GB/s|B/s)\b", "N"),
        (r"\(node:[0-9]+\)", "(node:PID)"),
        (r"(127\.0\.0\.1|localhost|::1\]):[0-9]+", r"\1:PORT"),
        (r"[0-9T_-]+Z?-debug-0\.log", "LOG"),
    ):
        text = re.sub(pattern, replacement, text)
    return text


def left_files(folder):
    """Contents of all files but those with times in them."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not re.search(r"\.git/(index|logs/|FETCH_HEAD)", name):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return found


# What Node 22 prints at each start because of NODE_USE_ENV_PROXY; Node's test runner prints it as a comment.
NODE_22_WARNING = re.compile(r"(# )?\(node:PID\) \[UNDICI-EHPA\] Warning: .*\n(# )?\(Use `node --trace-warnings .*\n")


def compare(name, bare, run):
    found = []
    if name == "pinned-at-model-host":
        # From the second connection on.
        first = run["stdout"].partition("\n")[0]
        if first.endswith(" refused"):
            run["stdout"] = run["stdout"].replace(first, bare["stdout"].partition("\n")[0], 1)
    if name in ("npm-install-node22", "node-suite-22"):
        for key in ("stdout", "stderr"):
            run[key] = NODE_22_WARNING.sub("", run[key])
    for key in ("exit", "stdout", "stderr"):
        if bare[key] != run[key]:
            found.append(f"{key}: {str(bare[key])[-400:]!r} bare, {str(run[key])[-400:]!r} under run")
    changed = sorted(name for name in bare["files"].keys() | run["files"].keys() if bare["files"].get(name) != run["files"].get(name))
    if changed:
        found.append(f"files differ: {', '.join(changed[:10])}")
    return found


def drive_cases(options, temporary):
    tools = install()
    world = World(temporary / "world")
    python = pythons(options.python)
    print("Python:", ", ".join(python), "Node:", ", ".join(map(str, NODE_VERSIONS)), flush=True)
    cases = install_cases(world, tools, python) + suite_cases(python) + trust_cases(world, python)
    results = {}
    prefix = [options.midcourse, "run", "--proxy=intercept", "--"]
    for name, setup, script in cases:
        if options.only and name not in options.only.split(",") and f"{name}/{setup}" not in options.only.split(","):
            continue
        root = temporary / name
        variables = environment(setup, world, root)
        trust = {variable: str(world.ca) for variable in TRUST_VARIABLES}
        # The suites must not trust more than they ask for.
        variables |= {} if "suite" in name else trust
        before = len(world.entries)
        bare = run_once(script, variables, root, [])
        between = len(world.entries)
        run = run_once(script, variables, root, prefix)
        kept = options.out / f"{name}-{setup}"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        for file in ("stdout", "stderr", "outer", "script"):
            if (root / file).exists():
                shutil.copy(root / file, kept)
        found = compare(name, bare, run)
        asked = [sorted({(e["host"], e.get("path")) for e in entries}, key=str) for entries in (world.entries[before:between], world.entries[between:])]
        if asked[0] != asked[1] and name != "pinned-at-model-host":
            found.append(f"asked of servers: {asked[0]} bare, {asked[1]} under run")
        if bare["exit"] != 0:
            found.append(f"bare: exit code {bare['exit']}: {bare['stderr'][-300:]}")
        results[f"{name}/{setup}"] = found
        print(f"{name:24} {setup:8} {'ok' if not found else 'DIFFERS'}", flush=True)
        for text in found:
            print(f"    {text}", flush=True)
    return results


# --- Which variable makes whom trust the company --------------------------------------------------------------------


def small_clients(tools, python):
    """One request each, as shell text with {url}. Exit code 0 if it got a response."""
    library = f"{tools}/python/bin/python -c"
    path = next(iter(python.values()))
    fetch = "fetch('{url}').then(r => r.text()).then(console.log, e => { console.error(e.cause ?? e); process.exit(1) })"
    aiohttp = (
        "import asyncio, aiohttp\n"
        "async def main():\n"
        "    async with aiohttp.ClientSession(trust_env=True) as s:\n"
        "        async with s.get('{url}') as r: print(await r.text())\n"
        "asyncio.run(main())"
    )
    pip = f"{path} -m pip download -q --disable-pip-version-check --no-cache-dir --no-deps --retries 0 -d d --index-url {{base}}/simple/ {NAME}"
    npm = f"{tools}/npm/node_modules/npm/bin/npm-cli.js view {NAME} version --registry {{base}}/ --fetch-retries 0"
    uv = f"{tools}/python/bin/uv pip install -q --no-cache --no-config --python {path} --target u --index-url {{base}}/simple/ {NAME}"
    get = "require('https').get('{url}', r => r.resume()).on('error', e => { console.error(e); process.exit(1) })"
    go = 'package main\nimport "net/http"\nfunc main() { if _, e := http.Get("{url}"); e != nil { panic(e) } }\n'
    both = project({"git": "{base}", "crates": "{base}"})
    registry_only, git_only = both.replace("from-git", "#"), both.replace(f'{NAME} = "1"', "")
    clients = {
        "curl": "curl -sS {url}",
        "wget": "wget -q -t 1 -O w {url}",
        "git": f"git ls-remote {{base}}/{NAME}.git",
        "pip": pip,
        "uv": uv,
        "npm": f"{node(22)} {npm}",
        "cargo": f"mkdir -p p; cd p{registry_only}{cargo()} fetch",
        "cargo, git": f"mkdir -p q; cd q{git_only}{cargo()} fetch",
        "Go net/http": f"cat > m.go <<'END'\n{go}END\ngo run m.go",
        "Python urllib": f'{path} -c "import urllib.request; print(urllib.request.urlopen(\'{{url}}\').read())"',
        "Python requests": f'{library} "import requests; print(requests.get(\'{{url}}\').text)"',
        "Python httpx": f'{library} "import httpx; print(httpx.get(\'{{url}}\').text)"',
        "Python aiohttp": f'{library} "{aiohttp}"',
    }
    for version in NODE_VERSIONS:
        clients |= {f"Node {version} fetch": f'{node(version)} -e "{fetch}"', f"Node {version} https": f'{node(version)} -e "{get}"'}
    return {name: text for name, text in clients.items() if name not in ("wget", "Go net/http") or shutil.which(name.split()[0].lower())}


def client_script(clients, host):
    """Runs all clients, prints one line each: name and exit code."""
    lines = []
    for name, text in clients.items():
        text = text.replace("{url}", f"https://{host}/hello").replace("{base}", f"https://{host}")
        lines.append(f"(\n{text}\n) >/dev/null 2>>../errors; echo \"{name}: $?\"")
    return "\n".join(lines) + "\n"


def drive_trust(options, temporary):
    tools = install()
    world = World(temporary / "world")
    clients = small_clients(tools, pythons(options.python))
    prefix = [options.midcourse, "run", "--proxy=intercept", "--"]
    results = {}
    for host in ("www.test", "api.openai.com"):
        for variable in (None, *TRUST_VARIABLES, "SSL_CERT_DIR"):
            root = temporary / "trust"
            variables = environment("company", world, root)
            if variable == "SSL_CERT_DIR":
                folder = temporary / "certificates"
                if not folder.exists():
                    folder.mkdir()
                    shutil.copy(world.ca, folder)
                    subprocess.run(["openssl", "rehash", folder], check=True)
                variables[variable] = str(folder)
            elif variable:
                variables[variable] = str(world.ca)
            variables["NODE_USE_ENV_PROXY"] = "1"
            bare = run_once(client_script(clients, host), variables, root, [])["stdout"].splitlines()
            # Each in a launch of its own: once a client refuses a model host's certificate, midcourse no longer opens connections to it.
            scripts = [client_script({name: text}, host) for name, text in clients.items()]
            run = [line for script in scripts for line in run_once(script, variables, root, prefix)["stdout"].splitlines()]
            pairs = [(one, two) for one, two in zip(bare, run) if one != two] + ([("lines", "missing")] if len(bare) != len(run) else [])
            accepted = [line.rpartition(":")[0] for line in bare if line.endswith(": 0")]
            # A known side effect (docs/proxy.md): a client may accept what the user trusts through a variable of another client.
            more = [(one, two) for one, two in pairs if variable and two.endswith(": 0")]
            found = [f"{one} bare, {two.rpartition(' ')[2]} under run" for one, two in pairs if (one, two) not in more]
            results[f"{variable} {host}"] = found
            print(f"{variable or 'no variable':20} {host:15} {'ok' if not found else 'DIFFERS'}  accepted bare by: {', '.join(accepted)}", flush=True)
            if more:
                print(f"    under run also by: {', '.join(two.rpartition(':')[0] for _, two in more)}", flush=True)
            for text in found:
                print(f"    {text}", flush=True)
    return results


def credentials_table(options, temporary):
    """Markdown: who sends the user and password of HTTPS_PROXY, at once or when asked."""
    tools = install()
    clients = small_clients(tools, pythons(options.python))
    clients |= {f"{name}, NODE_USE_ENV_PROXY=1": f"NODE_USE_ENV_PROXY=1 {text}" for name, text in clients.items() if name.startswith("Node")}
    print("| client | credentials in the proxy's URL |\n|---|---|")
    for number, (name, text) in enumerate(clients.items()):
        said = []
        for wants in (False, True):
            root = temporary / f"credentials{number}{wants}"
            world = World(temporary / f"world{number}{wants}", wants)
            variables = environment("company", world, root) | {variable: str(world.ca) for variable in TRUST_VARIABLES}
            proxy = world.proxy.address.replace("://", "://user:pass%20word@")
            variables |= {"HTTPS_PROXY": proxy, "https_proxy": proxy}
            done = run_once(client_script({name: text}, "www.test"), variables, root, [])
            connects = [entry["proxy_credential"] for entry in world.entries if entry["kind"] == "connect"]
            said.append((connects, done["stdout"].strip().endswith(": 0")))
        (open_connects, works), (asked_connects, works_asked) = said
        expected = "Basic " + base64.b64encode(b"user:pass word").decode()
        if not open_connects:
            result = "does not use the proxy"
        elif open_connects[0] == expected:
            result = "sent with the first request"
        elif open_connects[0]:
            result = f"sent with the first request, as {base64.b64decode(open_connects[0].split()[-1]).decode()!r}"
        elif expected in asked_connects and works_asked:
            result = "sent when the proxy asks for them (407)"
        else:
            result = f"not sent{'' if works_asked else '; fails if the proxy asks for them'}"
        print(f"| {name} | {result}{'' if works else ' (request failed)'} |", flush=True)
    return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--midcourse", default=str(next(HERE.parents[3].glob("target/*/debug/midcourse"), "midcourse")))
    parser.add_argument("--only", help="these cases, as NAME or NAME/SETUP")
    parser.add_argument("--python", help="these Python programs, instead of python3.11 to python3.13")
    parser.add_argument("--out", type=Path, default=INSTALLED / "results-tools")
    parser.add_argument("--trust", action="store_true")
    parser.add_argument("--credentials", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="midcourse-tools-", ignore_cleanup_errors=True) as folder:
        drive = drive_trust if options.trust else credentials_table if options.credentials else drive_cases
        started = time.monotonic()
        results = drive(options, Path(folder))
    (options.out / "results.json").write_text(json.dumps(results, indent=1))
    different = [name for name, found in results.items() if found]
    print(f"\n{len(results)} cases, {len(different)} differ, {time.monotonic() - started:.0f} s", *different, sep="\n    ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
