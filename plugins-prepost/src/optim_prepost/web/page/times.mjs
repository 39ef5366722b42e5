// What the page says of the time that calls took.

/** E.g. `this call 12.3 ms; 5 calls, median 10.1 ms; onnxruntime-web on WASM, 4 threads`; the first call warms up. */
export function timesText(calls, provider, threads) {
  const warm = calls.length > 1 ? calls.slice(1) : calls;
  const sorted = [...warm].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const median = sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  const all = calls.length > 1 ? `; ${calls.length} calls, median ${median.toFixed(1)} ms without the first` : ', the first: call again for a warm time';
  const where = provider === 'webgpu' ? 'WebGPU' : `WASM, ${threads} thread${threads === 1 ? '' : 's'}`;
  return `this call ${calls.at(-1).toFixed(1)} ms${all}; onnxruntime-web on ${where}`;
}
