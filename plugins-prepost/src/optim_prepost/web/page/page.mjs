// The page: what the visitor picks goes through the model, and the results are shown.

import { loadModel } from './model.mjs';
import { timesText } from './times.mjs';

const form = document.getElementById('form');
const result = document.getElementById('result');
const times = document.getElementById('times');
const state = document.getElementById('state');

const COLOURS = ['#e6194b', '#3cb44b', '#4363d8', '#f58231', '#911eb4', '#42d4f4', '#f032e6', '#9a6324', '#808000', '#469990'];
const TITLES = {
  'image-classification': 'What is in the picture?', 'object-detection': 'Find things in a picture',
  segmentation: 'Parts of a picture', 'super-resolution': 'A larger picture', 'text-embedding': 'A text as a vector',
  'text-classification': 'What kind of text?', 'question-answering': 'Find the answer in a text', speech: 'Listen',
};

let model;
try {
  const started = performance.now();
  model = await loadModel();
  document.getElementById('title').textContent = document.title = TITLES[model.preset] ?? 'Model';
  state.textContent = `model opened in ${Math.round(performance.now() - started)} ms; everything stays on this device`;
  ask();
  form.hidden = false;
  document.body.dataset.ready = 'yes';
} catch (error) {
  fail(error);
}

function ask() {
  const { preset } = model;
  if (preset === 'question-answering') {
    form.innerHTML = `<p><label>Question<textarea id="question" rows="1"></textarea></label></p>
      <p><label>Text<textarea id="text" rows="5"></textarea></label></p><button>Answer</button>`;
    onText(() => [value('question'), value('text')]);
  } else if (preset.startsWith('text-')) {
    form.innerHTML = '<p><label>Text<textarea id="text" rows="3"></textarea></label></p><button>Run</button>';
    onText(() => [value('text')]);
  } else if (preset === 'speech') {
    picker('audio/*', 'A sound file', async (file) => model.runSamples(await samplesOf(file)));
  } else if (model.about.inputs[0].dims.length === 3 && model.about.inputs[0].dtype === 'uint8') {
    picker('image/*', 'A picture', runPicture);
  } else {
    form.innerHTML = '<p>The model takes arrays, which nobody can pick: it is run on made ones.</p><button>Run</button>';
    form.onsubmit = (event) => { event.preventDefault(); timed(() => model.run(madeFeeds())).then(showArrays, fail); };
  }
}

function picker(accept, what, run) {
  form.innerHTML = `<div class="drop"><label>${what}: drop it here, or choose a file <input type="file" id="file" accept="${accept}"></label></div>`;
  const drop = form.querySelector('.drop');
  const take = (file) => file && timed(() => run(file)).then((found) => found && show(found), fail);
  form.querySelector('input').onchange = (event) => take(event.target.files[0]);
  drop.ondragover = (event) => { event.preventDefault(); drop.classList.add('over'); };
  drop.ondragleave = () => drop.classList.remove('over');
  drop.ondrop = (event) => { event.preventDefault(); drop.classList.remove('over'); take(event.dataTransfer.files[0]); };
}

function onText(texts) {
  form.onsubmit = (event) => { event.preventDefault(); timed(() => model.runText(...texts())).then(show, fail); };
}

let picture = null;

async function runPicture(file) {
  try {
    picture = await createImageBitmap(file, { colorSpaceConversion: 'none', premultiplyAlpha: 'none' });
  } catch {
    throw new Error(`${file.name} is no picture that this browser can decode`);
  }
  return model.runPicture(picture);
}

const calls = [];

async function timed(run) {
  delete document.body.dataset.done;
  result.replaceChildren();
  const found = await run();
  calls.push(model.lastMs);
  times.textContent = timesText(calls, model.provider, model.threads);
  globalThis.lastResults = found;
  return found;
}

function show(found) {
  const { preset } = model;
  if (found.scores && found.indices) result.append(...withPicture(classes(found)));
  else if (found.boxes) result.append(boxes(found.boxes), boxTable(found.boxes));
  else if (found.label_map) result.append(mask(found.label_map));
  else if (found.pixels) result.append(...withPicture(drawn(found.pixels)));
  else if (found.answer !== undefined) result.append(block(`<div class="best"></div>`, found.answer || 'no answer found'));
  else if (preset === 'speech' && found.labels) result.append(block('<div class="best"></div>', found.labels.data.join('')));
  else { showArrays(found); return; }
  document.body.dataset.done = 'yes';
}

function classes({ scores, indices, labels }) {
  const names = labels?.data ?? indices.data.map((number) => model.about.task.labels?.[number] ?? `class ${number}`);
  const found = block('<div><div class="best"></div><table></table></div>', names[0], '.best');
  const table = found.querySelector('table');
  names.forEach((name, place) => row(table, name, `${(100 * scores.data[place]).toFixed(1)} %`));
  return found;
}

function boxes({ dims, data }) {
  const canvas = canvasOf(picture);
  const context = canvas.getContext('2d');
  context.lineWidth = Math.max(2, canvas.width / 200);
  context.font = `${Math.max(12, canvas.width / 30)}px system-ui`;
  for (let place = 0; place < dims[0]; place++) {
    const [x, y, width, height, score, number] = data.slice(place * dims[1], place * dims[1] + 6);
    context.strokeStyle = context.fillStyle = COLOURS[number % COLOURS.length];
    context.strokeRect(x - width / 2, y - height / 2, width, height);
    context.fillText(`${className(number)} ${(100 * score).toFixed(0)} %`, x - width / 2 + 2, y - height / 2 - 4);
  }
  return canvas;
}

function boxTable({ dims, data }) {
  const table = document.createElement('table');
  for (let place = 0; place < dims[0]; place++) {
    const at = place * dims[1];
    row(table, className(data[at + 5]), `${(100 * data[at + 4]).toFixed(1)} %`);
  }
  if (!dims[0]) table.textContent = 'nothing found';
  return table;
}

function mask({ dims, data }) {
  const canvas = canvasOf(picture);
  const context = canvas.getContext('2d');
  const shown = context.getImageData(0, 0, canvas.width, canvas.height);
  for (let place = 0; place < dims[0] * dims[1]; place++) {
    if (!data[place]) continue;
    const colour = COLOURS[data[place] % COLOURS.length];
    for (let channel = 0; channel < 3; channel++) {
      const part = parseInt(colour.slice(1 + 2 * channel, 3 + 2 * channel), 16);
      shown.data[4 * place + channel] = (shown.data[4 * place + channel] + part) / 2;
    }
  }
  context.putImageData(shown, 0, 0);
  return canvas;
}

function drawn({ dims: [height, width], data }) {
  const image = new ImageData(width, height);
  for (let place = 0; place < width * height; place++) {
    image.data.set([data[3 * place], data[3 * place + 1], data[3 * place + 2], 255], 4 * place);
  }
  const canvas = Object.assign(document.createElement('canvas'), { width, height });
  canvas.getContext('2d').putImageData(image, 0, 0);
  return canvas;
}

function showArrays(found) {
  const table = document.createElement('table');
  for (const [name, { type, dims, data }] of Object.entries(found)) {
    const first = Array.from(data).slice(0, 6).map((one) => (typeof one === 'number' ? +one.toPrecision(5) : one)).join(', ');
    row(table, name, `${type} [${dims.join(', ')}]`, first + (data.length > 6 ? ' …' : ''));
  }
  result.append(table);
  document.body.dataset.done = 'yes';
}

function madeFeeds() {
  return Object.fromEntries(model.about.inputs.map(({ name, dtype, dims }) => {
    const sizes = dims.map((size) => (typeof size === 'number' ? size : 1));
    const count = sizes.reduce((a, b) => a * b, 1);
    const data = Array.from({ length: count }, (_, place) => (dtype.startsWith('float') ? (place % 255) / 255 : place % 2));
    return [name, { type: dtype, dims: sizes, data }];
  }));
}

async function samplesOf(file) {
  const rate = model.about.task.rate;
  const context = new OfflineAudioContext(1, 1, rate);
  const sound = await context.decodeAudioData(await file.arrayBuffer());
  const mixed = new Float32Array(sound.length);
  for (let channel = 0; channel < sound.numberOfChannels; channel++) {
    sound.getChannelData(channel).forEach((value, place) => { mixed[place] += value / sound.numberOfChannels; });
  }
  return mixed;
}

function withPicture(shown) {
  return picture ? [canvasOf(picture), shown] : [shown];
}

function canvasOf(image) {
  const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height });
  if (image.width < 128) canvas.className = 'tiny';
  canvas.getContext('2d').drawImage(image, 0, 0);
  return canvas;
}

function className(number) {
  return model.about.task.labels?.[number] ?? `class ${number}`;
}

function row(table, ...cells) {
  const line = table.insertRow();
  cells.forEach((cell, place) => {
    const made = line.insertCell();
    made.textContent = cell;
    if (place) made.className = 'n';
  });
}

function block(html, text, where) {
  const made = document.createElement('div');
  made.innerHTML = html;
  (where ? made.querySelector(where) : made.firstElementChild).textContent = text;
  return made;
}

function value(id) {
  return document.getElementById(id).value;
}

function fail(error) {
  const shown = document.createElement('div');
  shown.className = 'error';
  shown.textContent = String(error?.message ?? error);
  result.replaceChildren(shown);
  document.body.dataset.done = 'failed';
  if (!model) state.textContent = 'the model did not open';
}
