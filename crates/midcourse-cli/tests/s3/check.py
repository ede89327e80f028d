"""Archives runs to an S3 bucket of moto, and imports them into an empty store.

    check.py MIDCOURSE SCRATCH

MIDCOURSE is the program under test, SCRATCH an empty folder.
"""

import json
import os
import pathlib
import random
import subprocess
import sys

import boto3
from moto.server import ThreadedMotoServer

midcourse, scratch = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
BUCKET, SECRET = "runs", "a-secret-that-nobody-prints"

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://{host}:{port}"
VARIABLES = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
             "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "NO_PROXY": "127.0.0.1"}
client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="key",
                      aws_secret_access_key=SECRET)
client.create_bucket(Bucket=BUCKET)


def run(home, *arguments, code=0, variables=VARIABLES, **more):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = inherited | variables | {"MIDCOURSE_HOME": str(scratch / home), "RUST_LOG": "trace"}
    done = subprocess.run([midcourse, *arguments], env=environment, capture_output=True, text=True, **more)
    assert done.returncode == code, (arguments, done)
    assert SECRET not in done.stdout + done.stderr, "the secret key was printed"
    return done.stdout + done.stderr


def lines():
    """A run with texts that do not compress, so that a file needs more than one request, and a child run."""
    words = random.Random(7)
    for number in range(24):
        text = "".join(words.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ", k=1_000_000))
        yield {"run_id": "long", "recorded_at_unix_ms": 1_790_000_000_000 + number, "host": "agent",
               "payload": {"kind": "message_appended", "message": {"role": "user", "content": text}}}
    yield {"run_id": "long.worker", "parent_run_id": "long", "depth": 1, "host": "agent",
           "recorded_at_unix_ms": 1_790_000_001_000, "payload": {"kind": "turn_started"}}


def objects():
    listed = client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return {entry["Key"]: entry for entry in listed}


to = f"s3://{BUCKET}/some/prefix"
run("home", "record", input="".join(json.dumps(line) + "\n" for line in lines()))
print(run("home", "archive", "--older-than", "1d", "--to", to, "--dry-run").strip())
assert not objects()
print(run("home", "archive", "--older-than", "1d", "--to", to).strip())
found = objects()
assert len(found) == 5 and all(key.startswith("some/prefix/") for key in found), found
pieces = [entry["ETag"].strip('"').partition("-")[2] for key, entry in found.items() if "/bodies/" in key]
assert int(pieces[0]) > 1, "the texts were uploaded in several pieces"
archived = json.loads(run("home", "archive", "--older-than", "1d", "--to", to, "--json"))
assert archived["already_archived"] == 2 and archived["runs"] == 0, archived
assert objects() == found, "nothing is archived twice"

print(run("copy", "import", to).strip())
run("copy", "verify")
for name in ("long", "long.worker"):
    assert run("home", "export", name) == run("copy", "export", name), name

# The manifest decides: without it there is no archive, and a changed file is refused.
manifest = next(key for key in found if "/manifests/" in key)
texts = next(key for key in found if "/bodies/" in key)
client.delete_object(Bucket=BUCKET, Key=texts)
assert "is missing" in run("third", "import", to, code=1)
client.put_object(Bucket=BUCKET, Key=texts, Body=b"x" * found[texts]["Size"])
assert "its hash is not that of the manifest" in run("third", "import", to, code=1)
client.delete_object(Bucket=BUCKET, Key=manifest)
assert "there is no manifest" in run("third", "import", to, code=1)
error = run("third", "import", "s3://missing/prefix", code=1)
assert "NoSuchBucket" in error, error
error = run("third", "import", to, code=1, variables=VARIABLES | {"AWS_ALLOW_HTTP": "false"})
print(error.strip())
server.stop()
print("ok")
