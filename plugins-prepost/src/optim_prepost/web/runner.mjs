// One model in onnxruntime-web under Node, driven over stdin and stdout.
// A message is: length of its header (4 bytes, little endian), the header (JSON), and the bytes that it announces.

import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const answers = process.argv[3] ? fs.openSync(process.argv[3], 'w') : process.stdout.fd;
console.log = console.info = console.debug = console.error;
const ort = await import(pathToFileURL(path.join(process.argv[2], 'dist', 'ort.node.min.mjs')).href);
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'fatal';

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array,
  int16: Int16Array, uint32: Uint32Array, int32: Int32Array, uint64: BigUint64Array, int64: BigInt64Array,
  bool: Uint8Array, float16: Uint16Array,
};

let session = null;
let feeds = null;

const requests = {
  async open({ model, external, options }) {
    const externalData = external.map(([name, file]) => ({ path: name, data: new Uint8Array(fs.readFileSync(file)) }));
    session = await ort.InferenceSession.create(new Uint8Array(fs.readFileSync(model)), {
      executionProviders: ['wasm'], externalData, ...options,
    });
    return { inputs: session.inputNames, outputs: session.outputNames };
  },
  async accepts(header, bytes) {
    const opened = await ort.InferenceSession.create(new Uint8Array(bytes), {
      executionProviders: ['wasm'], graphOptimizationLevel: 'disabled',
    });
    await opened.release();
    return {};
  },
  async run(header, bytes) {
    feeds = readFeeds(header.feeds, bytes);
    return describe(await session.run(feeds));
  },
  async time({ count }) {
    const seconds = [];
    for (let i = 0; i < count; i++) {
      const started = performance.now();
      await session.run(feeds);
      seconds.push((performance.now() - started) / 1000);
    }
    return { seconds };
  },
  async used() {
    const { user, system } = process.cpuUsage();
    return { processor_s: (user + system) / 1e6, peak_bytes: process.resourceUsage().maxRSS * 1024 };
  },
};

function readFeeds(described, bytes) {
  const found = {};
  let at = 0;
  for (const { name, type, dims, size, strings } of described) {
    if (type === 'string') {
      found[name] = new ort.Tensor('string', strings, dims);
      continue;
    }
    const copy = bytes.buffer.slice(bytes.byteOffset + at, bytes.byteOffset + at + size);
    found[name] = new ort.Tensor(type, new ARRAYS[type](copy), dims);
    at += size;
  }
  return found;
}

function describe(results) {
  const outputs = [];
  const chunks = [];
  for (const name of session.outputNames) {
    const { type, dims, data } = results[name];
    if (type === 'string') {
      outputs.push({ name, type, dims, strings: [...data], size: 0 });
    } else {
      chunks.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
      outputs.push({ name, type, dims, size: data.byteLength });
    }
  }
  return { outputs, chunks };
}

function answer({ chunks = [], ...header }) {
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  for (const chunk of [length, text, ...chunks]) {
    for (let at = 0; at < chunk.length;) at += fs.writeSync(answers, chunk, at);
  }
}

let waiting = Buffer.alloc(0);
for await (const chunk of process.stdin) {
  waiting = waiting.length ? Buffer.concat([waiting, chunk]) : chunk;
  while (waiting.length >= 4) {
    const length = waiting.readUInt32LE(0);
    if (waiting.length < 4 + length) break;
    const header = JSON.parse(waiting.subarray(4, 4 + length));
    const end = 4 + length + header.bytes;
    if (waiting.length < end) break;
    const bytes = waiting.subarray(4 + length, end);
    try {
      answer(await requests[header.do](header, bytes));
    } catch (error) {
      answer({ error: String(error?.message ?? error) });
    }
    waiting = waiting.subarray(end);
  }
}
