// The model of this folder: load it, and run it on what a browser has - a picture, a text, or sound.
// Use it in your own page:
//
//   import { loadModel } from './model.mjs';
//   const model = await loadModel();
//   const { labels, scores } = await model.runPicture(await createImageBitmap(file));
//
// Nothing outside this folder is needed.

import { ort, provider } from './runtime.mjs';

const HERE = new URL('.', import.meta.url);
ort.env.wasm.wasmPaths = new URL('ort/', HERE).href;
ort.env.wasm.numThreads = globalThis.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency || 1) : 1;
ort.env.logLevel = 'error';

const BIG_INTEGERS = { int64: BigInt64Array, uint64: BigUint64Array };
const NUMBERS = {
  float32: Float32Array, float64: Float64Array, uint8: Uint8Array, int8: Int8Array, int32: Int32Array, bool: Uint8Array,
};

/** Open the model; `base` is where the files lie. */
export async function loadModel(base = HERE) {
  const about = await (await get(new URL('plan.json', base))).json();
  const externalData = await Promise.all(
    about.external.map(async (name) => ({ path: name, data: await bytes(new URL(name, base)) })),
  );
  const session = await ort.InferenceSession.create(await bytes(new URL('model.onnx', base)), {
    executionProviders: provider === 'wasm' ? ['wasm'] : [provider, 'wasm'], externalData, ...about.session,
  });
  let tokenizer = null;
  if (about.task.tokenizer) {
    const { WordPiece } = await import('./tokenizer.mjs');
    const words = (await (await get(new URL('vocab.txt', base))).text()).split('\n');
    tokenizer = new WordPiece(words, about.task.tokenizer);
  }
  return new Model(about, session, tokenizer);
}

class Model {
  constructor(about, session, tokenizer) {
    this.about = about;
    this.session = session;
    this.tokenizer = tokenizer;
    /** What runs it: `webgpu`, or `wasm`, also where this browser has no WebGPU. */
    this.provider = provider;
    this.threads = ort.env.wasm.numThreads;
    /** How long the model took in the last call, without decoding and drawing. */
    this.lastMs = 0;
  }

  /** What it does: the preset, or an empty string. */
  get preset() { return this.about.preset; }

  /** Run on arrays by name, `{type, dims, data}` or a string; outputs the same way, integers as plain numbers. */
  async run(feeds) {
    const tensors = {};
    for (const input of this.about.inputs) tensors[input.name] = tensor(feeds[input.name]);
    const started = performance.now();
    const results = await this.session.run(tensors);
    this.lastMs = performance.now() - started;
    return Object.fromEntries(this.session.outputNames.map((name) => [name, plain(results[name])]));
  }

  /** Run on a picture: anything that a canvas can draw, in its own size. The browser has decoded it. */
  async runPicture(picture) {
    const { width, height } = picture;
    return this.run({ [this.about.inputs[0].name]: { type: 'uint8', dims: [height, width, 3], data: pixels(picture) } });
  }

  /** Run on one text, or on a question and a text. */
  async runText(...texts) {
    const { rows, tokens } = this.tokens(...texts);
    const feeds = {};
    for (const { name, dtype } of this.about.inputs) {
      const type = dtype === 'int32' ? 'int32' : 'int64';
      feeds[name] = { type, dims: [1, tokens.length], data: rows[name] };
    }
    const results = await this.run(feeds);
    if (results.start && results.end) {
      results.answer = this.tokenizer.join(tokens.slice(results.start.data[0], results.end.data[0] + 1));
    }
    return results;
  }

  /** Run on samples of sound, Float32Array at the rate in `about.task.rate`. */
  async runSamples(samples) {
    return this.run({ [this.about.inputs[0].name]: { type: 'float32', dims: [samples.length], data: samples } });
  }

  /** Token ids, mask and types of a text; the tokenizer stays outside the model in a browser. */
  tokens(...texts) {
    if (!this.tokenizer) throw new Error('this folder has no vocabulary: feed token ids of your own tokenizer to run()');
    const { tokens, ids, types } = this.tokenizer.encode(...texts);
    return { tokens, rows: { input_ids: ids, attention_mask: ids.map(() => 1), token_type_ids: types } };
  }
}

/** RGB of a picture, row by row, alpha left out. */
export function pixels(picture) {
  const { width, height } = picture;
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext('2d', { willReadFrequently: true, colorSpace: 'srgb' });
  context.drawImage(picture, 0, 0);
  const rgba = context.getImageData(0, 0, width, height).data;
  const rgb = new Uint8Array(width * height * 3);
  for (let from = 0, to = 0; from < rgba.length; from += 4) {
    rgb[to++] = rgba[from];
    rgb[to++] = rgba[from + 1];
    rgb[to++] = rgba[from + 2];
  }
  return rgb;
}

function tensor(given) {
  if (given === undefined) throw new Error('an input is missing');
  if (typeof given === 'string') return new ort.Tensor('string', [given], [1]);
  const { type, dims, data } = given;
  if (type === 'string') return new ort.Tensor('string', [...data], dims);
  if (BIG_INTEGERS[type]) return new ort.Tensor(type, BIG_INTEGERS[type].from(data, (value) => BigInt(value)), dims);
  return new ort.Tensor(type, NUMBERS[type].from(data), dims);
}

function plain({ type, dims, data }) {
  const values = BIG_INTEGERS[type] ? Array.from(data, Number) : type === 'string' ? [...data] : data;
  return { type, dims: [...dims], data: values };
}

async function get(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url.pathname} is missing (${answer.status})`);
  return answer;
}

async function bytes(url) {
  return new Uint8Array(await (await get(url)).arrayBuffer());
}
