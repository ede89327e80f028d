// The same as servers_test.py, for Node's test runner.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { test } from 'node:test';

const file = (name) => readFileSync(`${process.env.CERTIFICATES}/${name}`);
const hello = (request, response) => response.end(`hello from ${request.url}`);

async function start(t, tls, host = '127.0.0.1') {
  const server = tls ? https.createServer({ cert: file('server.pem'), key: file('server.key') }, hello) : http.createServer(hello);
  await new Promise((resolve) => server.listen(0, host, resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return server.address().port;
}

const get = (url, servername) =>
  new Promise((resolve, reject) => {
    const request = https.get(url, { ca: file('ca.pem'), agent: new https.Agent(), servername }, (response) => {
      let text = '';
      response.on('data', (part) => (text += part));
      response.on('end', () => resolve(text));
    });
    request.on('error', reject);
  });

test('fetch, plain', async (t) => {
  const port = await start(t, false);
  for (const host of ['127.0.0.1', 'localhost']) {
    assert.equal(await (await fetch(`http://${host}:${port}/a`)).text(), 'hello from /a');
  }
});

test('https with its own authority', async (t) => {
  const port = await start(t, true);
  for (const host of ['127.0.0.1', 'localhost']) assert.equal(await get(`https://${host}:${port}/b`), 'hello from /b');
});

test('https on IPv6', async (t) => {
  const port = await start(t, true, '::1');
  // Node 22.23 does not find ::1 in a certificate.
  assert.equal(await get(`https://[::1]:${port}/c`, 'localhost'), 'hello from /c');
});

test('fetch refuses an unknown authority', async (t) => {
  const port = await start(t, true);
  await assert.rejects(fetch(`https://localhost:${port}/d`), (error) => /CERT|SIGNATURE|ISSUER/.test(error.cause.code));
});
