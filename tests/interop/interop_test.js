// A client that is not ours: @grpc/grpc-js, told about the API by the .proto files alone, against
// a real ptod. Ends with 0 when all is right.

'use strict';

const assert = require('node:assert');
const child = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {test, before, after} = require('node:test');

const root = process.env.PTOD_ROOT;  // of the files that the test has as data
const modules = process.env.PTOD_NODE_MODULES;
const grpc = require(path.join(modules, '@grpc/grpc-js'));
const loader = require(path.join(modules, '@grpc/proto-loader'));
const protobuf = require(path.join(modules, 'protobufjs'));

const protos = path.join(root, 'proto');
const files = ['node', 'session', 'buffer', 'kernel', 'domain', 'run', 'event', 'error']
    .map((name) => `pto/v1/${name}.proto`);
const options = {
  includeDirs: [protos],
  keepCase: true,
  longs: Number,
  enums: String,
  defaults: true,
  oneofs: true,
};
const api = grpc.loadPackageDefinition(
    loader.loadSync([...files, 'grpc/health/v1/health.proto'], options));

let daemon;
let log = '';
let directory;
let address;

const clients = [];
function connect(Service) {
  const client = new Service(address, grpc.credentials.createInsecure());
  clients.push(client);
  return client;
}

// One call without streams, as a promise.
function call(client, method, request) {
  return new Promise((resolve, reject) => {
    client[method](request, {deadline: Date.now() + 60000},
                   (error, response) => error ? reject(error) : resolve(response));
  });
}

before(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'ptod-'));
  address = `unix:${directory}/s`;
  daemon = child.spawn(path.join(root, 'daemon/ptod'), [`--listen=${address}`, '--sim-chips=2'],
                       {stdio: ['ignore', 'pipe', 'pipe']});
  daemon.stdout.on('data', (data) => log += data);
  daemon.stderr.on('data', (data) => log += data);
  daemon.ended = new Promise((resolve) => daemon.on('exit', (code, signal) => resolve({code, signal})));
  const node = connect(api.pto.v1.NodeService);
  await new Promise((resolve, reject) => node.waitForReady(
      Date.now() + 60000, (error) => error ? reject(new Error(`${error.message}\n${log}`)) : resolve()));
});

after(async () => {
  for (const client of clients) client.close();
  daemon.kill('SIGTERM');
  const {code, signal} = await daemon.ended;
  fs.rmSync(directory, {recursive: true, force: true});
  assert.deepStrictEqual({code, signal}, {code: 0, signal: null}, log);
  assert.doesNotMatch(log, /Sanitizer|runtime error:/);
});

test('the node tells about itself', async () => {
  const node = await call(connect(api.pto.v1.NodeService), 'GetNode', {});
  assert.strictEqual(node.chip_count, 2);
  assert.strictEqual(node.pid, daemon.pid);
  assert.ok(node.capabilities.includes('sim'));
});

test('the standard health check answers', async () => {
  const health = connect(api.grpc.health.v1.Health);
  for (const service of ['', 'pto.v1.RunService']) {
    assert.strictEqual((await call(health, 'Check', {service})).status, 'SERVING');
  }
  await assert.rejects(call(health, 'Check', {service: 'nope'}), {code: grpc.status.NOT_FOUND});
});

test('a graph runs, and its events are watched to the end', async () => {
  const session = await call(connect(api.pto.v1.SessionService), 'CreateSession',
                             {session_id: 'node-js', labels: {language: 'javascript'}});
  assert.strictEqual(session.name, 'sessions/node-js');
  const buffers = connect(api.pto.v1.BufferService);
  await call(buffers, 'CreateBuffers', {
    parent: session.name,
    buffers: ['a', 'b', 'c'].map((id) => ({buffer_id: id, chip: 'chips/1', bytes: 4096})),
  });
  const input = Buffer.alloc(4096);
  for (let i = 0; i < 1024; ++i) input.writeFloatLE(i, 4 * i);
  const written = await new Promise((resolve, reject) => {
    const stream = buffers.WriteBuffer((error, response) => error ? reject(error) : resolve(response));
    stream.write({name: `${session.name}/buffers/a`, offset: 0, data: input.subarray(0, 1000)});
    stream.write({offset: 1000, data: input.subarray(1000)});
    stream.end();
  });
  assert.strictEqual(written.written_bytes, 4096);

  // Watches before there is anything to see.
  const events = connect(api.pto.v1.EventService).WatchEvents({parent: session.name});
  const ended = new Promise((resolve, reject) => {
    const states = [];
    let tasks = 0;
    let next = 1;
    events.on('error', reject);
    events.on('data', (batch) => {
      for (const event of batch.events) {
        assert.strictEqual(event.sequence, next, 'events come in order and without gaps');
        next += event.tasks ? event.tasks.task.length : 1;
        if (event.tasks) tasks += event.tasks.task.length;
        if (!event.run) continue;
        states.push(event.run.state);
        if (['SUCCEEDED', 'FAILED', 'CANCELLED'].includes(event.run.state)) {
          resolve({states, tasks, run: event.run});
        }
      }
    });
  });

  const view = (name) => ({name, dtype: 'F32', shape: [1024]});
  const run = await call(connect(api.pto.v1.RunService), 'SubmitRun', {
    parent: session.name,
    run_id: 'first',
    graph: {
      tensors: [view('a'), view('b'), view('c')],
      tasks: [
        {name: 'half', kernel: 'fill', chip: 'chips/1', args: ['b'], scalars: [{f64: 0.5}]},
        {name: 'sum', kernel: 'add', chip: 'chips/1', args: ['a', 'b', 'c'], after: ['half'],
         launch: {block_num: 4}},
      ],
    },
  });
  assert.strictEqual(run.name, 'sessions/node-js/runs/first');
  const seen = await ended;
  assert.deepStrictEqual(seen.states, ['QUEUED', 'RUNNING', 'SUCCEEDED']);
  assert.strictEqual(seen.tasks, 2);
  assert.strictEqual(seen.run.tasks_done, 2);
  events.on('error', () => {});  // the end that comes next is ours
  events.cancel();

  const chunks = [];
  for await (const part of buffers.ReadBuffer({name: `${session.name}/buffers/c`})) {
    chunks.push(part.data);
  }
  const output = Buffer.concat(chunks);
  assert.strictEqual(output.length, 4096);
  for (let i = 0; i < 1024; ++i) assert.strictEqual(output.readFloatLE(4 * i), i + 0.5);
});

test('launches travel on one stream', async () => {
  const runs = connect(api.pto.v1.RunService);
  const session = await call(connect(api.pto.v1.SessionService), 'CreateSession',
                             {session_id: 'launches'});
  const graph = await call(runs, 'RegisterGraph', {
    parent: session.name,
    graph_id: 'g',
    graph: {tasks: [{kernel: 'noop', chip: 'chips/0'}]},
  });
  const stream = runs.LaunchStream();
  for (let tag = 1; tag <= 100; ++tag) stream.write({tag, launch: {graph: graph.name}});
  stream.end();
  const tags = new Set();
  for await (const completion of stream) {
    assert.strictEqual(completion.state, 'SUCCEEDED');
    tags.add(completion.tag);
  }
  assert.strictEqual(tags.size, 100);
});

test('an error says what is wrong, and where', async () => {
  const types = new protobuf.Root();
  types.resolvePath = (_, target) => path.join(protos, target);
  types.loadSync('pto/v1/error.proto');
  const Status = types.lookupType('pto.v1.Status');
  let error;
  try {
    await call(connect(api.pto.v1.RunService), 'SubmitRun', {
      parent: 'sessions/node-js',
      graph: {tasks: [{kernel: 'noop', chip: 'chips/0'}, {kernel: 'nope', chip: 'chips/0'}]},
    });
  } catch (caught) {
    error = caught;
  }
  assert.ok(error, 'an unknown kernel was accepted');
  assert.strictEqual(error.code, grpc.status.NOT_FOUND);
  const [bytes] = error.metadata.get('grpc-status-details-bin');
  const status = Status.decode(bytes);
  assert.strictEqual(status.code, error.code);
  assert.strictEqual(status.message, error.details);
  const details = Object.fromEntries(status.details.map((any) => {
    const name = any.type_url.slice(any.type_url.lastIndexOf('/') + 1);
    return [name, types.lookupType(name).decode(any.value)];
  }));
  assert.strictEqual(details['pto.v1.ErrorInfo'].reason, 'KERNEL_UNKNOWN');
  assert.strictEqual(details['pto.v1.ErrorInfo'].domain, 'ptod');
  assert.strictEqual(details['pto.v1.FieldViolation'].field, 'graph.tasks[1].kernel');
});
