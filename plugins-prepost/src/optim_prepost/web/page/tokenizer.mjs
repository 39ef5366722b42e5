// BERT's tokenizer: words cut into pieces of a vocabulary, with [CLS] and [SEP] around them.
// onnxruntime-web has no operator for it, so it stays in JavaScript; model.mjs uses it.

const LONGEST_WORD = 100;
const CHINESE = [
  [0x4e00, 0x9fff], [0x3400, 0x4dbf], [0x20000, 0x2a6df], [0x2a700, 0x2b73f], [0x2b740, 0x2b81f], [0x2b820, 0x2ceaf],
  [0xf900, 0xfaff], [0x2f800, 0x2fa1f],
];

export class WordPiece {
  /** `words` in the order of their numbers; options as in the model's settings. */
  constructor(words, { do_lower_case: lower, strip_accents: strip }) {
    this.numbers = new Map(words.map((word, number) => [word, number]));
    this.lower = Boolean(lower);
    this.strip = Boolean(strip);
  }

  /** One text, or two: tokens, their numbers, and which text each is of. */
  encode(...texts) {
    const tokens = ['[CLS]'];
    const types = [0];
    texts.forEach((text, place) => {
      const pieces = [...this.words(text).flatMap((word) => this.pieces(word)), '[SEP]'];
      tokens.push(...pieces);
      types.push(...pieces.map(() => place));
    });
    return { tokens, types, ids: tokens.map((token) => this.numbers.get(token)) };
  }

  /** Tokens as a text. */
  join(tokens) {
    return tokens.join(' ').replaceAll(' ##', '').replace(/ ([.,!?'’])/g, '$1').replace(/(['’]) /g, '$1');
  }

  words(text) {
    let clean = '';
    for (const letter of text) {
      if (letter === '\0' || letter === '\ufffd' || isControl(letter)) continue;
      if (/\s/u.test(letter)) clean += ' ';
      else clean += isChinese(letter) ? ` ${letter} ` : letter;
    }
    if (this.strip) clean = clean.normalize('NFD').replace(/\p{Mn}/gu, '');
    if (this.lower) clean = clean.toLowerCase();
    return clean.match(/[\p{P}$+<=>^`|~]|[^\s\p{P}$+<=>^`|~]+/gu) ?? [];
  }

  pieces(word) {
    const letters = [...word];
    if (letters.length > LONGEST_WORD) return ['[UNK]'];
    const found = [];
    for (let start = 0; start < letters.length;) {
      let end = letters.length;
      let piece = null;
      for (; end > start && piece === null; end--) {
        const part = (start ? '##' : '') + letters.slice(start, end).join('');
        if (this.numbers.has(part)) piece = part;
      }
      if (piece === null) return ['[UNK]'];
      found.push(piece);
      start = end + 1;
    }
    return found;
  }
}

function isControl(letter) {
  return /[\p{Cc}\p{Cf}\p{Co}\p{Cn}]/u.test(letter) && !/[\t\n\r]/.test(letter);
}

function isChinese(letter) {
  const point = letter.codePointAt(0);
  return CHINESE.some(([first, last]) => first <= point && point <= last);
}
